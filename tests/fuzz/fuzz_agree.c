/* Bytes from outside that agreement reads: frames' bodies, an export, the saved state.
 * One byte chooses which. */
#include "gossip/agree_state.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct key *
key_once(void)
{
    static struct key *key;
    struct err err;
    uint8_t seed[32] = {1};
    if (!key) {
        must(key_setup(&err) == 0);
        key = key_from_seed(seed);
    }
    return key;
}

/* A state with a right checksum, so that what is under it is reached. */
static void
load(const struct agree_options *options, const uint8_t *data, size_t size)
{
    struct err err;
    struct buf blob = {0};
    struct id hash;
    key_hash(data, size, &hash);
    buf_add(&blob, "flagree2", 8);
    buf_add(&blob, hash.bytes, ID_BYTES);
    buf_add(&blob, data, size);
    agree_free(agree_new(options, 0, blob.data, blob.len, &err));
    buf_release(&blob);
}

static void
hear(struct agree *agree, enum frame_kind kind, const uint8_t *data, size_t size)
{
    struct err err;
    struct effects effects = {0};
    struct frame frame = {.kind = kind,
                          .swarm = agree->swarm,
                          .from = {{2}},
                          .to = agree->self,
                          .body = data,
                          .body_len = size};
    uint64_t epoch = agree->decree.epoch, promised = agree->promised;
    if (agree_receive(agree, 100, &frame, &effects, &err))
        must(effects.count == 0 && epoch == agree->decree.epoch &&
             promised == agree->promised);
    effects_clear(&effects);
    agree_tick(agree, 200, &effects);
    effects_release(&effects);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct agree_options options = {.key = key_once()};
    struct err err;
    struct effects effects = {0};
    if (data[0] == 0) {
        load(&options, data + 1, size - 1);
        return 0;
    }
    struct agree *agree = agree_new(&options, 0, NULL, 0, &err);
    if (data[0] == 1) {
        agree_import(agree, 0, data + 1, size - 1, &effects, &err);
    } else {
        uint8_t nonce[ID_BYTES] = {1};
        agree_found(agree, 0, 1, nonce, "plan", 4, &effects);
        hear(agree, (enum frame_kind)(FRAME_BEAT + data[0] % 11), data + 1, size - 1);
    }
    effects_release(&effects);
    agree_free(agree);
    return 0;
}
