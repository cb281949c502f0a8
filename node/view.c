#include "node/view.h"
#include "node/voters.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <stdlib.h>
#include <string.h>

enum { VIEW_VERSION = 2 };

static void
release_derived(struct view *view)
{
    cluster_release(&view->cluster);
    recovery_release(&view->recovery);
    memset(&view->cluster, 0, sizeof(view->cluster));
    memset(&view->recovery, 0, sizeof(view->recovery));
}

void
view_forget_reports(struct view *view)
{
    for (uint32_t i = 0; i < view->reports_count; i++)
        free(view->report_bytes[i]);
    free(view->reports);
    free(view->report_bytes);
    free(view->report_lens);
    view->reports = NULL;
    view->report_bytes = NULL;
    view->report_lens = NULL;
    view->reports_count = 0;
    view->planned = false;
    release_derived(view);
}

void
view_release(struct view *view)
{
    view_forget_reports(view);
    job_release(&view->job);
    policy_release(&view->policy);
    memset(view, 0, sizeof(*view));
}

int
view_node(const struct view *view, const struct id *id)
{
    for (uint32_t i = 0; i < view->reports_count; i++)
        if (id_equal(&view->reports[i].id, id))
            return (int)i;
    return -1;
}

bool
view_worker(const struct view *view, int node)
{
    if (!view->planned || node < 0)
        return false;
    for (int s = 0; s < view->plan.stages_count; s++)
        for (int r = 0; r < view->plan.pipelines_count; r++)
            if (view->plan.stages[s].nodes[r] == node)
                return true;
    return false;
}

/* While members change over from one secret to the next, either admits. */
int
view_report_open(const struct view *view, const void *bytes, size_t len,
                 const struct id *swarm, const struct id *admit_id, struct report *report,
                 struct err *err)
{
    const struct policy *policy = &view->policy;
    const struct id *newest = id_empty(&policy->admit_id) ? admit_id : &policy->admit_id;
    struct err first;
    report->before = false;
    if (report_open(bytes, len, swarm, newest, report, &first) == 0)
        return 0;
    if (first.code != ERR_AUTH || id_empty(&policy->before_id) ||
        report_open(bytes, len, swarm, &policy->before_id, report, err)) {
        *err = first;
        return -1;
    }
    report->before = true;
    return 0;
}

int
view_report(struct view *view, const void *bytes, size_t len, const struct id *swarm,
            const struct id *admit_id, struct err *err)
{
    struct report report;
    if (view_report_open(view, bytes, len, swarm, admit_id, &report, err))
        return -1;
    int at = view_node(view, &report.id);
    if (at < 0) {
        if (view->reports_count >= PLAN_NODES_MAX)
            return err_set(err, ERR_LIMIT, "more than %d members", PLAN_NODES_MAX);
        uint32_t count = view->reports_count + 1;
        view->reports = xrealloc(view->reports, count, sizeof(*view->reports));
        view->report_bytes =
            xrealloc(view->report_bytes, count, sizeof(*view->report_bytes));
        view->report_lens =
            xrealloc(view->report_lens, count, sizeof(*view->report_lens));
        at = (int)view->reports_count;
        while (at > 0 && id_compare(&view->reports[at - 1].id, &report.id) > 0) {
            view->reports[at] = view->reports[at - 1];
            view->report_bytes[at] = view->report_bytes[at - 1];
            view->report_lens[at] = view->report_lens[at - 1];
            at--;
        }
        view->reports_count = count;
    } else {
        free(view->report_bytes[at]);
    }
    view->reports[at] = report;
    view->report_bytes[at] = xmemdup(bytes, len);
    view->report_lens[at] = len;
    return 0;
}

/* ---- the planner's cluster ---- */

static int
compare_text(const void *left, const void *right)
{
    return strcmp(left, right);
}

static int
zone_number(const struct cluster *cluster, const char *zone)
{
    for (int i = 0; i < cluster->zones_count; i++)
        if (strcmp(cluster->zones[i], zone) == 0)
            return i;
    return -1;
}

