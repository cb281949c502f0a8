/*
 * agree_state.h - what an agree is made of, shared by its files:
 *
 *     agree.c          life cycle, dispatch, timers, questions
 *     agree_state.c    the durable part as a blob
 *     agree_chain.c    links of the chain: keep, export, import, follow
 *     agree_elect.c    who leads: beats, pre-votes, votes
 *     agree_decide.c   what is decided: proposals, acceptances, commits, catching up
 *     agree_recover.c  a lost majority: a new generation by hand
 *
 * Private to them and to tests that look inside.
 *
 * Why a leader may decide epoch after epoch without a new vote. `open` says: no decree of
 * the next epoch can be certified in a term below ours. A leader gets it from the votes
 * when nothing was accepted, or nothing that could have been chosen. It passes on: the
 * epoch after that can only be proposed by who has seen a certificate of this one, and a
 * commit raises the promise to the certificate's term, so that no candidate for it has a
 * term at or below ours. A leader that adopted an earlier proposal is not open and asks
 * for votes again after its commit.
 */
#ifndef GOSSIP_AGREE_STATE_H
#define GOSSIP_AGREE_STATE_H

#include "gossip/agree.h"
#include "gossip/agree_message.h"
#include "transport/base/rng.h"

enum {
    AGREE_RESEND_MS =
        300, /* lossy control plane: ask again those who have not answered */
    AGREE_ELECTION_MS = 3000,  /* a candidacy is given up */
    AGREE_PROPOSAL_MS = 10000, /* a proposal is given up */
    AGREE_RANK_MS = 500,       /* per rank after silence */
    AGREE_RANK_GONE_MS = 100,  /* per rank when the leader is known to be gone */
    AGREE_PAUSE_MS = 300,      /* before a refused leader asks for votes again */
    AGREE_POLL_MS = 1000,      /* without a leader, ask somebody for the newest decree */
    AGREE_ANSWER_MS = 100,     /* one decree per peer and this time */
    AGREE_RESIGNED_MS = 10000, /* who resigned is no candidate */
    AGREE_RIVAL_MS = 60000,    /* a rival recovery is said again */
    AGREE_RECENT_MAX = 64
};

static const uint64_t agree_term_jump = 1 << 20;
static const int64_t agree_never = -((int64_t)1 << 60); /* a time before all times */

/* The newest links of the chain, encoded, in ascending order without gaps. */
struct chain {
    size_t count;
    size_t bytes;
    struct {
        uint64_t epoch;
        uint8_t *bytes; /* owned */
        size_t len;
    } links[AGREE_LINKS_MAX];
};

/* The recovery that began a generation: its hash, and its link as it came. Generation 0
 * has none. */
struct root {
    struct id hash;
    uint8_t *bytes; /* owned */
    size_t len;
};

/* A round of pre-votes, or of votes. */
struct round {
    uint64_t term;
    uint32_t granted, refused; /* by voter */
    uint32_t empty;            /* granted, and had accepted nothing */
    int64_t began_ms, sent_ms;
    uint64_t best_term; /* of what was accepted; 0: nothing */
    struct decree best;
    struct id best_hash;
};

struct proposal {
    bool active;
    bool willing; /* we ourselves would accept it */
    uint32_t accepted, refused;
    struct decree decree;
    struct id hash;
    uint8_t signatures[VOTERS_MAX][KEY_SIGNATURE_BYTES];
    struct buf message; /* PROPOSE */
    int64_t began_ms, sent_ms;
};

/* A decree that node is judging. */
struct judging {
    bool active;
    struct id from;
    uint64_t term;
    struct decree decree;
    struct id hash;
};

struct agree {
    struct agree_options options;
    struct id self;
    struct rng rng;
    struct authority authority;

    /* Durable. */
    struct id swarm;
    uint64_t promised; /* no vote and no acceptance below it */
    struct id voted;   /* to whom it was promised */
    uint64_t amnesia;  /* state was lost: no vote until a decree lists us with this
                          incarnation; 0: all is known */
    bool founded;      /* there is a decree */
    struct decree decree;
    struct id hash;
    struct certificate certificate;
    struct chain chain;
    struct root root;       /* of our generation */
    uint64_t accepted_term; /* 0: nothing accepted for the next epoch */
    struct decree accepted;
    struct id accepted_hash;

