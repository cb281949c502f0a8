/*
 * A whole node that leads three, and what it is told outside the cores: bodies of control
 * frames from members and from others, requests to join (as they come, and well signed),
 * a seed's answers (as they come, and the node's own changed), and the files of its data
 * folder. All of it is done, or refused with a sentence; nothing moves the epoch, and only
 * who signs for itself is let in.
 *
 * The door is invented here (transport/join.h), so that the fuzzer speaks right behind it.
 */
#include "node/node.h"
#include "tests/fuzz/leader.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum mode {
    MODE_FRAME,
    MODE_REQUEST,
    MODE_REQUEST_INVITED,
    MODE_REQUEST_SIGNED,
    MODE_ANSWER,
    MODE_ANSWER_CHANGED,
    MODE_FILE,
    MODES
};

static struct leader leader;
static struct node *node;
static const struct key *maker, *other, *invite;
static struct key *stranger, *joiner;
static struct buf own_answer;
static uint64_t door_answers;

/* ---- the door ---- */

struct join_server {
    join_request_fn fn;
    void *arg;
};
struct join_client {
    join_result_fn fn;
    void *arg;
};
static struct join_server door;
static struct join_client client;

struct join_server *
join_listen(struct loop *loop, const struct secret *secret, const struct address *listen,
            join_request_fn fn, void *arg, struct err *err)
{
    (void)loop;
    (void)secret;
    (void)listen;
    (void)err;
    door = (struct join_server){.fn = fn, .arg = arg};
    return &door;
}

void
join_server_close(struct join_server *server)
{
    (void)server;
}

void
join_server_answer(struct join_server *server, uint64_t ticket, const void *answer,
                   size_t len)
{
    (void)server;
    (void)ticket;
    must(answer && len > 0 && len <= FRAME_BYTES_MAX);
    door_answers++;
}

uint64_t
join_server_refused(const struct join_server *server)
{
    (void)server;
    return 0;
}

struct join_client *
join_dial(struct loop *loop, const struct join_keys *keys, const struct address *seed,
          const void *request, size_t len, join_result_fn fn, void *arg, struct err *err)
{
    (void)loop;
    (void)keys;
    (void)seed;
    (void)err;
    must(request && len > 0 && len <= JOIN_BYTES_MAX);
    client = (struct join_client){.fn = fn, .arg = arg};
    return &client;
}

void
join_client_close(struct join_client *closed)
{
    (void)closed;
}

/* ---- the door ---- */

static bool
knock(const struct id *invited, const void *body, size_t len, struct buf *answer)
{
    static uint64_t tickets;
    struct join_caller caller = {.ticket = ++tickets};
    if (invited)
        caller.invite = *invited;
    bool later = door.fn(door.arg, &caller, body, len, answer);
    must(!later || answer->len == 0);
    must(answer->len <= FRAME_BYTES_MAX);
    must(!admit_allowed(node->admit, key_id(stranger)));
    node_effects(node);
    return later;
}

/* A request that is signed by its joiner; the input says of what swarm, at what address,
 * by what invite, and what is wrong with it. */
static void
knock_signed(const uint8_t *data, size_t size)
{
    struct buf words = {0}, body = {0}, answer = {0};
    uint8_t how = size > 0 ? data[0] : 0;
    char address[ADDRESS_BYTES_MAX + 8] = "127.0.0.1:9";
    uint8_t signature[KEY_SIGNATURE_BYTES], proof[KEY_SIGNATURE_BYTES];
    struct id swarm = how & 1 ? node->swarm : (struct id){{0}};
    struct id id = *key_id(how & 64 ? stranger : joiner);
    if (how & 2)
        swarm.bytes[0] ^= 1;
    for (size_t i = 1; i < size && i < sizeof(address) && how & 4; i++)
        address[i - 1] = (char)(data[i] < 0x20 || data[i] == 0x7f ? '1' : data[i]);
    address[ADDRESS_BYTES_MAX - 1] = '\0';
    seed_join_words(&swarm, &id, address, &words);
    key_sign(joiner, words.data, words.len, signature); /* a stranger's is a lie */
    policy_proof(invite, &node->swarm, &id, proof);
    writer_array(&body, how & 8 ? 7 : 5);
    writer_uint(&body, how & 16 ? how : JOIN_VERSION);
    writer_id(&body, &swarm);
    writer_id(&body, &id);
    writer_text(&body, address);
    writer_bytes(&body, signature, sizeof(signature));
    if (how & 8) {
        writer_id(&body, key_id(invite));
        writer_bytes(&body, proof, sizeof(proof));
    }
    bool named = (how & 8) != 0;
    bool later = knock(named != !!(how & 32) ? key_id(invite) : NULL, body.data, body.len,
                       &answer);
    must(later || answer.len > 0);
    buf_release(&words);
    buf_release(&body);
    buf_release(&answer);
}

static void
setup(void)
{
    leader_open(&leader);
    node = leader.node;
    maker = leader.maker;
    other = leader.other;
    invite = leader.invite;
    stranger = key_from_seed((const uint8_t[32]){4});
    joiner = key_from_seed((const uint8_t[32]){6});
    /* It asks a member as a joiner does, so that answers can come. */
    enter_handed(node, key_id(maker), secret_make());
    must(client.fn);
    /* What the node itself would answer. */
    struct buf words = {0}, body = {0};
    uint8_t signature[KEY_SIGNATURE_BYTES];
    static const char address[] = "127.0.0.1:9";
    seed_join_words(&node->swarm, key_id(joiner), address, &words);
    key_sign(joiner, words.data, words.len, signature);
    writer_array(&body, 5);
    writer_uint(&body, JOIN_VERSION);
    writer_id(&body, &node->swarm);
    writer_id(&body, key_id(joiner));
    writer_text(&body, address);
    writer_bytes(&body, signature, sizeof(signature));
    knock(NULL, body.data, body.len, &own_answer);
    must(own_answer.len > 100 && admit_allowed(node->admit, key_id(joiner)));
    buf_release(&words);
    buf_release(&body);
}

