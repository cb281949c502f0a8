#include "node/admission.h"
#include "node/node.h"
#include "node/status.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/log.h"

#include <stdio.h>
#include <string.h>

enum { SECRET_AGAIN_MS = 300, DOOR_SAY_MS = 5000, GIVEN_MS = 10000 };

/* One that was made here and is not in force yet. */
#define NEXT_FILE STATUS_SECRET_FILE ".next"

static bool
in_force(const struct node *node, const struct secret *secret)
{
    const struct id *admit_id = &node->view->policy.admit_id;
    return secret && (id_empty(admit_id) || id_equal(secret_admit_id(secret), admit_id));
}

/* ---- the door ---- */

/* Open while our secret is the one in force: else it would let in who was shut out. The
 * old socket gives its port back in the background, so this may take a few tries. */
static void
keep_door(struct node *node, int64_t now)
{
    struct admission *admission = node->admission;
    struct err err;
    bool open = in_force(node, node->secret);
    if (!open && node->join_server) {
        join_server_close(node->join_server);
        node->join_server = NULL;
        admit_joiner(node->admit, NULL);
    }
    if (!open || node->join_server)
        return;
    if (seed_open(node, &err) == 0) {
        admission->door_since_ms = 0;
        return;
    }
    if (admission->door_since_ms == 0)
        admission->door_since_ms = now;
    if (now - admission->door_since_ms >= DOOR_SAY_MS)
        log_limited(LOG_WARN, "node", "nobody can join by this node reason=\"%s\"",
                    err.msg);
}

/* ---- a new secret ---- */

/* In locked memory, on disk, and in all that we say from here on. Takes it. */
static void
adopt(struct node *node, struct secret *secret, int64_t now)
{
    char path[PATH_BYTES_MAX];
    struct err err;
    join_client_close(node->join_client);
    node->join_client = NULL;
    join_server_close(node->join_server);
    node->join_server = NULL;
    secret_free(node->secret);
    node->secret = secret;
    path_join(path, node->config.data, STATUS_SECRET_FILE);
    if (secret_write(secret, path, &err))
        log_error("node", "the swarm's new secret is not saved reason=\"%s\"", err.msg);
    else if (file_remove_tree(path_join(path, node->config.data, NEXT_FILE), &err))
        log_warn("node", "the secret that waited is not removed reason=\"%s\"", err.msg);
    keep_door(node, now);
    enter_record(node);
    log_info("node", "this node has the swarm's new secret");
    events_begin(node->events, "secret");
    events_end(node->events);
}

struct secret **
secrets_find(struct node *node, const struct id *admit_id)
{
    for (int i = 0; i < SECRETS_MAX; i++) {
        struct secret **kept = &node->admission->secrets[i];
        if (*kept && id_equal(secret_admit_id(*kept), admit_id))
            return kept;
    }
    return NULL;
}

void
secrets_keep(struct node *node, struct secret *secret)
{
    struct admission *admission = node->admission;
    if (secrets_find(node, secret_admit_id(secret))) {
        secret_free(secret);
        return;
    }
    struct secret **place = &admission->secrets[admission->secrets_at];
    admission->secrets_at = (admission->secrets_at + 1) % SECRETS_MAX;
    secret_free(*place);
    *place = secret;
    admission->made_for[place - admission->secrets] = (struct id){0};
}

const struct secret *
secrets_made_for(const struct node *node, const struct id *evicted)
{
    const struct admission *admission = node->admission;
    for (int i = 0; i < SECRETS_MAX; i++)
        if (admission->secrets[i] && id_equal(&admission->made_for[i], evicted))
            return admission->secrets[i];
    return NULL;
}

/* Who is not let in has no use for the secret but to come in. */
static bool
may_have(const struct node *node, const struct id *id)
{
    struct err refused;
    return policy_admits(&node->view->policy, id, &refused) == 0;
}

static void
send_secret(struct node *node, const struct id *to, const struct secret *secret)
{
    uint8_t sealed[SECRET_SEALED_BYTES];
    if (!secret_seal(secret, to, sealed))
        return;
    struct buf body = {.data = sealed, .len = sizeof(sealed)};
    node_send(node, to, FRAME_SECRET, &body);
}

