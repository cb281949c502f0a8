/*
 * What goes by or about the ways between nodes: frames to be carried, carried ones, words
 * of carriers, and questions and answers about an address. Each body as it comes, and with
 * what it carries well formed and signed. A body is refused with a sentence, or done; what
 * is handed on was signed by whom it names.
 */
#include "node/node.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/codec.h"
#include "transport/mesh_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum mode {
    MODE_CARRY,
    MODE_CARRIED,
    MODE_LOST,
    MODE_HELLO,
    MODE_ASK,
    MODE_REPLY,
    MODE_CARRY_SIGNED,
    MODE_CARRIED_SIGNED,
    MODE_REPLY_AWAITED,
    MODES
};

static const struct id swarm = {{1}};
static struct node node;
static struct key *maker, *other;
static struct mesh_peer *peer;
static uint64_t handed_on, sequence;

static void
on_frame(void *arg, const struct frame *frame)
{
    (void)arg;
    must(id_equal(&frame->from, key_id(maker)) && id_equal(&frame->to, &node.id));
    must(frame->proven && id_equal(&frame->swarm, &swarm));
    handed_on++;
}

static void
on_peer(void *arg, const struct id *id, enum mesh_event event)
{
    (void)arg;
    (void)id;
    (void)event;
}

/* A member at an address that its record names, so that it may be dialled back. */
static void
meet(const struct key *key, const char *address)
{
    struct record record = {.id = *key_id(key),
                            .incarnation = UINT64_C(1) << 32,
                            .memory_bytes = 1 << 28,
                            .zone = "a",
                            .name = "n",
                            .device = "cpu"};
    struct buf bytes = {0};
    struct err err;
    snprintf(record.address, sizeof(record.address), "%s", address);
    secret_admit(node.secret, &swarm, &record.id, record.admission);
    record_sign(&record, key, &swarm, &bytes);
    must(gossip_merge(node.gossip, 1, bytes.data, bytes.len, &node.effects, &err) == 0);
    effects_release(&node.effects);
    buf_release(&bytes);
    admit_allow(node.admit, key_id(key));
}

static void
open_mesh(void)
{
    struct err err;
    struct mesh_options options = {
        .key = node.key, .swarm = swarm, .boot = 1, .frame = on_frame, .peer = on_peer};
    must(address_parse("127.0.0.1:1", &options.listen, &err) == 0);
    for (int i = 0; i < 100 && !node.mesh; i++) {
        options.listen.port = (uint16_t)(20000 + ((int)getpid() * 7 + i * 131) % 30000);
        node.mesh = mesh_open(node.loop, node.admit, &options, &err);
    }
    must(node.mesh);
}

