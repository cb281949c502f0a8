/*
 * A whole node that leads three, and what it is told outside the cores: bodies of control
 * frames from members and from others, requests to join (as they come, and well signed),
 * a seed's answers (as they come, and the node's own changed), and the files of its data
 * folder. All of it is done, or refused with a sentence; nothing moves the epoch, and only
 * who signs for itself is let in.
 *
 * The door is invented here (transport/join.h), so that the fuzzer speaks right behind it,
 * and so is the log.
 */
#include "node/node.h"
#include "node/voters.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static char folder[] = "/tmp/fuzz_node.XXXXXX";
static struct node *node;
static struct key *maker, *other, *stranger, *joiner, *invite;
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

/* ---- the log: nobody reads it here ---- */

void
log_setup(enum log_level level, bool json)
{
    (void)level;
    (void)json;
}

bool
log_site_open(struct log_site *site, unsigned *left_out)
{
    (void)site;
    *left_out = 0;
    return true;
}

void
log_write(enum log_level level, const char *subsystem, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    must(level <= LOG_DEBUG && subsystem[0] && line[0]);
}

/* ---- a swarm of three, one of them here ---- */

static void
clean_up(void)
{
    struct err err;
    file_remove_tree(folder, &err);
}

static void
open_node(void)
{
    struct node_config config;
    struct err err = {0};
    char data[sizeof(folder) + 8];
    must(mkdtemp(folder));
    atexit(clean_up);
    snprintf(data, sizeof(data), "%s/one", folder);
    for (int i = 0; i < 100 && !node; i++) {
        config_init(&config);
        snprintf(config.data, sizeof(config.data), "%s", data);
        config.engine_off = true;
        must(address_parse("127.0.0.1:1", &config.listen, &err) == 0);
        config.listen.port = (uint16_t)(20000 + ((int)getpid() * 7 + i * 131) % 30000);
        config.advertise = config.listen;
        node = node_open(&config, &err);
        config_release(&config);
    }
    must(node && node->entered);
}

static void
add_member(struct view *view, const struct key *key)
{
    struct report report = {.id = *key_id(key),
                            .term = agree_term(node->agree),
                            .epoch = node->decree.epoch,
                            .progress = {.reported = true, .applied = -1},
                            .profile = {.correction_ppm = 1000000}};
    struct buf record = {0}, bytes = {0};
    struct err err = {0};
    report.record = (struct record){.id = report.id,
                                    .incarnation = UINT64_C(1) << 32,
                                    .memory_bytes = 1 << 28,
                                    .zone = "default",
                                    .name = "n",
                                    .address = "127.0.0.1:9",
                                    .device = "cpu"};
    secret_admit(node->secret, &node->swarm, &report.id, report.record.admission);
    const struct member *self = gossip_member_self(node->gossip);
    bool own = key == node->key;
    if (own)
        buf_add(&record, self->bytes, self->len);
    else
        record_sign(&report.record, key, &node->swarm, &record);
    report_sign(&report, record.data, record.len, key, &node->swarm, &bytes);
    must(view_report(view, bytes.data, bytes.len, &node->swarm,
                     secret_admit_id(node->secret), &err) == 0);
    if (!own)
        must(gossip_merge(node->gossip, clock_ms(), record.data, record.len,
                          &node->effects, &err) == 0);
    buf_release(&record);
    buf_release(&bytes);
}

/* An epoch of three with an open invite, decided by the founder alone. */
static void
make_epoch(void)
{
    struct view *view = xcalloc(1, sizeof(*view));
    struct decree_member members[3];
    struct id voters[VOTERS_MAX];
    struct buf bytes = {0};
    struct err err = {0};
    view_begin(view, node->view);
    add_member(view, node->key);
    add_member(view, maker);
    add_member(view, other);
    struct policy_request request = {.from = node->id,
                                     .version = view->policy.version,
                                     .op = POLICY_INVITE,
                                     .subject = *key_id(invite),
                                     .uses = 3,
                                     .left_s = 1000000,
                                     .votes = true};
    policy_request_sign(&request, node->key, &node->swarm, &bytes);
    must(policy_apply(&view->policy, &request, &node->swarm, bytes.data, bytes.len,
                      &err) == 0);
    must(view_derive(view, node->view, &err) == 0);
    for (uint32_t i = 0; i < 3; i++)
        members[i] = (struct decree_member){view->reports[i].id,
                                            view->reports[i].record.incarnation};
    uint32_t count = voters_choose(&node->decree, view, voters);
    buf_clear(&bytes);
    view_encode(view, &bytes);
    must(agree_propose(node->agree, clock_ms(), CAUSE_JOIN, members, 3, voters, count,
                       bytes.data, bytes.len, &node->effects, &err) == 0);
    node_effects(node);
    must(epoch_number(node->decree.epoch) == 2 && node->member);
    must(decree_member(&node->decree, key_id(maker)));
    must(admission_invite_open(node, key_id(invite)));
    buf_release(&bytes);
    view_release(view);
    free(view);
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
    struct err err = {0};
    must(key_setup(&err) == 0);
    maker = key_from_seed((const uint8_t[32]){2});
    other = key_from_seed((const uint8_t[32]){3});
    stranger = key_from_seed((const uint8_t[32]){4});
    invite = key_from_seed((const uint8_t[32]){5});
    joiner = key_from_seed((const uint8_t[32]){6});
    open_node();
    make_epoch();
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
    snprintf(node->config.data, sizeof(node->config.data), "%s", folder);
    path_join(path, folder, names[which]);
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
        reached_load(&reached, folder);
        must(reached.step >= 0);
        break;
    case 3:
        if (local_listen(folder, &listen))
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
