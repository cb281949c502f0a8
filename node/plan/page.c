#include "node/plan/page.h"

#include <stdio.h>
#include <string.h>

enum { BAR_WIDTH = 40, LINE_WIDTH = 60, CELL_WIDTH = 26, ROW_ZONES = 3 };

#define GIB 1073741824.0

/* ---- the top ---- */

static void
write_top(const struct plan_outcome *outcome, struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct estimate *estimate = &outcome->answer.estimate;
    const struct fleet_plan *plan = &outcome->answer.plan;
    char text[1024];
    int used[FLEET_POOLS_MAX];
    buf_printf(out,
               "%s: %d sequences of %d tokens an iteration, by the %s cost model\n\n",
               outcome->job->model, outcome->job->request.sequences,
               fleet->table.sequence_tokens,
               fleet->cost_model == COST_MODEL_PUBLISHED ? "published" : "replay");
    plan_summary(plan, fleet, text, sizeof(text));
    buf_printf(out, "  plan        %s\n", text);
    buf_printf(out, "  iteration   %.6g s, %.6g iterations/s, %.6g tokens/s\n",
               estimate->iteration_s, 1 / estimate->iteration_s, estimate->tokens_per_s);
    if (estimate->usd_per_iteration >= 0)
        buf_printf(
            out, "  cost        %.6g USD an iteration: devices %.6g, egress %.6g\n",
            estimate->usd_per_iteration, estimate->devices_usd, estimate->egress_usd);
    else
        buf_printf(out, "  cost        not known: a price is missing\n");
    fleet_plan_devices(plan, used);
    for (int p = 0; p < fleet->pools_count; p++)
        buf_printf(out, "  %-11s %d of %d %s in %s\n", p == 0 ? "devices" : "", used[p],
                   fleet->pools[p].devices, fleet->kinds[fleet->pools[p].kind].name,
                   fleet->zones[fleet->pools[p].zone].name);
    if (plan->precision == PRECISION_BF16 || plan->recompute == RECOMPUTE_LAYERS ||
        plan->shard_optimizer)
        buf_printf(out, "  chosen      %s%s%s\n",
                   plan->precision == PRECISION_BF16 ? "bf16" : "fp32",
                   plan->recompute == RECOMPUTE_LAYERS ? " recompute" : "",
                   plan->shard_optimizer ? " zero-1" : "");
}

/* ---- stages by zone ---- */

/* The zones that a plan uses, in the cluster's order. */
static int
zones_of(const struct plan_outcome *outcome, int zones[ZONES_MAX])
{
    const struct fleet *fleet = outcome->cluster->fleet;
    int used[FLEET_POOLS_MAX], count = 0;
    fleet_plan_devices(&outcome->answer.plan, used);
    for (int z = 0; z < fleet->zones_count; z++) {
        bool here = false;
        for (int p = 0; p < fleet->pools_count; p++)
            here = here || (used[p] > 0 && fleet->pools[p].zone == z);
        if (here)
            zones[count++] = z;
    }
    return count;
}

/* The n-th group of a stage in a zone; empty when there is none. */
static void
cell(const struct plan_outcome *outcome, int stage, int zone, int nth, char *text,
     size_t size)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    struct plan_group groups[PLAN_GROUPS_MAX];
    int count = plan_groups(&outcome->answer.plan, stage, groups);
    text[0] = '\0';
    for (int g = 0; g < count; g++) {
        const struct fleet_pool *pool = &fleet->pools[groups[g].pool];
        if (pool->zone == zone && nth-- == 0) {
            snprintf(text, size, "%d x %s tp%d (%d)", groups[g].replicas,
                     fleet->kinds[pool->kind].name, groups[g].tp,
                     groups[g].micro_batches);
            return;
        }
    }
}

static void
write_stage_row(const struct plan_outcome *outcome, int stage, const int *zones,
                int count, struct buf *out)
{
    const struct fleet_plan *plan = &outcome->answer.plan;
    for (int line = 0;; line++) {
        char cells[ROW_ZONES][96];
        bool any = line == 0;
        for (int i = 0; i < count; i++) {
            cell(outcome, stage, zones[i], line, cells[i], sizeof(cells[i]));
            any = any || cells[i][0];
        }
        if (!any)
            return;
        if (line == 0)
            buf_printf(out, "  stage %-3d layers %3d to %-3d", stage,
                       plan->first_layer[stage],
                       plan->first_layer[stage] + plan->layers[stage] - 1);
        else
            buf_printf(out, "  %26s", "");
        for (int i = 0; i < count; i++)
            buf_printf(out, " | %-*s", CELL_WIDTH, cells[i]);
        buf_printf(out, " |\n");
    }
}

