#include "node/engine/recover.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"

#include <stdlib.h>
#include <string.h>

/* What is looked at while a step is tried. */
struct trial {
    const struct progress *progress; /* [nodes] */
    int nodes;
    int layers;
    struct state_name name; /* what is tried */
    int witness;            /* a member that knows its norm, -1: none */
};

static bool
usable(const struct progress *progress)
{
    return progress->reported;
}

/* One that applied the step, as it was computed in that epoch, and knows its norm: all of
 * them know the same. */
static int
find_witness(const struct trial *trial)
{
    for (int n = 0; n < trial->nodes; n++) {
        const struct progress *progress = &trial->progress[n];
        if (usable(progress) && progress->normed &&
            progress->applied == trial->name.step &&
            lineage_same(&progress->lineage, &trial->name.lineage))
            return n;
    }
    return -1;
}

/* A member that has only prepared the step and shall apply it: what was computed in the
 * same epoch was applied by somebody. */
static bool
applies_prepared(const struct trial *trial, const struct progress *progress)
{
    if (MUTANT(prepared))
        return false;
    return progress->prepared && progress->applied == trial->name.step - 1 &&
           trial->witness >= 0 &&
           lineage_same(&progress->prepared_in, &trial->name.lineage);
}

/* Does the holding give the state that is tried? */
static bool
holding_fits(const struct trial *trial, const struct progress *progress,
             const struct holding *holding)
{
    const struct state_name live = {progress->applied, progress->lineage};
    if (holding->source == SOURCE_LIVE && state_same(&live, &holding->name) &&
        applies_prepared(trial, progress))
        return true;
    return state_same(&holding->name, &trial->name);
}

/* The best source of a layer at a node, SOURCE_NONE when there is none. */
static enum state_source
node_source(const struct trial *trial, int node, int layer)
{
    const struct progress *progress = &trial->progress[node];
    enum state_source best = SOURCE_NONE;
    if (!usable(progress))
        return best;
    for (int i = 0; i < progress->holdings_count; i++) {
        const struct holding *holding = &progress->holdings[i];
        if (layer < holding->first_layer ||
            layer >= holding->first_layer + holding->layers)
            continue;
        if (holding_fits(trial, progress, holding) &&
            (best == SOURCE_NONE || holding->source < best))
            best = holding->source;
    }
    return best;
}

static bool
node_copies(const struct trial *trial, int node, int layer)
{
    const struct progress *progress = &trial->progress[node];
    for (int i = 0; usable(progress) && i < progress->holdings_count; i++) {
        const struct holding *holding = &progress->holdings[i];
        if (holding->source == SOURCE_COPY && state_same(&holding->name, &trial->name) &&
            layer >= holding->first_layer &&
            layer < holding->first_layer + holding->layers)
            return true;
    }
    return false;
}

/* How many members have a copy of the layer that the fewest have. */
static int
copies_least(const struct trial *trial)
{
    int least = trial->nodes;
    for (int l = 0; l < trial->layers; l++) {
        int holders = 0;
        for (int n = 0; n < trial->nodes; n++)
            holders += node_copies(trial, n, l);
        if (holders < least)
            least = holders;
    }
    return least;
}

/* Is every layer of the state held by somebody? */
static bool
covered(const struct trial *trial)
{
    bool held[LAYERS_MAX] = {false};
    for (int n = 0; n < trial->nodes; n++) {
        const struct progress *progress = &trial->progress[n];
        for (int i = 0; usable(progress) && i < progress->holdings_count; i++) {
            const struct holding *holding = &progress->holdings[i];
            if (!holding_fits(trial, progress, holding))
                continue;
            for (int l = 0; l < holding->layers; l++)
                if (holding->first_layer + l < trial->layers)
                    held[holding->first_layer + l] = true;
        }
    }
    for (int l = 0; l < trial->layers; l++)
        if (!held[l])
            return false;
    return true;
}

static int
compare_names(const void *left, const void *right)
{
    return state_compare(right, left); /* newest first */
}

/* Every state that somebody might give, newest first. */
static int
candidates(const struct progress *progress, int nodes, struct state_name **out)
{
    struct state_name *names =
        xcalloc((size_t)nodes * (HOLDINGS_MAX + 1) + 1, sizeof(*names));
    int count = 0;
    for (int n = 0; n < nodes; n++) {
        if (!usable(&progress[n]))
            continue;
        for (int i = 0; i < progress[n].holdings_count; i++)
            names[count++] = progress[n].holdings[i].name;
        if (progress[n].prepared)
            names[count++] =
                (struct state_name){progress[n].applied + 1, progress[n].prepared_in};
    }
    qsort(names, (size_t)count, sizeof(*names), compare_names);
    int unique = 0;
    for (int i = 0; i < count; i++)
        if (names[i].step > 0 &&
            (unique == 0 || state_compare(&names[unique - 1], &names[i]) != 0))
            names[unique++] = names[i];
    *out = names;
    return unique;
}

