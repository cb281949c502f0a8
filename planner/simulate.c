#include "planner/simulate.h"
#include "planner/schedule.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* A replica of a stage while the step is replayed. */
struct worker {
    int64_t forward_ns;
    int64_t backward_ns;
    int64_t update_ns;
    int zone;
    int micro_batches;
    int next;     /* index of the op that it does or waits for */
    bool waiting; /* for an input that nobody has sent yet */
};

/* The end of a worker's current op; at most one for each worker. */
struct event {
    int64_t at_ns;
    int worker;
};

struct replay {
    const struct plan *plan;
    const struct plan_request *request;
    const struct cluster *cluster;
    int stages;
    int pipelines;
    int64_t boundary_bytes;
    int64_t gradient_bytes[STAGES_MAX];
    struct worker *workers; /* stage of pipeline: pipeline * stages + stage */
    /* When the input of a slot arrives, [worker * stages + slot]; -1: not sent. */
    int64_t *forward_at;
    int64_t *backward_at;
    int64_t *free_at; /* zone pairs, then nodes: when the link is free again */
    struct event *events;
    int events_count;
    int finished[STAGES_MAX]; /* replicas that wait for the all-reduce */
    int64_t reduced_at[STAGES_MAX];
    int64_t reduce_ns;
};

static int64_t
later(int64_t left_ns, int64_t right_ns)
{
    return left_ns > right_ns ? left_ns : right_ns;
}

static int64_t
delay_ns(const struct cluster *cluster, int from_zone, int to_zone)
{
    return cluster_send_ns(cluster, from_zone, to_zone, 0);
}

/* How long bytes keep a link busy, delay apart. */
static int64_t
occupied_ns(const struct cluster *cluster, int from_zone, int to_zone, int64_t bytes)
{
    int64_t all_ns = cluster_send_ns(cluster, from_zone, to_zone, bytes);
    if (all_ns >= NS_NEVER)
        return NS_NEVER;
    return all_ns - delay_ns(cluster, from_zone, to_zone);
}

/* Bytes that each node of a ring of n sends in an all-reduce. */
static int64_t
ring_bytes(int64_t bytes, int n)
{
    return 2 * (int64_t)(n - 1) * ((bytes + n - 1) / n);
}

static int64_t
tied_bytes(const struct model_shape *shape)
{
    return (int64_t)shape->vocabulary * shape->hidden * 4;
}

/* Forward, backward and update time of one replica; -1 without a profile. */
static int
worker_times(const struct plan *plan, const struct plan_request *request,
             const struct cluster *cluster, int stage, int pipeline,
             struct worker *worker)
{
    const struct plan_stage *at = &plan->stages[stage];
    const struct cluster_node *node = &cluster->nodes[at->nodes[pipeline]];
    int embeddings = at->first_layer == 0;
    int heads = at->first_layer + at->layers == workload_layers(&request->shape);
    const int count[LAYER_KINDS] = {
        [LAYER_EMBEDDING] = embeddings,
        [LAYER_BLOCK] = at->layers - embeddings - heads,
        [LAYER_HEAD] = heads,
    };
    memset(worker, 0, sizeof(*worker));
    worker->zone = node->zone;
    worker->micro_batches = plan->micro_batches[pipeline];
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        int64_t forward;
        int64_t backward;
        int64_t update;
        if (cluster_layer_ns(node, (enum layer_kind)kind, plan->micro_batch, &forward,
                             &backward, &update) != 0)
            return -1;
        worker->forward_ns += count[kind] * forward;
        worker->backward_ns += count[kind] * backward;
        worker->update_ns += count[kind] * update;
    }
    return 0;
}

static bool
event_before(const struct event *left, const struct event *right)
{
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns;
    return left->worker < right->worker;
}

static void
event_push(struct replay *replay, struct event event)
{
    int hole = replay->events_count++;
    while (hole > 0) {
        int parent = (hole - 1) / 2;
        if (!event_before(&event, &replay->events[parent]))
            break;
        replay->events[hole] = replay->events[parent];
        hole = parent;
    }
    replay->events[hole] = event;
}

