#include "node/policy.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"

#include <stdlib.h>
#include <string.h>

/* What signatures cover begins with these, so that they are good for nothing else. */
static const char request_purpose[8] = "policy1";
static const char proof_purpose[8] = "invite1";

enum { REQUEST_FIELDS = 12, POLICY_FIELDS = 9 };

/* ---- sets of ids ---- */

/* Where the id is, or should be. */
static uint32_t
place(const struct id_set *set, const struct id *id)
{
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (id_compare(&set->list[mid], id) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool
id_set_has(const struct id_set *set, const struct id *id)
{
    uint32_t at = place(set, id);
    return at < set->count && id_equal(&set->list[at], id);
}

void
id_set_add(struct id_set *set, const struct id *id)
{
    uint32_t at = place(set, id);
    if (at < set->count && id_equal(&set->list[at], id))
        return;
    set->list = xrealloc(set->list, set->count + 1, sizeof(*set->list));
    memmove(&set->list[at + 1], &set->list[at], (set->count - at) * sizeof(*set->list));
    set->list[at] = *id;
    set->count++;
}

static void
set_remove(struct id_set *set, const struct id *id)
{
    uint32_t at = place(set, id);
    if (at == set->count || !id_equal(&set->list[at], id))
        return;
    set->count--;
    memmove(&set->list[at], &set->list[at + 1], (set->count - at) * sizeof(*set->list));
}

/* How many of these are not in the set yet. */
static uint32_t
set_lacks(const struct id_set *set, const struct id_set *more)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < more->count; i++)
        count += !id_set_has(set, &more->list[i]);
    return count;
}

static void
set_copy(struct id_set *to, const struct id_set *from)
{
    to->count = from->count;
    to->list =
        from->count > 0 ? xmemdup(from->list, from->count * sizeof(*from->list)) : NULL;
}

void
id_set_release(struct id_set *set)
{
    free(set->list);
    *set = (struct id_set){0};
}

static void
set_write(const struct id_set *set, struct buf *out)
{
    writer_array(out, set->count);
    for (uint32_t i = 0; i < set->count; i++)
        writer_id(out, &set->list[i]);
}

static void
set_read(struct reader *reader, uint32_t most, struct id_set *set)
{
    uint32_t count = (uint32_t)reader_enter(reader, 0, most);
    set->list = count > 0 ? xcalloc(count, sizeof(*set->list)) : NULL;
    set->count = count;
    for (uint32_t i = 0; i < count; i++) {
        reader_id(reader, &set->list[i]);
        if (i > 0 && reader_ok(reader) &&
            id_compare(&set->list[i - 1], &set->list[i]) >= 0)
            reader_fail(reader, "ids are not in ascending order");
    }
    reader_leave(reader);
}

/* ---- signatures ---- */

static void
proof_words(const struct id *invite, const struct id *swarm, const struct id *user,
            struct buf *out)
{
    buf_add(out, proof_purpose, sizeof(proof_purpose));
    buf_add(out, swarm->bytes, ID_BYTES);
    buf_add(out, invite->bytes, ID_BYTES);
    buf_add(out, user->bytes, ID_BYTES);
}

void
policy_proof(const struct key *invite, const struct id *swarm, const struct id *user,
             uint8_t proof[KEY_SIGNATURE_BYTES])
{
    struct buf words = {0};
    proof_words(key_id(invite), swarm, user, &words);
    key_sign(invite, words.data, words.len, proof);
    buf_release(&words);
}

bool
policy_proves(const struct id *invite, const struct id *swarm, const struct id *user,
              const uint8_t proof[KEY_SIGNATURE_BYTES])
{
    struct buf words = {0};
    proof_words(invite, swarm, user, &words);
    bool good = key_verify(invite, words.data, words.len, proof);
    buf_release(&words);
    return good;
}

static void
request_words(const struct id *swarm, const void *body, size_t len, struct buf *out)
{
    buf_add(out, request_purpose, sizeof(request_purpose));
    buf_add(out, swarm->bytes, ID_BYTES);
    buf_add(out, body, len);
}

