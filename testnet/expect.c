#include "testnet/expect.h"
#include "transport/base/must.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AFTER_MS = 300 }; /* a log line may be written that much after what it tells */

static void __attribute__((format(printf, 4, 5)))
check(struct verdict *verdict, const char *name, bool passed, const char *fmt, ...)
{
    must(verdict->count < CHECKS_MAX);
    struct check *check = &verdict->checks[verdict->count++];
    snprintf(check->name, sizeof(check->name), "%s", name);
    check->passed = passed;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(check->detail, sizeof(check->detail), fmt, ap);
    va_end(ap);
    verdict->passed = verdict->passed && passed;
}

static const char *
name_of(const struct history *history, int node)
{
    return node < 0 ? "nobody" : history->scenario->nodes[node].name;
}

static bool
same_bits(double left, double right)
{
    uint64_t a, b;
    memcpy(&a, &left, sizeof(a));
    memcpy(&b, &right, sizeof(b));
    return a == b;
}

/* ---- what holds in any run ---- */

static void
check_end(const struct history *history, const struct outcome *outcome,
          struct verdict *verdict)
{
    bool done = strcmp(history->job_state, "done") == 0;
    if (outcome->interrupted)
        check(verdict, "finished", false, "interrupted");
    else if (outcome->trouble[0])
        check(verdict, "finished", false, "%s", outcome->trouble);
    else if (outcome->timed_out)
        check(verdict, "finished", false,
              "the time limit of %g s has passed at step %lld (job: %s)",
              history->scenario->time_limit_s, (long long)history->applied,
              history->job_state[0] ? history->job_state : "not running");
    else if (!outcome->job)
        check(verdict, "finished", true, "no job was asked for");
    else
        check(verdict, "finished", done, "the job ended: %s%s%s", history->job_state,
              history->failure[0] ? "; " : "", history->failure);
    if (history->scenario->events_count)
        check(verdict, "events", outcome->events_left == 0, "%d of %d events took place",
              history->scenario->events_count - outcome->events_left,
              history->scenario->events_count);
    check(verdict, "nobody_died", outcome->deaths[0] == '\0', "%s",
          outcome->deaths[0] ? outcome->deaths : "no node died that was not killed");
    check(verdict, "one_history", history->conflict[0] == '\0' && history->epochs_count,
          "%s",
          history->conflict[0]    ? history->conflict
          : history->epochs_count ? "no two epochs share a number"
                                  : "no epoch was founded");
}

/* A node's steps follow each other; after an epoch they may begin anew at its base. */
static bool
node_in_order(const struct history *history, int node, char wrong[160])
{
    int64_t last = -1, last_epoch = -1;
    for (size_t i = 0; i < history->steps_count; i++) {
        const struct past_step *step = &history->steps[i];
        if (step->node != node)
            continue;
        bool next = last < 0 || step->step == last + 1 || step->epoch > last_epoch;
        if (step->epoch < last_epoch || !next) {
            snprintf(wrong, 160,
                     "%s applied step %lld of epoch %lld after step %lld of "
                     "epoch %lld",
                     name_of(history, node), (long long)step->step,
                     (long long)step->epoch, (long long)last, (long long)last_epoch);
            return false;
        }
        last = step->step;
        last_epoch = step->epoch;
    }
    return true;
}

static void
check_order(const struct history *history, const struct past_step *curve, size_t count,
            struct verdict *verdict)
{
    char wrong[160] = "";
    bool ordered = count > 0;
    if (!ordered)
        snprintf(wrong, sizeof(wrong), "no step was applied");
    for (int i = 0; i < history->scenario->nodes_count && ordered; i++)
        ordered = node_in_order(history, i, wrong);
    for (size_t i = 0; i < count && ordered; i++) {
        ordered = curve[i].step == (int64_t)i + 1;
        if (!ordered)
            snprintf(wrong, sizeof(wrong), "step %zu was applied by nobody", i + 1);
    }
    check(verdict, "steps_in_order", ordered, "%s%zu steps",
          ordered ? "each once and in order: " : wrong, ordered ? count : 0);
    if (!ordered)
        snprintf(verdict->checks[verdict->count - 1].detail,
                 sizeof(verdict->checks[0].detail), "%s", wrong);
}