static int
make_cluster(struct view *view, struct err *err)
{
    uint32_t count = view->reports_count;
    must(count > 0);
    char(*zones)[NAME_BYTES_MAX + 1] = xcalloc(count, sizeof(*zones));
    for (uint32_t i = 0; i < count; i++)
        memcpy(zones[i], view->reports[i].record.zone, sizeof(zones[i]));
    qsort(zones, count, sizeof(*zones), compare_text);
    uint32_t zones_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (zones_count == 0 || strcmp(zones[zones_count - 1], zones[i]) != 0)
            memmove(zones[zones_count++], zones[i], sizeof(zones[i]));
    if (zones_count > ZONES_MAX) {
        free(zones);
        return err_set(err, ERR_LIMIT, "the members name %u zones, more than %d",
                       zones_count, ZONES_MAX);
    }
    struct cluster *cluster = &view->cluster;
    cluster_init(cluster, (int)count, (int)zones_count);
    memcpy(cluster->zones, zones, zones_count * sizeof(*zones));
    free(zones);
    for (uint32_t i = 0; i < count; i++) {
        const struct report *report = &view->reports[i];
        struct cluster_node *node = &cluster->nodes[i];
        node->id = report->id;
        node->zone = zone_number(cluster, report->record.zone);
        node->memory_bytes = (int64_t)report->record.memory_bytes;
        /* A profile of another model says nothing. */
        if (id_equal(&report->job, &view->job.train.id))
            node->profile = report->profile;
    }
    view_fill_links(view, NULL, &view->cluster);
    return 0;
}

/* ---- the plan ---- */

/* The plan in force, in the new view's node numbers, -1 where a node is gone. False: there
 * is none, or of another job. */
static bool
carry_plan(const struct view *current, const struct view *view, struct plan *out)
{
    if (!current || !current->planned ||
        !id_equal(&current->job.train.id, &view->job.train.id))
        return false;
    *out = current->plan;
    for (int s = 0; s < out->stages_count; s++) {
        for (int r = 0; r < out->pipelines_count; r++) {
            int before = current->plan.stages[s].nodes[r];
            out->stages[s].nodes[r] = view_node(view, &current->reports[before].id);
        }
    }
    return true;
}

static int
make_plan(struct view *view, const struct view *current, struct err *err)
{
    static _Thread_local struct plan in_force;
    bool any = carry_plan(current, view, &in_force);
    return plan_next(&view->request, &view->cluster, any ? &in_force : NULL, &view->plan,
                     err);
}

/* The cluster as it is by now; false when nothing in it is new. */
static bool
measured_anew(const struct view *view, const struct record *const *records,
              const int64_t *correction_ppm, struct cluster *out)
{
    const struct cluster *then = &view->cluster;
    size_t nodes = (size_t)then->nodes_count;
    size_t links = (size_t)then->zones_count * (size_t)then->zones_count;
    bool anew = false;
    cluster_init(out, then->nodes_count, then->zones_count);
    memcpy(out->zones, then->zones, sizeof(out->zones));
    memcpy(out->nodes, then->nodes, nodes * sizeof(*out->nodes));
    for (size_t i = 0; i < nodes; i++) {
        struct profile *profile = &out->nodes[i].profile;
        if (correction_ppm[i] == 0 || correction_ppm[i] == profile->correction_ppm)
            continue;
        profile->correction_ppm = correction_ppm[i];
        anew = true;
    }
    view_fill_links(view, records, out);
    return anew || memcmp(out->links, then->links, links * sizeof(*out->links)) != 0;
}

bool
view_outdated(const struct view *view, const struct record *const *records,
              const int64_t *correction_ppm)
{
    static _Thread_local struct plan next;
    struct cluster cluster;
    struct err err;
    must(view->planned);
    bool outdated = measured_anew(view, records, correction_ppm, &cluster) &&
                    plan_next(&view->request, &cluster, &view->plan, &next, &err) == 0 &&
                    next.loosened == view->plan.loosened;
    cluster_release(&cluster);
    if (!outdated)
        return false;
    next.predicted_step_ns = view->plan.predicted_step_ns;
    return !plan_same(&next, &view->plan);
}

