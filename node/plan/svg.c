#include "node/plan/svg.h"
#include "node/plan/page.h"

#include <stdio.h>

enum {
    LEFT = 130,
    TOP = 96,
    ROW = 46,     /* one stage */
    TIME = 1200,  /* pixels of the timeline: one a column */
    ZONE = 220,   /* pixels of a zone */
    MEMORY = 300, /* pixels of a memory bar */
    GAP = 40
};

#define GIB 1073741824.0

static const struct {
    char letter;
    const char *colour, *name;
} colours[] = {{'F', "#4c78a8", "forward"},   {'B', "#72b7b2", "backward"},
               {'R', "#e45756", "reduction"}, {'U', "#f2b134", "update"},
               {'s', "#b279a2", "sending"},   {'.', "#eeeeee", "waiting"}};

static const char *
colour_of(char letter)
{
    for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
        if (colours[i].letter == letter)
            return colours[i].colour;
    return "none";
}

/* A text with what XML keeps for itself written out. */
static void
put_text(struct buf *out, int x, int y, int size, const char *text)
{
    buf_printf(out, "<text x=\"%d\" y=\"%d\" font-size=\"%d\">", x, y, size);
    for (; *text; text++) {
        if (*text == '<')
            buf_printf(out, "&lt;");
        else if (*text == '>')
            buf_printf(out, "&gt;");
        else if (*text == '&')
            buf_printf(out, "&amp;");
        else
            buf_printf(out, "%c", *text);
    }
    buf_printf(out, "</text>\n");
}

static void
put_box(struct buf *out, int x, int y, int width, int height, const char *fill)
{
    buf_printf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
               x, y, width, height, fill);
}

/* Groups of a stage in one zone, a line each, as far as the row has room. */
static void
put_zone(const struct plan_outcome *outcome, int stage, int zone, int x, int y,
         struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    struct plan_group groups[PLAN_GROUPS_MAX];
    int count = plan_groups(&outcome->answer.plan, stage, groups), line = 0;
    for (int g = 0; g < count; g++) {
        const struct fleet_pool *pool = &fleet->pools[groups[g].pool];
        char text[128];
        if (pool->zone != zone)
            continue;
        if (line == 0)
            put_box(out, x, y, ZONE - 10, ROW - 8, "#dfe8f3");
        snprintf(text, sizeof(text), "%d x %s tp%d (%d)", groups[g].replicas,
                 fleet->kinds[pool->kind].name, groups[g].tp, groups[g].micro_batches);
        if (line < 3)
            put_text(out, x + 6, y + 12 + 12 * line, 11, line == 2 ? "and others" : text);
        line++;
    }
}

static void
put_memory(const struct plan_outcome *outcome, int stage, int x, int y, struct buf *out)
{
    static const char *const fills[] = {"#4c78a8", "#72b7b2", "#f2b134", "#e45756",
                                        "#b279a2"};
    const struct memory_parts *parts = &outcome->answer.estimate.stages[stage].memory;
    const int64_t sizes[] = {parts->weights, parts->gradients, parts->optimizer,
                             parts->activations, parts->workspace};
    double whole = (double)(parts->total > parts->room ? parts->total : parts->room);
    double sum = 0;
    char text[96];
    put_box(out, x, y, MEMORY, 20, "#eeeeee");
    for (int i = 0; i < 5 && whole > 0; i++) {
        int from = (int)(sum * MEMORY / whole);
        sum += (double)sizes[i];
        put_box(out, x + from, y, (int)(sum * MEMORY / whole) - from, 20, fills[i]);
    }
    snprintf(text, sizeof(text), "%.2f of %.2f GiB", (double)parts->total / GIB,
             (double)parts->room / GIB);
    put_text(out, x, y + 33, 11, text);
}