/* ---- requests ---- */

void
policy_request_release(struct policy_request *request)
{
    id_set_release(&request->ids);
}

void
policy_request_sign(const struct policy_request *request, const struct key *key,
                    const struct id *swarm, struct buf *out)
{
    must(id_equal(&request->from, key_id(key)));
    struct buf body = {0}, words = {0};
    uint8_t signature[KEY_SIGNATURE_BYTES];
    writer_array(&body, REQUEST_FIELDS);
    writer_id(&body, &request->from);
    writer_uint(&body, request->version);
    writer_uint(&body, request->op);
    writer_id(&body, &request->subject);
    writer_id(&body, &request->admit_id);
    writer_id(&body, &request->user);
    writer_uint(&body, request->uses);
    writer_int(&body, request->left_s);
    writer_bool(&body, request->votes);
    writer_uint(&body, request->mode);
    set_write(&request->ids, &body);
    writer_bytes(&body, request->proof, sizeof(request->proof));
    request_words(swarm, body.data, body.len, &words);
    key_sign(key, words.data, words.len, signature);
    writer_array(out, 2);
    writer_bytes(out, body.data, body.len);
    writer_bytes(out, signature, sizeof(signature));
    buf_release(&words);
    buf_release(&body);
}

static int
read_request(const uint8_t *bytes, size_t len, struct policy_request *out,
             struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    reader_enter(reader, REQUEST_FIELDS, REQUEST_FIELDS);
    reader_id(reader, &out->from);
    out->version = reader_uint(reader, UINT64_MAX);
    out->op = (enum policy_op)reader_uint(reader, POLICY_OPS - 1);
    reader_id(reader, &out->subject);
    reader_id(reader, &out->admit_id);
    reader_id(reader, &out->user);
    out->uses = (uint32_t)reader_uint(reader, POLICY_USES_MAX);
    out->left_s = reader_int(reader, 0, POLICY_LEFT_S_MAX);
    out->votes = reader_bool(reader);
    out->mode = (enum policy_mode)reader_uint(reader, POLICY_LIST);
    set_read(reader, POLICY_IDS_MAX, &out->ids);
    reader_fixed(reader, out->proof, sizeof(out->proof));
    reader_leave(reader);
    return reader_close(&reader, err);
}

int
policy_request_open(const void *bytes, size_t len, const struct id *swarm,
                    struct policy_request *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    struct policy_request request = {0};
    uint8_t signature[KEY_SIGNATURE_BYTES];
    size_t body_len;
    reader_enter(reader, 2, 2);
    const uint8_t *body = reader_bytes(reader, POLICY_REQUEST_BYTES_MAX, &body_len);
    reader_fixed(reader, signature, sizeof(signature));
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (read_request(body, body_len, &request, err)) {
        policy_request_release(&request);
        return -1;
    }
    struct buf words = {0};
    request_words(swarm, body, body_len, &words);
    bool good = key_verify(&request.from, words.data, words.len, signature);
    buf_release(&words);
    if (!good) {
        policy_request_release(&request);
        return err_set(err, ERR_AUTH, "a request is not signed by the member it names");
    }
    *out = request;
    return 0;
}

/* ---- the policy as a value ---- */

void
policy_found(struct policy *policy, const struct id *admit_id)
{
    memset(policy, 0, sizeof(*policy));
    policy->version = 1;
    policy->admit_id = *admit_id;
}

void
policy_begin(struct policy *policy, const struct policy *current)
{
    *policy = *current;
    set_copy(&policy->allowed, &current->allowed);
    set_copy(&policy->evicted, &current->evicted);
    set_copy(&policy->silent, &current->silent);
    for (uint32_t i = 0; i < current->invites_count; i++)
        set_copy(&policy->invites[i].users, &current->invites[i].users);
    policy->rotated = false;
    policy->requests_count = 0;
    memset(policy->requests, 0, sizeof(policy->requests));
}

