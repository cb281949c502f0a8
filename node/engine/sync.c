#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whose place in `workers` it is: stage by stage, pipeline by pipeline. */
static int
worker_place(const struct plan *plan, int stage, int pipeline)
{
    return stage * plan->pipelines_count + pipeline;
}

static int
stage_tensors(const struct train *train, int stage)
{
    const struct plan_stage *of = &train->epoch->plan.stages[stage];
    int first, count, last, last_count;
    workload_layer_tensors(&train->shape, of->first_layer, &first, &count);
    workload_layer_tensors(&train->shape, of->first_layer + of->layers - 1, &last,
                           &last_count);
    return last + last_count - first;
}

static uint8_t *
message_at(const struct commit *commit, int place)
{
    return commit->messages + (size_t)place * commit->message_bytes_max;
}

void
commit_open(struct train *train)
{
    const struct plan *plan = &train->epoch->plan;
    struct commit *commit = &train->commit;
    memset(commit, 0, sizeof(*commit));
    size_t count = (size_t)plan->stages_count * (size_t)plan->pipelines_count;
    commit->workers_count = (int)count;
    commit->workers = xcalloc(count, sizeof(*commit->workers));
    commit->bytes = xcalloc(count, sizeof(*commit->bytes));
    commit->receives = xcalloc(count, sizeof(*commit->receives));
    commit->sends = xcalloc(count, sizeof(*commit->sends));
    for (int s = 0; s < plan->stages_count; s++) {
        size_t sums = (size_t)stage_tensors(train, s) * sizeof(double);
        for (int j = 0; j < plan->pipelines_count; j++) {
            int place = worker_place(plan, s, j);
            commit->workers[place] = plan->stages[s].nodes[j];
            commit->bytes[place] = sizeof(struct commit_head) + (j == 0 ? sums : 0);
            if (commit->bytes[place] > commit->message_bytes_max)
                commit->message_bytes_max = commit->bytes[place];
        }
    }
    commit->own = worker_place(plan, train->stage_number, train->pipeline);
    commit->messages = xcalloc(count, commit->message_bytes_max);
}

void
commit_close(struct train *train)
{
    struct commit *commit = &train->commit;
    free(commit->workers);
    free(commit->bytes);
    free(commit->receives);
    free(commit->sends);
    free(commit->messages);
    memset(commit, 0, sizeof(*commit));
}

void
commit_post(struct train *train, int64_t step)
{
    struct commit *commit = &train->commit;
    for (int i = 0; i < commit->workers_count; i++)
        if (i != commit->own)
            commit->receives[i] = bulk_receive(
                train_port(train, BULK_COMMIT), commit->workers[i], BULK_COMMIT,
                (uint64_t)step, message_at(commit, i), commit->bytes[i]);
}

/* ---- gradients ---- */

static void
ring_stalled(void *arg, int peer, int64_t waited_ms)
{
    struct train *train = arg;
    train_stalled(train, WAIT_REDUCE, peer, waited_ms);
}

static int
exchange_tied(struct train *train, int64_t step, struct err *err)
{
    size_t count = 0;
    float *own = stage_tied_gradient(train->stage, &count);
    if (train->tied < 0) {
        stage_tied_combine(train->stage, NULL);
        return 0;
    }
    must(own && (int64_t)count == train->communication.tied);
    struct bulk_port *port = train_port(train, BULK_REDUCE);
    size_t bytes = count * sizeof(float);
    uint32_t in = bulk_receive(port, train->tied, BULK_REDUCE, (uint64_t)step,
                               train->tied_gradient, bytes);
    uint32_t out = bulk_send(port, train->tied, BULK_REDUCE, (uint64_t)step, own, bytes);
    if (train_wait(train, BULK_REDUCE, &in, WAIT_TIED, train->tied, err) ||
        train_wait(train, BULK_REDUCE, &out, WAIT_SEND, train->tied, err))
        return -1;
    stage_tied_combine(train->stage, train->tied_gradient);
    return 0;
}