static void
find_base(struct trial *trial, struct recovery *out)
{
    struct state_name *names = NULL, base = {0};
    int count = candidates(trial->progress, trial->nodes, &names);
    bool found = false;
    int copies = 0; /* of the copied state */
    out->copied.step = -1;
    for (int i = 0; i < count && (!found || copies < 2); i++) {
        trial->name = names[i];
        trial->witness = find_witness(trial);
        if (!found && covered(trial)) {
            found = true;
            base = names[i];
        }
        /* A step that two have is worth more than a newer one that went no further than
         * its source. */
        int least = copies_least(trial);
        if (least > copies && (copies == 0 || least >= 2)) {
            copies = least;
            out->copied = names[i];
        }
    }
    free(names);
    out->base_step = base.step;
    out->lineage = base.lineage;
    out->copy_soon = copies < 2 && out->base_step > 0;
    trial->name = base;
    trial->witness = base.step > 0 ? find_witness(trial) : -1;
}

static bool
lives(const struct progress *progress)
{
    for (int i = 0; i < progress->holdings_count; i++)
        if (progress->holdings[i].source == SOURCE_LIVE)
            return true;
    return progress->prepared;
}

/* The newest applied step. Who only remembers one, and has no state of it, counts where
 * nobody has any: a swarm that begins again from a checkpoint. */
static int64_t
newest_applied(const struct trial *trial)
{
    int64_t newest = 0, remembered = 0;
    bool live = false;
    for (int n = 0; n < trial->nodes; n++) {
        const struct progress *progress = &trial->progress[n];
        if (!usable(progress))
            continue;
        live = live || lives(progress);
        int64_t *most = lives(progress) ? &newest : &remembered;
        if (progress->applied > *most)
            *most = progress->applied;
    }
    return live ? newest : remembered;
}

/* Norm and hash of the base step, from those who know them. */
static void
find_values(const struct trial *trial, struct recovery *out)
{
    const struct progress *progress = trial->progress;
    int64_t newest = newest_applied(trial), base = trial->name.step;
    for (int n = 0; n < trial->nodes; n++)
        if (usable(&progress[n]) && applies_prepared(trial, &progress[n]))
            out->apply_prepared = true;
    out->steps_lost = newest > base ? newest - base : 0;
    if (trial->witness >= 0) {
        out->normed = true;
        out->norm_bits = progress[trial->witness].norm_bits;
        out->samples_hash = progress[trial->witness].samples_hash;
        return;
    }
    for (int n = 0; n < trial->nodes && base > 0; n++) {
        for (int i = 0; usable(&progress[n]) && i < progress[n].holdings_count; i++) {
            if (state_same(&progress[n].holdings[i].name, &trial->name)) {
                out->samples_hash = progress[n].holdings[i].samples_hash;
                return;
            }
        }
    }
}

/* Who gives what `to` lacks: its own zone first, then who has the fewest to give, then
 * the lowest number. */
struct giver {
    const struct cluster *cluster;
    int *given; /* [nodes] */
};

static bool
giver_better(const struct giver *giver, int to, int node, int than)
{
    int zone = giver->cluster->nodes[to].zone;
    bool near = giver->cluster->nodes[node].zone == zone;
    bool than_near = giver->cluster->nodes[than].zone == zone;
    if (near != than_near)
        return near;
    return giver->given[node] < giver->given[than];
}

static struct transfer
find_transfer(const struct trial *trial, struct giver *giver, int to, int layer)
{
    struct transfer transfer = {.layer = layer, .from = to, .to = to};
    transfer.source = node_source(trial, to, layer);
    if (transfer.source != SOURCE_NONE)
        return transfer;
    if (trial->name.step == 0) {
        transfer.source = SOURCE_SEED;
        return transfer;
    }
    int best = -1;
    for (int n = 0; n < trial->nodes; n++)
        if (node_source(trial, n, layer) != SOURCE_NONE &&
            (best < 0 || giver_better(giver, to, n, best)))
            best = n;
    must(best >= 0);
    transfer.from = best;
    transfer.source = node_source(trial, best, layer);
    giver->given[best]++;
    return transfer;
}

static int
find_stage(const struct plan *plan, int node)
{
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            if (plan->stages[s].nodes[j] == node)
                return s;
    return -1;
}

