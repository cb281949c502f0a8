/*
 * effect.h - what a core wants done: the cores (gossip, agree) take an event and the
 * time, and append effects; node carries them out in order, the simulator records them.
 *
 * EFFECT_PERSIST stands before the sends that depend on it: it is durable before they
 * leave.
 */
#ifndef GOSSIP_EFFECT_H
#define GOSSIP_EFFECT_H

#include "transport/base/buf.h"
#include "transport/base/id.h"
#include "transport/frame.h"

enum effect_kind {
    EFFECT_SEND,     /* frame `frame` with body `bytes` to `peer` */
    EFFECT_PERSIST,  /* bytes: the core's whole durable state, replaces the last; synced
                        before the next effect */
    EFFECT_MEMBER,   /* gossip: `peer` changed from state `before` to `after` (enum
                        member_state), or its record did */
    EFFECT_CONFLICT, /* gossip: somebody else speaks with our key: `text` says where;
                        `term` is its boot and `bytes` the address that it gives, as a
                        text, where a record says so */
    EFFECT_LEADER,   /* agree: the leader of term `term` is `peer` (empty: none known) */
    EFFECT_COLLECT,  /* agree: we lead term `term` and nothing is pending: propose when
                        there is reason */
    EFFECT_JUDGE, /* agree: is the decree `bytes` (decree_encode) with hash `hash` right?
                     answer with agree_judged() */
    EFFECT_COMMITTED, /* agree: decree `bytes` with hash `hash` is the newest epoch's,
                         certified in term `term` */
    EFFECT_QUORUM, /* agree: `after` = 1: a quorum is reachable (again), 0: it is not */
    EFFECT_RIVAL   /* agree: `peer` is of another recovery to our generation (`after`),
                      with root `hash`; `text` names both. Said once a minute */
};

struct effect {
    enum effect_kind kind;
    enum frame_kind frame;
    struct id peer;
    struct id hash;
    uint64_t term;
    int before, after;
    uint8_t *bytes; /* owned by the list */
    size_t len;
    char text[160];
};

struct effects {
    struct effect *list;
    size_t count;
    size_t capacity;
};

/* A zeroed struct is an empty list. The returned effect is zeroed but for its kind and a
 * copy of the bytes. */
struct effect *effects_add(struct effects *effects, enum effect_kind kind,
                           const void *bytes, size_t len);
void effects_send(struct effects *effects, const struct id *to, enum frame_kind frame,
                  const void *body, size_t len);
void effects_clear(struct effects *effects);   /* empty, memory kept */
void effects_release(struct effects *effects); /* empty, memory given back */

#endif