/* Cluster, request, and with a plan: recovery and duties. */
static int
derive_rest(struct view *view, struct err *err)
{
    struct progress *progress = xcalloc(view->reports_count, sizeof(*progress));
    for (uint32_t i = 0; i < view->reports_count; i++) {
        const struct report *report = &view->reports[i];
        if (id_equal(&report->job, &view->job.train.id))
            progress[i] = report->progress;
    }
    recovery_release(&view->recovery);
    memset(&view->recovery, 0, sizeof(view->recovery));
    int failed = recover(&view->plan, &view->request, &view->cluster, progress,
                         &view->recovery, err);
    free(progress);
    if (failed)
        return -1;
    recover_duties(&view->plan, &view->cluster, view_node(view, &view->submitter),
                   &view->duties);
    /* Somebody who comes back may bring what was done before the run lost steps. */
    if (view->state == JOB_STOPPING && view->stop_after < view->recovery.base_step)
        view->stop_after = view->recovery.base_step;
    return 0;
}

/* Does nobody need the secret before any more? */
static bool
changed_over(const struct view *view)
{
    for (uint32_t i = 0; i < view->reports_count; i++)
        if (view->reports[i].before)
            return false;
    return true;
}

int
view_derive(struct view *view, const struct view *current, struct err *err)
{
    release_derived(view);
    view->planned = false;
    if (changed_over(view))
        view->policy.before_id = (struct id){{0}};
    if (make_cluster(view, err))
        return -1;
    if (view->state == JOB_NONE)
        return 0;
    job_request(&view->job, &view->request);
    if (make_plan(view, current, err))
        return -1;
    if (derive_rest(view, err))
        return -1;
    view->planned = true;
    return 0;
}

void
view_begin(struct view *view, const struct view *current)
{
    memset(view, 0, sizeof(*view));
    if (!current)
        return;
    view->state = current->state;
    view->submitter = current->submitter;
    view->stop_after = current->stop_after;
    memcpy(view->ended, current->ended, sizeof(view->ended));
    if (current->state != JOB_NONE)
        job_copy(&view->job, &current->job);
    view->former_count = current->former_count;
    memcpy(view->former, current->former, sizeof(view->former));
    policy_begin(&view->policy, &current->policy);
}

/* ---- bytes ---- */

static void
write_plan(const struct plan *plan, struct buf *out)
{
    writer_array(out, 5);
    writer_int(out, plan->micro_batch);
    writer_bool(out, plan->loosened);
    writer_int(out, plan->predicted_step_ns);
    writer_array(out, (size_t)plan->pipelines_count);
    for (int r = 0; r < plan->pipelines_count; r++)
        writer_int(out, plan->micro_batches[r]);
    writer_array(out, (size_t)plan->stages_count);
    for (int s = 0; s < plan->stages_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        writer_array(out, 3);
        writer_int(out, stage->first_layer);
        writer_int(out, stage->layers);
        writer_array(out, (size_t)plan->pipelines_count);
        for (int r = 0; r < plan->pipelines_count; r++)
            writer_int(out, stage->nodes[r]);
    }
}

static void
read_plan(struct reader *reader, uint32_t nodes, struct plan *plan)
{
    reader_enter(reader, 5, 5);
    plan->micro_batch = (int)reader_int(reader, 1, 1 << 20);
    plan->loosened = reader_bool(reader);
    plan->predicted_step_ns = reader_int(reader, 0, INT64_MAX / 2);
    plan->pipelines_count = (int)reader_enter(reader, 1, REPLICAS_MAX);
    for (int r = 0; r < plan->pipelines_count; r++)
        plan->micro_batches[r] = (int)reader_int(reader, 1, MICRO_BATCHES_MAX);
    reader_leave(reader);
    plan->stages_count = (int)reader_enter(reader, 1, STAGES_MAX);
    for (int s = 0; s < plan->stages_count; s++) {
        struct plan_stage *stage = &plan->stages[s];
        reader_enter(reader, 3, 3);
        stage->first_layer = (int)reader_int(reader, 0, LAYERS_MAX - 1);
        stage->layers = (int)reader_int(reader, 1, LAYERS_MAX);
        size_t count = (size_t)plan->pipelines_count;
        reader_enter(reader, count, count);
        for (int r = 0; r < plan->pipelines_count; r++)
            stage->nodes[r] = (int)reader_int(reader, 0, (int64_t)nodes - 1);
        reader_leave(reader);
        reader_leave(reader);
    }
    reader_leave(reader);
    reader_leave(reader);
}