static void
write_stages(const struct plan_outcome *outcome, struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    int zones[ZONES_MAX], zones_count = zones_of(outcome, zones);
    buf_printf(
        out, "\nSTAGES BY ZONE  replicas x device, tensor-parallel degree (micro-batches "
             "of each)\n");
    for (int first = 0; first < zones_count; first += ROW_ZONES) {
        int count = zones_count - first < ROW_ZONES ? zones_count - first : ROW_ZONES;
        buf_printf(out, "\n  %26s", "");
        for (int i = 0; i < count; i++)
            buf_printf(out, " | %-*s", CELL_WIDTH, fleet->zones[zones[first + i]].name);
        buf_printf(out, " |\n");
        for (int s = 0; s < outcome->answer.plan.stages_count; s++)
            write_stage_row(outcome, s, zones + first, count, out);
    }
}

/* ---- memory ---- */

static void
write_bar(const struct memory_parts *parts, struct buf *out)
{
    const int64_t sizes[] = {parts->weights, parts->gradients, parts->optimizer,
                             parts->activations, parts->workspace};
    static const char letters[] = "WGOAS";
    int64_t whole = parts->total > parts->room ? parts->total : parts->room;
    double sum = 0;
    int drawn = 0;
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    for (int i = 0; i < 5; i++) {
        sum += (double)sizes[i];
        int end = whole > 0 ? (int)(sum * BAR_WIDTH / (double)whole + 0.5) : 0;
        for (; drawn < end && drawn < BAR_WIDTH; drawn++)
            bar[drawn] = letters[i];
    }
    buf_printf(out, "[%s]", bar);
}

static void
write_memory(const struct plan_outcome *outcome, struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_plan *plan = &outcome->answer.plan;
    buf_printf(
        out, "\nMEMORY OF A DEVICE  W weights, G gradients, O optimizer, A activations, "
             "S workspace (GiB)\n\n");
    for (int s = 0; s < plan->stages_count; s++) {
        struct plan_group groups[PLAN_GROUPS_MAX];
        int count = plan_groups(plan, s, groups);
        for (int g = 0; g < count; g++) {
            const struct fleet_pool *pool = &fleet->pools[groups[g].pool];
            struct memory_parts parts;
            bool shown = false;
            for (int h = 0; h < g; h++)
                shown = shown || (groups[h].pool == groups[g].pool &&
                                  groups[h].tp == groups[g].tp &&
                                  groups[h].micro_batches >= groups[g].micro_batches);
            if (shown)
                continue;
            evaluate_memory(plan, &outcome->job->request, fleet, s, groups[g].first,
                            &parts);
            buf_printf(out, "  stage %-3d %-12s tp%d ", s, fleet->kinds[pool->kind].name,
                       groups[g].tp);
            write_bar(&parts, out);
            buf_printf(out,
                       " %.2f of %.2f%s\n  %23s W %.2f  G %.2f  O %.2f  A %.2f  S %.2f\n",
                       (double)parts.total / GIB, (double)parts.room / GIB,
                       parts.total > parts.room ? ": DOES NOT FIT" : "", "",
                       (double)parts.weights / GIB, (double)parts.gradients / GIB,
                       (double)parts.optimizer / GIB, (double)parts.activations / GIB,
                       (double)parts.workspace / GIB);
        }
    }
}

/* ---- one step ---- */

static void
write_timeline(const struct plan_outcome *outcome, struct buf *out)
{
    const struct plan_timeline *timeline = &outcome->timeline;
    char text[LINE_WIDTH + 1];
    buf_printf(out,
               "\nONE STEP of pipeline %d, the last to end: 0 to %.6g s\n"
               "F forward, B backward, R reduction, U update, s sending, . waiting\n\n",
               timeline->pipeline, outcome->answer.estimate.iteration_s);
    for (int s = 0; s < outcome->answer.plan.stages_count; s++) {
        plan_timeline_text(timeline, s, LINE_WIDTH, text);
        buf_printf(out, "  stage %-3d |%s|\n", s, text);
    }
    buf_printf(out, "\n  seconds   %10s %10s %10s %10s %10s %10s\n", "forward",
               "backward", "sending", "reduction", "update", "idle");
    for (int s = 0; s < outcome->answer.plan.stages_count; s++) {
        const struct plan_stage_time *times = &timeline->stages[s];
        buf_printf(out, "  stage %-3d %10.5g %10.5g %10.5g %10.5g %10.5g %10.5g\n", s,
                   times->forward_s, times->backward_s, times->send_s, times->reduce_s,
                   times->update_s, times->idle_s);
    }
}

