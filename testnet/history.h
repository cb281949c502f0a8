/*
 * history.h - what happened in a run, put together from the event logs of all its nodes,
 * and what the runner did to them. No clock, no file: a value that is told things.
 *
 *     events.jsonl of each node --history_line()--> [ epochs, steps, marks ] --> expect.h
 *     the runner's faults and joins --------------->                        --> verdict.h
 *
 * All times are milliseconds of the one monotonic clock of the machine.
 */
#ifndef TESTNET_HISTORY_H
#define TESTNET_HISTORY_H

#include "testnet/scenario.h"

#include <stddef.h>

/* An epoch, merged over the nodes that tell of it. */
struct past_epoch {
    int64_t epoch, term, base_step; /* base_step -1: no plan */
    int leader;                     /* a node; -1: nobody said */
    char cause[16];
    char hash[65];
    uint64_t members, workers;            /* bits of nodes */
    int voters_count, voters[VOTERS_MAX]; /* nodes, in order */
    int64_t first_ms;
    int64_t stages, pipelines;
    char *plan; /* JSON: {micro_batch, stages[]} */
};

/* A step that a node says it has applied. */
struct past_step {
    int64_t mono_ms, epoch, step, tokens;
    double loss, step_s;
    uint64_t samples_hash;
    int node;
};

enum mark_kind {
    MARK_START,   /* the process is up */
    MARK_EPOCH,   /* knows this epoch */
    MARK_COMPUTE, /* first forward pass in it */
    MARK_FENCED,
    MARK_PAUSED,
    MARK_RESUMED,
    MARK_ROLLBACK, /* step: to which */
    MARK_FAILED,
    MARK_EVICTED /* it ended for that reason */
};

struct past_mark {
    enum mark_kind kind;
    int node;
    int64_t mono_ms, epoch, step;
};

/* Something that the runner did. */
struct past_fault {
    enum action action;
    char text[64]; /* "kill leader (a1)" */
    uint64_t victims;
    int zone;                      /* of cut, stall and heal; -1: none */
    int64_t at_ms, at_step, epoch; /* step applied and epoch in force then */
    bool leader;                   /* hit who led */
    bool working;                  /* hit the work: a new epoch has to come */
    double seconds;                /* history_settle(): -1: never went on */
    int64_t steps_lost;            /* history_settle() */
};

struct past_join {
    int node;
    int64_t start_ms;
    double seconds, pause_s; /* history_settle(): -1: it never computed */
};

/* Which nodes ran from a time on. */
struct past_presence {
    int64_t at_ms;
    uint64_t running; /* bits of nodes */
    char text[64];    /* what made it so */
};

struct past_node {
    int64_t epoch, step, predicted_bytes;
    double loss, tokens_per_s;
    bool seen, member, paused; /* member of the epoch that it knows */
};

struct history {
    const struct scenario *scenario; /* borrowed */
    struct past_node nodes[TESTNET_NODES_MAX];
    struct past_epoch *epochs; /* by number */
    struct past_step *steps;   /* as told: of each node in its order */
    struct past_mark *marks;
    struct past_fault faults[TESTNET_EVENTS_MAX];
    struct past_join joins[TESTNET_EVENTS_MAX];
    size_t epochs_count, steps_count, marks_count;
    size_t steps_capacity, marks_capacity;
    struct past_presence presences[TESTNET_EVENTS_MAX];
    int faults_count, joins_count, presences_count;
    int64_t term;
    int64_t newest_step;         /* the highest that was ever applied */
    int64_t applied;             /* the highest that is, after what was rolled back */
    int leader;                  /* of the highest term; -1: none known */
    int64_t began_ms, formed_ms; /* of the first node, of the swarm; 0: not yet */
    char job_state[200];         /* "", "running", "done", "failed: ..." */
    char conflict[200];          /* two epochs of one number; empty: none */
    char failure[200];           /* the first failure that a node's engine told of */
};

void history_init(struct history *history, const struct scenario *scenario);
void history_release(struct history *history);

/* One line of a node's event log; what is no event that counts is passed over. */
void history_line(struct history *history, int node, const char *text, size_t len);

/* The newest epoch; NULL before the founding. */
const struct past_epoch *history_newest(const struct history *history);

/* Did the run end, and well? */
bool history_job_ended(const struct history *history);

/* The runner did this now; the faults whose cost is counted are kill, stop, cut,
 * leave, evict. */
struct past_fault *history_fault(struct history *history,
                                 const struct scenario_event *event, uint64_t victims,
                                 int64_t now_ms);
bool fault_costs(const struct past_fault *fault);
void history_join(struct history *history, int node, int64_t start_ms);
void history_presence(struct history *history, const struct scenario_event *event,
                      uint64_t running, int64_t now_ms);
/* When those who ran from then on, and nobody else, were members of one epoch that each
 * of them knew; -1: never, or not before the next change. */
int64_t history_settled(const struct history *history, int presence);
/* Is it the last of several changes within a second? */
bool history_presence_counts(const struct history *history, int presence);

/* Fill in what faults and joins cost, by what has been told until now. */
void history_settle(struct history *history);

/* The applied steps from the first, each once, as the newest epoch that applied them has
 * them; what was rolled back and not done again is left out. The caller frees it. */
struct past_step *history_curve(const struct history *history, size_t *count);

/* Was this step given up, because a later epoch began before it? */
bool history_void(const struct history *history, const struct past_step *step);

#endif