static void
check_agreement(const struct history *history, const struct past_step *curve,
                size_t count, struct verdict *verdict)
{
    size_t compared = 0;
    for (size_t i = 0; i < history->steps_count; i++) {
        const struct past_step *step = &history->steps[i];
        if (history_void(history, step) || (size_t)step->step > count ||
            curve[step->step - 1].step != step->step)
            continue;
        const struct past_step *first = &curve[step->step - 1];
        if (same_bits(step->loss, first->loss) &&
            step->samples_hash == first->samples_hash) {
            compared += step->node != first->node;
            continue;
        }
        check(verdict, "nodes_agree", false,
              "step %lld: %s has loss %.17g and samples %016llx, %s %.17g and %016llx",
              (long long)step->step, name_of(history, step->node), step->loss,
              (unsigned long long)step->samples_hash, name_of(history, first->node),
              first->loss, (unsigned long long)first->samples_hash);
        return;
    }
    check(verdict, "nodes_agree", true,
          "loss and samples are the same at all nodes (%zu compared)", compared);
}

/* ---- what the scenario expects ---- */

static void
check_progress(const struct history *history, const struct past_step *curve, size_t count,
               struct verdict *verdict)
{
    const struct expectations *expect = &history->scenario->expect;
    if (expect->steps >= 0)
        check(verdict, "steps", (int64_t)count >= expect->steps,
              "%zu steps were applied, %lld are expected", count,
              (long long)expect->steps);
    if (expect->loss_below >= 0) {
        double loss = count ? curve[count - 1].loss : NAN;
        check(verdict, "loss_below", loss < expect->loss_below,
              "the last loss is %.4f, expected below %g", loss, expect->loss_below);
    }
    if (expect->stages < 0 && expect->replicas < 0)
        return;
    const struct past_epoch *first = NULL;
    for (size_t i = 0; i < history->epochs_count && !first; i++)
        if (history->epochs[i].stages > 0)
            first = &history->epochs[i];
    int64_t stages = first ? first->stages : 0, replicas = first ? first->pipelines : 0;
    check(verdict, "plan",
          (expect->stages < 0 || stages == expect->stages) &&
              (expect->replicas < 0 || replicas == expect->replicas),
          "the first plan has %lld stages x %lld replicas", (long long)stages,
          (long long)replicas);
}

static void
check_faults(const struct history *history, struct verdict *verdict)
{
    const struct expectations *expect = &history->scenario->expect;
    double slowest = 0;
    int64_t lost = 0;
    int count = 0;
    const struct past_fault *worst = NULL;
    for (int i = 0; i < history->faults_count; i++) {
        const struct past_fault *fault = &history->faults[i];
        if (!fault_costs(fault))
            continue;
        count++;
        double seconds = fault->seconds < 0 ? INFINITY : fault->seconds;
        lost = fault->steps_lost > lost ? fault->steps_lost : lost;
        if (seconds >= slowest) {
            slowest = seconds;
            worst = fault;
        }
    }
    if (expect->recovered_within_s >= 0 && worst && !isinf(slowest))
        check(verdict, "recovered", slowest <= expect->recovered_within_s,
              "training went on %.2f s after %s, %g s are allowed", slowest, worst->text,
              expect->recovered_within_s);
    else if (expect->recovered_within_s >= 0)
        check(verdict, "recovered", false, "%s%s",
              worst ? "training never went on after " : "there was no fault",
              worst ? worst->text : "");
    if (expect->steps_lost_max >= 0)
        check(verdict, "steps_lost", count > 0 && lost <= expect->steps_lost_max,
              "%d faults, at most %lld applied steps done again, %lld are allowed", count,
              (long long)lost, (long long)expect->steps_lost_max);
}

static void
check_new_leader(const struct history *history, struct verdict *verdict)
{
    int asked = 0;
    char detail[200] = "no leader was hit";
    bool passed = true;
    for (int i = 0; i < history->faults_count && passed; i++) {
        const struct past_fault *fault = &history->faults[i];
        if (!fault->leader ||
            (fault->action != ACTION_KILL && fault->action != ACTION_STOP))
            continue;
        asked++;
        passed = false;
        for (size_t e = 0; e < history->epochs_count && !passed; e++) {
            const struct past_epoch *epoch = &history->epochs[e];
            if (epoch->epoch <= fault->epoch || epoch->leader < 0 ||
                fault->victims >> epoch->leader & 1)
                continue;
            passed = true;
            snprintf(detail, sizeof(detail), "after %s, %s leads epoch %lld in term %lld",
                     fault->text, name_of(history, epoch->leader),
                     (long long)epoch->epoch, (long long)epoch->term);
        }
        if (!passed)
            snprintf(detail, sizeof(detail), "nobody followed after %s", fault->text);
    }
    check(verdict, "new_leader", passed && asked, "%s", detail);
}

