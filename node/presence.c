#include "node/presence.h"
#include "transport/base/mutant.h"

bool
lead_leaving(const struct node *node, const struct id *id)
{
    if (id_equal(id, &node->id))
        return node->leaving_ms != 0;
    const struct member *member = gossip_find(node->gossip, id);
    return member && (member->record->leaving || member->state == MEMBER_LEFT);
}

bool
lead_gone(const struct node *node, const struct id *id, int64_t now)
{
    if (id_equal(id, &node->id))
        return false;
    if (excluded_is(node->lead.excluded, now, id) ||
        watch_gone(node->watch, now, id) != WATCH_HERE)
        return true;
    const struct member *member = gossip_find(node->gossip, id);
    return member && member->state == MEMBER_DEAD;
}

/* Can it answer at this moment, as far as we see? */
static bool
is_here(const struct node *node, const struct id *id, int64_t now)
{
    return id_equal(id, &node->id) || MUTANT(look) ||
           (mesh_connected(node->mesh, id) && !lead_gone(node, id, now));
}

bool
lead_chosen_decide(const struct node *node, int64_t now, bool reported)
{
    const struct lead *lead = &node->lead;
    uint32_t mask = 0;
    for (uint32_t v = 0; v < node->decree.voters_count; v++) {
        const struct id *voter = &node->decree.voters[v];
        bool stays = lead_leaving(node, voter) && !lead_gone(node, voter, now);
        if (reported)
            stays = stays ||
                    (view_node(&lead->draft, voter) >= 0 && is_here(node, voter, now));
        for (size_t i = 0; !reported && !stays && i < lead->members_count; i++)
            stays = id_equal(&lead->members[i], voter);
        mask |= stays ? 1u << v : 0;
    }
    return decree_quorum(&node->decree, mask);
}

bool
lead_next_decide(const struct node *node, int64_t now, const struct id *voters,
                 uint32_t count)
{
    struct decree next = {.voters_count = count};
    uint32_t mask = 0;
    for (uint32_t v = 0; v < count; v++)
        mask |= is_here(node, &voters[v], now) ? 1u << v : 0;
    return decree_quorum(&next, mask);
}