static struct event
event_pop(struct replay *replay)
{
    struct event first = replay->events[0];
    struct event last = replay->events[--replay->events_count];
    int hole = 0;
    for (;;) {
        int child = 2 * hole + 1;
        if (child >= replay->events_count)
            break;
        if (child + 1 < replay->events_count &&
            event_before(&replay->events[child + 1], &replay->events[child]))
            child++;
        if (!event_before(&replay->events[child], &last))
            break;
        replay->events[hole] = replay->events[child];
        hole = child;
    }
    replay->events[hole] = last;
    return first;
}

/* When the last of `bytes`, ready at `at_ns`, has left `from` for `to`, behind all that
 * queued before. */
static int64_t
link_queue(struct replay *replay, int from, int to, int64_t bytes, int64_t at_ns)
{
    const struct cluster *cluster = replay->cluster;
    int from_zone = cluster->nodes[from].zone;
    int to_zone = cluster->nodes[to].zone;
    int zones = cluster->zones_count;
    int link = from_zone == to_zone ? zones * zones + from : from_zone * zones + to_zone;
    int64_t start_ns = later(at_ns, replay->free_at[link]);
    replay->free_at[link] =
        ns_plus(start_ns, occupied_ns(cluster, from_zone, to_zone, bytes));
    return replay->free_at[link];
}

/* Send from one node to another; when it is there. */
static int64_t
link_send(struct replay *replay, int from, int to, int64_t bytes, int64_t at_ns)
{
    int64_t left_ns = link_queue(replay, from, to, bytes, at_ns);
    return ns_plus(left_ns, delay_ns(replay->cluster, replay->cluster->nodes[from].zone,
                                     replay->cluster->nodes[to].zone));
}

/* The ring over the replicas of a stage, all of which are ready now. */
static void
reduce_stage(struct replay *replay, int stage, int64_t now_ns)
{
    const struct plan_stage *at = &replay->plan->stages[stage];
    const struct cluster *cluster = replay->cluster;
    int n = replay->pipelines;
    int64_t end_ns = now_ns;
    if (n > 1) {
        int64_t bytes = ring_bytes(replay->gradient_bytes[stage], n);
        int64_t slowest_ns = 0;
        for (int j = 0; j < n; j++) {
            int from = at->nodes[j];
            int to = at->nodes[(j + 1) % n];
            end_ns = later(end_ns, link_queue(replay, from, to, bytes, now_ns));
            slowest_ns = later(slowest_ns, delay_ns(cluster, cluster->nodes[from].zone,
                                                    cluster->nodes[to].zone));
        }
        end_ns = ns_plus(end_ns, ns_times(2 * (int64_t)(n - 1), slowest_ns));
    }
    replay->reduced_at[stage] = end_ns;
    replay->reduce_ns = later(replay->reduce_ns, end_ns - now_ns);
}

/* When the input of a worker's op arrives. */
static int64_t *
arrival(struct replay *replay, int number, struct schedule_op op)
{
    int64_t *at = op.kind == SCHEDULE_FORWARD ? replay->forward_at : replay->backward_at;
    size_t stages = (size_t)replay->stages;
    return &at[(size_t)number * stages + (size_t)op.micro_batch % stages];
}

/* Start the worker's next op if its input is there or on its way. */
static void
worker_start(struct replay *replay, int number, int64_t now_ns)
{
    struct worker *worker = &replay->workers[number];
    int stage = number % replay->stages;
    struct schedule_op op =
        schedule_at(replay->stages, stage, worker->micro_batches, worker->next);
    if (op.kind == SCHEDULE_REDUCE) {
        if (++replay->finished[stage] == replay->pipelines)
            reduce_stage(replay, stage, now_ns);
        return;
    }
    bool forward = op.kind == SCHEDULE_FORWARD;
    if (forward ? stage > 0 : stage < replay->stages - 1) {
        int64_t *arrives = arrival(replay, number, op);
        if (*arrives < 0) {
            worker->waiting = true;
            return;
        }
        now_ns = later(now_ns, *arrives);
        *arrives = -1;
    }
    worker->waiting = false;
    int64_t work_ns = forward ? worker->forward_ns : worker->backward_ns;
    event_push(replay, (struct event){ns_plus(now_ns, work_ns), number});
}