static void
keep_request(struct policy *policy, const void *bytes, size_t len)
{
    buf_add(&policy->requests[policy->requests_count++], bytes, len);
}

void
policy_copy(struct policy *to, const struct policy *from)
{
    policy_begin(to, from);
    to->rotated = from->rotated;
    for (uint32_t i = 0; i < from->requests_count; i++)
        keep_request(to, from->requests[i].data, from->requests[i].len);
}

static void
release_invites(struct policy *policy)
{
    for (uint32_t i = 0; i < policy->invites_count; i++)
        id_set_release(&policy->invites[i].users);
    policy->invites_count = 0;
}

void
policy_release(struct policy *policy)
{
    id_set_release(&policy->allowed);
    id_set_release(&policy->evicted);
    id_set_release(&policy->silent);
    release_invites(policy);
    for (uint32_t i = 0; i < policy->requests_count; i++)
        buf_release(&policy->requests[i]);
    memset(policy, 0, sizeof(*policy));
}

static struct policy_invite *
invite_of(struct policy *policy, const struct id *id)
{
    for (uint32_t i = 0; i < policy->invites_count; i++)
        if (id_equal(&policy->invites[i].id, id))
            return &policy->invites[i];
    return NULL;
}

const struct policy_invite *
policy_invite(const struct policy *policy, const struct id *id)
{
    for (uint32_t i = 0; i < policy->invites_count; i++)
        if (id_equal(&policy->invites[i].id, id))
            return &policy->invites[i];
    return NULL;
}

int
policy_admits(const struct policy *policy, const struct id *node, struct err *err)
{
    char name[ID_SHORT_SIZE], text[ID_TEXT_SIZE];
    if (id_set_has(&policy->evicted, node))
        return err_set(err, ERR_AUTH,
                       "node %s was evicted from this swarm, and its key cannot return; "
                       "join with a data folder of its own, and so another identity",
                       id_short(node, name));
    if (policy->mode == POLICY_LIST && !id_set_has(&policy->allowed, node) &&
        !MUTANT(allowed))
        return err_set(err, ERR_AUTH,
                       "node %s is not on this swarm's list of allowed nodes; let it in "
                       "at a member with: flotilla allow %s",
                       id_short(node, name), id_text(node, text));
    return 0;
}

/* ---- changes ---- */

static int
rotate(struct policy *policy, const struct policy_request *request, struct err *err)
{
    struct id curve;
    if (id_empty(&request->admit_id) || id_equal(&request->admit_id, &policy->admit_id))
        return err_set(err, ERR_USAGE, "the secret is the one in force already");
    if (!key_curve_of(&request->admit_id, curve.bytes))
        return err_set(err, ERR_WIRE, "the new secret's admission key is no key");
    /* Only what was in force before this epoch is still in members' records. */
    if (!policy->rotated)
        policy->before_id = policy->admit_id;
    policy->rotated = true;
    policy->admit_id = request->admit_id;
    release_invites(policy); /* who had the old secret may have seen them */
    return 0;
}

static int
evict(struct policy *policy, const struct policy_request *request, struct err *err)
{
    char name[ID_SHORT_SIZE];
    if (id_equal(&request->subject, &request->from))
        return err_set(err, ERR_USAGE,
                       "a node does not evict itself; let it go with \"flotilla leave\"");
    if (id_empty(&request->subject) || id_set_has(&policy->evicted, &request->subject))
        return err_set(err, ERR_USAGE, "node %s is evicted already",
                       id_short(&request->subject, name));
    if (policy->evicted.count == POLICY_IDS_MAX)
        return err_set(err, ERR_LIMIT,
                       "%d nodes were evicted from this swarm, which is as many as it "
                       "remembers; found a new swarm and resume the run's checkpoint "
                       "there",
                       POLICY_IDS_MAX);
    if (rotate(policy, request, err))
        return -1;
    id_set_add(&policy->evicted, &request->subject);
    set_remove(&policy->allowed, &request->subject);
    set_remove(&policy->silent, &request->subject);
    return 0;
}

