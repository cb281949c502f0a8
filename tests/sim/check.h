/*
 * check.h - what must hold, looked at after every event (docs/protocol.md, "Invariants").
 *
 *     I1 I2 I7   what every node takes in as committed: tests/gossip/agree_history.h
 *     I3 I4      votes, acceptances and proposals as they leave
 *     I5         an acceptance follows a judgement, for the epoch after the voter's own
 *     I6         epochs of a node and of its data plane only rise (plane.c)
 *     I9         one leader per epoch and term
 *     L2         nobody raises its term without having heard a quorum lately
 *     steps      one outcome per step and epoch, and one state per name; everybody prepared
 *                what anybody applied; every sample counted once; nothing is given up that
 *                the members hold
 */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include "node/engine/train.h"
#include "tests/sim/world.h"

void check_open(void);
void check_close(void);

/* After each event of a process; when it starts; when it is gone. */
void check_process(struct host *host);
void check_process_starts(struct host *host);
void check_process_gone(const struct host *host);
/* Its agreement's state was taken from it: what it promised nobody remembers. */
void check_forgotten(const struct host *host);
/* If these hosts (a mask) were lost: do those who remember what they promised decide after
 * the newest decree that they know, each that was decided after it, and each that was
 * proposed and may be chosen next? */
bool check_decides(uint64_t lost);

void check_sent(const struct host *host, const struct id *to, enum frame_kind kind,
                const void *body, size_t len);
void check_judged(const struct host *host, const struct id *hash); /* and found right */
void check_heard(const struct host *host, const struct id *from, enum frame_kind kind,
                 const void *body, size_t len);

/* ---- check_steps.c ---- */

void check_steps_open(void);
void check_steps_close(void);
/* The engine: node `self` of the epoch is prepared for a step; `workers`: who has to be. */
void check_prepared(const struct host *host, const struct id *job, uint64_t epoch,
                    int64_t step, int self, uint64_t workers);
/* A step was applied with what was computed in `computed`, while in `epoch`. */
void check_applied(const struct host *host, const struct train_job *job,
                   const struct lineage *computed, uint64_t epoch, int64_t step,
                   uint64_t chain, uint64_t samples_hash);
/* What a node says it holds under a name is what all others have under it. */
void check_state(const struct host *host, const struct id *job,
                 const struct state_name *name, uint64_t chain);
/* State from which an epoch goes on. */
void check_base(const struct host *host, const struct train_job *job, uint64_t epoch,
                int64_t step, uint64_t chain);
/* The sum of the hashes of a step's samples. */
uint64_t check_samples(const struct train_job *job, int64_t step, int first, int count);
uint64_t check_seed_chain(const struct train_job *job);

/* ---- for the end of a run ---- */

uint64_t check_newest_epoch(void);
const struct decree *check_newest_decree(void);
/* What was decided for this epoch, as far as anybody has taken it in; NULL. */
const struct decree *check_decree(uint64_t epoch);
int64_t check_steps(void); /* applied, over all epochs and nodes */

#endif