static void
check_joins(const struct history *history, struct verdict *verdict)
{
    const struct expectations *expect = &history->scenario->expect;
    double slowest = 0, pause = 0;
    const struct past_join *last = NULL, *longest = NULL;
    for (int i = 0; i < history->joins_count; i++) {
        const struct past_join *join = &history->joins[i];
        double seconds = join->seconds < 0 ? INFINITY : join->seconds;
        if (!last || seconds > slowest) {
            slowest = seconds;
            last = join;
        }
        if (!longest || join->pause_s > pause) {
            pause = join->pause_s;
            longest = join;
        }
    }
    if (expect->joined_within_s >= 0 && (!last || isinf(slowest)))
        check(verdict, "joined", false, "%s%s", last ? name_of(history, last->node) : "",
              last ? " never computed" : "nobody joined late");
    else if (expect->joined_within_s >= 0 && last)
        check(verdict, "joined", slowest <= expect->joined_within_s,
              "%s computed %.2f s after its start (the slowest of %d), %g s are allowed",
              name_of(history, last->node), slowest, history->joins_count,
              expect->joined_within_s);
    if (expect->pause_below_s >= 0)
        check(verdict, "pause", longest && pause < expect->pause_below_s,
              "the others' longest pause is %.2f s (for %s), expected below %g s", pause,
              longest ? name_of(history, longest->node) : "nobody",
              expect->pause_below_s);
}

/* ---- the stopped that were continued ---- */

static const struct past_fault *
continued(const struct history *history, const struct past_fault *stop)
{
    for (const struct past_fault *fault = stop + 1;
         fault < history->faults + history->faults_count; fault++)
        if (fault->action == ACTION_CONTINUE && fault->victims == stop->victims)
            return fault;
    return NULL;
}

/* When the node knew an epoch whose member it is, the newest by then, from a time on;
 * -1: never. */
static int64_t
member_at(const struct history *history, int node, int64_t from_ms, int64_t above)
{
    for (size_t i = 0; i < history->marks_count; i++) {
        const struct past_mark *mark = &history->marks[i];
        if (mark->kind != MARK_EPOCH || mark->node != node || mark->mono_ms < from_ms ||
            mark->epoch <= above)
            continue;
        for (size_t e = 0; e < history->epochs_count; e++)
            if (history->epochs[e].epoch == mark->epoch &&
                history->epochs[e].members >> node & 1)
                return mark->mono_ms;
    }
    return -1;
}

static int
victim(const struct past_fault *fault)
{
    int node = 0;
    while (node < TESTNET_NODES_MAX - 1 && !(fault->victims >> node & 1))
        node++;
    return node;
}

/* The first epoch after a fault that is without its victim; 0: none. */
static int64_t
epoch_without(const struct history *history, const struct past_fault *fault)
{
    for (size_t e = 0; e < history->epochs_count; e++)
        if (history->epochs[e].epoch > fault->epoch &&
            !(history->epochs[e].members & fault->victims))
            return history->epochs[e].epoch;
    return 0;
}

