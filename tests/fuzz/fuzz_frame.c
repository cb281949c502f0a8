/*
 * Any bytes as a frame. The fuzzer cannot sign, so that the first byte chooses: bytes as
 * they are, or fields made of the bytes and signed truly, which then must come back.
 */
#include "transport/base/limits.h"
#include "transport/base/must.h"
#include "transport/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct key *
signer(void)
{
    static struct key *key;
    static const uint8_t seed[32] = {1};
    struct err err;
    if (!key) {
        must(key_setup(&err) == 0);
        key = key_from_seed(seed);
    }
    return key;
}

static void
pack_and_unpack(const uint8_t *data, size_t size)
{
    static const struct id swarm = {{2}}, to = {{3}};
    enum frame_kind kind = (enum frame_kind)data[0];
    if (size - 1 > frame_kind_bytes_max(kind) || frame_kind_bytes_max(kind) == 0)
        return;
    struct buf out = {0};
    struct frame frame;
    struct err err;
    frame_pack(signer(), &swarm, kind, &to, size, data + 1, size - 1, &out);
    must(frame_unpack(out.data, out.len, &frame, &err) == 0);
    must(frame.kind == kind && frame.sequence == size && frame.body_len == size - 1);
    must(memcmp(frame.body, data + 1, size - 1) == 0);
    must(id_equal(&frame.to, &to) && id_equal(&frame.swarm, &swarm));
    out.data[data[size - 1] % out.len] ^= 1;
    must(frame_unpack(out.data, out.len, &frame, &err) == -1 && err.msg[0]);
    buf_release(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame frame;
    struct err err = {0};
    if (size > 1 && data[0] == 's') {
        pack_and_unpack(data + 1, size - 1);
    } else if (frame_unpack(data, size, &frame, &err)) {
        must((err.code == ERR_WIRE || err.code == ERR_AUTH) && err.msg[0]);
    }
    return 0;
}
