/*
 * core.h - the inside of gossip, shared by its files and by nobody else.
 *
 *     gossip.c   what arrives, in order: decode, judge, absorb, answer
 *     absorb.c   what is learnt of others, and from whom it is believed
 *     self.c     what we say of ourselves, and who else says it
 *     rumor.c    what is said to whom: statements, piggybacking, answers, digests
 *     suspect.c  what is thought of whom: accusations, the suspicion timer
 *     check.c    probes under way
 */
#ifndef GOSSIP_CORE_H
#define GOSSIP_CORE_H

#include "gossip/digest.h"
#include "gossip/probe.h"

enum {
    ISSUED_MAX = 64,      /* of our own records, those that we can tell from a twin's */
    FANOUT = 3,           /* peers that hear a rumor at once */
    PROBE_LEAST_MS = 300, /* patience with a probe, at least */
    REFUSED_MS = 1500,    /* from a refused redial to death, with no word from others */
    REFUSED_CONFIRMED_MS = 300, /* and with one */
    SLEPT_MS = 1000,      /* a gap between two calls that tells that we did not run */
    LATE_TICKS = 3,       /* so many ticks' time from one to the next: we are starved */
    TELL_AGAIN_MS = 200,  /* between two times that one is told what is said of it */
    SPREAD_LEAST_MS = 50, /* between two rounds of rumors; where there always is news */
    SPREAD_MANY = 16,     /* (more members than these) */
    SPREAD_MANY_MS = 150, /* this, so that a round carries more than one piece of it */
    ASK_AGAIN_MS = 200,   /* between two asks for what was announced */
    ASK_TIMES = 20,
    WANTED_MAX = 64,            /* announced records that are asked for at a time */
    DIGEST_AGAIN_MS = 500,      /* between two answers to one peer's digests */
    GREET_LEAST_MS = 250,       /* between two digests to peers just met */
    CATCH_UP_MS = 1000,         /* to the next digest, after much was learnt at once */
    CATCH_UP_NEWS = 32,         /* so much */
    CONFLICT_AGAIN_MS = 10000,  /* between two reports of a twin */
    FORWARD_LEAST_MS = 1000,    /* between two times that a twin is told of the other */
    RECENT_MS = 10 * 60 * 1000, /* the dead are called on often for so long */
    KEEP_MS = 24 * 60 * 60 * 1000, /* the dead and those who left are known for so long */
    KEPT_MAX = 8,                  /* addresses of seeds, which are never forgotten */
    WATCHED_MAX = 32,              /* members that are watched closely */
    CONFIRM_MOST = 32,             /* a swarm in which each tries for itself before it
                                      takes two words of death for one */
    ACCUSE_EVERY_MS = 5000,        /* we accuse so often, and so many at once */
    ACCUSE_MOST = 32,
    ACCUSED_EVERY_MS = 2500, /* and others are believed twice that */
    ACCUSED_MOST = 64,
    LINKS_WAIT_MS = 250, /* a member: between two records that differ in links */
    LINKS_FREELY = 32,   /* a swarm in which they need not wait */
    INLINE_BYTES = 1024, /* a larger record is announced, and sent to who asks */
    FULL_SENDS = 4,      /* and so is any that was sent so often */
    ANSWER_SENDS = 4,    /* what was asked for is known elsewhere, mostly */
    PIGGYBACK_BYTES =
        16 << 10,             /* statements in a message that are not asked for, about */
    ANSWER_BYTES = 32 << 10,  /* statements in a reply to a probe, about */
    RUMORS_BYTES = 128 << 10, /* statements in a rumors frame, about */
    CAUGHT_UP_BYTES = 256 << 10 /* statements in all that answers one message, about */
};

struct issued {
    uint64_t incarnation;
    uint64_t version;
    struct id hash; /* of the signed record */
};

/* A record that was announced and is not here yet. */
struct wanted {
    uint64_t prefix, incarnation, version;
    struct id from; /* who announced it */
    int64_t at_ms;  /* when it was last asked for */
    unsigned times;
};

struct gossip {
    struct gossip_options options;
    struct id before_id; /* admits, too, while members change over; else empty */
    bool replaced;       /* there was another secret than options.admit_id's */
    bool readmit; /* the admission keys have changed: accusations are looked at anew */
    struct id id;
    struct table table;
    struct entry *self; /* in the table; NULL until gossip_self() */
    struct prober prober;
    struct issued issued[ISSUED_MAX]; /* by version */
    struct record *held;              /* ours to be, when only links differ; NULL: none */
    int64_t issued_ms;                /* our last record */
    int64_t now_ms;
    int64_t ticked_ms;  /* last gossip_tick() */
    int64_t shifted_ms; /* by so much since then */
    int64_t probe_at_ms, watch_at_ms, digest_at_ms, reconnect_at_ms, spread_at_ms;
    int64_t spread_ms;   /* last round of rumors */
    int64_t greeted_ms;  /* last digest to a peer just met */
    int64_t conflict_ms; /* last report; 0: never */
    int64_t forward_ms;  /* a twin was last told of the other */
    int64_t accuse_ms;   /* our accusations: allowance_take() */
    int32_t accuse_left;
    int64_t strangers_ms; /* those of accusers that we do not know */
    int32_t strangers_left;
    int64_t listed_ms; /* a digest of nobody that we know was last answered */
    bool fresh;        /* something is to be spread at once */
    bool answered;     /* what is being absorbed was asked for */
    uint64_t stamp;    /* messages so far */
    unsigned news;     /* learnt in this step */
    uint64_t *asks;    /* for the answer */
    size_t asks_count, asks_capacity;
    size_t listed_bytes; /* of what is listed for the answer */
    struct wanted wanted[WANTED_MAX];
    size_t wanted_count;
    struct id watched[WATCHED_MAX]; /* ascending */
    size_t watched_count;
    char kept[KEPT_MAX][ADDRESS_BYTES_MAX + 8];
    size_t kept_count;
};

