/*
 * policy.h - who may be in the swarm. A part of every decree's body, so that it is
 * decided by the voters, in one order, the same everywhere, and outlives leaders.
 *
 *     policy of epoch e + 1 = policy of epoch e, with the requests that the decree carries
 *
 * A request is signed by a member and names the version of the policy that it changes, so
 * that it is good once. The leader applies it; every voter applies it again and compares.
 * What a decree holds is public: an invite is there by its id, the swarm's secret by the
 * id whose signature admits (key.h). Everything here is a pure function of bytes.
 */
#ifndef NODE_POLICY_H
#define NODE_POLICY_H

#include "transport/admit.h"
#include "transport/codec.h"
#include "transport/key.h"

enum {
    POLICY_IDS_MAX = ADMIT_EVICTED_MAX, /* allowed, evicted, or without a vote */
    POLICY_INVITES_MAX = ADMIT_INVITES_MAX,
    POLICY_USES_MAX = 100,
    POLICY_LEFT_S_MAX = 366 * 24 * 3600,
    POLICY_REQUESTS_MAX = 64, /* in one decree */
    POLICY_REQUEST_BYTES_MAX = 48 << 10,
};

enum policy_mode {
    POLICY_SECRET, /* whoever has the secret joins */
    POLICY_LIST    /* and is on the list of allowed */
};

/* Ids, ascending; owned. A zeroed struct is empty. */
struct id_set {
    uint32_t count;
    struct id *list;
};
bool id_set_has(const struct id_set *set, const struct id *id);
void id_set_add(struct id_set *set, const struct id *id);
void id_set_release(struct id_set *set);

struct policy_invite {
    struct id id;        /* public half of the key that its bearer has */
    uint32_t uses;       /* how many nodes it lets in */
    int64_t left_s;      /* what was left of its time when the decree was made, at most */
    bool votes;          /* who comes by it may become a voter */
    struct id_set users; /* whom it let in */
};

struct policy {
    uint64_t version;    /* epochs that changed it */
    struct id admit_id;  /* of the secret in force; empty: no policy (only in tests) */
    struct id before_id; /* of the one before, while members change over; else empty */
    enum policy_mode mode;
    struct id_set allowed, evicted, silent; /* silent: never a voter */
    uint32_t invites_count;
    struct policy_invite invites[POLICY_INVITES_MAX]; /* ascending id */
    bool rotated; /* in this epoch; not in the bytes */
    /* The requests that this epoch followed, in order. */
    uint32_t requests_count;
    struct buf requests[POLICY_REQUESTS_MAX];
};

enum policy_op {
    POLICY_EVICT,    /* subject may never be in it again; the secret becomes admit_id's */
    POLICY_ROTATE,   /* the secret becomes admit_id's; open invites end */
    POLICY_INVITE,   /* invite `subject` opens: uses, left_s, votes */
    POLICY_REVOKE,   /* invite `subject` ends */
    POLICY_USE,      /* node `user` comes by invite `subject`; proof */
    POLICY_ALLOW,    /* ids may join */
    POLICY_DISALLOW, /* ids may not join again */
    POLICY_SET_MODE, /* to `mode`; `ids` (the members there are) are allowed with it */
    POLICY_OPS
};

struct policy_request {
    struct id from; /* the member who asks and signs */
    uint64_t version;
    enum policy_op op;
    struct id subject, admit_id, user;
    uint32_t uses;
    int64_t left_s;
    bool votes;
    enum policy_mode mode;
    struct id_set ids;
    /* POLICY_USE: the invite's signature, policy_proof(). */
    uint8_t proof[KEY_SIGNATURE_BYTES];
};
void policy_request_release(struct policy_request *request);

/* What the bearer of an invite signs with it: that this node comes by it. */
void policy_proof(const struct key *invite, const struct id *swarm, const struct id *user,
                  uint8_t proof[KEY_SIGNATURE_BYTES]);
bool policy_proves(const struct id *invite, const struct id *swarm, const struct id *user,
                   const uint8_t proof[KEY_SIGNATURE_BYTES]);

/* Encode and sign (`from` is the key's id); appended. Decode and verify: ERR_WIRE,
 * ERR_AUTH. */
void policy_request_sign(const struct policy_request *request, const struct key *key,
                         const struct id *swarm, struct buf *out);
int policy_request_open(const void *bytes, size_t len, const struct id *swarm,
                        struct policy_request *out, struct err *err);

/* The founder's: version 1, mode SECRET. */
void policy_found(struct policy *policy, const struct id *admit_id);
/* Where an epoch begins: `current` without its requests. */
void policy_begin(struct policy *policy, const struct policy *current);
void policy_copy(struct policy *to, const struct policy *from);
void policy_release(struct policy *policy);

/* Apply a request, opened from these bytes, which are kept. ERR_STOPPED: it is about
 * another version; ERR_AUTH, ERR_USAGE and ERR_LIMIT say why it is not done; then nothing
 * changes. */
int policy_apply(struct policy *policy, const struct policy_request *request,
                 const struct id *swarm, const void *bytes, size_t len, struct err *err);

/* Is what the request asks for so already? */
bool policy_reflects(const struct policy *policy, const struct policy_request *request);

const struct policy_invite *policy_invite(const struct policy *policy,
                                          const struct id *id);
/* May this node be a member of an epoch that follows one in which it is none? ERR_AUTH
 * with the sentence that it is told. */
int policy_admits(const struct policy *policy, const struct id *node, struct err *err);

/* Inside a view. reader_fail() on bad bytes. */
void policy_write(const struct policy *policy, struct buf *out);
void policy_read(struct reader *reader, struct policy *policy);

/* Does `next` follow from `current` by the requests that it carries, each signed by one
 * of `members`? `changed_over`: nobody needs the secret before any more. ERR_AUTH with
 * the reason. */
int policy_judge(const struct policy *next, const struct policy *current,
                 const struct id *members, size_t count, bool changed_over,
                 const struct id *swarm, struct err *err);

#endif