/* ---- what it is told ---- */

static void
hear(const uint8_t *data, size_t size)
{
    static const enum frame_kind kinds[] = {
        FRAME_FREEZE,     FRAME_REPORT,       FRAME_EVIDENCE,   FRAME_SUBMIT,
        FRAME_PROGRESS,   FRAME_SUBMIT_REPLY, FRAME_LEAVE,      FRAME_EPOCH_ASK,
        FRAME_PROBE_ASK,  FRAME_EPOCH_REPLY,  FRAME_MEASURE,    FRAME_PROBE_ANSWER,
        FRAME_PROBE_DONE, FRAME_POLICY,       FRAME_SECRET,     FRAME_POLICY_REPLY,
        FRAME_SECRET_ASK, FRAME_REACH_ASK,    FRAME_REACH_REPLY};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    const struct key *const people[] = {maker, other, stranger};
    if (size < 1)
        return;
    enum frame_kind kind =
        data[0] < 250 ? kinds[data[0] % KINDS] : (enum frame_kind)(data[0] - 180);
    struct frame frame = {.kind = kind,
                          .swarm = node->swarm,
                          .from = *key_id(people[data[0] / KINDS % 3]),
                          .to = node->id,
                          .body = data + 1,
                          .body_len = size - 1};
    if (frame.body_len <= frame_kind_bytes_max(kind) || data[0] >= 250)
        frames_receive(node, &frame);
}

/* Answers come to who asks; what they say of another swarm is refused. */
static void
be_answered(const uint8_t *bytes, size_t len)
{
    client.fn(client.arg, JOIN_ANSWERED, bytes, len);
    must(node->entered && node->asks_again);
    node_effects(node);
}

static void
be_answered_changed(const uint8_t *data, size_t size)
{
    uint8_t *bytes = xmemdup(own_answer.data, own_answer.len);
    size_t len = own_answer.len;
    for (size_t i = 0; i + 3 <= size; i += 3) {
        size_t at = ((size_t)data[i] << 8 | data[i + 1]) % own_answer.len;
        bytes[at] ^= data[i + 2];
        if (data[i + 2] == 0)
            len = at; /* cut there */
    }
    uint8_t *exact = xmemdup(bytes, len);
    be_answered(exact, len);
    free(exact);
    free(bytes);
}

/* ---- what lies in its folder ---- */

static void
find(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"members.state",  "seeds.state",   "run.state",
                                        "settings.state", "invites.state", "boot",
                                        "identity.key",   "swarm.secret",  "swarm.id"};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    char path[PATH_BYTES_MAX];
    struct err err = {0};
    if (size < 1)
        return;
    int which = data[0] % NAMES;
    struct node_config config = node->config;
    snprintf(node->config.data, sizeof(node->config.data), "%s", leader.folder);
    path_join(path, leader.folder, names[which]);
    must(file_write(path, data + 1, size - 1, 0600, &err) == 0);
    struct reached reached;
    struct address listen;
    struct buf saved = {0};
    uint64_t boot = node->boot;
    struct id swarm = node->swarm;
    struct admission *admission = node->admission;
    struct key *key = NULL;
    struct secret *secret = NULL;
    switch (which) {
    case 0:
        local_load_members(node);
        break;
    case 1:
        seeds_recall(node);
        must(node->seeds_count >= 0 && node->seeds_count <= INVITE_SEEDS_MAX);
        break;
    case 2:
        reached_load(&reached, leader.folder);
        must(reached.step >= 0);
        break;
    case 3:
        if (local_listen(leader.folder, &listen))
            must(listen.port > 0 && listen.host[0]);
        local_recall(node);
        break;
    case 4:
        node->admission = NULL;
        admission_open(node);
        must(node->admission->times_count <= POLICY_INVITES_MAX);
        admission_close(node);
        node->admission = admission;
        break;
    case 5:
        if (local_count_boot(node, false, &err) == 0)
            must(node->boot > 1 || boot == 0);
        else
            must(err.msg[0]);
        break;
    case 6:
        key = key_open(path, NULL, &err);
        must(key || err.msg[0]);
        break;
    case 7:
        secret = secret_read(path, &err);
        must(secret || err.msg[0]);
        break;
    default:
        must(local_load_swarm(node, &saved, &err) == 0 || err.msg[0]);
        break;
    }
    key_free(key);
    secret_free(secret);
    buf_release(&saved);
    node->boot = boot;
    node->swarm = swarm;
    file_remove_tree(path, &err);
    node->config = config;
    node_effects(node);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf answer = {0};
    if (!node)
        setup();
    if (size < 1)
        return 0;
    uint64_t epoch = node->decree.epoch;
    enum mode mode = (enum mode)(data[0] % MODES);
    data++, size--;
    switch (mode) {
    case MODE_FRAME:
        hear(data, size);
        break;
    case MODE_REQUEST:
        must(!knock(NULL, data, size, &answer) && answer.len > 0);
        break;
    case MODE_REQUEST_INVITED:
        must(knock(key_id(invite), data, size, &answer) || answer.len > 0);
        break;
    case MODE_REQUEST_SIGNED:
        knock_signed(data, size);
        break;
    case MODE_ANSWER:
        be_answered(data, size);
        break;
    case MODE_ANSWER_CHANGED:
        be_answered_changed(data, size);
        break;
    default:
        find(data, size);
        break;
    }
    must(node->decree.epoch == epoch && node->member);
    buf_release(&answer);
    return 0;
}