/* The worker's op ended: send what it made, wake who waits for it, go on. */
static void
worker_finish(struct replay *replay, int number, int64_t now_ns)
{
    struct worker *worker = &replay->workers[number];
    int stage = number % replay->stages;
    int pipeline = number / replay->stages;
    struct schedule_op op =
        schedule_at(replay->stages, stage, worker->micro_batches, worker->next);
    worker->next++;
    worker_start(replay, number, now_ns);

    bool forward = op.kind == SCHEDULE_FORWARD;
    int to = forward ? stage + 1 : stage - 1;
    if (to < 0 || to >= replay->stages)
        return;
    int peer = number + (to - stage);
    int64_t *arrives = arrival(replay, peer, op);
    must(*arrives < 0);
    *arrives = link_send(replay, replay->plan->stages[stage].nodes[pipeline],
                         replay->plan->stages[to].nodes[pipeline], replay->boundary_bytes,
                         now_ns);
    if (replay->workers[peer].waiting)
        worker_start(replay, peer, now_ns);
}

/* Both ends of each pipeline send each other the tied gradient; when the last has it. */
static void
exchange_tied(struct replay *replay)
{
    int last = replay->stages - 1;
    int64_t bytes = tied_bytes(&replay->request->shape);
    int64_t start_ns = later(replay->reduced_at[0], replay->reduced_at[last]);
    int64_t end_ns = start_ns;
    for (int j = 0; j < replay->pipelines; j++) {
        int first_node = replay->plan->stages[0].nodes[j];
        int last_node = replay->plan->stages[last].nodes[j];
        end_ns = later(end_ns, link_send(replay, first_node, last_node, bytes, start_ns));
        end_ns = later(end_ns, link_send(replay, last_node, first_node, bytes, start_ns));
    }
    replay->reduced_at[0] = end_ns;
    replay->reduced_at[last] = end_ns;
}

/* One round trip between the two nodes of the plan furthest apart. */
static int64_t
norms_ns(const struct plan *plan, const struct cluster *cluster)
{
    int nodes[ZONES_MAX] = {0};
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            nodes[cluster->nodes[plan->stages[s].nodes[j]].zone]++;
    int64_t slowest_ns = 0;
    for (int a = 0; a < cluster->zones_count; a++) {
        for (int b = a; b < cluster->zones_count; b++) {
            if (a == b ? nodes[a] < 2 : nodes[a] == 0 || nodes[b] == 0)
                continue;
            slowest_ns = later(slowest_ns,
                               ns_plus(delay_ns(cluster, a, b), delay_ns(cluster, b, a)));
        }
    }
    return slowest_ns;
}

static int
replay_prepare(struct replay *replay, struct prediction *out, struct err *err)
{
    const struct plan *plan = replay->plan;
    int workers = replay->stages * replay->pipelines;
    int zones = replay->cluster->zones_count;
    replay->workers = xcalloc((size_t)workers, sizeof(*replay->workers));
    replay->events = xcalloc((size_t)workers, sizeof(*replay->events));
    size_t slots = (size_t)workers * (size_t)replay->stages;
    replay->forward_at = xcalloc(slots, sizeof(*replay->forward_at));
    replay->backward_at = xcalloc(slots, sizeof(*replay->backward_at));
    for (size_t i = 0; i < slots; i++) {
        replay->forward_at[i] = -1;
        replay->backward_at[i] = -1;
    }
    replay->free_at =
        xcalloc((size_t)zones * (size_t)zones + (size_t)replay->cluster->nodes_count,
                sizeof(*replay->free_at));
    replay->boundary_bytes =
        workload_boundary_bytes(&replay->request->shape, plan->micro_batch);

    memset(out, 0, sizeof(*out));
    for (int s = 0; s < replay->stages; s++) {
        struct stage_bytes bytes;
        plan_stage_bytes(plan, replay->request, s, &bytes);
        out->memory_bytes[s] = bytes.total;
        replay->gradient_bytes[s] = bytes.gradients;
        for (int j = 0; j < replay->pipelines; j++) {
            struct worker *worker = &replay->workers[j * replay->stages + s];
            if (worker_times(plan, replay->request, replay->cluster, s, j, worker) != 0) {
                char name[ID_SHORT_SIZE];
                int node = plan->stages[s].nodes[j];
                return err_set(err, ERR_PLAN,
                               "cannot predict stage %d: node %s has no measured profile",
                               s, id_short(&replay->cluster->nodes[node].id, name));
            }
            int64_t busy = ns_plus(
                ns_times(worker->micro_batches, worker->forward_ns + worker->backward_ns),
                worker->update_ns);
            out->compute_ns[s] = later(out->compute_ns[s], busy);
        }
        if (out->compute_ns[s] > out->compute_ns[out->bound_stage])
            out->bound_stage = s;
    }
    return 0;
}