static int
open_invite(struct policy *policy, const struct policy_request *request, struct err *err)
{
    struct id curve;
    if (policy->invites_count == POLICY_INVITES_MAX)
        return err_set(err, ERR_LIMIT,
                       "%d invites are open, which is as many as may be; end one with "
                       "\"flotilla invite --revoke\"",
                       POLICY_INVITES_MAX);
    if (invite_of(policy, &request->subject) || request->uses == 0 ||
        request->left_s == 0 || !key_curve_of(&request->subject, curve.bytes))
        return err_set(err, ERR_USAGE,
                       "an invite needs a key of its own, a use and some time");
    uint32_t at = policy->invites_count++;
    while (at > 0 && id_compare(&policy->invites[at - 1].id, &request->subject) > 0) {
        policy->invites[at] = policy->invites[at - 1];
        at--;
    }
    policy->invites[at] = (struct policy_invite){.id = request->subject,
                                                 .uses = request->uses,
                                                 .left_s = request->left_s,
                                                 .votes = request->votes};
    return 0;
}

static int
revoke(struct policy *policy, const struct policy_request *request, struct err *err)
{
    struct policy_invite *invite = invite_of(policy, &request->subject);
    char name[ID_SHORT_SIZE];
    if (!invite)
        return err_set(err, ERR_USAGE, "no invite %s is open",
                       id_short(&request->subject, name));
    id_set_release(&invite->users);
    size_t at = (size_t)(invite - policy->invites);
    policy->invites_count--;
    memmove(invite, invite + 1, (policy->invites_count - at) * sizeof(*invite));
    return 0;
}

static int
use(struct policy *policy, const struct policy_request *request, const struct id *swarm,
    struct err *err)
{
    struct policy_invite *invite = invite_of(policy, &request->subject);
    char name[ID_SHORT_SIZE];
    if (!invite)
        return err_set(err, ERR_AUTH,
                       "the invite is over or revoked; ask for another one");
    if (!policy_proves(&invite->id, swarm, &request->user, request->proof))
        return err_set(err, ERR_AUTH, "the invite's proof is not of this node");
    if (id_set_has(&policy->evicted, &request->user))
        return policy_admits(policy, &request->user, err);
    if (id_set_has(&invite->users, &request->user))
        return err_set(err, ERR_USAGE, "node %s has used this invite already",
                       id_short(&request->user, name));
    if (invite->users.count >= invite->uses + (uint32_t)MUTANT(uses))
        return err_set(err, ERR_AUTH,
                       "the invite is used up (it was for %u); ask for another one",
                       invite->uses);
    bool lists = policy->mode == POLICY_LIST;
    if ((lists && policy->allowed.count == POLICY_IDS_MAX) ||
        (!invite->votes && policy->silent.count == POLICY_IDS_MAX))
        return err_set(err, ERR_LIMIT, "the list of nodes is full (%d)", POLICY_IDS_MAX);
    id_set_add(&invite->users, &request->user);
    if (lists)
        id_set_add(&policy->allowed, &request->user);
    if (!invite->votes)
        id_set_add(&policy->silent, &request->user);
    return 0;
}

static int
allow(struct policy *policy, const struct policy_request *request, struct err *err)
{
    for (uint32_t i = 0; i < request->ids.count; i++)
        if (id_set_has(&policy->evicted, &request->ids.list[i]))
            return policy_admits(policy, &request->ids.list[i], err);
    if (policy->allowed.count + set_lacks(&policy->allowed, &request->ids) >
        POLICY_IDS_MAX)
        return err_set(err, ERR_LIMIT,
                       "the list of allowed nodes would have more than %d; take some "
                       "off with \"flotilla allow --remove\"",
                       POLICY_IDS_MAX);
    for (uint32_t i = 0; i < request->ids.count; i++)
        id_set_add(&policy->allowed, &request->ids.list[i]);
    return 0;
}

