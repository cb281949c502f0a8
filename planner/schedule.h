/*
 * schedule.h - the order of work of one replica of one stage in one step (1F1B:
 * PipeDream-Flush, Narayanan et al., ICML'21). The simulator and the executor
 * read the same list.
 */
#ifndef PLANNER_SCHEDULE_H
#define PLANNER_SCHEDULE_H

enum schedule_kind {
    SCHEDULE_FORWARD,  /* receive the input unless first, compute, send unless last */
    SCHEDULE_BACKWARD, /* receive the gradient unless last, compute, send unless first */
    SCHEDULE_REDUCE,   /* all-reduce over the replicas; exchange the tied gradient */
    SCHEDULE_UPDATE    /* exchange norms (the commit point), apply */
};

struct schedule_op {
    enum schedule_kind kind;
    int micro_batch; /* number within the pipeline; -1 for REDUCE and UPDATE */
    int slot; /* activation slot, below schedule_in_flight(); 0 for REDUCE and UPDATE */
};

/* Activation slots that stage `stage` of `stages` needs: min(stages - stage,
 * micro_batches). */
int schedule_in_flight(int stages, int stage, int micro_batches);

/* Fills `ops` (room for schedule_length() entries). */
int schedule_length(int micro_batches); /* 2 * micro_batches + 2 */
void schedule_fill(int stages, int stage, int micro_batches, struct schedule_op *ops);

/* One entry of that list, without the list; 0 <= index < schedule_length(). */
struct schedule_op schedule_at(int stages, int stage, int micro_batches, int index);

#endif