int
sync_reduce(struct train *train, int64_t step, struct err *err)
{
    if (train_listen(train, err))
        return -1;
    if (train->ring.count > 1) {
        size_t count = 0;
        float *gradients = stage_gradients(train->stage, &count);
        if (group_ring_sum(&train->ring, (uint64_t)step, gradients, count,
                           train->reduction, train_wait_ms(train, WAIT_REDUCE),
                           ring_stalled, train, err))
            return -1;
    }
    return exchange_tied(train, step, err);
}

/* ---- the commit point ---- */

static void
write_own(struct train *train, int64_t step)
{
    const struct train_epoch *epoch = train->epoch;
    struct commit *commit = &train->commit;
    struct commit_head head = {.step = step, .applied = train->applied};
    if (train->next < 0) {
        head.loss_sum = train->loss_sum;
        head.tokens = (int64_t)train->micro_batches * epoch->plan.micro_batch *
                      train->shape.context;
    }
    if (train->previous < 0)
        head.samples = train->samples_sum;
    uint8_t *own = message_at(commit, commit->own);
    memcpy(own, &head, sizeof(head));
    if (train->pipeline == 0) {
        must((size_t)stage_norm_count(train->stage) * sizeof(double) + sizeof(head) ==
             commit->bytes[commit->own]);
        stage_norm_sums(train->stage, (double *)(void *)(own + sizeof(head)));
    }
}

int
commit_add_up(const struct train *train, int64_t step, struct commit_result *out,
              struct err *err)
{
    const struct plan *plan = &train->epoch->plan;
    int64_t all = (int64_t)train->epoch->request.sequences * train->shape.context;
    const struct commit *commit = &train->commit;
    double squares = 0, loss = 0;
    *out = (struct commit_result){0};
    for (int i = 0; i < commit->workers_count; i++) {
        struct commit_head head;
        memcpy(&head, message_at(commit, i), sizeof(head));
        if (head.step != step || head.applied != train->applied)
            return err_set(err, ERR_WIRE,
                           "peer %d is at step %lld with %lld applied, this node at %lld "
                           "with %lld",
                           commit->workers[i], (long long)head.step,
                           (long long)head.applied, (long long)step,
                           (long long)train->applied);
        if (head.tokens < 0 || head.tokens > all)
            return err_set(err, ERR_WIRE,
                           "peer %d counts %lld tokens of step %lld, which has %lld",
                           commit->workers[i], (long long)head.tokens, (long long)step,
                           (long long)all);
        loss += head.loss_sum;
        out->tokens += head.tokens;
        out->samples += head.samples;
    }
    for (int s = 0; s < plan->stages_count; s++) {
        int place = worker_place(plan, s, 0);
        const uint8_t *sums = message_at(commit, place) + sizeof(struct commit_head);
        size_t count =
            (commit->bytes[place] - sizeof(struct commit_head)) / sizeof(double);
        for (size_t i = 0; i < count; i++) {
            double sum;
            memcpy(&sum, sums + i * sizeof(sum), sizeof(sum));
            squares += sum;
        }
    }
    out->norm = sqrt(squares);
    out->loss = loss / (double)out->tokens;
    return 0;
}

int
commit_exchange(struct train *train, int64_t step, struct commit_result *out,
                struct err *err)
{
    struct commit *commit = &train->commit;
    struct bulk_port *port = train_port(train, BULK_COMMIT);
    for (int i = 0; i < commit->workers_count; i++)
        if (train_wait(train, BULK_COMMIT, &commit->sends[i], WAIT_SEND,
                       commit->workers[i], err))
            return -1; /* of the step before */
    if (train_listen(train, err))
        return -1;
    write_own(train, step);
    /* Before anybody can have it: whoever counts on our norm finds our gradients. */
    train->prepared = true;
    train->prepared_in = train->epoch->lineage;
    for (int i = 0; i < commit->workers_count; i++)
        if (i != commit->own)
            commit->sends[i] =
                bulk_send(port, commit->workers[i], BULK_COMMIT, (uint64_t)step,
                          message_at(commit, commit->own), commit->bytes[commit->own]);
    for (int i = 0; i < commit->workers_count; i++)
        if (train_wait(train, BULK_COMMIT, &commit->receives[i], WAIT_COMMIT,
                       commit->workers[i], err))
            return -1;
    return commit_add_up(train, step, out, err);
}