static int
change(struct policy *policy, const struct policy_request *request,
       const struct id *swarm, struct err *err)
{
    switch (request->op) {
    case POLICY_EVICT:
        return evict(policy, request, err);
    case POLICY_ROTATE:
        return rotate(policy, request, err);
    case POLICY_INVITE:
        return open_invite(policy, request, err);
    case POLICY_REVOKE:
        return revoke(policy, request, err);
    case POLICY_USE:
        return use(policy, request, swarm, err);
    case POLICY_SET_MODE:
        if (allow(policy, request, err))
            return -1;
        policy->mode = request->mode;
        return 0;
    case POLICY_ALLOW:
        return allow(policy, request, err);
    case POLICY_DISALLOW:
        for (uint32_t i = 0; i < request->ids.count; i++)
            set_remove(&policy->allowed, &request->ids.list[i]);
        return 0;
    case POLICY_OPS:
        break;
    }
    return err_set(err, ERR_WIRE, "no such change of the policy");
}

int
policy_apply(struct policy *policy, const struct policy_request *request,
             const struct id *swarm, const void *bytes, size_t len, struct err *err)
{
    /* All requests of one epoch are about the version before it. */
    bool first = policy->requests_count == 0;
    if (request->version != policy->version - (first ? 0 : 1))
        return err_set(err, ERR_STOPPED, "the policy has changed since it was asked");
    if (policy->requests_count == POLICY_REQUESTS_MAX || len > POLICY_REQUEST_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "too many changes at once; try again");
    if (id_set_has(&policy->evicted, &request->from))
        return err_set(err, ERR_AUTH, "an evicted node asks for nothing");
    if (change(policy, request, swarm, err))
        return -1;
    policy->version += first;
    keep_request(policy, bytes, len);
    return 0;
}

bool
policy_reflects(const struct policy *policy, const struct policy_request *request)
{
    const struct policy_invite *invite = policy_invite(policy, &request->subject);
    switch (request->op) {
    case POLICY_EVICT:
        return id_set_has(&policy->evicted, &request->subject);
    case POLICY_ROTATE:
        return id_equal(&policy->admit_id, &request->admit_id);
    case POLICY_INVITE:
        return invite != NULL;
    case POLICY_REVOKE:
        return invite == NULL;
    case POLICY_USE:
        return invite && id_set_has(&invite->users, &request->user);
    case POLICY_ALLOW:
        return set_lacks(&policy->allowed, &request->ids) == 0;
    case POLICY_DISALLOW:
        return set_lacks(&policy->allowed, &request->ids) == request->ids.count;
    case POLICY_SET_MODE:
        return policy->mode == request->mode;
    case POLICY_OPS:
        break;
    }
    return false;
}

/* ---- bytes ---- */

void
policy_write(const struct policy *policy, struct buf *out)
{
    writer_array(out, POLICY_FIELDS);
    writer_uint(out, policy->version);
    writer_id(out, &policy->admit_id);
    writer_id(out, &policy->before_id);
    writer_uint(out, policy->mode);
    set_write(&policy->allowed, out);
    set_write(&policy->evicted, out);
    set_write(&policy->silent, out);
    writer_array(out, policy->invites_count);
    for (uint32_t i = 0; i < policy->invites_count; i++) {
        const struct policy_invite *invite = &policy->invites[i];
        writer_array(out, 5);
        writer_id(out, &invite->id);
        writer_uint(out, invite->uses);
        writer_int(out, invite->left_s);
        writer_bool(out, invite->votes);
        set_write(&invite->users, out);
    }
    writer_array(out, policy->requests_count);
    for (uint32_t i = 0; i < policy->requests_count; i++)
        writer_bytes(out, policy->requests[i].data, policy->requests[i].len);
}

