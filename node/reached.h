/*
 * reached.h - how far a run was, as far as this node saw: kept in the data folder, so
 * that a node that lost its state can still say what was there. When all nodes of a swarm
 * were ended at one time the run goes on from a checkpoint; only from this do they know
 * that steps are done again (`rollback` in the event log).
 */
#ifndef NODE_REACHED_H
#define NODE_REACHED_H

#include "node/engine/recover.h"
#include "transport/base/err.h"

struct reached {
    struct id job;
    int64_t step; /* last applied; 0: nothing is known */
    uint64_t samples_hash;
    int64_t kept_step, kept_ms; /* what the file says, since when */
};

enum { REACHED_KEEP_MS = 5000 };

/* A file that is not there, or damaged, is nothing known. */
void reached_load(struct reached *reached, const char *folder);
/* A step was applied; written to the folder at most once in REACHED_KEEP_MS. ERR_SYSTEM
 * leaves what is in memory. */
int reached_note(struct reached *reached, int64_t now_ms, const char *folder,
                 const struct id *job, int64_t step, uint64_t samples_hash,
                 struct err *err);
/* What a node without state of the job adds to its progress: the step, and no holding. */
void reached_fill(const struct reached *reached, const struct id *job,
                  struct progress *progress);

#endif
