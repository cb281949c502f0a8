/*
 * seed.c - the other side of joining: whom this node lets in at its join socket.
 */
#include "node/node.h"
#include "transport/base/clock.h"
#include "transport/base/mutant.h"
#include "transport/codec.h"

#include <stdio.h>
#include <string.h>

enum { LET_IN_MS_MAX = 30000 };

/* What a joiner signs: nobody asks in another's name. */
void
seed_join_words(const struct id *swarm, const struct id *id, const char *address,
                struct buf *out)
{
    static const char purpose[] = "join1";
    buf_add(out, purpose, sizeof(purpose));
    buf_add(out, swarm->bytes, ID_BYTES);
    buf_add(out, id->bytes, ID_BYTES);
    buf_add(out, address, strlen(address));
}

static void
refuse(struct buf *answer, const char *why)
{
    log_limited(LOG_WARN, "node", "a joiner was refused reason=\"%s\"", why);
    writer_array(answer, 2);
    writer_bool(answer, false);
    writer_text(answer, why);
}

/* It is forgotten if it does not speak for itself. The door opens twenty times a second, so
 * that all of half a minute have room. */
static bool
note_let_in(struct node *node, const struct id *id)
{
    int at = 0;
    while (at < node->let_in_count && !id_equal(&node->let_in[at].id, id))
        at++;
    if (at == LET_IN_MAX)
        return false;
    node->let_in[at].id = *id;
    node->let_in[at].since_ms = clock_ms();
    node->let_in_count += at == node->let_in_count;
    return true;
}

/* The newest decree, and as many records as fit: the joiner gets the others by gossip. Who
 * comes by an invite gets the swarm's secret, too: it is a member like any other. */
static void
let_in(struct node *node, const struct id *id, const struct address *address,
       bool invited, struct buf *answer)
{
    uint8_t sealed[SECRET_SEALED_BYTES];
    if (invited && !secret_seal(node->secret, id, sealed))
        return; /* it signed its request: its id is a key */
    if (!gossip_find(node->gossip, id) && !note_let_in(node, id)) {
        refuse(answer, "too many joiners have not spoken yet; try again in a minute");
        return;
    }
    admit_allow(node->admit, id);
    mesh_peer(node->mesh, id, address);
    struct buf decree = {0};
    agree_export(node->agree, &decree);
    size_t room = FRAME_BYTES_MAX - 1024, used = decree.len, count = 0;
    while (count < INTRODUCED_MAX && count < gossip_count(node->gossip) &&
           used + gossip_at(node->gossip, count)->len + 8 <= room)
        used += gossip_at(node->gossip, count++)->len + 8;
    writer_array(answer, 5);
    writer_bool(answer, true);
    writer_id(answer, &node->swarm);
    writer_bytes(answer, decree.data, decree.len);
    writer_array(answer, count);
    for (size_t i = 0; i < count; i++)
        writer_bytes(answer, gossip_at(node->gossip, i)->bytes,
                     gossip_at(node->gossip, i)->len);
    writer_bytes(answer, sealed, invited ? sizeof(sealed) : 0);
    buf_release(&decree);
    char joiner[ID_SHORT_SIZE], where[ADDRESS_BYTES_MAX + 8];
    address_text(address, where);
    log_info("node", "let in id=%s address=%s by=%s", id_short(id, joiner), where,
             invited ? "invite" : "secret");
}

/* What a joiner says. */
struct join_request {
    uint64_t version;
    struct id swarm, id;
    char address_is[ADDRESS_BYTES_MAX + 8];
    struct address address;
    uint8_t signature[KEY_SIGNATURE_BYTES];
    struct id invite; /* empty: it has the secret */
    uint8_t proof[KEY_SIGNATURE_BYTES];
};

static int
read_request(const void *body, size_t len, struct join_request *out, struct err *err)
{
    struct reader *reader = reader_open(body, len, err);
    if (!reader)
        return -1;
    bool invited = reader_enter(reader, 5, 7) > 5;
    out->version = reader_uint(reader, UINT64_MAX);
    reader_id(reader, &out->swarm);
    reader_id(reader, &out->id);
    reader_text(reader, out->address_is, sizeof(out->address_is));
    reader_fixed(reader, out->signature, sizeof(out->signature));
    if (invited) {
        reader_id(reader, &out->invite);
        reader_fixed(reader, out->proof, sizeof(out->proof));
    }
    reader_leave(reader);
    return reader_close(&reader, err) ||
                   address_parse(out->address_is, &out->address, err)
               ? -1
               : 0;
}

