/*
 * core.h - the inside of gossip, shared by its files and by nobody else.
 *
 *     gossip.c   what arrives, in order: decode, judge, absorb, answer
 *     rumor.c    what is said to whom: statements, piggybacking, answers, digests; our
 *                own record
 *     suspect.c  what is thought of whom: probes under way, accusations, the suspicion
 *                timer
 */
#ifndef GOSSIP_CORE_H
#define GOSSIP_CORE_H

#include "gossip/probe.h"

enum {
    ISSUED_MAX = 64,      /* of our own records, those that we can tell from a twin's */
    FANOUT = 3,           /* peers that hear a rumor at once */
    PROBE_LEAST_MS = 300, /* patience with a probe, at least */
    REFUSED_MS = 1500,    /* from a refused redial to death, with no word from others */
    REFUSED_CONFIRMED_MS = 300, /* and with one */
    SLEPT_MS = 1000,       /* a gap between two calls that tells that we did not run */
    TELL_AGAIN_MS = 200,   /* between two times that one is told what is said of it */
    SPREAD_LEAST_MS = 50,  /* between two rounds of rumors */
    DIGEST_AGAIN_MS = 500, /* between two answers to one peer's digests */
    GREET_LEAST_MS = 250,  /* between two digests to peers just met */
    CONFLICT_AGAIN_MS = 10000,     /* between two reports of a twin */
    RECENT_MS = 10 * 60 * 1000,    /* the dead are called on often for so long */
    KEEP_MS = 24 * 60 * 60 * 1000, /* the dead and those who left are known for so long */
    PIGGYBACK_BYTES =
        16 << 10,            /* statements in a message that are not asked for, about */
    ANSWER_BYTES = 32 << 10, /* statements in a reply to a probe, about */
    RUMORS_BYTES = 128 << 10 /* statements in a rumors frame, about */
};

struct issued {
    uint64_t incarnation;
    uint64_t version;
    struct id hash; /* of the signed record */
};

struct gossip {
    struct gossip_options options;
    struct id id;
    struct table table;
    struct entry *self; /* in the table; NULL until gossip_self() */
    struct prober prober;
    struct issued issued[ISSUED_MAX]; /* by version */
    int64_t now_ms;
    int64_t probe_at_ms, digest_at_ms, reconnect_at_ms, spread_at_ms;
    int64_t spread_ms;       /* last round of rumors */
    int64_t greeted_ms;      /* last digest to a peer just met */
    int64_t conflict_ms;     /* last report; 0: never */
    bool fresh;              /* something is to be spread at once */
    bool listed;             /* some entries are listed for the answer */
    bool telling;            /* some entries are to be told */
    uint64_t stamp;          /* messages so far */
    uint64_t asks[ASKS_MAX]; /* for the answer */
    size_t asks_count;
};

/* ---- rumor.c ---- */

/* Is it accused, and does that matter? */
bool entry_accused(const struct entry *entry);

/* Put a member's statement, or an ask, into the next message. */
void core_list(struct gossip *gossip, struct entry *entry);
void core_ask(struct gossip *gossip, uint64_t prefix);
/* Send a message with what is listed and asked, what is said of the receiver, and rumors
 * as they fit. */
void core_send(struct gossip *gossip, enum frame_kind kind, const struct id *to,
               uint64_t nonce, const struct id *subject, bool answered,
               struct effects *effects);
/* Rumors to `to` if anything is listed or asked. */
void core_answer(struct gossip *gossip, const struct id *to, struct effects *effects);
/* Rumors to a few random peers but for `except` (NULL: nobody), if there are any left. */
void core_spread(struct gossip *gossip, const struct id *except, struct effects *effects);
void core_tell(struct gossip *gossip, struct effects *effects);
void core_digest(struct gossip *gossip, const struct id *to, struct effects *effects);
void core_digest_random(struct gossip *gossip, struct effects *effects);
/* A fact about the member changed: it is a rumor now. */
void core_news(struct gossip *gossip, struct entry *entry);
/* Merge a judged statement that `from` sent. */
void core_absorb(struct gossip *gossip, const struct id *from,
                 const struct statement *statement, struct effects *effects);
/* Sign this as our next version. */
void core_issue(struct gossip *gossip, struct record *record, struct effects *effects);
void core_conflict(struct gossip *gossip, const struct id *from, const char *what,
                   struct effects *effects);

/* ---- suspect.c ---- */

/* Judge the member's state anew after a change; tells of it if it changed or `news`. */
void core_settle(struct gossip *gossip, struct entry *entry, bool news, const char *why,
                 struct effects *effects);
int64_t core_patience_ms(const struct gossip *gossip, const struct entry *entry);
int64_t core_deadline_ms(const struct gossip *gossip, const struct entry *entry);
void core_ping(struct gossip *gossip, const struct probe *probe, struct effects *effects);
void probe_answered(struct gossip *gossip, struct probe *probe, bool direct,
                    struct effects *effects);
void probe_refused(struct gossip *gossip, struct probe *probe, struct effects *effects);
void probe_after_refusal(struct gossip *gossip, struct entry *entry,
                         struct effects *effects);
void probe_tick(struct gossip *gossip, struct effects *effects);

#endif