static void
setup(void)
{
    struct err err;
    struct address advertise;
    static char folder[] = "/tmp/fuzz_ways.XXXXXX";
    must(key_setup(&err) == 0 && loop_setup(1, &err) == 0 && mkdtemp(folder));
    log_setup(LOG_ERROR, false);
    node.key = key_from_seed((const uint8_t[32]){1});
    maker = key_from_seed((const uint8_t[32]){2});
    other = key_from_seed((const uint8_t[32]){3});
    node.id = *key_id(node.key);
    node.swarm = swarm;
    node.secret = secret_parse(
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", &err);
    node.loop = loop_new();
    node.admit = admit_open(node.loop, &err);
    node.events = events_open(folder, &err);
    must(node.secret && node.admit && node.events);
    struct gossip_options gossip = {.key = node.key,
                                    .swarm = swarm,
                                    .admit_id = *secret_admit_id(node.secret),
                                    .seed = 1};
    node.gossip = gossip_new(&gossip, 1);
    node.links = links_new();
    must(address_parse("127.0.0.1:7700", &advertise, &err) == 0);
    node.config.advertise = advertise;
    node.reach = reach_new(&advertise, false);
    open_mesh();
    meet(maker, "127.0.0.1:9");
    meet(other, "127.0.0.1:12");
    peer = mesh_find_or_add(node.mesh, key_id(maker));
}

/* A frame that `maker` makes of the input: its kind, to whom, and a body. */
static bool
make_inner(const uint8_t *data, size_t size, struct buf *out)
{
    if (size < 2)
        return false;
    enum frame_kind kind = (enum frame_kind)data[0];
    const struct id *to = data[1] & 1 ? key_id(other) : &node.id;
    if (size - 2 > frame_kind_bytes_max(kind) || frame_kind_bytes_max(kind) == 0)
        return false;
    frame_pack(maker, &swarm, kind, to, ++sequence + (data[1] >> 1), data + 2, size - 2,
               out);
    if (data[1] & 2)
        out->data[data[size - 1] % out->len] ^= 1;
    return true;
}

static void
carry(enum frame_kind kind, const uint8_t *data, size_t size, bool make)
{
    struct buf inner = {0}, body = {0};
    struct err err = {0};
    if (make && make_inner(data, size, &inner)) {
        writer_array(&body, kind == FRAME_CARRY ? 2 : 1);
        if (kind == FRAME_CARRY)
            writer_id(&body, key_id(other));
        writer_bytes(&body, inner.data, inner.len);
    } else if (!make) {
        buf_add(&body, data, size);
    }
    struct frame frame = {.kind = kind,
                          .swarm = swarm,
                          .from = *key_id(maker),
                          .to = node.id,
                          .body = body.data ? body.data : (const uint8_t *)"",
                          .body_len = body.len};
    const char *why = mesh_carry_take(peer, &frame, &err);
    must(!why || why[0]);
    buf_release(&inner);
    buf_release(&body);
}

static void
ask(const uint8_t *data, size_t size)
{
    struct frame frame = {
        .kind = FRAME_REACH_ASK, .from = *key_id(maker), .body = data, .body_len = size};
    struct err err = {0};
    node.checks.at_ms = 0;
    if (paths_ask(&node, &frame, &err))
        must(err.code == ERR_WIRE && err.msg[0]);
}

/* The answer that is awaited, with what the input says. */
static void
make_reply(const uint8_t *data, size_t size, struct buf *body)
{
    static int64_t now = 1000;
    struct id asked;
    struct address base;
    uint64_t nonce = 0;
    now += REACH_AGAIN_MS;
    reach_ask(node.reach, now, key_id(maker), 1, &asked, &base, &nonce);
    char host[MESH_HOST_BYTES_MAX] = "";
    for (size_t i = 1; i < size && i < sizeof(host); i++)
        host[i - 1] = (char)(data[i] < 0x20 || data[i] == 0x7f ? '1' : data[i]);
    writer_array(body, 3);
    writer_uint(body, nonce);
    writer_text(body, host);
    writer_array(body, 3);
    for (int i = 0; i < 3; i++)
        writer_uint(body, size > 0 ? data[0] >> 2 * i & 3 : 0);
}

static void
reply(const uint8_t *data, size_t size, bool awaited)
{
    struct buf body = {0};
    struct err err = {0};
    if (awaited)
        make_reply(data, size, &body);
    else
        buf_add(&body, data, size);
    struct frame frame = {.kind = FRAME_REACH_REPLY,
                          .from = *key_id(maker),
                          .body = body.data ? body.data : (const uint8_t *)"",
                          .body_len = body.len};
    if (paths_reply(&node, &frame, &err))
        must(!awaited && err.code == ERR_WIRE && err.msg[0]);
    effects_release(&node.effects);
    buf_release(&body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!maker)
        setup();
    if (size < 1)
        return 0;
    enum mode mode = (enum mode)(data[0] % MODES);
    data++, size--;
    switch (mode) {
    case MODE_CARRY:
    case MODE_CARRY_SIGNED:
        carry(FRAME_CARRY, data, size, mode == MODE_CARRY_SIGNED);
        break;
    case MODE_CARRIED:
    case MODE_CARRIED_SIGNED:
        carry(FRAME_CARRIED, data, size, mode == MODE_CARRIED_SIGNED);
        break;
    case MODE_LOST:
        carry(FRAME_CARRY_LOST, data, size, false);
        break;
    case MODE_HELLO:
        carry(FRAME_HELLO, data, size, false);
        break;
    case MODE_ASK:
        ask(data, size);
        break;
    default:
        reply(data, size, mode == MODE_REPLY_AWAITED);
        break;
    }
    return 0;
}
