/*
 * story_guard.h - stories of who may be in a swarm: in a fifth of all seeds somebody evicts
 * a node, hands out invites, keeps a list of who is allowed, or has lost a majority for
 * good and recovers by hand, while all the other trouble goes on.
 *
 *     story_guard.c    what people do: they ask at a node, and again until it is done
 *     story_exile.c    what strangers and outcasts try, and when hosts start and end
 *     guard_check.c    what must hold
 *
 * An outcast host is started and ended here alone, and nobody waits for it.
 */
#ifndef TESTS_SIM_STORY_GUARD_H
#define TESTS_SIM_STORY_GUARD_H

#include "tests/sim/world.h"

/* Which story a seed tells. */
enum guard_kind {
    GUARD_NONE,
    GUARD_EVICT,   /* a node is evicted, and tries to come back in all ways */
    GUARD_INVITE,  /* more come by an invite than it is for */
    GUARD_LIST,    /* only who is allowed joins */
    GUARD_RECOVER, /* a majority is lost, and comes back after the recovery */
    GUARD_ISLAND,  /* one ends right after it joined, and comes back knowing nobody */
    GUARD_KINDS
};

enum { GUARD_EXTRA_MAX = 6, GUARD_LOOK_US = 100 * MS, GUARD_SHUT_US = 5 * SECOND };

struct guard {
    enum guard_kind kind;
    struct rng rng;   /* its own, so that other seeds' stories stay as they are */
    bool asked, done; /* what this story is about: asked for; so in the newest epoch */
    int64_t due_us, again_us;
    int subject;            /* the host that is evicted; -1: none yet */
    struct id evicted;      /* its identity then */
    struct buf old_secret;  /* before it was evicted */
    int first_extra, extra; /* hosts that only this story has */
    struct id extra_ids[GUARD_EXTRA_MAX];
    char invite[1024];
    int uses, came; /* by the invite: how many it lets in, how many got in */
    struct id guests[GUARD_EXTRA_MAX];
    bool calm;       /* list: the mode is to be "secret" again; evict: given up */
    uint64_t lost;   /* recover: these hosts do not run */
    int64_t back_us; /* recover: when they come back; 0: not known yet */
    bool apart;      /* ... and do not reach the others at first */
    int64_t met_us;  /* ... and when they do */
    int attempts;    /* to come back, of the evicted one */
};
extern struct guard guard;

/* Is this one of the seeds? Before the hosts are made: draws nothing of the world's. */
void guard_open(uint64_t seed);
void guard_close(void);
void guard_founded(void); /* its first node is alone still */
void guard_begin(void);   /* the swarm has formed */
/* It is to find its swarm by itself: nobody helps it. */
bool guard_alone(const struct host *host);
void guard_heal(void);  /* everything else is healed */
bool guard_holds(void); /* a majority is lost now: nobody else may be */
/* Not settled yet, as far as this story goes: why. NULL: it is. */
const char *guard_waits(void);

/* ---- guard_check.c ---- */

void guard_check_open(void);
/* A host has taken in a decree; `newest`: as the first of all. */
void guard_committed(const struct host *host, bool newest);
/* The key whose signature may make this recovery. */
void guard_authority(const struct decree *decree, struct id *admit_id);
void guard_look(void); /* every GUARD_LOOK_US */

/* ---- story_exile.c ---- */

void exile_look(void);
void exile_found(void); /* GUARD_ISLAND: it joins and ends */
/* It was let in and was never a member when the secret was replaced: its log says that it
 * has another one, and whoever looks after it gives it the new one. */
bool guard_outdated(const struct host *host);
/* A host that only this story has; it runs nothing yet. */
struct host *exile_host(int index);

static inline uint64_t
guard_below(uint64_t bound)
{
    return rng_below(&guard.rng, bound);
}

#endif