/* ---- why ---- */

static void
name_pool(const struct fleet *fleet, int pool, char *text, size_t size)
{
    snprintf(text, size, "%s in %s", fleet->kinds[fleet->pools[pool].kind].name,
             fleet->zones[fleet->pools[pool].zone].name);
}

void
plan_page_bound(const struct plan_outcome *outcome, char *text, size_t size)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_plan *plan = &outcome->answer.plan;
    const struct bound *bound = &outcome->answer.estimate.bound;
    char who[96], from[96] = "", to[96] = "";
    name_pool(fleet, fleet_plan_replica(plan, bound->stage, bound->pipeline)->pool, who,
              sizeof(who));
    if (bound->link_from >= 0 && bound->link_to >= 0) {
        name_pool(fleet, bound->link_from, from, sizeof(from));
        name_pool(fleet, bound->link_to, to, sizeof(to));
    }
    switch (bound->what) {
    case BOUND_COMPUTE:
        snprintf(text, size, "the computing of stage %d, on %s", bound->stage, who);
        break;
    case BOUND_TRANSFER:
        snprintf(text, size, "what stage %d sends and receives: the link from %s to %s",
                 bound->stage, from, to);
        break;
    case BOUND_FILL:
        snprintf(text, size,
                 "filling and draining the pipeline: few micro-batches for "
                 "its depth");
        break;
    case BOUND_REDUCE:
        snprintf(text, size,
                 "the reduction of stage %d's gradients: the link from %s to %s",
                 bound->reduce_stage, from, to);
        break;
    case BOUND_UPDATE:
        snprintf(text, size, "the optimizer's step");
        break;
    }
}

static void
write_bound(const struct plan_outcome *outcome, struct buf *out)
{
    const struct bound *bound = &outcome->answer.estimate.bound;
    char text[512];
    plan_page_bound(outcome, text, sizeof(text));
    buf_printf(out, "\nWHAT BOUNDS IT  %s\n\n ", text);
    for (int k = BOUND_COMPUTE; k <= BOUND_UPDATE; k++)
        buf_printf(out, " %s %.6g s%s", plan_bound_word((enum bound_kind)k),
                   bound->part_s[k], k < BOUND_UPDATE ? "," : "\n");
}

/* Why a plan that was weighed is not the answer. */
static const char *
why_second(const struct plan_outcome *outcome)
{
    const struct estimate *first = &outcome->answer.estimate,
                          *second = &outcome->answer.runner_up_estimate;
    bool cost = outcome->job->request.objective == OBJECTIVE_COST;
    double a = cost ? first->usd_per_iteration : first->iteration_s;
    double b = cost ? second->usd_per_iteration : second->iteration_s;
    if (a == b)
        return "as good, with more devices or stages";
    return cost ? "dearer" : "slower";
}

static void
write_others(const struct plan_outcome *outcome, struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_answer *answer = &outcome->answer;
    char text[1024];
    if (answer->has_runner_up) {
        const struct estimate *second = &answer->runner_up_estimate;
        plan_summary(&answer->runner_up, fleet, text, sizeof(text));
        buf_printf(out, "\nRUNNER-UP  %s\n\n  %s: %.6g s an iteration", text,
                   why_second(outcome), second->iteration_s);
        if (second->usd_per_iteration >= 0)
            buf_printf(out, ", %.6g USD", second->usd_per_iteration);
        buf_printf(out, "; bound by %s\n ", plan_bound_word(second->bound.what));
        for (int k = BOUND_COMPUTE; k <= BOUND_UPDATE; k++)
            buf_printf(out, " %s %.6g s%s", plan_bound_word((enum bound_kind)k),
                       second->bound.part_s[k], k < BOUND_UPDATE ? "," : "\n");
    }
    buf_printf(out, "\nRULED OUT for memory%s\n",
               answer->rejections_count > 0 ? "\n" : ": nothing");
    for (int i = 0; i < answer->rejections_count; i++) {
        const struct rejection *rejection = &answer->rejections[i];
        buf_printf(
            out,
            "  %-12s tp%d micro-batch %-3d %d stage%s, layers %d to %d: needs %.2f "
            "GiB of %.2f, %lld bytes too many",
            fleet->kinds[rejection->kind].name, rejection->tp, rejection->micro_batch,
            rejection->stages, rejection->stages == 1 ? "" : "s", rejection->first_layer,
            rejection->first_layer + rejection->layers - 1,
            (double)rejection->need_bytes / GIB, (double)rejection->room_bytes / GIB,
            (long long)(rejection->need_bytes - rejection->room_bytes));
        if (rejection->iteration_s >= 0)
            buf_printf(out, "; would take %.6g s", rejection->iteration_s);
        buf_printf(out, "\n");
    }
}