static void
check_fenced(const struct history *history, struct verdict *verdict)
{
    int asked = 0;
    bool passed = true;
    char detail[200] = "nobody was stopped and continued";
    for (int i = 0; i < history->faults_count && passed; i++) {
        const struct past_fault *stop = &history->faults[i], *go;
        if (stop->action != ACTION_STOP || !(go = continued(history, stop)))
            continue;
        asked++;
        int node = victim(stop);
        bool told = false;
        int64_t old = 0;
        for (size_t m = 0; m < history->marks_count; m++) {
            const struct past_mark *mark = &history->marks[m];
            told = told || (mark->kind == MARK_FENCED && mark->node == node &&
                            mark->mono_ms >= go->at_ms);
        }
        for (size_t s = 0; s < history->steps_count; s++) {
            const struct past_step *step = &history->steps[s];
            if (step->node == node && step->mono_ms >= go->at_ms &&
                step->epoch <= stop->epoch)
                old = step->step;
        }
        int64_t without = epoch_without(history, stop);
        passed = told && old == 0 && without > 0;
        if (passed)
            snprintf(detail, sizeof(detail),
                     "%s was told that epoch %lld is without it, and applied nothing of "
                     "epoch %lld any more",
                     name_of(history, node), (long long)without, (long long)stop->epoch);
        else if (old)
            snprintf(detail, sizeof(detail),
                     "%s applied step %lld of the old epoch %lld after it continued",
                     name_of(history, node), (long long)old, (long long)stop->epoch);
        else
            snprintf(detail, sizeof(detail), "%s %s", name_of(history, node),
                     without ? "was not told that it is fenced"
                             : "stayed a member while it was stopped");
    }
    check(verdict, "fenced", passed && asked, "%s", detail);
}

static void
check_rejoined(const struct history *history, struct verdict *verdict)
{
    double limit = history->scenario->expect.rejoined_within_s;
    int asked = 0;
    bool passed = true;
    char detail[200] = "nobody was stopped and continued";
    for (int i = 0; i < history->faults_count && passed; i++) {
        const struct past_fault *stop = &history->faults[i], *go;
        if (stop->action != ACTION_STOP || !(go = continued(history, stop)))
            continue;
        asked++;
        int node = victim(stop);
        int64_t without = epoch_without(history, stop);
        int64_t at = member_at(history, node, go->at_ms, without ? without : stop->epoch);
        passed = at >= 0 && (double)(at - go->at_ms) / 1e3 <= limit;
        if (at < 0)
            snprintf(detail, sizeof(detail), "%s did not become a member again",
                     name_of(history, node));
        else
            snprintf(detail, sizeof(detail),
                     "%s was a member again %.2f s after it continued, %g s are allowed",
                     name_of(history, node), (double)(at - go->at_ms) / 1e3, limit);
    }
    check(verdict, "rejoined", passed && asked, "%s", detail);
}

/* ---- cut and heal ---- */

static const struct past_fault *
healed(const struct history *history, const struct past_fault *cut)
{
    for (const struct past_fault *fault = cut + 1;
         fault < history->faults + history->faults_count; fault++)
        if (fault->action == ACTION_HEAL && fault->zone == cut->zone)
            return fault;
    return NULL;
}

/* Of the two sides of a cut, which one went on: its bits, or 0. */
static uint64_t
side_that_went_on(const struct history *history, const struct past_fault *cut,
                  int64_t until_ms)
{
    for (size_t e = 0; e < history->epochs_count; e++) {
        const struct past_epoch *epoch = &history->epochs[e];
        if (epoch->epoch <= cut->epoch || epoch->first_ms > until_ms)
            continue;
        if (!(epoch->members & cut->victims))
            return ~cut->victims;
        if (!(epoch->members & ~cut->victims))
            return cut->victims;
    }
    return 0;
}

static void
check_minority(const struct history *history, struct verdict *verdict)
{
    int asked = 0;
    bool passed = true;
    char detail[200] = "there was no cut";
    for (int i = 0; i < history->faults_count && passed; i++) {
        const struct past_fault *cut = &history->faults[i];
        if (cut->action != ACTION_CUT)
            continue;
        asked++;
        const struct past_fault *heal = healed(history, cut);
        int64_t until_ms = heal ? heal->at_ms : INT64_MAX;
        uint64_t majority = side_that_went_on(history, cut, until_ms), said = 0;
        int64_t steps = 0, advanced = 0;
        for (size_t s = 0; s < history->steps_count; s++) {
            const struct past_step *step = &history->steps[s];
            if (step->mono_ms < cut->at_ms + AFTER_MS || step->mono_ms >= until_ms)
                continue;
            steps += majority >> step->node & 1 ? 1 : 0;
            advanced += majority >> step->node & 1 ? 0 : 1;
        }
        uint64_t all = 0;
        for (int n = 0; n < history->scenario->nodes_count; n++)
            all |= history->nodes[n].seen ? UINT64_C(1) << n : 0;
        for (size_t m = 0; m < history->marks_count; m++) {
            const struct past_mark *mark = &history->marks[m];
            if (mark->kind == MARK_PAUSED && mark->mono_ms >= cut->at_ms &&
                mark->mono_ms < until_ms)
                said |= UINT64_C(1) << mark->node;
        }
        bool told = (all & ~majority & ~said) == 0;
        passed = majority && steps > 0 && advanced == 0 && told;
        snprintf(detail, sizeof(detail),
                 "after %s, one side applied %lld steps, the other %lld%s%s", cut->text,
                 (long long)steps, (long long)advanced,
                 told ? " and said that it pauses" : " and did not say that it pauses",
                 majority ? "" : "; no side made an epoch of its own");
    }
    check(verdict, "minority_paused", passed && asked, "%s", detail);
}