static void
replay_run(struct replay *replay, struct prediction *out)
{
    int workers = replay->stages * replay->pipelines;
    for (int w = 0; w < workers; w++)
        worker_start(replay, w, 0);
    while (replay->events_count > 0) {
        struct event event = event_pop(replay);
        worker_finish(replay, event.worker, event.at_ns);
    }
    for (int s = 0; s < replay->stages; s++)
        must(replay->finished[s] == replay->pipelines);
    if (replay->stages > 1)
        exchange_tied(replay);

    int64_t ready_ns = 0;
    for (int s = 0; s < replay->stages; s++)
        ready_ns = later(ready_ns, replay->reduced_at[s]);
    ready_ns = ns_plus(ready_ns, norms_ns(replay->plan, replay->cluster));
    int64_t update_ns = 0;
    for (int w = 0; w < workers; w++)
        update_ns = later(update_ns, replay->workers[w].update_ns);
    out->step_ns = ns_plus(ready_ns, update_ns);
    out->reduce_ns = replay->reduce_ns;
}

int
simulate(const struct plan *plan, const struct plan_request *request,
         const struct cluster *cluster, struct prediction *out, struct err *err)
{
    must(plan->stages_count > 0 && plan->stages_count <= STAGES_MAX);
    must(plan->pipelines_count > 0 && plan->pipelines_count <= REPLICAS_MAX);
    struct replay replay = {
        .plan = plan,
        .request = request,
        .cluster = cluster,
        .stages = plan->stages_count,
        .pipelines = plan->pipelines_count,
    };
    struct prediction made;
    int rc = replay_prepare(&replay, &made, err);
    if (rc == 0) {
        replay_run(&replay, &made);
        *out = made;
    }
    free(replay.workers);
    free(replay.events);
    free(replay.forward_at);
    free(replay.backward_at);
    free(replay.free_at);
    return rc;
}

/*
 * The least that one pipeline takes to the end of its backwards. A stage cannot end
 * before the first forward's way to it, its own work, and the last gradient's way back.
 * And each of its activation slots is held from a forward until the gradient is back from
 * all later stages, for one micro-batch after the other.
 */
