/*
 * profile.h - profiles as JSON files, one for each model and device type
 * (docs/planning.md, "Profiles"): what `flotilla profile` writes and `flotilla plan`
 * reads.
 */
#ifndef NODE_PLAN_PROFILE_H
#define NODE_PLAN_PROFILE_H

#include "transport/base/buf.h"
#include "transport/base/err.h"
#include "transport/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PROFILE_MODEL_MAX = 64, /* bytes of a model's name */
    PROFILE_SIZES_MAX = 16,
    PROFILE_TIMES_MAX = 256,
    PROFILE_TP_MAX = 64,
    PROFILE_BYTES_MAX = 8 << 20
};

/* What the layers hold at one tensor-parallel degree; of one rank. */
struct profile_sizes {
    int tp;
    int64_t *parameters;       /* [layers], owned */
    int64_t *output_elements;  /* sent to the next layer, of one sequence */
    int64_t *kept_elements;    /* kept for the backward pass, of one sequence */
    int64_t update_parameters; /* that an update_s covers; 0: those of its own layer */
};

/* What they take at one degree and micro-batch, all of the group together. */
struct profile_times {
    int tp;
    int micro_batch;
    bool bf16;         /* else fp32 */
    double *forward_s; /* [layers], owned */
    double *backward_s;
    double *update_s;
};

struct profile_file {
    char model[PROFILE_MODEL_MAX + 1];
    char device[NAME_BYTES_MAX + 1];
    int layers;
    int64_t tokens;        /* of one sequence */
    int64_t element_bytes; /* of a parameter and of an activation as measured: 4 */
    int sizes_count;
    struct profile_sizes *sizes; /* ascending tp, owned */
    int times_count;
    struct profile_times *times; /* ascending precision, tp, micro_batch; owned */
};

/* ERR_USAGE with file, member and limit: a key that is not known, a list with a hole, a
 * degree without its sizes, the same degree and micro-batch twice. */
int profile_file_read(const char *path, struct profile_file *out, struct err *err);
int profile_file_parse(const char *name, const char *text, size_t len,
                       struct profile_file *out, struct err *err);
void profile_file_release(struct profile_file *profile);

/* Room for so many sizes and times of so many layers, zeroed. */
void profile_file_init(struct profile_file *profile, int layers, int sizes_count,
                       int times_count);
void profile_file_write(const struct profile_file *profile, struct buf *out);

#endif