/* The nodes that ran all along are in one epoch, from this time after a heal; -1: never.
 * That is the first epoch above the heal's that has them all as members, and each knows
 * it. */
static int64_t
together_at(const struct history *history, const struct past_fault *heal)
{
    uint64_t gone = 0, all = 0;
    for (int i = 0; i < history->faults_count; i++)
        if (history->faults[i].action == ACTION_KILL ||
            history->faults[i].action == ACTION_LEAVE ||
            history->faults[i].action == ACTION_EVICT)
            gone |= history->faults[i].victims;
    for (int n = 0; n < history->scenario->nodes_count; n++)
        all |= history->nodes[n].seen ? UINT64_C(1) << n : 0;
    all &= ~gone;
    for (size_t e = 0; e < history->epochs_count; e++) {
        const struct past_epoch *epoch = &history->epochs[e];
        if (epoch->epoch <= heal->epoch || (epoch->members & all) != all)
            continue;
        uint64_t know = 0;
        int64_t last = -1;
        for (size_t m = 0; m < history->marks_count; m++) {
            const struct past_mark *mark = &history->marks[m];
            if (mark->kind != MARK_EPOCH || mark->epoch != epoch->epoch)
                continue;
            know |= UINT64_C(1) << mark->node;
            last = mark->mono_ms > last ? mark->mono_ms : last;
        }
        if ((know & all) == all)
            return last;
    }
    return -1;
}

static void
check_healed(const struct history *history, struct verdict *verdict)
{
    double limit = history->scenario->expect.healed_within_s;
    int asked = 0;
    bool passed = true;
    char detail[200] = "nothing was healed";
    for (int i = 0; i < history->faults_count && passed; i++) {
        const struct past_fault *heal = &history->faults[i];
        if (heal->action != ACTION_HEAL)
            continue;
        asked++;
        int64_t at = together_at(history, heal);
        double seconds = (double)(at - heal->at_ms) / 1e3;
        passed = at >= 0 && seconds <= limit;
        if (at < 0)
            snprintf(detail, sizeof(detail),
                     "after %s, the nodes never were all in one "
                     "epoch",
                     heal->text);
        else
            snprintf(detail, sizeof(detail),
                     "%.2f s after %s all nodes were in the newest epoch, %g s are "
                     "allowed",
                     seconds, heal->text, limit);
    }
    check(verdict, "healed", passed && asked, "%s", detail);
}

/* ---- the same as another run ---- */

static void
check_same(const struct history *history, const struct outcome *outcome,
           const struct past_step *curve, size_t count, struct verdict *verdict)
{
    const struct expectations *expect = &history->scenario->expect;
    size_t wanted = (size_t)expect->steps_compared, other_count = 0;
    if (!outcome->reference || outcome->reference_trouble[0]) {
        check(verdict, "same_loss", false, "the scenario to compare with failed: %s",
              outcome->reference_trouble);
        return;
    }
    struct past_step *other = history_curve(outcome->reference, &other_count);
    double worst = 0;
    size_t worst_step = 1;
    bool bits = true;
    if (count < wanted || other_count < wanted) {
        check(verdict, "same_loss", false,
              "%zu and %zu steps were applied, %zu are to be compared", count,
              other_count, wanted);
        free(other);
        return;
    }
    for (size_t i = 0; i < wanted; i++) {
        double difference = fabs(curve[i].loss - other[i].loss);
        bits = bits && same_bits(curve[i].loss, other[i].loss);
        if (!(difference <= worst)) {
            worst = difference;
            worst_step = i + 1;
        }
    }
    check(verdict, "same_loss", expect->exact ? bits : worst <= expect->within,
          "%zu steps, the largest difference is %.3g at step %zu, allowed: %s%g", wanted,
          worst, worst_step, expect->exact ? "no bit, " : "",
          expect->exact ? 0 : expect->within);
    check(verdict, "same_samples",
          curve[wanted - 1].samples_hash == other[wanted - 1].samples_hash,
          "the hash of the sample stream is %016llx here and %016llx there",
          (unsigned long long)curve[wanted - 1].samples_hash,
          (unsigned long long)other[wanted - 1].samples_hash);
    free(other);
}