void
view_encode(const struct view *view, struct buf *out)
{
    struct buf job = {0};
    if (view->state != JOB_NONE)
        job_encode(&view->job, &job);
    writer_array(out, 10);
    writer_uint(out, VIEW_VERSION);
    writer_uint(out, view->state);
    writer_bytes(out, job.data, job.len);
    writer_id(out, &view->submitter);
    writer_int(out, view->stop_after);
    writer_text(out, view->ended);
    policy_write(&view->policy, out);
    writer_array(out, view->reports_count);
    for (uint32_t i = 0; i < view->reports_count; i++)
        writer_bytes(out, view->report_bytes[i], view->report_lens[i]);
    writer_array(out, view->former_count);
    for (uint32_t i = 0; i < view->former_count; i++)
        writer_id(out, &view->former[i]);
    writer_array(out, view->planned ? 1 : 0);
    if (view->planned)
        write_plan(&view->plan, out);
    buf_release(&job);
}

static int
read_view(const void *bytes, size_t len, const struct id *swarm,
          const struct id *admit_id, struct view *view, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    size_t job_len;
    reader_enter(reader, 10, 10);
    if (reader_uint(reader, VIEW_VERSION) != VIEW_VERSION)
        reader_fail(reader, "a view of another version");
    view->state = (enum job_state)reader_uint(reader, JOB_STOPPING);
    const uint8_t *job = reader_bytes(reader, JOB_BYTES_MAX, &job_len);
    reader_id(reader, &view->submitter);
    view->stop_after = reader_int(reader, 0, INT64_MAX / 2);
    reader_text(reader, view->ended, sizeof(view->ended));
    policy_read(reader, &view->policy); /* first: it says whose reports are good */
    size_t reports = reader_enter(reader, 0, CODEC_COUNT_MAX);
    struct err bad = {0};
    for (size_t i = 0; i < reports && !bad.code; i++) {
        size_t report_len;
        const uint8_t *report = reader_bytes(reader, 64 << 10, &report_len);
        if (reader_ok(reader) &&
            view_report(view, report, report_len, swarm, admit_id, &bad))
            reader_fail(reader, "%s", bad.msg);
    }
    reader_leave(reader);
    view->former_count = (uint32_t)reader_enter(reader, 0, VIEW_FORMER_MAX);
    for (uint32_t i = 0; i < view->former_count; i++)
        reader_id(reader, &view->former[i]);
    reader_leave(reader);
    view->planned = reader_enter(reader, 0, 1) == 1;
    if (view->planned)
        read_plan(reader, view->reports_count, &view->plan);
    reader_leave(reader);
    reader_leave(reader);
    if (view->reports_count != reports)
        reader_fail(reader, "a member reports twice");
    if (view->planned && view->state == JOB_NONE)
        reader_fail(reader, "a plan without a job");
    if (reader_ok(reader) && view->state != JOB_NONE &&
        job_decode(job, job_len, &view->job, &bad))
        reader_fail(reader, "%s", bad.msg);
    return reader_close(&reader, err);
}

int
view_decode(const void *bytes, size_t len, const struct id *swarm,
            const struct id *admit_id, struct view *out, struct err *err)
{
    struct view *view = xcalloc(1, sizeof(*view));
    int result = read_view(bytes, len, swarm, admit_id, view, err);
    if (result == 0 && view->reports_count > 0)
        result = make_cluster(view, err);
    if (result == 0 && view->planned) {
        job_request(&view->job, &view->request);
        result = plan_check(&view->plan, &view->request, &view->cluster, err) ||
                         derive_rest(view, err)
                     ? -1
                     : 0;
    }
    if (result) {
        view_release(view);
        err_wrap(err, "plan");
    } else {
        *out = *view;
    }
    free(view);
    return result;
}

