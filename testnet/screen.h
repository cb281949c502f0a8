/*
 * screen.h - a run while it runs: on a terminal a table that is redrawn below the lines
 * of what happened, without one plain lines.
 */
#ifndef TESTNET_SCREEN_H
#define TESTNET_SCREEN_H

#include "testnet/history.h"

#include <stdio.h>

struct screen {
    FILE *out;
    bool live; /* a terminal */
    int lines; /* of the table, as drawn last */
    int64_t next_ms, start_ms;
    int64_t said_step;
    size_t said_epochs;
    const char *state[TESTNET_NODES_MAX]; /* of each process: "running"; static storage */
};

void screen_init(struct screen *screen, FILE *out, int64_t now_ms);

/* A line of its own. */
void screen_say(struct screen *screen, int64_t now_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What is new in the history, and the table. */
void screen_tick(struct screen *screen, const struct history *history, int64_t now_ms);

/* Leave the table as it is; what follows stands below. */
void screen_end(struct screen *screen);

#endif