void
policy_read(struct reader *reader, struct policy *policy)
{
    reader_enter(reader, POLICY_FIELDS, POLICY_FIELDS);
    policy->version = reader_uint(reader, INT64_MAX);
    reader_id(reader, &policy->admit_id);
    reader_id(reader, &policy->before_id);
    policy->mode = (enum policy_mode)reader_uint(reader, POLICY_LIST);
    set_read(reader, POLICY_IDS_MAX, &policy->allowed);
    set_read(reader, POLICY_IDS_MAX, &policy->evicted);
    set_read(reader, POLICY_IDS_MAX, &policy->silent);
    uint32_t invites = (uint32_t)reader_enter(reader, 0, POLICY_INVITES_MAX);
    for (uint32_t i = 0; i < invites; i++) {
        struct policy_invite *invite = &policy->invites[policy->invites_count++];
        reader_enter(reader, 5, 5);
        reader_id(reader, &invite->id);
        invite->uses = (uint32_t)reader_uint(reader, POLICY_USES_MAX);
        invite->left_s = reader_int(reader, 0, POLICY_LEFT_S_MAX);
        invite->votes = reader_bool(reader);
        set_read(reader, POLICY_USES_MAX, &invite->users);
        reader_leave(reader);
        if (i > 0 && reader_ok(reader) && id_compare(&invite[-1].id, &invite->id) >= 0)
            reader_fail(reader, "invites are not in ascending order");
        if (reader_ok(reader) &&
            invite->users.count > invite->uses + (uint32_t)MUTANT(uses))
            reader_fail(reader, "an invite let in more nodes than it may");
    }
    reader_leave(reader);
    size_t requests = reader_enter(reader, 0, POLICY_REQUESTS_MAX);
    for (size_t i = 0; i < requests; i++) {
        size_t len;
        const uint8_t *bytes = reader_bytes(reader, POLICY_REQUEST_BYTES_MAX, &len);
        keep_request(policy, bytes, len);
    }
    reader_leave(reader);
    reader_leave(reader);
}

/* ---- judgement ---- */

static bool
among(const struct id *members, size_t count, const struct id *id)
{
    for (size_t i = 0; i < count; i++)
        if (id_equal(&members[i], id))
            return true;
    return false;
}

static int
apply_all(struct policy *policy, const struct policy *next, const struct id *members,
          size_t count, const struct id *swarm, struct err *err)
{
    for (uint32_t i = 0; i < next->requests_count; i++) {
        const struct buf *bytes = &next->requests[i];
        struct policy_request request;
        if (policy_request_open(bytes->data, bytes->len, swarm, &request, err))
            return -1;
        int failed =
            among(members, count, &request.from)
                ? policy_apply(policy, &request, swarm, bytes->data, bytes->len, err)
                : err_set(err, ERR_AUTH,
                          "a change of the policy was asked for by no member");
        policy_request_release(&request);
        if (failed)
            return -1;
    }
    return 0;
}

/* An invite's time is the leader's to tell; it only falls. */
static int
take_times(struct policy *policy, const struct policy *next, struct err *err)
{
    for (uint32_t i = 0; i < policy->invites_count; i++) {
        struct policy_invite *invite = &policy->invites[i];
        const struct policy_invite *theirs = policy_invite(next, &invite->id);
        if (theirs && theirs->left_s > invite->left_s)
            return err_set(err, ERR_AUTH, "an invite's time grows");
        if (theirs)
            invite->left_s = theirs->left_s;
    }
    return 0;
}

int
policy_judge(const struct policy *next, const struct policy *current,
             const struct id *members, size_t count, bool changed_over,
             const struct id *swarm, struct err *err)
{
    struct policy *again = xcalloc(1, sizeof(*again));
    policy_begin(again, current);
    int result =
        apply_all(again, next, members, count, swarm, err) || take_times(again, next, err)
            ? -1
            : 0;
    if (result == 0) {
        if (changed_over)
            again->before_id = (struct id){{0}};
        struct buf mine = {0}, theirs = {0};
        policy_write(again, &mine);
        policy_write(next, &theirs);
        if (mine.len != theirs.len || memcmp(mine.data, theirs.data, mine.len) != 0)
            result = err_set(err, ERR_AUTH,
                             "the policy does not follow from what members asked for");
        buf_release(&mine);
        buf_release(&theirs);
    }
    policy_release(again);
    free(again);
    return result;
}