static int64_t
bound_pipeline(const struct plan *plan, const struct plan_request *request,
               const struct cluster *cluster, int pipeline, int64_t ready_ns[STAGES_MAX],
               int64_t *update_ns)
{
    int64_t boundary = workload_boundary_bytes(&request->shape, plan->micro_batch);
    int stages = plan->stages_count;
    int m = plan->micro_batches[pipeline];
    int64_t turn_ns[STAGES_MAX];
    int64_t before_ns[STAGES_MAX];
    int64_t all_ns = 0;
    int64_t way_ns = 0;
    int zone = -1;
    int from = -1; /* the zones that way_ns is between */
    for (int s = 0; s < stages; s++) {
        struct worker worker;
        if (worker_times(plan, request, cluster, s, pipeline, &worker) != 0)
            return NS_NEVER;
        if (s > 0 && (from != zone || zone != worker.zone)) {
            way_ns = ns_plus(cluster_send_ns(cluster, zone, worker.zone, boundary),
                             cluster_send_ns(cluster, worker.zone, zone, boundary));
            from = zone;
        }
        all_ns = ns_plus(all_ns, way_ns);
        zone = worker.zone;
        before_ns[s] = all_ns;
        turn_ns[s] = worker.forward_ns + worker.backward_ns;
        all_ns = ns_plus(all_ns, turn_ns[s]);
        *update_ns = later(*update_ns, worker.update_ns);
    }
    int64_t most_ns = all_ns;
    for (int s = 0; all_ns < NS_NEVER && s < stages; s++) {
        int slots = schedule_in_flight(stages, s, m);
        int64_t busy_ns = ns_times(m, turn_ns[s]);
        int64_t held_ns = ns_times((m + slots - 1) / slots, all_ns - before_ns[s]);
        busy_ns = later(busy_ns, held_ns);
        ready_ns[s] = later(ready_ns[s], busy_ns);
        most_ns = later(most_ns, ns_plus(before_ns[s], busy_ns));
    }
    return most_ns;
}

/* The busiest direction between two zones: activations and gradients of all pipelines. */
static int64_t
bound_links(const struct plan *plan, const struct plan_request *request,
            const struct cluster *cluster)
{
    int64_t boundary = workload_boundary_bytes(&request->shape, plan->micro_batch);
    int zones = cluster->zones_count;
    int64_t sends[ZONES_MAX * ZONES_MAX];
    memset(sends, 0, (size_t)zones * (size_t)zones * sizeof(sends[0]));
    for (int s = 0; s + 1 < plan->stages_count; s++) {
        for (int j = 0; j < plan->pipelines_count; j++) {
            int from = cluster->nodes[plan->stages[s].nodes[j]].zone;
            int to = cluster->nodes[plan->stages[s + 1].nodes[j]].zone;
            if (from == to)
                continue;
            sends[from * zones + to] += plan->micro_batches[j];
            sends[to * zones + from] += plan->micro_batches[j];
        }
    }
    int64_t most_ns = 0;
    for (int from = 0; from < zones; from++)
        for (int to = 0; to < zones; to++)
            if (sends[from * zones + to] > 0)
                most_ns =
                    later(most_ns, ns_times(sends[from * zones + to],
                                            occupied_ns(cluster, from, to, boundary)));
    return most_ns;
}

int64_t
simulate_bound(const struct plan *plan, const struct plan_request *request,
               const struct cluster *cluster, const int64_t *gradient_bytes)
{
    int64_t ready_ns[STAGES_MAX] = {0};
    int64_t update_ns = 0;
    int64_t most_ns = 0;
    for (int j = 0; j < plan->pipelines_count; j++)
        most_ns = later(most_ns,
                        bound_pipeline(plan, request, cluster, j, ready_ns, &update_ns));
    if (most_ns >= NS_NEVER)
        return NS_NEVER;
    most_ns = later(most_ns, bound_links(plan, request, cluster));
    /* All of stage 0's gradients are in before its all-reduce starts, so it comes on
     * top. */
    int n = plan->pipelines_count;
    for (int s = 0; n > 1 && s < plan->stages_count; s++) {
        int64_t share = ring_bytes(gradient_bytes[s], n);
        int64_t ring_ns = 0;
        for (int j = 0; j < n; j++) {
            int from = cluster->nodes[plan->stages[s].nodes[j]].zone;
            int to = cluster->nodes[plan->stages[s].nodes[(j + 1) % n]].zone;
            int64_t rounds = ns_times(2 * (int64_t)(n - 1), delay_ns(cluster, from, to));
            int64_t hop = ns_plus(occupied_ns(cluster, from, to, share), rounds);
            ring_ns = later(ring_ns, hop);
        }
        int64_t from_ns = s == 0 ? most_ns : ready_ns[s];
        most_ns = later(most_ns, ns_plus(from_ns, ring_ns));
    }
    return ns_plus(most_ns, ns_plus(norms_ns(plan, cluster), update_ns));
}