void
secrets_hand_out(struct node *node, const struct secret *secret, const struct id *except)
{
    char path[PATH_BYTES_MAX];
    struct err err;
    if (secret_write(secret, path_join(path, node->config.data, NEXT_FILE), &err))
        log_warn("node", "the next secret is not saved reason=\"%s\"", err.msg);
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct id *id = &node->decree.members[i].id;
        if (!id_equal(id, &node->id) && !id_equal(id, except) && may_have(node, id))
            send_secret(node, id, secret);
    }
}

/* The one in force is picked from these as soon as the node knows which it is: what was
 * given at the start may be older than what the folder has. */
void
secrets_recall(struct node *node)
{
    static const char *const names[] = {STATUS_SECRET_FILE, NEXT_FILE};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[PATH_BYTES_MAX];
        struct err err;
        path_join(path, node->config.data, names[i]);
        if (!file_exists(path))
            continue;
        struct secret *secret = secret_read(path, &err);
        if (secret)
            secrets_keep(node, secret);
        else
            log_warn("node", "a secret is passed over reason=\"%s\"", err.msg);
    }
}

int
secrets_received(struct node *node, const struct frame *frame, struct err *err)
{
    if (frame->body_len != SECRET_SEALED_BYTES)
        return err_set(err, ERR_WIRE, "a sealed secret of %zu bytes", frame->body_len);
    struct secret *secret = secret_unseal(frame->body, node->key, err);
    if (!secret)
        return -1;
    struct admission *admission = node->admission;
    bool asked = id_equal(&admission->secret_asked_of, &frame->from);
    bool ours = id_equal(secret_admit_id(secret), secret_admit_id(node->secret));
    /* Whoever sent it: it is taken only if its admission key is the one decided on. */
    secrets_keep(node, secret);
    secrets_tick(node, clock_ms());
    if (!asked)
        return 0;
    admission->secret_asked_of = (struct id){0};
    if (ours || !agree_behind(node->agree, clock_ms()))
        return 0;
    /* What was decided is behind a door that this one opens. */
    secret = secret_unseal(frame->body, node->key, err);
    if (!secret)
        return -1;
    enter_handed(node, &frame->from, secret);
    return 0;
}

/* Members, and those who were and may be again: they were away when it changed. */
int
secrets_asked(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    struct id admit_id;
    reader_id(reader, &admit_id);
    if (reader_close(&reader, err))
        return -1;
    const struct policy *policy = &node->view->policy;
    if (!in_force(node, node->secret) ||
        (!id_empty(&admit_id) && !id_equal(&admit_id, &policy->admit_id)))
        return 0;
    if (!may_have(node, &frame->from) || !admission_known(node, &frame->from))
        return err_set(err, ERR_AUTH, "the secret is asked for by no member");
    send_secret(node, &frame->from, node->secret);
    return 0;
}

static void
send_ask(struct node *node, const struct id *to, const struct id *admit_id)
{
    struct buf body = {0};
    writer_id(&body, admit_id);
    node_send(node, to, FRAME_SECRET_ASK, &body);
    buf_release(&body);
}

void
secrets_ask(struct node *node, const struct id *of)
{
    node->admission->secret_asked_of = *of;
    send_ask(node, of, &(struct id){0});
}

/* One member at a time. */
static void
ask_around(struct node *node, int64_t now)
{
    struct admission *admission = node->admission;
    if (now - admission->secret_asked_ms < SECRET_AGAIN_MS)
        return;
    admission->secret_asked_ms = now;
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        size_t at = admission->secret_asked++ % node->decree.members_count;
        const struct id *id = &node->decree.members[at].id;
        if (id_equal(id, &node->id) || !mesh_connected(node->mesh, id))
            continue;
        send_ask(node, id, &node->view->policy.admit_id);
        return;
    }
}

void
secrets_tick(struct node *node, int64_t now)
{
    /* One that was given may be newer than what we know, unless we decide; and where it is
     * to let us in somewhere, that is tried first. */
    bool asking = node->join_client && now - node->entered_ms < GIVEN_MS;
    bool known =
        !node->secret_given || (agree_role(node->agree) == AGREE_LEADER && !asking);
    if (known && !in_force(node, node->secret)) {
        struct secret **kept = secrets_find(node, &node->view->policy.admit_id);
        struct secret *secret = kept ? *kept : NULL;
        if (kept)
            *kept = NULL;
        if (secret)
            adopt(node, secret, now);
        else
            ask_around(node, now);
    }
    keep_door(node, now);
}
