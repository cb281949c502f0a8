/*
 * What one trainer tells another over the data plane that is more than numbers of a model:
 * commit messages of a step, which add up or are refused, and the header of a copy.
 */
#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEP = 5, STAGES = 2, PIPELINES = 2, WORKERS = STAGES * PIPELINES };

static struct train train;
static struct train_epoch epoch;

static void
setup(void)
{
    static const struct model_shape shape = {
        .blocks = 2, .heads = 1, .hidden = 2, .context = 8, .vocabulary = 4};
    epoch = (struct train_epoch){
        .request = {.shape = shape, .sequences = 6},
        .plan = {.micro_batch = 1, .stages_count = STAGES, .pipelines_count = PIPELINES}};
    for (int s = 0; s < STAGES; s++)
        epoch.plan.stages[s] = (struct plan_stage){
            .first_layer = 2 * s, .layers = 2, .nodes = {2 * s, 2 * s + 1}};
    train = (struct train){.shape = shape, .epoch = &epoch, .applied = STEP - 1};
    commit_open(&train);
}

/* Every worker's message is of the input; with an odd first byte it is of the right step,
 * which changes alone would seldom be. */
static void
commit(const uint8_t *data, size_t size)
{
    struct commit *commit = &train.commit;
    size_t at = 1;
    for (int i = 0; i < WORKERS; i++) {
        uint8_t *message = commit->messages + (size_t)i * commit->message_bytes_max;
        struct commit_head head = {.step = STEP, .applied = STEP - 1};
        size_t skip = data[0] & 1 ? 2 * sizeof(int64_t) : 0;
        memcpy(message, &head, sizeof(head));
        for (size_t b = skip; b < commit->bytes[i]; b++)
            message[b] = at < size ? data[at++] : 0;
    }
    struct commit_result out;
    struct err err = {0};
    if (commit_add_up(&train, STEP, &out, &err))
        must(err.code == ERR_WIRE && err.msg[0]);
    else
        must(out.tokens >= 0 && out.tokens <= 6 * 8 * WORKERS);
}

static void
copy(const uint8_t *data, size_t size)
{
    const struct state_name due = {.step = STEP, .lineage = {7, 9}};
    struct copy_header header = {.name = due};
    struct err err = {0};
    size_t skip = data[0] & 2 ? sizeof(header.name) : 0;
    if (size - 1 > sizeof(header) - skip)
        size = sizeof(header) - skip + 1;
    memcpy((uint8_t *)&header + skip, data + 1, size - 1);
    if (copy_header_check(&header, &due, 3, &err))
        must(err.code == ERR_WIRE && err.msg[0]);
    else
        must(header.copied_step <= header.name.step && header.name.step == STEP);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!train.epoch)
        setup();
    if (size < 1)
        return 0;
    commit(data, size);
    copy(data, size);
    return 0;
}
