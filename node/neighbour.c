#include "node/neighbour.h"

struct list {
    const struct id *self;
    struct id *ids;
    size_t count;
};

static void
add(struct list *list, const struct id *id)
{
    if (id_equal(id, list->self))
        return;
    for (size_t i = 0; i < list->count; i++)
        if (id_equal(&list->ids[i], id))
            return;
    list->ids[list->count++] = *id;
}

static void
add_node(struct list *list, const struct view *view, int node)
{
    if (node >= 0 && (uint32_t)node < view->reports_count)
        add(list, &view->reports[node].id);
}

/* The stages before and after ours in our pipeline, and the replicas beside ours in the
 * ring of our stage. */
static void
add_plan(struct list *list, const struct view *view)
{
    const struct plan *plan = &view->plan;
    int self = view_node(view, list->self);
    if (self < 0)
        return;
    for (int s = 0; s < plan->stages_count; s++) {
        for (int p = 0; p < plan->pipelines_count; p++) {
            if (plan->stages[s].nodes[p] != self)
                continue;
            int before = (p + plan->pipelines_count - 1) % plan->pipelines_count;
            int after = (p + 1) % plan->pipelines_count;
            if (s > 0)
                add_node(list, view, plan->stages[s - 1].nodes[p]);
            if (s + 1 < plan->stages_count)
                add_node(list, view, plan->stages[s + 1].nodes[p]);
            add_node(list, view, plan->stages[s].nodes[before]);
            add_node(list, view, plan->stages[s].nodes[after]);
            return;
        }
    }
}

size_t
neighbours_of(const struct view *view, const struct decree *decree, const struct id *self,
              struct id out[NEIGHBOURS_MAX])
{
    struct list list = {.self = self, .ids = out};
    uint32_t count = decree->members_count, at = 0;
    while (at < count && !id_equal(&decree->members[at].id, self))
        at++;
    if (at == count)
        return 0;
    if (view && view->planned)
        add_plan(&list, view);
    for (uint32_t i = 1; i <= NEIGHBOURS_RING && i < count; i++) {
        add(&list, &decree->members[(at + i) % count].id);
        add(&list, &decree->members[(at + count - i) % count].id);
    }
    return list.count;
}