static void
write_gains(const struct plan_outcome *outcome, struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    buf_printf(out, "\nONE MORE MACHINE would bring\n\n");
    for (int i = 0; i < outcome->gains_count; i++) {
        const struct plan_gain *gain = &outcome->gains[i];
        char name[96];
        name_pool(fleet, gain->pool, name, sizeof(name));
        buf_printf(out, "  of %-30s", name);
        if (!gain->found) {
            buf_printf(out, " no plan\n");
            continue;
        }
        buf_printf(out, " %.6g s an iteration", gain->estimate.iteration_s);
        if (gain->estimate.usd_per_iteration >= 0)
            buf_printf(out, ", %.6g USD", gain->estimate.usd_per_iteration);
        buf_printf(out, "%s\n",
                   gain->estimate.iteration_s == outcome->answer.estimate.iteration_s
                       ? ": nothing"
                       : "");
    }
}

static void
write_way(enum repair_way way, const struct repair_price *price, struct buf *out)
{
    if (!price->possible) {
        buf_printf(out, "  %-8s not possible\n", plan_way_word(way));
        return;
    }
    buf_printf(out, "  %-8s %11.6g %11.6g %11.6g %11.6g", plan_way_word(way),
               price->lost_s, price->moved_s, price->steps_s, price->total_s);
    if (price->total_usd >= 0)
        buf_printf(out, " %11.6g", price->total_usd);
    buf_printf(out, "   %.2f GiB moved\n", (double)price->moved_bytes / GIB);
}

static void
write_repair(const struct repair_answer *repair, struct buf *out)
{
    buf_printf(out,
               "\nFROM THE PLAN IN FORCE  the cheapest is to %s\n\n"
               "  seconds  %11s %11s  %d steps %11s %11s\n",
               repair->way == REPAIR_STAY   ? "stay"
               : repair->way == REPAIR_MEND ? "mend it"
                                            : "plan afresh",
               "done again", "moving", REPAIR_HORIZON, "together", "USD");
    write_way(REPAIR_STAY, &repair->stay, out);
    write_way(REPAIR_MEND, &repair->mend, out);
    write_way(REPAIR_AFRESH, &repair->afresh, out);
}

/* The same in two lines. */
static void
write_advice(const struct plan_outcome *outcome, struct buf *out)
{
    const struct repair_answer *repair = &outcome->repair;
    const struct repair_price *const prices[] = {&repair->stay, &repair->mend,
                                                 &repair->afresh};
    bool cost = outcome->job->request.objective == OBJECTIVE_COST;
    buf_printf(
        out,
        "  next        %s: the least for %d steps with what is done again and moved\n"
        "             ",
        repair->way == REPAIR_STAY   ? "stay with the plan in force"
        : repair->way == REPAIR_MEND ? "mend the plan in force"
                                     : "plan afresh",
        REPAIR_HORIZON);
    for (int w = REPAIR_STAY; w <= REPAIR_AFRESH; w++) {
        buf_printf(out, "%s %s ", w > REPAIR_STAY ? "," : "",
                   plan_way_word((enum repair_way)w));
        if (prices[w]->possible && cost && prices[w]->total_usd >= 0)
            buf_printf(out, "%.6g USD", prices[w]->total_usd);
        else if (prices[w]->possible)
            buf_printf(out, "%.6g s", prices[w]->total_s);
        else
            buf_printf(out, "is not possible");
    }
    buf_printf(out, "\n");
}

void
plan_page_write(const struct plan_outcome *outcome, bool full, struct buf *out)
{
    write_top(outcome, out);
    if (!full && outcome->repaired)
        write_advice(outcome, out);
    if (!full) {
        char text[512];
        plan_page_bound(outcome, text, sizeof(text));
        buf_printf(out, "  bound by    %s\n", text);
        return;
    }
    write_stages(outcome, out);
    write_memory(outcome, out);
    write_timeline(outcome, out);
    write_bound(outcome, out);
    if (outcome->repaired)
        write_repair(&outcome->repair, out);
    if (outcome->given || outcome->repaired)
        return;
    write_others(outcome, out);
    write_gains(outcome, out);
    buf_printf(out, "\n%lld plans were weighed\n", (long long)outcome->answer.candidates);
}