/* ---- links ---- */

static void
check_links(const struct history *history, const struct links_seen *seen,
            struct verdict *verdict)
{
    const struct expectations *expect = &history->scenario->expect;
    if (seen->passed_ms)
        check(verdict, "links", true,
              "%.1f s after the swarm was formed all are within %g %%; the worst: %s",
              (double)seen->passed_ms / 1e3, expect->links_within * 100, seen->what);
    else if (seen->looks == 0)
        check(verdict, "links", false, "the run was over before %g s",
              expect->links_by_s);
    else
        check(verdict, "links", false, "%s, %g %% off is allowed (%d looks)", seen->what,
              expect->links_within * 100, seen->looks);
    if (seen->spent[0])
        check(verdict, "probe_budget", false, "%s", seen->spent);
    else
        check(verdict, "probe_budget", true,
              "%.1f MB of probes by all nodes, nobody above a hundredth of its uplink in "
              "an hour",
              (double)seen->probe_bytes / 1e6);
}

/* ---- all of it ---- */

static void
check_formed(const struct history *history, struct verdict *verdict)
{
    double limit = history->scenario->expect.formed_within_s;
    double seconds = (double)(history->formed_ms - history->began_ms) / 1e3;
    if (history->formed_ms == 0)
        check(verdict, "formed", false, "the swarm was never whole");
    else
        check(verdict, "formed", seconds <= limit,
              "all nodes were members %.2f s after the first began, %g s are allowed",
              seconds, limit);
}

/* A busy link is no dead peer. */
static void
check_nobody_lost(const struct history *history, struct verdict *verdict)
{
    for (size_t e = 0; e < history->epochs_count; e++)
        if (strcmp(history->epochs[e].cause, "loss") == 0) {
            check(verdict, "nobody_lost", false, "epoch %lld was made for a loss",
                  (long long)history->epochs[e].epoch);
            return;
        }
    check(verdict, "nobody_lost", true, "of the epochs none was made for a loss");
}

static void
check_settled(const struct history *history, struct verdict *verdict)
{
    double limit = history->scenario->expect.settled_within_s, slowest = 0;
    int asked = 0;
    bool passed = true;
    char detail[200] = "no node was started or ended";
    for (int i = 0; i < history->presences_count && passed; i++) {
        const struct past_presence *presence = &history->presences[i];
        if (!history_presence_counts(history, i))
            continue;
        asked++;
        int64_t at = history_settled(history, i);
        double seconds = (double)(at - presence->at_ms) / 1e3;
        passed = at >= 0 && seconds <= limit;
        if (at < 0)
            snprintf(detail, sizeof(detail),
                     "after %s, the %d nodes that ran never were one epoch's members",
                     presence->text, __builtin_popcountll(presence->running));
        else if (seconds >= slowest || !passed)
            snprintf(
                detail, sizeof(detail),
                "the %d nodes that ran were one epoch's members %.2f s after %s (the "
                "slowest), %g s are allowed",
                __builtin_popcountll(presence->running), seconds, presence->text, limit);
        slowest = at >= 0 && seconds > slowest ? seconds : slowest;
    }
    check(verdict, "settled", passed && asked, "%s", detail);
}

/* How often it ended because it is evicted, and when first. */
static int
ends_of(const struct history *history, int node, int64_t *first_ms)
{
    int count = 0;
    for (size_t i = 0; i < history->marks_count; i++)
        if (history->marks[i].kind == MARK_EVICTED && history->marks[i].node == node &&
            count++ == 0)
            *first_ms = history->marks[i].mono_ms;
    return count;
}