    /* Who leads. */
    enum agree_role role;
    struct id leader;
    uint64_t leader_term;
    int64_t leader_heard_ms;
    bool leader_gone;
    struct id lost;     /* the leader that is being replaced */
    uint64_t seen_term; /* highest heard of */
    int64_t election_at_ms;
    int64_t resigned_until_ms;
    bool yielded;
    bool renewing; /* we lead and ask for votes again */
    int64_t round_trip_ms;
    int64_t heard_ms[VOTERS_MAX];
    bool gone[VOTERS_MAX];
    bool quorum;
    int64_t quorum_ms;
    struct round round;
    struct {
        struct id from;
        struct vote_ask ask;
        int64_t at_ms;
    } refused; /* the last pre-vote that we refused because a leader lives */

    /* What is decided. */
    bool open;
    /* The last proposal was refused: wait for more votes before adopting. */
    bool stubborn;
    struct proposal proposal;
    int64_t renew_at_ms; /* 0: no need */
    struct judging judging;
    struct {
        struct id hash;
        uint64_t term;
        bool right;
        char reason[AGREE_TEXT_SIZE];
    } verdict;
    int64_t beat_at_ms;
    int64_t current_ms; /* last beat of a leader that named our newest epoch; 0: none */
    int64_t poll_at_ms;
    int64_t behind_since_ms; /* somebody has decrees out of our reach; 0: nobody */
    uint64_t poll_next;
    struct id rival; /* root of another recovery to our generation, last told of */
    int64_t rival_at_ms;
    struct {
        struct id peer;
        enum frame_kind kind;
        int64_t at_ms;
    } recent[AGREE_RECENT_MAX];
    size_t recent_next;
};

/* Following a chain of links from a decree that we have. A recovery, signed with the
 * swarm's secret, may be stepped on from any decree of a lower generation. */
struct walk {
    const struct authority *authority;
    bool started;     /* there is a decree to start from */
    struct decree at; /* where we are */
    struct id hash;
    struct certificate certificate;
    size_t steps;
    struct chain chain; /* the links that were followed */
    struct root root;   /* of the generation where we are */
    struct id rival;    /* not empty: another recovery to that generation */
};

/* ---- agree_state.c ---- */

void agree_persist(const struct agree *agree, struct effects *effects);
int agree_load(struct agree *agree, const void *saved, size_t len, struct err *err);

/* ---- agree_chain.c ---- */

void chain_push(struct chain *chain, uint64_t epoch, const void *bytes, size_t len);
void chain_add(struct chain *chain, const struct decree *decree,
               const struct certificate *certificate);
void chain_clear(struct chain *chain);
void root_set(struct root *root, const struct id *hash, const void *bytes, size_t len);
/* COMMIT with the links above `epoch`, as far as there are any, and the newest decree's
 * body. */
void agree_commit_encode(const struct agree *agree, uint64_t epoch, struct buf *out);

void walk_start(struct walk *walk, const struct agree *agree);
/* Follow the message's links, each verified by the one before; `trusted`: the first, when
 * there is nothing before it, is taken as it is, but its generation needs its root.
 * ERR_PEER: they begin too late. ERR_AUTH with `walk->rival`: they are of another
 * recovery to our generation. Arrives at a decree with its body, unless no step was
 * made. */
int walk_along(struct walk *walk, const struct commit *message, bool trusted,
               struct err *err);
/* Where the walk arrived becomes ours; decide_settle() follows. */
void walk_take(struct walk *walk, struct agree *agree, struct effects *effects);
void walk_release(struct walk *walk);

/* ---- agree.c ---- */

/* Our place, or another's, among the voters; -1: none. */
int agree_voter_index(const struct agree *agree, const struct id *id);
/* May we vote and lead? */
bool agree_votes(const struct agree *agree);
/* Highest term that we promised, or that somebody leads in. */
uint64_t agree_floor(const struct agree *agree);

