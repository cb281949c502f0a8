#include "planner/replay.h"
#include "planner/schedule.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* One replica of one stage. */
struct hand {
    double forward_s;
    double backward_s;
    double update_s;
    const struct fleet_curve *forward_link; /* to the next stage */
    const struct fleet_curve *backward_link;
    int micro_batches;
    int next;     /* index of the op that it does or waits for */
    bool waiting; /* for an input that nobody has sent yet */
    bool unsent;  /* what its last forward made: goes out when the next gradient is in */
    bool taking;  /* its event is that gradient's arrival */
    double busy_s;
    double sending_s;                  /* held up by its own sends */
    double free_s;                     /* when its line out is free again */
    double began_s;                    /* the op at hand */
    double last_began_s, last_ended_s; /* its last backward */
};

struct event {
    double at_s;
    int hand;
};

struct replay {
    const struct fleet_plan *plan;
    const struct fleet_request *request;
    const struct fleet *fleet;
    step_event_fn *on_event;
    void *context;
    int stages;
    int lanes;          /* pipelines that are replayed */
    int *lane;          /* [width]: the lane that stands for a pipeline */
    int *pipeline;      /* [lanes]: and back */
    double message;     /* bytes of a boundary are the layers' times this */
    struct hand *hands; /* lane * stages + stage */
    double *forward_at; /* when a slot's input arrives, [hand * stages + slot]; -1: not
                           sent */
    double *backward_at;
    double *line_free; /* [curves]: when a shared line is free again */
    int *crossings;    /* [curves]: how often the ring at hand goes over one */
    struct event *events;
    int events_count;
};

static double
later(double left, double right)
{
    return left > right ? left : right;
}

static const struct layer_time *
replica_times(const struct fleet_plan *plan, const struct fleet *fleet,
              const struct replica *replica)
{
    const struct fleet_kind *kind = &fleet->kinds[fleet->pools[replica->pool].kind];
    const struct layer_time *times =
        fleet_kind_times(kind, plan->precision, plan->micro_batch, replica->tp);
    must(times);
    return times;
}

/* ---- events ---- */