/* What a plan follows from, without what follows. */
static void
copy_inputs(struct view *to, const struct view *from)
{
    view_begin(to, from);
    policy_release(&to->policy);
    policy_copy(&to->policy, &from->policy);
    uint32_t count = from->reports_count;
    to->reports_count = count;
    to->reports = xmemdup(from->reports, count * sizeof(*from->reports));
    to->report_lens = xmemdup(from->report_lens, count * sizeof(*from->report_lens));
    to->report_bytes = xcalloc(count, sizeof(*to->report_bytes));
    for (uint32_t i = 0; i < count; i++)
        to->report_bytes[i] = xmemdup(from->report_bytes[i], from->report_lens[i]);
}

/* Did members of the epoch before ask for it, and may all be here who were not? */
static int
judge_policy(const struct view *view, const struct decree *before,
             const struct view *current, const struct id *swarm, struct err *err)
{
    static const struct policy none;
    const struct policy *old = current ? &current->policy : &none;
    uint32_t count = before ? before->members_count : 0;
    struct id *members = xcalloc(count + 1, sizeof(*members));
    for (uint32_t i = 0; i < count; i++)
        members[i] = before->members[i].id;
    int result =
        policy_judge(&view->policy, old, members, count, changed_over(view), swarm, err);
    free(members);
    for (uint32_t i = 0; result == 0 && i < view->reports_count; i++) {
        const struct id *id = &view->reports[i].id;
        if (!before || !decree_member(before, id) ||
            id_set_has(&view->policy.evicted, id))
            result = policy_admits(&view->policy, id, err);
    }
    return result;
}

int
view_judge(const struct decree *decree, const struct view *view,
           const struct decree *before, const struct view *current, struct err *err)
{
    if (decree->members_count != view->reports_count)
        return err_set(err, ERR_PLAN, "%u members, but %u reports", decree->members_count,
                       view->reports_count);
    for (uint32_t i = 0; i < view->reports_count; i++) {
        const struct report *report = &view->reports[i];
        if (!id_equal(&decree->members[i].id, &report->id) ||
            decree->members[i].incarnation >> 32 != report->record.incarnation >> 32)
            return err_set(err, ERR_PLAN, "member %u is not the one that reported", i);
        /* An answer to an earlier question: its member has gone on since. */
        if (report->epoch != decree->epoch - 1 || report->term != view->reports[0].term)
            return err_set(err, ERR_PLAN,
                           "member %u reported in epoch %llu, term %llu, which is not "
                           "what this epoch follows from",
                           i, (unsigned long long)report->epoch,
                           (unsigned long long)report->term);
    }
    struct id voters[VOTERS_MAX];
    uint32_t count = view->reports_count > 0 ? voters_choose(before, view, voters) : 0;
    if (count != decree->voters_count ||
        memcmp(voters, decree->voters, count * sizeof(*voters)) != 0)
        return err_set(err, ERR_PLAN, "its voters do not follow from what was reported");
    if (judge_policy(view, before, current, &decree->swarm, err))
        return -1;
    struct view *again = xcalloc(1, sizeof(*again));
    copy_inputs(again, view);
    int result = view_derive(again, current, err);
    if (result && !view->planned)
        result = 0; /* both find no plan: the run waits */
    if (result == 0) {
        struct buf mine = {0}, theirs = {0};
        view_encode(again, &mine);
        view_encode(view, &theirs);
        if (mine.len != theirs.len || memcmp(mine.data, theirs.data, mine.len) != 0)
            result = err_set(err, ERR_PLAN,
                             "the plan computed here from the same reports differs");
        buf_release(&mine);
        buf_release(&theirs);
    }
    view_release(again);
    free(again);
    return result;
}

int
view_keeps(const struct decree *decree, const struct id *self, bool leaving,
           struct err *err)
{
    if (leaving || decree_member(decree, self))
        return 0;
    char text[ID_SHORT_SIZE];
    return err_set(
        err, ERR_PLAN,
        "it leaves out node %s, which votes, is here and stays: the leader does "
        "not hear it",
        id_short(self, text));
}