/* Neighbouring columns of one colour are one box. */
static void
put_step(const struct plan_outcome *outcome, int stage, int x, int y, struct buf *out)
{
    const char *columns = outcome->timeline.columns + (int64_t)stage * TIMELINE_COLUMNS;
    for (int from = 0; from < TIMELINE_COLUMNS;) {
        int to = from;
        while (to < TIMELINE_COLUMNS && columns[to] == columns[from])
            to++;
        put_box(out, x + from, y, to - from, ROW - 12, colour_of(columns[from]));
        from = to;
    }
}

static void
put_legend(struct buf *out, int x, int y)
{
    static const char *const parts[] = {"weights", "gradients", "optimizer",
                                        "activations", "workspace"};
    static const char *const fills[] = {"#4c78a8", "#72b7b2", "#f2b134", "#e45756",
                                        "#b279a2"};
    for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++) {
        put_box(out, x + (int)i * 100, y, 12, 12, colours[i].colour);
        put_text(out, x + 16 + (int)i * 100, y + 10, 11, colours[i].name);
    }
    for (int i = 0; i < 5; i++) {
        put_box(out, x + i * 100, y + 20, 12, 12, fills[i]);
        put_text(out, x + 16 + i * 100, y + 30, 11, parts[i]);
    }
}

void
plan_svg_write(const struct plan_outcome *outcome, struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_plan *plan = &outcome->answer.plan;
    const struct estimate *estimate = &outcome->answer.estimate;
    int zones[ZONES_MAX], zones_count = 0, used[FLEET_POOLS_MAX];
    char text[1200];
    fleet_plan_devices(plan, used);
    for (int z = 0; z < fleet->zones_count; z++)
        for (int p = 0; p < fleet->pools_count; p++)
            if (used[p] > 0 && fleet->pools[p].zone == z) {
                zones[zones_count++] = z;
                break;
            }
    int memory_x = LEFT + zones_count * ZONE + GAP, step_x = memory_x + MEMORY + GAP;
    int width = step_x + TIME + GAP, height = TOP + plan->stages_count * ROW + 70;
    buf_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
               width, height, width, height);
    plan_summary(plan, fleet, text, sizeof(text));
    put_text(out, 10, 24, 15, text);
    int len = snprintf(text, sizeof(text), "%.6g s an iteration, %.6g tokens/s",
                       estimate->iteration_s, estimate->tokens_per_s);
    if (estimate->usd_per_iteration >= 0)
        len += snprintf(text + len, sizeof(text) - (size_t)len, ", %.6g USD",
                        estimate->usd_per_iteration);
    len += snprintf(text + len, sizeof(text) - (size_t)len, "; bound by ");
    plan_page_bound(outcome, text + len, sizeof(text) - (size_t)len);
    put_text(out, 10, 46, 13, text);
    for (int i = 0; i < zones_count; i++)
        put_text(out, LEFT + i * ZONE, TOP - 12, 13, fleet->zones[zones[i]].name);
    put_text(out, memory_x, TOP - 12, 13, "memory of the fullest device");
    snprintf(text, sizeof(text), "one step of pipeline %d: 0 to %.6g s",
             outcome->timeline.pipeline, estimate->iteration_s);
    put_text(out, step_x, TOP - 12, 13, text);
    for (int s = 0; s < plan->stages_count; s++) {
        int y = TOP + s * ROW;
        snprintf(text, sizeof(text), "stage %d", s);
        put_text(out, 10, y + 14, 13, text);
        snprintf(text, sizeof(text), "layers %d to %d", plan->first_layer[s],
                 plan->first_layer[s] + plan->layers[s] - 1);
        put_text(out, 10, y + 30, 11, text);
        for (int i = 0; i < zones_count; i++)
            put_zone(outcome, s, zones[i], LEFT + i * ZONE, y, out);
        put_memory(outcome, s, memory_x, y, out);
        put_step(outcome, s, step_x, y, out);
    }
    put_legend(out, LEFT, TOP + plan->stages_count * ROW + 16);
    buf_printf(out, "</svg>\n");
}