/* May it come, as far as can be told without the others? */
static int
check_request(const struct node *node, const struct join_caller *caller,
              const struct join_request *request, struct err *err)
{
    char mine[ID_SHORT_SIZE], theirs[ID_SHORT_SIZE];
    if (request->version != JOIN_VERSION)
        return err_set(err, ERR_WIRE,
                       "this swarm speaks version %d of the protocol, not %llu",
                       JOIN_VERSION, (unsigned long long)request->version);
    if (!node->entered)
        return err_set(err, ERR_USAGE,
                       "this node is itself still joining; name another seed");
    /* Who is of the swarm already, and denied by somebody, is let in all the same. */
    bool stranger = id_empty(&request->swarm) || !id_empty(&request->invite);
    if (stranger && !seeds_found(node) && !MUTANT(island))
        return err_set(err, ERR_USAGE,
                       "this node has come back and has not found its swarm yet; name "
                       "another seed");
    if (!id_empty(&request->swarm) && !id_equal(&request->swarm, &node->swarm))
        return err_set(err, ERR_USAGE,
                       "this is swarm %s, but the joiner's data folder belongs to swarm "
                       "%s; join with a folder of its own (--data)",
                       id_short(&node->swarm, mine), id_short(&request->swarm, theirs));
    if (request->address.port == node->config.advertise.port &&
        strcmp(request->address.host, node->config.advertise.host) == 0)
        return err_set(err, ERR_USAGE,
                       "the joiner's address is this node's own; give it another with "
                       "--listen or --advertise");
    if (id_equal(&request->id, &node->id))
        return err_set(err, ERR_USAGE,
                       "the joiner has this node's own identity; a data folder was "
                       "copied, or the seed address is the joiner's own");
    struct buf words = {0};
    seed_join_words(&request->swarm, &request->id, request->address_is, &words);
    bool own = key_verify(&request->id, words.data, words.len, request->signature);
    buf_release(&words);
    if (!own)
        return err_set(err, ERR_AUTH,
                       "the request is not signed by the identity that it names");
    if (!id_equal(&caller->invite, &request->invite))
        return err_set(err, ERR_AUTH,
                       "the request is about another invite than the one "
                       "that the connection was made with");
    if (id_empty(&request->invite))
        return policy_admits(&node->view->policy, &request->id, err);
    if (!admission_invite_open(node, &request->invite))
        return err_set(err, ERR_AUTH,
                       "the invite is over or revoked; ask for another one");
    return 0;
}

/* By an invite: its use is decided on first, and seed_invited() answers. */
static int
ask_to_let_in(struct node *node, const struct join_caller *caller,
              const struct join_request *request, struct err *err)
{
    struct policy_request wanted = {
        .op = POLICY_USE, .subject = request->invite, .user = request->id};
    struct ask *ask;
    memcpy(wanted.proof, request->proof, sizeof(wanted.proof));
    if (admission_ask(node, &wanted, NULL, ASKER_JOINER, caller->ticket, &ask, err))
        return -1;
    ask->joiner = request->address;
    return 0;
}

void
seed_invited(struct node *node, const struct ask *ask, const char *error)
{
    struct buf answer = {0};
    if (error)
        refuse(&answer, error);
    else
        let_in(node, &ask->request.user, &ask->joiner, true, &answer);
    if (node->join_server)
        join_server_answer(node->join_server, ask->ticket, answer.data, answer.len);
    buf_release(&answer);
}

static bool
on_join_request(void *arg, const struct join_caller *caller, const void *body, size_t len,
                struct buf *answer)
{
    struct node *node = arg;
    struct join_request request = {0};
    struct err err = {0};
    if (read_request(body, len, &request, &err) ||
        check_request(node, caller, &request, &err)) {
        refuse(answer, err.msg);
        return false;
    }
    if (id_empty(&request.invite)) {
        let_in(node, &request.id, &request.address, false, answer);
        return false;
    }
    const struct policy_invite *invite =
        policy_invite(&node->view->policy, &request.invite);
    if (id_set_has(&invite->users, &request.id) &&
        policy_proves(&invite->id, &node->swarm, &request.id, request.proof)) {
        let_in(node, &request.id, &request.address, true, answer); /* it asks again */
        return false;
    }
    if (ask_to_let_in(node, caller, &request, &err)) {
        refuse(answer, err.msg);
        return false;
    }
    return true;
}

int
seed_open(struct node *node, struct err *err)
{
    admit_joiner(node->admit, secret_joiner_public(node->secret));
    node->join_server = join_listen(node->loop, node->secret, &node->config.listen,
                                    on_join_request, node, err);
    return node->join_server ? 0 : -1;
}

/* A joiner that was let in and never spoke for itself is forgotten. */
void
seed_tick(struct node *node, int64_t now)
{
    int kept = 0;
    for (int i = 0; i < node->let_in_count; i++) {
        const struct id *id = &node->let_in[i].id;
        if (gossip_find(node->gossip, id))
            continue;
        if (now - node->let_in[i].since_ms < LET_IN_MS_MAX) {
            node->let_in[kept++] = node->let_in[i];
            continue;
        }
        char text[ID_SHORT_SIZE];
        log_warn("node", "a joiner that was let in never spoke and is forgotten id=%s",
                 id_short(id, text));
        admit_deny(node->admit, id);
        mesh_forget(node->mesh, id);
    }
    node->let_in_count = kept;
}