/* ---- rumor.c ---- */

/* Is it accused, and does that matter? */
bool entry_accused(const struct entry *entry);

/* Put a member's statement, or an ask, into the next message. */
void core_list(struct gossip *gossip, struct entry *entry);
/* Is there room for more in an answer, however much is asked for? */
bool core_room(const struct gossip *gossip);
void core_ask(struct gossip *gossip, uint64_t prefix);
/* The same for a record that was announced, until it is here. */
void core_want(struct gossip *gossip, const struct id *from,
               const struct statement *statement);
bool core_wanted(const struct gossip *gossip, uint64_t prefix);
void core_want_again(struct gossip *gossip, struct effects *effects);
/* Send a message with what is listed and asked, what is said of the receiver, and rumors
 * as they fit. */
void core_send(struct gossip *gossip, enum frame_kind kind, const struct id *to,
               uint64_t nonce, const struct id *subject, bool answered,
               struct effects *effects);
/* Rumors to `to` if anything is listed or asked. */
void core_answer(struct gossip *gossip, const struct id *to, struct effects *effects);
/* Rumors to a few random peers but for `except` (NULL: nobody), if there are any left. */
void core_spread(struct gossip *gossip, const struct id *except, struct effects *effects);
int64_t core_spread_ms(const struct gossip *gossip); /* between two of these, at least */
void core_tell(struct gossip *gossip, struct effects *effects);
void core_digest(struct gossip *gossip, const struct id *to, struct effects *effects);
void core_digest_random(struct gossip *gossip, struct effects *effects);
/* Digests come every so often: as seldom as the swarm is large. */
int64_t core_digest_ms(const struct gossip *gossip);
/* A peer just met: compare digests, but not with everybody at once. */
void core_greet(struct gossip *gossip, const struct id *peer, struct effects *effects);
/* A fact about the member changed (MERGE_RECORD, _RISEN, _ACCUSED): it is a rumor now. */
void core_news(struct gossip *gossip, struct entry *entry, unsigned found);

/* ---- absorb.c ---- */

/* Merge a judged statement that `from` sent. */
void core_absorb(struct gossip *gossip, const struct id *from,
                 const struct statement *statement, struct effects *effects);

/* ---- self.c ---- */

/* Sign this as our next version. */
void core_issue(struct gossip *gossip, struct record *record, struct effects *effects);
/* The record that waits for its time, if that has come. */
void core_issue_held(struct gossip *gossip, bool now, struct effects *effects);
void core_conflict(struct gossip *gossip, const struct id *from, const char *what,
                   struct effects *effects);
/* Somebody has a statement of ourselves. */
void core_absorb_self(struct gossip *gossip, const struct id *from,
                      const struct statement *statement, struct effects *effects);

/* ---- suspect.c ---- */

/* Judge the member's state anew after a change; tells of it if it changed or `news`. */
void core_settle(struct gossip *gossip, struct entry *entry, bool news, const char *why,
                 struct effects *effects);
/* Our word against a member that is alive or suspect. */
void core_suspect(struct gossip *gossip, struct entry *entry, const char *why,
                  struct effects *effects);
/* A suspect is dead, as far as we can tell. */
void core_expire(struct gossip *gossip, struct entry *entry, const char *why,
                 struct effects *effects);
/* Does more than one say so, where there is more than one? */
bool core_enough(const struct gossip *gossip, const struct entry *entry);
void suspect_tick(struct gossip *gossip, struct effects *effects);

/* ---- check.c ---- */

int64_t core_patience_ms(const struct gossip *gossip, const struct entry *entry);
int64_t core_deadline_ms(const struct gossip *gossip, const struct entry *entry);
void core_ping(struct gossip *gossip, const struct probe *probe, struct effects *effects);
void probe_answered(struct gossip *gossip, struct probe *probe, bool direct,
                    struct effects *effects);
void probe_refused(struct gossip *gossip, struct probe *probe, const struct id *by,
                   struct effects *effects);
void probe_after_refusal(struct gossip *gossip, struct entry *entry,
                         struct effects *effects);
void probe_confirm(struct gossip *gossip, const struct entry *entry,
                   struct effects *effects);
void probe_tick(struct gossip *gossip, struct effects *effects);

#endif