static int
find_data(const struct trial *trial, const struct plan *plan, struct giver *giver,
          struct recovery *out, struct err *err)
{
    const struct progress *progress = trial->progress;
    out->data_from = xcalloc((size_t)trial->nodes, sizeof(*out->data_from));
    for (int n = 0; n < trial->nodes; n++) {
        out->data_from[n] = -1;
        if (find_stage(plan, n) < 0)
            continue;
        if (usable(&progress[n]) && progress[n].has_data) {
            out->data_from[n] = n;
            continue;
        }
        int best = -1;
        for (int m = 0; m < trial->nodes; m++)
            if (usable(&progress[m]) && progress[m].has_data &&
                (best < 0 || giver_better(giver, n, m, best)))
                best = m;
        if (best < 0)
            return err_set(err, ERR_PLAN,
                           "no member has the job's data set; bring back the node that "
                           "submitted the job");
        out->data_from[n] = best;
        giver->given[best]++;
    }
    return 0;
}

int
recover(const struct plan *plan, const struct plan_request *request,
        const struct cluster *cluster, const struct progress *progress,
        struct recovery *out, struct err *err)
{
    memset(out, 0, sizeof(*out));
    struct trial trial = {.progress = progress,
                          .nodes = cluster->nodes_count,
                          .layers = workload_layers(&request->shape)};
    must(trial.nodes > 0 && trial.nodes <= PLAN_NODES_MAX && trial.layers <= LAYERS_MAX);
    find_base(&trial, out);
    find_values(&trial, out);

    struct giver giver = {.cluster = cluster};
    giver.given = xcalloc((size_t)trial.nodes, sizeof(*giver.given));
    size_t most = (size_t)plan->pipelines_count * (size_t)trial.layers;
    out->transfers = xcalloc(most, sizeof(*out->transfers));
    for (int n = 0; n < trial.nodes; n++) {
        int stage = find_stage(plan, n);
        for (int l = 0; stage >= 0 && l < plan->stages[stage].layers; l++)
            out->transfers[out->transfers_count++] =
                find_transfer(&trial, &giver, n, plan->stages[stage].first_layer + l);
    }
    int failed = find_data(&trial, plan, &giver, out, err);
    free(giver.given);
    if (failed)
        recovery_release(out);
    return failed;
}

void
recovery_release(struct recovery *recovery)
{
    free(recovery->transfers);
    free(recovery->data_from);
    memset(recovery, 0, sizeof(*recovery));
}

/* ---- duties ---- */

static bool
zone_has_replica(const struct plan *plan, const struct cluster *cluster, int stage,
                 int zone)
{
    for (int j = 0; j < plan->pipelines_count; j++)
        if (cluster->nodes[plan->stages[stage].nodes[j]].zone == zone)
            return true;
    return false;
}

/* Who has no device for the run cannot keep a part of it, or rests since others do not
 * reach it. */
static bool
keeps(const struct plan *plan, const struct cluster *cluster, int stage, int node)
{
    return cluster->nodes[node].profile.count > 0 ||
           cluster->nodes[plan->stages[stage].nodes[0]].profile.count == 0;
}

static int
find_keeper(const struct plan *plan, const struct cluster *cluster, int stage,
            const int *duties)
{
    int best = -1, best_rank = 0;
    for (int n = 0; n < cluster->nodes_count; n++) {
        int own = find_stage(plan, n);
        if (own == stage || !keeps(plan, cluster, stage, n))
            continue;
        bool near = zone_has_replica(plan, cluster, stage, cluster->nodes[n].zone);
        /* Zone before part in the plan before load. */
        int rank =
            (near ? 4 : 0) * STAGES_MAX + (own < 0 ? 2 : 0) * STAGES_MAX + duties[n];
        if (best < 0 || rank < best_rank) {
            best = n;
            best_rank = rank;
        }
    }
    return best;
}

void
recover_duties(const struct plan *plan, const struct cluster *cluster, int submitter,
               struct duties *out)
{
    memset(out, 0, sizeof(*out));
    must(cluster->nodes_count > 0 && submitter < cluster->nodes_count);
    int *duties = xcalloc((size_t)cluster->nodes_count, sizeof(*duties));
    for (int s = 0; s < STAGES_MAX; s++)
        out->keeper[s] = out->source[s] = -1;
    for (int s = 0; s < plan->stages_count; s++) {
        out->source[s] = plan->stages[s].nodes[0];
        out->keeper[s] = find_keeper(plan, cluster, s, duties);
        if (out->keeper[s] >= 0)
            duties[out->keeper[s]]++;
    }
    free(duties);

    int first = submitter >= 0 ? submitter : 0, second = -1;
    while (submitter < 0 && first + 1 < cluster->nodes_count &&
           !keeps(plan, cluster, 0, first))
        first++;
    for (int n = 0; n < cluster->nodes_count; n++) {
        if (n == first || !keeps(plan, cluster, 0, n))
            continue;
        bool other = cluster->nodes[n].zone != cluster->nodes[first].zone;
        if (second < 0 ||
            (other && cluster->nodes[second].zone == cluster->nodes[first].zone))
            second = n;
    }
    out->gatherers[out->gatherers_count++] = first;
    if (second >= 0)
        out->gatherers[out->gatherers_count++] = second;
}