/* Lowest term of a leader to be followed. Who does not vote follows one below its own
 * promise, too, and below the term of a leader that it has lost: such a leader need not
 * know of either, and would never be followed. */
uint64_t agree_follow_floor(const struct agree *agree);
/*
 * Terms are words that nobody proves, and one near the largest number would be the last:
 * a voter goes at most agree_term_jump above what it knows of, and takes note of what is
 * beyond by as much, so that those who are apart meet all the same. A certificate proves
 * its term and raises a promise as far as it says.
 */
bool agree_term_within(const struct agree *agree, uint64_t term);
void agree_term_note(struct agree *agree, uint64_t term);
/* The term to stand in. */
uint64_t agree_term_next(const struct agree *agree);
int64_t agree_silence(const struct agree *agree);
int64_t agree_resend(const struct agree *agree);
bool agree_recently(struct agree *agree, int64_t now_ms, const struct id *peer,
                    enum frame_kind kind, int64_t interval_ms);
void agree_lead_by(struct agree *agree, const struct id *leader, uint64_t term,
                   struct effects *effects);
/* Leave candidacy or leadership. */
void agree_step_down(struct agree *agree, struct effects *effects);

/* ---- agree_elect.c ---- */

int beat_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                 struct effects *effects, struct err *err);
int beat_reply_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                       struct effects *effects, struct err *err);
int prevote_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                    struct effects *effects, struct err *err);
int prevote_reply_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                          struct effects *effects, struct err *err);
int vote_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                 struct effects *effects, struct err *err);
int vote_reply_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                       struct effects *effects, struct err *err);
/* Somebody with at least our epoch leads: follow it. */
void elect_follow(struct agree *agree, int64_t now_ms, const struct id *leader,
                  uint64_t term, struct effects *effects);
/* Candidacy at the latest after silence, or (quick) as soon as the ranks allow. */
void elect_arm(struct agree *agree, int64_t now_ms, bool quick);
void elect_begin(struct agree *agree, int64_t now_ms, struct effects *effects);
void elect_tick(struct agree *agree, int64_t now_ms, struct effects *effects);
void elect_gone(struct agree *agree, int64_t now_ms, struct effects *effects);
void elect_beat(struct agree *agree, int64_t now_ms, const struct id *successor,
                struct effects *effects);

/* ---- agree_decide.c ---- */

int propose_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                    struct effects *effects, struct err *err);
int accept_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                   struct effects *effects, struct err *err);
int reject_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                   struct effects *effects, struct err *err);
int commit_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                   struct effects *effects, struct err *err);
int fetch_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                  struct effects *effects, struct err *err);
/* Takes the decree (zeroed afterwards). */
void decide_propose(struct agree *agree, int64_t now_ms, struct decree *decree,
                    bool adopted, struct effects *effects);
/* Make this certified decree ours: the blob, EFFECT_COMMITTED. Takes the decree.
 * decide_settle() follows. */
void decide_store(struct agree *agree, struct decree *decree, const struct id *hash,
                  const struct certificate *certificate, struct effects *effects);
/* Our role in the new epoch. */
void decide_settle(struct agree *agree, int64_t now_ms, struct effects *effects);
void decide_tick(struct agree *agree, int64_t now_ms, struct effects *effects);
void decide_drop(struct agree *agree);
/* The newest decree to all members, of the one before and of it. */
void decide_spread(struct agree *agree, const struct decree *before,
                   struct effects *effects);
/* Ask for the newest decree; tell it. */
void decide_fetch(struct agree *agree, int64_t now_ms, const struct id *from,
                  struct effects *effects);
void decide_tell(struct agree *agree, int64_t now_ms, const struct id *to, uint64_t epoch,
                 struct effects *effects);

/* ---- agree_recover.c ---- */

/* A peer is of another recovery to our generation: it is said, and the peer learns of
 * ours. */
void recover_rival(struct agree *agree, int64_t now_ms, const struct id *peer,
                   const struct id *rival, const char *text, struct effects *effects);

#endif