/* When the first epoch without it was in force; -1: never. `again`: a later one has it. */
static int64_t
out_at(const struct history *history, const struct past_fault *evict, bool *again)
{
    int64_t at = -1;
    *again = false;
    for (size_t i = 0; i < history->epochs_count; i++) {
        const struct past_epoch *epoch = &history->epochs[i];
        bool out = !(epoch->members & evict->victims);
        if (epoch->epoch <= evict->epoch)
            continue;
        if (at >= 0 && !out)
            *again = true;
        if (at < 0 && out)
            at = epoch->first_ms;
    }
    return at;
}

static void
check_evicted(const struct history *history, struct verdict *verdict)
{
    double limit = history->scenario->expect.evicted_within_s;
    int asked = 0;
    bool passed = true;
    char detail[200] = "no node was evicted";
    for (int i = 0; i < history->faults_count && passed; i++) {
        const struct past_fault *evict = &history->faults[i];
        if (evict->action != ACTION_EVICT)
            continue;
        asked++;
        bool again;
        int node = victim(evict), starts = 1;
        int64_t ended_ms = 0, out_ms = out_at(history, evict, &again);
        int ends = ends_of(history, node, &ended_ms);
        for (int j = 0; j < history->joins_count; j++)
            starts += history->joins[j].node == node &&
                      history->joins[j].start_ms > evict->at_ms;
        double seconds =
            (double)((ended_ms > out_ms ? ended_ms : out_ms) - evict->at_ms) / 1e3;
        passed = ends > 0 && ends == starts && out_ms >= 0 && !again && seconds <= limit;
        snprintf(detail, sizeof(detail),
                 "%s: out %.2f s after it was asked for, %g s are allowed; %sa member "
                 "again; it ended for it %d of %d times",
                 evict->text, out_ms < 0 || ends == 0 ? -1.0 : seconds, limit,
                 again ? "" : "never ", ends, starts);
    }
    check(verdict, "evicted", passed && asked, "%s", detail);
}

void
expect_judge(const struct history *history, const struct outcome *outcome,
             struct verdict *verdict)
{
    const struct expectations *expect = &history->scenario->expect;
    size_t count;
    struct past_step *curve = history_curve(history, &count);
    *verdict = (struct verdict){.passed = true};
    check_end(history, outcome, verdict);
    if (outcome->job) {
        check_order(history, curve, count, verdict);
        check_agreement(history, curve, count, verdict);
    }
    check_progress(history, curve, count, verdict);
    check_faults(history, verdict);
    if (expect->new_leader)
        check_new_leader(history, verdict);
    check_joins(history, verdict);
    if (expect->fenced)
        check_fenced(history, verdict);
    if (expect->rejoined_within_s >= 0)
        check_rejoined(history, verdict);
    if (expect->minority_paused)
        check_minority(history, verdict);
    if (expect->healed_within_s >= 0)
        check_healed(history, verdict);
    if (expect->links_within >= 0)
        check_links(history, outcome->links, verdict);
    if (expect->formed_within_s >= 0)
        check_formed(history, verdict);
    if (expect->nobody_lost)
        check_nobody_lost(history, verdict);
    if (expect->settled_within_s >= 0)
        check_settled(history, verdict);
    if (expect->evicted_within_s >= 0)
        check_evicted(history, verdict);
    if (expect->same_loss_as[0])
        check_same(history, outcome, curve, count, verdict);
    free(curve);
}

bool
expect_satisfied(const struct history *history)
{
    const struct expectations *expect = &history->scenario->expect;
    int last = history->presences_count - 1;
    if (expect->settled_within_s >= 0 && last >= 0 && history_settled(history, last) < 0)
        return false;
    for (int i = 0; i < history->faults_count; i++) {
        const struct past_fault *fault = &history->faults[i], *go;
        if (fault->action == ACTION_HEAL && expect->healed_within_s >= 0 &&
            together_at(history, fault) < 0)
            return false;
        if (fault->action != ACTION_STOP || expect->rejoined_within_s < 0 ||
            !(go = continued(history, fault)))
            continue;
        int64_t without = epoch_without(history, fault);
        if (member_at(history, victim(fault), go->at_ms,
                      without ? without : fault->epoch) < 0)
            return false;
    }
    return true;
}
