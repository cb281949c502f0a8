#include "transport/admit.h"
#include "transport/base/alloc.h"
#include "transport/base/limits.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
    PART_BYTES_MAX = 256, /* of a ZAP request; longer ones are refused */
    REQUESTS_PER_TURN = 64
};

struct entry {
    uint8_t curve[KEY_CURVE_BYTES];
    struct id node;
};

struct admit {
    struct loop *loop;
    void *socket;
    bool joiner_known;
    uint8_t joiner[KEY_CURVE_BYTES];
    int count;
    struct entry entries[MEMBERS_MAX]; /* sorted by curve */
    size_t invites_count, evicted_count;
    struct entry invites[ADMIT_INVITES_MAX];
    struct entry evicted[ADMIT_EVICTED_MAX];
    struct id self; /* empty: not told yet */
    uint8_t self_curve[KEY_CURVE_BYTES];
    void (*twin)(void *arg, const char *from);
    void *twin_arg;
    uint64_t refused;
};

enum part { VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIAL, PARTS };

struct request {
    int parts; /* those that came, also those beyond what we keep */
    size_t len[PARTS];
    char part[PARTS][PART_BYTES_MAX + 1];
};

static int
entry_compare(const void *left, const void *right)
{
    return memcmp(left, right, KEY_CURVE_BYTES);
}

static const struct entry *
find(const struct admit *admit, const uint8_t curve[KEY_CURVE_BYTES])
{
    return bsearch(curve, admit->entries, (size_t)admit->count, sizeof(struct entry),
                   entry_compare);
}

/* The same in a short list that is not sorted. */
static const struct entry *
find_in(const struct entry *list, size_t count, const uint8_t curve[KEY_CURVE_BYTES])
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(list[i].curve, curve, KEY_CURVE_BYTES) == 0)
            return &list[i];
    return NULL;
}

/* All parts of one request; false when there is none. */
static bool
receive(void *socket, struct request *request)
{
    memset(request, 0, sizeof(*request));
    bool more = true;
    while (more) {
        zmq_msg_t msg;
        zmq_msg_init(&msg);
        if (zmq_msg_recv(&msg, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&msg);
            return false;
        }
        int at = request->parts++;
        size_t len = zmq_msg_size(&msg);
        if (at < PARTS) {
            request->len[at] = len;
            memcpy(request->part[at], zmq_msg_data(&msg),
                   len < PART_BYTES_MAX ? len : PART_BYTES_MAX);
        }
        more = zmq_msg_more(&msg);
        zmq_msg_close(&msg);
    }
    return true;
}

static const char *
judge_joiner(const struct admit *admit, const uint8_t *curve, char user[ID_TEXT_SIZE])
{
    if (admit->joiner_known && memcmp(curve, admit->joiner, KEY_CURVE_BYTES) == 0)
        return NULL;
    const struct entry *invite = find_in(admit->invites, admit->invites_count, curve);
    if (!invite)
        return "its key follows neither from this swarm's secret nor from an open invite";
    id_text(&invite->node, user);
    return NULL;
}

static const char evicted_why[] = "its node was evicted from this swarm";

/* NULL and the User-Id when the request is granted, else why not; `user` then names who
 * it is, or is empty. */
static const char *
judge(const struct admit *admit, const struct request *request, char user[ID_TEXT_SIZE])
{
    user[0] = '\0';
    if (request->parts != PARTS || strcmp(request->part[VERSION], "1.0") != 0)
        return "the request is not one of a CURVE client";
    if (strcmp(request->part[MECHANISM], "CURVE") != 0 ||
        request->len[CREDENTIAL] != KEY_CURVE_BYTES)
        return "the connection is not encrypted";
    const uint8_t *curve = (const uint8_t *)request->part[CREDENTIAL];
    const char *domain = request->part[DOMAIN];
    if (strcmp(domain, "join") == 0)
        return judge_joiner(admit, curve, user);
    if (strcmp(domain, "control") != 0 && strcmp(domain, "bulk") != 0)
        return "the socket has no such domain";
    if (!id_empty(&admit->self) && memcmp(curve, admit->self_curve, KEY_CURVE_BYTES) == 0)
        return "it has this node's own identity";
    const struct entry *entry = find(admit, curve);
    if (entry) {
        id_text(&entry->node, user);
        return NULL;
    }
    entry = find_in(admit->evicted, admit->evicted_count, curve);
    if (entry) {
        id_short(&entry->node, user);
        return evicted_why;
    }
    return "its key is not a member's";
}

static bool
twin(const struct admit *admit, const struct request *request)
{
    return admit->twin && request->len[CREDENTIAL] == KEY_CURVE_BYTES &&
           memcmp(request->part[CREDENTIAL], admit->self_curve, KEY_CURVE_BYTES) == 0;
}

