/*
 * show.h - what people read of a run and of a swarm: lines made of a node's events and of
 * its status document (status.h).
 *
 *     submitted; the members measure themselves on this model
 *     epoch 2 (submitted): 3 nodes, leader a1, 2 stages
 *     step 30  loss 4.1234  5400 tokens/s  epoch 2  3 nodes
 *     the run ended: done
 *     steps 1 to 30, loss 4.1234, 12.3 s, 5400 tokens/s, checkpoint DIR/step-000030
 *
 * On a terminal the step line is rewritten in place and stays when the run ends.
 * Elsewhere there is at most one a second, and always the last one.
 */
#ifndef NODE_COMMAND_SHOW_H
#define NODE_COMMAND_SHOW_H

#include "transport/base/limits.h"
#include "transport/json.h"

#include <stdio.h>

/* One who follows a run. The caller reads the first fields. */
struct show {
    FILE *out;
    bool live; /* `out` is a terminal */
    bool accepted;
    bool failed;
    char ended[160]; /* how the run ended; empty: it goes on */
    int64_t nodes;   /* members; 0: not known */
    bool left;       /* the node that is asked left others behind */

    char line[160]; /* the newest step */
    bool waiting;   /* it is not shown yet */
    bool on_screen; /* live: the cursor stands behind it */
    int64_t began_ms, shown_ms;
    int64_t epoch, participating;
    int64_t first_step, last_step;    /* 0: none yet */
    int64_t measured_ms, measured_to; /* from the first step's begin to the last's end */
    double tokens, loss;
    char checkpoint[PATH_BYTES_MAX];
};

/* `now_ms` is clock_ms(), here and below. */
void show_begin(struct show *show, FILE *out, bool live, int64_t now_ms);
/* Shows an event; one that does not concern a run's follower shows nothing. False: the
 * run has ended, and the summary is shown. */
bool show_event(struct show *show, int64_t now_ms, const struct json *event);
/* Without an event: a step line that waits is shown when it is due. */
void show_tick(struct show *show, int64_t now_ms);
/* Nothing more follows: the last step line is shown, whatever its time. */
void show_finish(struct show *show);

/* The status document in full; `all`: members that are gone for long, too. */
void show_status(FILE *out, const struct json *status, bool all);

/* ---- parts of both ---- */

/* A whole number of a node's. What no count, step or time reaches is cut to 2^53 either way,
 * so that sums and differences of a few of them are numbers, too. */
int64_t show_int(const struct json *object, const char *key, int64_t otherwise);
/* "1 node", "2 nodes". Static storage of a few calls. */
const char *show_count(int64_t count, const char *noun);
/* What of the job's fixed plan was not kept, by a plan document that is loosened. */
void show_loosened(const struct json *plan, char *text, size_t size);

#endif
