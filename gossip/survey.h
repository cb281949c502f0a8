/*
 * survey.h - whose links are probed, when, and at what cost: asks for permission, gives it
 * to others, keeps a budget. No sockets, no clocks.
 *
 *     sender                     keeper of the receiver's zone     receiver
 *       | --- ASK (other zone only) ----> |                          |
 *       | <-- ANSWER: wait ms, 0 granted  |                          |
 *       | --- ASK -------------------------------------------------> |
 *       | <-- ANSWER ----------------------------------------------- |
 *       | === probe ===============================================> |  measures
 *       | --- DONE ---------------------> |  -----------------------> |
 *
 * A node sends one probe at a time and takes one at a time. Between two zones there is one
 * at a time, too, since they may share a path: the keeper, the member of the receiving
 * zone with the lowest id, sees to that. Permissions lapse after SURVEY_GRANT_MS.
 *
 * The budget is two token buckets: half of a hundredth of the uplink's rate, saved up for
 * an hour (so that no hour sees more than a hundredth), and half of 2 GB saved up for a
 * day. As long as the uplink is not known there are 16 MiB.
 */
#ifndef GOSSIP_SURVEY_H
#define GOSSIP_SURVEY_H

#include "transport/base/id.h"
#include "transport/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SURVEY_GRANT_MS = 5000,
    SURVEY_BYTES_MAX = 64 << 20, /* of one probe */
    SURVEY_TARGETS_MAX = 64
};

struct survey;

struct survey *survey_new(uint64_t seed);
void survey_free(struct survey *survey);

/* Whom this node could probe. */
struct survey_target {
    struct id id;
    struct id
        keeper; /* of its zone, if that is not ours and the keeper is here; or empty */
    int confidence;      /* in what is known of the link to it; 0: not measured */
    int64_t bytes_per_s; /* 0: not measured */
    bool wanted;         /* a plan rests on it: goes first */
    bool again;          /* due though confident: one probe may have been disturbed */
};

struct survey_ask {
    struct id to, about; /* the keeper or the target; the target */
    uint64_t nonce;
};

/* Time passes. True: `*ask` is to be sent. Targets are probed whose confidence is below
 * LINK_CONFIDENT, those first that a plan wants. */
bool survey_tick(struct survey *survey, int64_t now_ms,
                 const struct survey_target *targets, size_t count,
                 struct survey_ask *ask);

enum survey_step { SURVEY_NOTHING, SURVEY_ASK, SURVEY_START };

struct survey_start {
    struct id peer;
    int64_t bytes; /* at most */
    int64_t bytes_per_s;
};

/* The answer to an ask came. ASK: `*ask` is to be sent next. START: probe now. */
enum survey_step survey_answered(struct survey *survey, int64_t now_ms,
                                 const struct id *from, uint64_t nonce, int64_t wait_ms,
                                 struct survey_ask *ask, struct survey_start *start);

/* Our probe of this peer ended after so many bytes. True: DONE with `*nonce` goes to it
 * and, unless empty, to `*keeper`. */
bool survey_ended(struct survey *survey, int64_t now_ms, const struct id *peer,
                  int64_t bytes, uint64_t *nonce, struct id *keeper);

/* Another node asks. */
struct survey_request {
    struct id from, about;
    uint64_t nonce;
    const char *from_zone, *to_zone; /* of `from` and of `about` */
    bool receiver, keeper;           /* what we are in this */
};

/* 0: granted; else ask again in so many milliseconds. */
int64_t survey_asked(struct survey *survey, int64_t now_ms,
                     const struct survey_request *request);
void survey_done(struct survey *survey, const struct id *from, uint64_t nonce);

/* What this node sends at best, in bytes a second: the budget is a hundredth of it. */
void survey_uplink(struct survey *survey, int64_t bytes_per_s);

struct survey_counts {
    int64_t probes, sent_bytes; /* since the start */
    int64_t left_bytes;         /* what may be sent now */
    int64_t hour_bytes;         /* what any hour may see */
};
void survey_count(const struct survey *survey, int64_t now_ms,
                  struct survey_counts *counts);

/* At most `most` of the candidates that a node of a large swarm measures: half of them of
 * its own zone, chosen by a hash of both ids, so that everybody is chosen by about as
 * many. `near[i]`: of our zone. Returns how many; `chosen` ascends. */
size_t survey_choose(const struct id *self, const struct id *ids, const bool *near,
                     size_t count, size_t most, size_t *chosen);

#endif