static void
answer(void *socket, const struct request *request, const char *why, const char *user)
{
    size_t id_len = request->parts > REQUEST ? request->len[REQUEST] : 0;
    if (id_len > PART_BYTES_MAX)
        id_len = PART_BYTES_MAX;
    const char *code = why == evicted_why ? "500" : why ? "400" : "200";
    const char *text = why ? "not admitted" : "OK";
    if (zmq_send(socket, "1.0", 3, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return; /* the socket that asked is gone */
    zmq_send(socket, request->part[REQUEST], id_len, ZMQ_SNDMORE);
    zmq_send(socket, code, 3, ZMQ_SNDMORE);
    zmq_send(socket, text, strlen(text), ZMQ_SNDMORE);
    zmq_send(socket, user, strlen(user), ZMQ_SNDMORE);
    zmq_send(socket, "", 0, 0);
}

static void
serve(void *arg)
{
    struct admit *admit = arg;
    struct request request;
    for (int i = 0; i < REQUESTS_PER_TURN && receive(admit->socket, &request); i++) {
        char user[ID_TEXT_SIZE];
        const char *why = judge(admit, &request, user);
        if (why) {
            admit->refused++;
            log_limited(LOG_WARN, "transport",
                        "connection refused: %s domain=%.16s address=%.64s id=%s", why,
                        request.part[DOMAIN], request.part[ADDRESS],
                        user[0] ? user : "unknown");
        }
        answer(admit->socket, &request, why, why ? "" : user);
        if (why && twin(admit, &request)) {
            admit->twin(admit->twin_arg, request.part[ADDRESS]);
            return; /* the handler may have ended much; what waits is served next turn */
        }
    }
}

struct admit *
admit_open(struct loop *loop, struct err *err)
{
    void *socket = socket_new(ZMQ_REP, err);
    if (!socket)
        return NULL;
    if (zmq_bind(socket, "inproc://zeromq.zap.01") != 0) {
        if (errno == EADDRINUSE)
            err_set(err, ERR_SYSTEM,
                    "cannot guard connections: this process has another ZAP handler");
        else
            err_set(err, ERR_SYSTEM, "cannot guard connections: %s", zmq_strerror(errno));
        socket_free(socket);
        return NULL;
    }
    struct admit *admit = xcalloc(1, sizeof(*admit));
    admit->loop = loop;
    admit->socket = socket;
    loop_socket(loop, socket, serve, admit);
    return admit;
}

void
admit_close(struct admit *admit)
{
    if (!admit)
        return;
    loop_socket_cancel(admit->loop, admit->socket);
    socket_free(admit->socket);
    free(admit);
}

void
admit_joiner(struct admit *admit, const uint8_t curve_public[KEY_CURVE_BYTES])
{
    admit->joiner_known = curve_public != NULL;
    if (curve_public)
        memcpy(admit->joiner, curve_public, KEY_CURVE_BYTES);
}

void
admit_invites(struct admit *admit, const struct id *invites, size_t count)
{
    must(count <= ADMIT_INVITES_MAX);
    admit->invites_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = &admit->invites[admit->invites_count];
        entry->node = invites[i];
        admit->invites_count += key_curve_of(&invites[i], entry->curve);
    }
}

void
admit_allow(struct admit *admit, const struct id *node)
{
    struct entry entry = {.node = *node};
    if (!key_curve_of(node, entry.curve)) {
        char name[ID_SHORT_SIZE];
        log_limited(LOG_WARN, "transport", "node not admitted: its id is no key id=%s",
                    id_short(node, name));
        return;
    }
    if (find(admit, entry.curve) ||
        find_in(admit->evicted, admit->evicted_count, entry.curve))
        return;
    if (admit->count == MEMBERS_MAX) {
        log_limited(LOG_WARN, "transport", "node not admitted: there are %d already",
                    admit->count);
        return;
    }
    int at = admit->count;
    while (at > 0 && entry_compare(&entry, &admit->entries[at - 1]) < 0)
        at--;
    memmove(&admit->entries[at + 1], &admit->entries[at],
            (size_t)(admit->count - at) * sizeof(entry));
    admit->entries[at] = entry;
    admit->count++;
}

void
admit_deny(struct admit *admit, const struct id *node)
{
    uint8_t curve[KEY_CURVE_BYTES];
    const struct entry *entry = key_curve_of(node, curve) ? find(admit, curve) : NULL;
    if (!entry)
        return;
    size_t at = (size_t)(entry - admit->entries);
    admit->count--;
    memmove(&admit->entries[at], &admit->entries[at + 1],
            ((size_t)admit->count - at) * sizeof(*entry));
}

void
admit_evict(struct admit *admit, const struct id *node)
{
    struct entry entry = {.node = *node};
    admit_deny(admit, node);
    if (!key_curve_of(node, entry.curve) ||
        find_in(admit->evicted, admit->evicted_count, entry.curve))
        return;
    must(admit->evicted_count < ADMIT_EVICTED_MAX);
    admit->evicted[admit->evicted_count++] = entry;
}

void
admit_self(struct admit *admit, const struct id *self,
           void (*fn)(void *arg, const char *from), void *arg)
{
    if (!key_curve_of(self, admit->self_curve))
        return;
    admit->self = *self;
    admit->twin = fn;
    admit->twin_arg = arg;
}

bool
admit_allowed(const struct admit *admit, const struct id *node)
{
    /* Ids with one curve key come in pairs (the sign of x): the id itself has to be the
     * one allowed. */
    uint8_t curve[KEY_CURVE_BYTES];
    const struct entry *entry = key_curve_of(node, curve) ? find(admit, curve) : NULL;
    return entry && id_equal(&entry->node, node);
}

uint64_t
admit_refused(const struct admit *admit)
{
    return admit->refused;
}
