/*
 * admission.h - how a node carries out the policy (policy.h): what its commands and
 * joiners ask for goes to the leader as signed requests, the leader puts them into the
 * next epoch, and every node follows what was decided. Part of the node's glue.
 *
 *     admission.c  asking; a leader's collecting; what follows from a new policy
 *     secrets.c    the swarm's secret: handed on, replaced, its door
 *     asks.c       the commands that ask (invite, evict, allow, secret), their answers
 */
#ifndef NODE_ADMISSION_H
#define NODE_ADMISSION_H

#include "node/invite.h"
#include "node/policy.h"
#include "transport/frame.h"
#include "transport/json.h"

struct node;
struct view;
struct member;

enum { ASKS_MAX_OPEN = 16, SECRETS_MAX = 16, ADMISSION_CUTS_MAX = 32 };

/* Who waits for the answer. */
enum asker { ASKER_NOBODY, ASKER_COMMAND, ASKER_JOINER };

/* A request of this node that is under way: said to the leader, and again to the next
 * one, until the policy reflects it. */
struct ask {
    bool active;
    struct policy_request request; /* signed anew for each version */
    enum asker asker;
    uint64_t ticket;             /* the command's, or the joiner's */
    struct address joiner;       /* its address */
    char text[INVITE_TEXT_SIZE]; /* for the command when it is done; wiped */
    struct id hash;              /* of the bytes last sent */
    struct id leader;            /* to this one, in this term, about this version */
    uint64_t term, version;
    int64_t since_ms, sent_ms;
};

/* A leader's: what it will put into the next epoch. */
struct wanted_change {
    struct id from;
    struct policy_request request;
    struct buf bytes;
};

struct admission {
    struct ask asks[ASKS_MAX_OPEN];
    size_t wanted_count;
    struct wanted_change wanted[POLICY_REQUESTS_MAX];
    /* Secrets that may become the one in force: made here, or handed to us. */
    struct secret *secrets[SECRETS_MAX];
    struct id made_for[SECRETS_MAX]; /* made here, to evict this one; empty: not so */
    int secrets_at;                  /* the next one's place */
    int64_t secret_asked_ms;
    size_t secret_asked; /* whom to ask next */
    /* Who was asked, as one ahead of us, for whichever is in force; none: nobody. */
    struct id secret_asked_of;
    int64_t ends_ms;       /* this node is evicted, and ends then; 0: it is not */
    int64_t door_since_ms; /* it should be open, and could not be opened, since; 0 */
    /* Whose connections are to be closed, when, and how often still. */
    struct {
        struct id id;
        int64_t at_ms;
        int left;
    } cuts[ADMISSION_CUTS_MAX];
    size_t cuts_count;
    /* Time that is left of open invites, counted down here. */
    struct {
        struct id id;
        int64_t left_ms;
    } times[POLICY_INVITES_MAX];
    size_t times_count;
    int64_t counted_ms, saved_ms;
};

/* ---- admission.c ---- */

void admission_open(struct node *node); /* zeroed; what is left of invites, from disk */
void admission_close(struct node *node);
void admission_tick(struct node *node, int64_t now);

/* Ask for a change. Takes the request's ids, and `next` (NULL but for EVICT and ROTATE):
 * the secret that admit_id is of. The answer comes later, by control_answer() or
 * seed_invited(). An error is the asker's to tell: nothing was asked. */
int admission_ask(struct node *node, struct policy_request *request, struct secret *next,
                  enum asker asker, uint64_t ticket, struct ask **made, struct err *err);

/* The command with this ticket hung up: what it asked for is not asked for any more. */
void admission_forget(struct node *node, uint64_t ticket);

/* FRAME_POLICY .. FRAME_SECRET_ASK. */
int admission_frame(struct node *node, const struct frame *frame, struct err *err);

/* Leader: is there something to put into a new epoch? Put it there. */
bool admission_due(const struct node *node);
void admission_draft(struct node *node, struct policy *policy);

/* A decree is in force; `before`: the policy of the one before it, all of it new to us
 * where that has none. */
void admission_committed(struct node *node, const struct policy *before);

/* May gossip's word of this member open our door to it? */
bool admission_lets(const struct node *node, const struct id *id,
                    const uint8_t admission[KEY_SIGNATURE_BYTES]);
/* Is this invite open here, by our own count of its time? */
bool admission_invite_open(const struct node *node, const struct id *invite);
/* 0: over; -1: not known. */
int64_t admission_invite_left_ms(const struct node *node, const struct id *invite);
bool admission_known(const struct node *node,
                     const struct id *id); /* is or was a member */

/* ---- secrets.c ---- */

/* Is our secret the one in force? If not, look for it; keep the door as it should be. */
void secrets_tick(struct node *node, int64_t now);
/* Keep a secret that may come into force. Takes it. */
void secrets_keep(struct node *node, struct secret *secret);
/* The one that was made here to evict this node, and is not in force yet; NULL: none. Who
 * asks again asks with the same: else the one that is decided on might be forgotten. */
const struct secret *secrets_made_for(const struct node *node, const struct id *evicted);
/* Where it is kept; NULL: it is not. */
struct secret **secrets_find(struct node *node, const struct id *admit_id);
/* To all members but `except`. */
void secrets_hand_out(struct node *node, const struct secret *secret,
                      const struct id *except);
int secrets_received(struct node *node, const struct frame *frame, struct err *err);
int secrets_asked(struct node *node, const struct frame *frame, struct err *err);
/* Ask this one for the secret that is in force, by what it knows: we are too far behind to know which
 * that is. What it hands us opens its own door only (enter_handed()). */
void secrets_ask(struct node *node, const struct id *of);
void secrets_recall(struct node *node); /* one that was made here before the last end */

/* ---- asks.c ---- */

/* A command about the policy: answered by control_answer(), now or later. */
void asks_command(struct node *node, const char *name, const struct json *request,
                  uint64_t ticket);

/* What is decided, for status and the commands that list it. */
void asks_put_policy(const struct node *node, struct json_writer *writer);

#endif