static bool
event_before(const struct event *left, const struct event *right)
{
    if (left->at_s != right->at_s)
        return left->at_s < right->at_s;
    return left->hand < right->hand;
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

static void
tell(const struct replay *replay, enum step_kind kind, int hand, int micro_batch, int to,
     double start_s, double end_s)
{
    if (!replay->on_event)
        return;
    int lane = hand / replay->stages;
    struct step_event event = {kind, hand % replay->stages, 0, micro_batch, to, start_s,
                               end_s};
    for (int j = 0; j < replay->plan->width; j++) {
        if (replay->lane[j] != lane)
            continue;
        event.pipeline = j;
        replay->on_event(replay->context, &event);
    }
}

static double *
arrival(struct replay *replay, int hand, struct schedule_op op)
{
    double *at = op.kind == SCHEDULE_FORWARD ? replay->forward_at : replay->backward_at;
    int slot = op.micro_batch % replay->stages;
    return &at[(int64_t)hand * replay->stages + slot];
}

/* What a group needs to hand on a boundary among its devices. */
static double
inside_s(const struct replay *replay, int number, struct schedule_op op)
{
    int stage = number % replay->stages;
    int pipeline = replay->pipeline[number / replay->stages];
    const struct replica *replica = fleet_plan_replica(replay->plan, stage, pipeline);
    const struct fleet_kind *kind =
        &replay->fleet->kinds[replay->fleet->pools[replica->pool].kind];
    if (replica->tp == 1 || !kind->has_inside)
        return 0.0;
    int boundary =
        replay->plan->first_layer[op.kind == SCHEDULE_FORWARD ? stage : stage + 1] - 1;
    double bytes =
        (double)replay->fleet->table.sizes[0][boundary].output_bytes * replay->message;
    return fleet_send_s(&kind->inside[tp_slot(replica->tp)], bytes);
}

static bool
takes_input(const struct replay *replay, int number, struct schedule_op op)
{
    int stage = number % replay->stages;
    return op.kind == SCHEDULE_FORWARD ? stage > 0 : stage < replay->stages - 1;
}

/* The part of a message between two groups that the buffers at one end do not take: each
 * device of a group sends its own share of a boundary, through its own. */
static double
unbuffered(const struct replay *replay, int from, int to, double bytes)
{
    const struct fleet_plan *plan = replay->plan;
    int pipeline = replay->pipeline[from / replay->stages];
    int left = fleet_plan_replica(plan, from % replay->stages, pipeline)->tp;
    int right = fleet_plan_replica(plan, to % replay->stages, pipeline)->tp;
    double room = (double)replay->request->framework.transfer_buffer_bytes *
                  (double)(left < right ? left : right);
    return bytes > room ? (bytes - room) / bytes : 0.0;
}

/* How long a receiver is held up by a message that is there as far as it has buffers for
 * it. */
static double
receive_s(const struct replay *replay, int number, struct schedule_op op)
{
    const struct framework *framework = &replay->request->framework;
    bool forward = op.kind == SCHEDULE_FORWARD;
    int stage = number % replay->stages;
    int boundary = replay->plan->first_layer[forward ? stage : stage + 1] - 1;
    int from = number + (forward ? -1 : 1);
    const struct hand *sender = &replay->hands[from];
    const struct fleet_curve *curve =
        forward ? sender->forward_link : sender->backward_link;
    double bytes =
        (double)replay->fleet->table.sizes[0][boundary].output_bytes * replay->message;
    if (framework->overlap || framework->transfer_buffer_bytes == 0)
        return 0.0;
    return (fleet_send_s(curve, bytes) - curve->delay_s) *
           unbuffered(replay, from, number, bytes);
}

/* The op's input is there. */
static void
hand_compute(struct replay *replay, int number, struct schedule_op op, double now_s)
{
    struct hand *hand = &replay->hands[number];
    if (takes_input(replay, number, op)) {
        *arrival(replay, number, op) = -1.0;
        now_s += inside_s(replay, number, op);
    }
    hand->began_s = now_s;
    double work_s = op.kind == SCHEDULE_FORWARD ? hand->forward_s : hand->backward_s;
    hand->busy_s += work_s;
    event_push(replay, (struct event){now_s + work_s, number});
}

/* Start the next op if its input is there or on its way. */
static void
hand_start(struct replay *replay, int number, double now_s)
{
    struct hand *hand = &replay->hands[number];
    struct schedule_op op = schedule_at(replay->stages, number % replay->stages,
                                        hand->micro_batches, hand->next);
    if (op.kind == SCHEDULE_REDUCE)
        return;
    if (takes_input(replay, number, op)) {
        double arrives_s = *arrival(replay, number, op);
        hand->waiting = arrives_s < 0.0;
        if (hand->waiting) {
            hand->began_s = now_s;
            return;
        }
        if (arrives_s < now_s)
            now_s += receive_s(replay, number, op);
        now_s = later(now_s, arrives_s);
    }
    hand->taking = hand->unsent;
    if (hand->taking)
        event_push(replay, (struct event){now_s, number});
    else
        hand_compute(replay, number, op, now_s);
}

/* Send what an op made, and wake who waits for it: when its sender is done with it. */
static double
hand_send(struct replay *replay, int number, struct schedule_op op, double now_s)
{
    struct hand *hand = &replay->hands[number];
    const struct framework *framework = &replay->request->framework;
    bool forward = op.kind == SCHEDULE_FORWARD;
    int stage = number % replay->stages;
    int to = forward ? stage + 1 : stage - 1;
    int boundary = replay->plan->first_layer[forward ? to : stage] - 1;
    const struct fleet_curve *curve = forward ? hand->forward_link : hand->backward_link;
    double bytes =
        (double)replay->fleet->table.sizes[0][boundary].output_bytes * replay->message;
    double *free_s =
        curve->shared ? &replay->line_free[curve - replay->fleet->curves] : &hand->free_s;
    double starts_s = later(now_s, *free_s);
    *free_s = starts_s + fleet_send_s(curve, bytes) - curve->delay_s;
    double arrives_s = *free_s + curve->delay_s;
    tell(replay, STEP_SEND, number, op.micro_batch, to, starts_s, arrives_s);
    int peer = number + (to - stage);
    double *slot = arrival(replay, peer, op);
    must(*slot < 0.0);
    *slot = arrives_s;
    if (!framework->overlap) {
        double held = unbuffered(replay, number, peer, bytes);
        double sent_s = held > 0.0 ? starts_s + (*free_s - starts_s) * held : now_s;
        hand->sending_s += sent_s - now_s;
        now_s = sent_s;
    }
    if (replay->hands[peer].waiting)
        hand_start(replay, peer, later(now_s, replay->hands[peer].began_s));
    return now_s;
}

/* The gradient that it waited for is in: what its last forward made goes out. */
static void
hand_take(struct replay *replay, int number, double now_s)
{
    struct hand *hand = &replay->hands[number];
    int stage = number % replay->stages;
    hand->unsent = hand->taking = false;
    struct schedule_op made =
        schedule_at(replay->stages, stage, hand->micro_batches, hand->next - 1);
    now_s = hand_send(replay, number, made, now_s);
    struct schedule_op op =
        schedule_at(replay->stages, stage, hand->micro_batches, hand->next);
    hand_compute(replay, number, op, now_s);
}

/* The op ended: send what it made, go on. */
static void
hand_finish(struct replay *replay, int number, double now_s)
{
    struct hand *hand = &replay->hands[number];
    int stage = number % replay->stages;
    struct schedule_op op =
        schedule_at(replay->stages, stage, hand->micro_batches, hand->next);
    bool forward = op.kind == SCHEDULE_FORWARD;
    tell(replay, forward ? STEP_FORWARD : STEP_BACKWARD, number, op.micro_batch, -1,
         hand->began_s, now_s);
    hand->next++;
    if (!forward) {
        hand->last_began_s = hand->began_s;
        hand->last_ended_s = now_s;
    }
    int to = forward ? stage + 1 : stage - 1;
    if (to >= 0 && to < replay->stages) {
        hand->unsent =
            forward && !replay->request->framework.overlap &&
            schedule_at(replay->stages, stage, hand->micro_batches, hand->next).kind ==
                SCHEDULE_BACKWARD;
        if (!hand->unsent)
            now_s = hand_send(replay, number, op, now_s);
    }
    hand_start(replay, number, now_s);
}

/* ---- preparation ---- */

static bool
same_pipelines(const struct fleet_plan *plan, int left, int right)
{
    if (plan->micro_batches[left] != plan->micro_batches[right])
        return false;
    for (int s = 0; s < plan->stages_count; s++) {
        const struct replica *a = fleet_plan_replica(plan, s, left);
        const struct replica *b = fleet_plan_replica(plan, s, right);
        if (a->pool != b->pool || a->tp != b->tp)
            return false;
    }
    return true;
}

/* Does a pipeline send over a line that it shares with others? */
static bool
shares_a_line(const struct replay *replay, int pipeline)
{
    const struct fleet_plan *plan = replay->plan;
    for (int s = 0; s + 1 < plan->stages_count; s++) {
        const struct replica *a = fleet_plan_replica(plan, s, pipeline);
        const struct replica *b = fleet_plan_replica(plan, s + 1, pipeline);
        if (fleet_curve(replay->fleet, a->pool, tp_slot(a->tp), b->pool, tp_slot(b->tp))
                ->shared ||
            fleet_curve(replay->fleet, b->pool, tp_slot(b->tp), a->pool, tp_slot(a->tp))
                ->shared)
            return true;
    }
    return false;
}

/* Pipelines that are alike and meet on no shared line go the same way: one is replayed. */
static void
choose_lanes(struct replay *replay)
{
    const struct fleet_plan *plan = replay->plan;
    replay->lane = xcalloc((size_t)plan->width, sizeof(*replay->lane));
    replay->pipeline = xcalloc((size_t)plan->width, sizeof(*replay->pipeline));
    for (int j = 0; j < plan->width; j++) {
        if (j > 0 && same_pipelines(plan, j - 1, j) && !shares_a_line(replay, j)) {
            replay->lane[j] = replay->lane[j - 1];
            continue;
        }
        replay->lane[j] = replay->lanes;
        replay->pipeline[replay->lanes++] = j;
    }
}

/* Every device of a group holds all of a boundary: one of them sends it to one of the next
 * group, which hands it on inside its machine. */
static const struct fleet_curve *
boundary_link(const struct fleet *fleet, const struct replica *from,
              const struct replica *to)
{
    const struct fleet_curve *one = fleet_curve(fleet, from->pool, 0, to->pool, 0);
    const struct fleet_curve *own =
        fleet_curve(fleet, from->pool, tp_slot(from->tp), to->pool, tp_slot(to->tp));
    must(one || own);
    return one ? one : own;
}

static void
hand_fill(const struct replay *replay, int stage, int pipeline, struct hand *hand)
{
    const struct fleet_plan *plan = replay->plan;
    const struct fleet *fleet = replay->fleet;
    const struct replica *replica = fleet_plan_replica(plan, stage, pipeline);
    const struct layer_time *times = replica_times(plan, fleet, replica);
    double correction = fleet->kinds[fleet->pools[replica->pool].kind].correction;
    int slot = tp_slot(replica->tp);
    int first = plan->first_layer[stage];
    memset(hand, 0, sizeof(*hand));
    hand->micro_batches = plan->micro_batches[pipeline];
    int64_t parameters = 0;
    double update_s = 0.0;
    for (int l = first; l < first + plan->layers[stage]; l++) {
        hand->forward_s += times[l].forward_s;
        hand->backward_s += times[l].backward_s;
        update_s += times[l].update_s;
        parameters += fleet->table.sizes[slot][l].parameters;
    }
    if (plan->recompute == RECOMPUTE_LAYERS)
        hand->backward_s += hand->forward_s;
    if (fleet->table.update_parameters[slot] > 0)
        update_s = times[first].update_s * (double)parameters /
                   (double)fleet->table.update_parameters[slot];
    if (plan->shard_optimizer)
        update_s /= (double)plan->width;
    hand->forward_s *= correction;
    hand->backward_s *= correction;
    hand->update_s = update_s * correction;
    if (stage + 1 < plan->stages_count) {
        const struct replica *next = fleet_plan_replica(plan, stage + 1, pipeline);
        hand->forward_link = boundary_link(fleet, replica, next);
    }
    if (stage > 0) {
        const struct replica *next = fleet_plan_replica(plan, stage - 1, pipeline);
        hand->backward_link = boundary_link(fleet, replica, next);
    }
}

static void
replay_prepare(struct replay *replay)
{
    const struct fleet_plan *plan = replay->plan;
    choose_lanes(replay);
    size_t hands = (size_t)replay->lanes * (size_t)replay->stages;
    replay->hands = xcalloc(hands, sizeof(*replay->hands));
    replay->events = xcalloc(hands, sizeof(*replay->events));
    replay->forward_at =
        xcalloc(hands * (size_t)replay->stages, sizeof(*replay->forward_at));
    replay->backward_at =
        xcalloc(hands * (size_t)replay->stages, sizeof(*replay->backward_at));
    for (size_t i = 0; i < hands * (size_t)replay->stages; i++) {
        replay->forward_at[i] = -1.0;
        replay->backward_at[i] = -1.0;
    }
    replay->line_free =
        xcalloc((size_t)replay->fleet->curves_count + 1, sizeof(*replay->line_free));
    replay->crossings =
        xcalloc((size_t)replay->fleet->curves_count + 1, sizeof(*replay->crossings));
    replay->message =
        (double)plan->micro_batch * (plan->precision == PRECISION_BF16 ? 0.5 : 1.0);
    for (int lane = 0; lane < replay->lanes; lane++)
        for (int s = 0; s < replay->stages; s++)
            hand_fill(replay, s, replay->pipeline[lane],
                      &replay->hands[lane * replay->stages + s]);
}

/* ---- the end of an iteration ---- */

/* The slowest neighbours of a stage's ring for pieces of a size. */
struct ring {
    double hop_s;
    double shared_s; /* of that, the time that a shared line is held */
    int line;        /* that shared line, -1: none */
    int from_pool, to_pool;
};

/* The link from one pipeline's replica to the next one's. */
static const struct fleet_curve *
ring_link(const struct replay *replay, int stage, int pipeline)
{
    const struct fleet_plan *plan = replay->plan;
    const struct replica *here = fleet_plan_replica(plan, stage, pipeline);
    const struct replica *next =
        fleet_plan_replica(plan, stage, (pipeline + 1) % plan->width);
    const struct fleet_curve *curve = fleet_curve(
        replay->fleet, here->pool, tp_slot(here->tp), next->pool, tp_slot(next->tp));
    if (!curve) /* fleet_plan_check() asks for a way between single devices */
        curve = fleet_curve(replay->fleet, here->pool, 0, next->pool, 0);
    must(curve);
    return curve;
}

static struct ring
ring_slowest(const struct replay *replay, int stage, double piece)
{
    const struct fleet_plan *plan = replay->plan;
    struct ring ring = {.hop_s = -1.0, .line = -1};
    const struct fleet_curve *before = NULL;
    /* All hops of a round go at the same time: those over one shared line queue for it. */
    for (int c = 0; c < replay->fleet->curves_count; c++)
        replay->crossings[c] = 0;
    for (int j = 0; j < plan->width; j++)
        replay->crossings[ring_link(replay, stage, j) - replay->fleet->curves]++;
    for (int j = 0; j < plan->width; j++) {
        const struct replica *here = fleet_plan_replica(plan, stage, j);
        const struct replica *next =
            fleet_plan_replica(plan, stage, (j + 1) % plan->width);
        const struct fleet_curve *curve = ring_link(replay, stage, j);
        if (curve == before)
            continue;
        before = curve;
        /* Each device of a group sends its own part of the piece; they share the line. */
        int parts = here->tp < next->tp ? here->tp : next->tp;
        double held_s = (fleet_send_s(curve, piece / parts) - curve->delay_s) * parts;
        if (curve->shared)
            held_s *= (double)replay->crossings[curve - replay->fleet->curves];
        double hop_s = held_s + curve->delay_s;
        if (hop_s <= ring.hop_s)
            continue;
        ring = (struct ring){hop_s, held_s, -1, here->pool, next->pool};
        if (curve->shared)
            ring.line = (int)(curve - replay->fleet->curves);
    }
    return ring;
}

/* Of our engine's models the head's gradient of the embedding is kept apart, on the last
 * stage. */
static double
tied_bytes(const struct fleet *fleet)
{
    const struct model_shape *shape = fleet->table.engine;
    return shape ? 4.0 * (double)shape->vocabulary * (double)shape->hidden : 0.0;
}

/* The first and the last stage of each pipeline send each other that gradient: from when on
 * the last has it. */
static double
tie_s(struct replay *replay)
{
    const struct fleet_plan *plan = replay->plan;
    double bytes = tied_bytes(replay->fleet);
    double slowest_s = 0.0;
    if (bytes <= 0.0 || plan->stages_count == 1)
        return 0.0;
    double *held_s = xcalloc((size_t)replay->fleet->curves_count + 1, sizeof(*held_s));
    for (int j = 0; j < plan->width; j++) {
        const struct replica *ends[] = {
            fleet_plan_replica(plan, 0, j),
            fleet_plan_replica(plan, plan->stages_count - 1, j)};
        for (int way = 0; way < 2; way++) {
            const struct fleet_curve *curve =
                fleet_curve(replay->fleet, ends[way]->pool, 0, ends[1 - way]->pool, 0);
            double seconds = curve ? fleet_send_s(curve, bytes) : FLEET_NEVER_S;
            if (curve && curve->shared) {
                double *held = &held_s[curve - replay->fleet->curves];
                *held += seconds - curve->delay_s;
                seconds = *held + curve->delay_s;
            }
            slowest_s = later(slowest_s, seconds);
        }
    }
    free(held_s);
    return slowest_s;
}

/* When the last backward of all ends, and of which pipeline. */
static double
backwards_end(const struct replay *replay, int *pipeline)
{
    double ended_s = -1.0;
    for (int s = replay->stages - 1; s >= 0; s--) {
        for (int lane = 0; lane < replay->lanes; lane++) {
            const struct hand *hand = &replay->hands[lane * replay->stages + s];
            if (hand->last_ended_s <= ended_s)
                continue;
            ended_s = hand->last_ended_s;
            *pipeline = replay->pipeline[lane];
        }
    }
    return ended_s;
}

/* Reduce a stage's gradients, from a time on at the earliest, bucket by bucket; when the
 * last is done. */
static double
reduce_stage(struct replay *replay, int stage, double from_s, struct bound *bound)
{
    const struct fleet_plan *plan = replay->plan;
    const struct framework *framework = &replay->request->framework;
    double bytes = 0.0;
    for (int l = 0; l < plan->layers[stage]; l++)
        bytes += (plan->precision == PRECISION_BF16 ? 2.0 : 4.0) *
                 (double)replay->fleet->table.sizes[0][plan->first_layer[stage] + l]
                     .parameters;
    bytes += stage + 1 == plan->stages_count ? tied_bytes(replay->fleet) : 0.0;
    double done_s = from_s;
    double left = bytes;
    double size = framework->bucket_bytes;
    if (!(size > bytes / 4096.0))
        size = bytes / 4096.0;
    do {
        double bucket = left < size ? left : size;
        left -= bucket;
        double part = framework->overlap && bytes > 0.0 ? 1.0 - left / bytes : 1.0;
        for (int lane = 0; lane < replay->lanes; lane++) {
            const struct hand *hand = &replay->hands[lane * replay->stages + stage];
            double ready_s =
                hand->last_began_s + part * (hand->last_ended_s - hand->last_began_s);
            done_s = later(done_s, ready_s);
        }
        if (plan->width == 1)
            continue;
        struct ring ring = ring_slowest(replay, stage, bucket / (double)plan->width);
        double hops = 2.0 * (double)(plan->width - 1);
        if (ring.line >= 0) {
            done_s = later(done_s, replay->line_free[ring.line]);
            replay->line_free[ring.line] = done_s + hops * ring.shared_s;
        }
        done_s += hops * ring.hop_s;
        bound->link_from = ring.from_pool;
        bound->link_to = ring.to_pool;
    } while (left > 0.0);
    return done_s;
}

/* Everybody hears from everybody: the longest way there and back among the plan's pools. */
static double
commit_s(const struct replay *replay)
{
    int used[FLEET_POOLS_MAX];
    fleet_plan_devices(replay->plan, used);
    double slowest_s = 0.0;
    for (int a = 0; a < replay->fleet->pools_count; a++) {
        for (int b = a; used[a] > 0 && b < replay->fleet->pools_count; b++) {
            const struct fleet_curve *there = fleet_curve(replay->fleet, a, 0, b, 0);
            const struct fleet_curve *back = fleet_curve(replay->fleet, b, 0, a, 0);
            if (used[b] == 0 || (a == b && used[a] < 2) || !there || !back)
                continue;
            slowest_s = later(slowest_s, there->delay_s + back->delay_s);
        }
    }
    return slowest_s;
}

static void
replay_end(struct replay *replay, struct estimate *out)
{
    struct bound *bound = &out->bound;
    double ended_s = backwards_end(replay, &bound->pipeline);
    double from_s = replay->request->framework.overlap ? 0.0 : ended_s;
    double reduced_s = 0.0;
    double update_s = 0.0;
    int reduce_from = -1;
    int reduce_to = -1;
    for (int s = replay->stages - 1; s >= 0; s--) {
        struct stage_estimate *stage = &out->stages[s];
        double backward_s = from_s;
        for (int lane = 0; lane < replay->lanes; lane++) {
            const struct hand *hand = &replay->hands[lane * replay->stages + s];
            stage->compute_s =
                later(stage->compute_s, hand->forward_s + hand->backward_s);
            stage->update_s = later(stage->update_s, hand->update_s);
            backward_s = later(backward_s, hand->last_ended_s);
        }
        struct bound ring = {.link_from = -1, .link_to = -1};
        double done_s = reduce_stage(replay, s, from_s, &ring);
        stage->reduce_s = done_s - backward_s;
        for (int j = 0; replay->on_event && j < replay->plan->width; j++) {
            struct step_event event = {STEP_REDUCE, s, j, -1, -1, backward_s, done_s};
            if (done_s > backward_s)
                replay->on_event(replay->context, &event);
        }
        update_s = later(update_s, stage->update_s);
        if (done_s > reduced_s) {
            reduced_s = done_s;
            bound->reduce_stage = s;
            reduce_from = ring.link_from;
            reduce_to = ring.link_to;
        }
    }
    double commit = tie_s(replay) + commit_s(replay);
    for (int s = 0; replay->on_event && s < replay->stages; s++) {
        for (int j = 0; j < replay->plan->width; j++) {
            double start_s = reduced_s + commit;
            struct step_event event = {
                STEP_UPDATE, s, j, -1, -1, start_s, start_s + out->stages[s].update_s};
            replay->on_event(replay->context, &event);
        }
    }
    bound->part_s[BOUND_REDUCE] = reduced_s - ended_s + commit;
    bound->part_s[BOUND_UPDATE] = update_s;
    out->iteration_s = reduced_s + commit + update_s;

    int lane = replay->lane[bound->pipeline];
    const struct hand *hands = &replay->hands[lane * replay->stages];
    for (int s = 0; s < replay->stages; s++)
        if (hands[s].busy_s > hands[bound->stage].busy_s)
            bound->stage = s;
    const struct hand *slowest = &hands[bound->stage];
    bound->part_s[BOUND_COMPUTE] = slowest->busy_s;
    bound->part_s[BOUND_TRANSFER] = slowest->sending_s;
    bound->part_s[BOUND_FILL] = ended_s - slowest->busy_s - slowest->sending_s;
    for (int part = 0; part <= BOUND_UPDATE; part++)
        if (bound->part_s[part] > bound->part_s[bound->what])
            bound->what = (enum bound_kind)part;
    if (bound->what == BOUND_REDUCE) {
        bound->link_from = reduce_from;
        bound->link_to = reduce_to;
    } else if (replay->stages > 1) {
        int other =
            bound->stage + 1 < replay->stages ? bound->stage + 1 : bound->stage - 1;
        bound->link_from =
            fleet_plan_replica(replay->plan, bound->stage, bound->pipeline)->pool;
        bound->link_to = fleet_plan_replica(replay->plan, other, bound->pipeline)->pool;
    }
}

/* What a stage sends for one micro-batch, in the slowest pipeline. */
static void
estimate_transfers(const struct replay *replay, struct estimate *out)
{
    for (int lane = 0; lane < replay->lanes; lane++) {
        for (int s = 0; s < replay->stages; s++) {
            const struct hand *hand = &replay->hands[lane * replay->stages + s];
            const struct layer_size *sizes = replay->fleet->table.sizes[0];
            int first = replay->plan->first_layer[s];
            int last = first + replay->plan->layers[s] - 1;
            double sum = 0.0;
            if (hand->forward_link)
                sum += fleet_send_s(hand->forward_link,
                                    (double)sizes[last].output_bytes * replay->message);
            if (hand->backward_link)
                sum +=
                    fleet_send_s(hand->backward_link,
                                 (double)sizes[first - 1].output_bytes * replay->message);
            out->stages[s].transfer_s = later(out->stages[s].transfer_s, sum);
        }
    }
}

int
replay_evaluate(const struct fleet_plan *plan, const struct fleet_request *request,
                const struct fleet *fleet, step_event_fn *on_event, void *context,
                struct estimate *out, struct err *err)
{
    struct replay replay = {
        .plan = plan,
        .request = request,
        .fleet = fleet,
        .on_event = on_event,
        .context = context,
        .stages = plan->stages_count,
    };
    replay_prepare(&replay);
    int hands = replay.lanes * replay.stages;
    for (int h = 0; h < hands; h++)
        hand_start(&replay, h, 0.0);
    while (replay.events_count > 0) {
        struct event event = event_pop(&replay);
        if (replay.hands[event.hand].taking)
            hand_take(&replay, event.hand, event.at_s);
        else
            hand_finish(&replay, event.hand, event.at_s);
    }
    for (int h = 0; h < hands; h++)
        must(replay.hands[h].next == 2 * replay.hands[h].micro_batches);
    estimate_transfers(&replay, out);
    replay_end(&replay, out);
    free(replay.lane);
    free(replay.pipeline);
    free(replay.hands);
    free(replay.events);
    free(replay.forward_at);
    free(replay.backward_at);
    free(replay.line_free);
    free(replay.crossings);
    if (!(out->iteration_s < FLEET_NEVER_S))
        return err_set(err, ERR_PLAN, "a link of the plan carries nothing");
    return 0;
}
