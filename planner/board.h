/*
 * board.h - a request and a fleet, laid out for the search: sums of layer times and sizes,
 * times of messages, so that a stage is priced by a few additions.
 *
 * An option is a pool and a tensor-parallel degree; a setting is a micro-batch size,
 * precision, recompute level and sharding of the optimizer. All tables are made once and
 * only read from then on, but for two caches, because of which each worker has a board of its own.
 */
#ifndef PLANNER_BOARD_H
#define PLANNER_BOARD_H

#include "planner/evaluate.h"
#include "planner/published.h"

#include <stddef.h>
#include <string.h>

enum { SETTINGS_MAX = 64, BOARD_OPTIONS_MAX = FLEET_POOLS_MAX * TP_SLOTS };

struct option {
    int16_t pool;
    int16_t kind;
    int16_t slot;
    int16_t tp;
};

struct setting {
    int micro_batch;
    enum precision precision;
    enum recompute recompute;
    bool shard_optimizer;
    int total; /* micro-batches of an iteration */
    /* Of the layers before one, [layers + 1]; NULL where nothing was measured. */
    double *forward_s[FLEET_KINDS_MAX][TP_SLOTS];
    double *backward_s[FLEET_KINDS_MAX][TP_SLOTS];
    double *update_s[FLEET_KINDS_MAX][TP_SLOTS]; /* published: of the layer itself */
    double *send_s;        /* [curves x sizes]: curve * sizes_count + size */
    int64_t *engine_bytes; /* of our engine's runs of layers, as they were asked for */
};

/* Ring times that were computed before: a cache that only its own content depends on. */
enum { RING_TIMES = 8192 };
struct ring_time {
    double bytes;
    double seconds;
    int32_t curve;
    int16_t parts;
    int32_t width; /* 0: empty */
};

struct board {
    const struct fleet_request *request;
    const struct fleet *fleet;
    bool published;
    int layers;
    int options_count;
    struct option options[BOARD_OPTIONS_MAX];
    int settings_count;
    struct setting settings[SETTINGS_MAX];
    /* Of the layers before one, [layers + 1], at each degree; NULL: no such degree. */
    int64_t *parameters[TP_SLOTS];
    int64_t *kept_bytes[TP_SLOTS];
    int64_t *input_bytes; /* of all inputs; for recompute */
    int64_t largest_kept_bytes[TP_SLOTS];
    double *weight_bytes; /* of whole layers, fp32 */
    int sizes_count;      /* different sizes of layer outputs */
    int *size_of_layer;
    int64_t *sizes;
    int devices;                  /* of all pools */
    struct ring_time *ring_times; /* [RING_TIMES] */
    int32_t fastest;              /* curve between single devices; -1: there is none */
    bool priced;                  /* does the objective or a limit need prices? */
    int16_t pool_of[FLEET_KINDS_MAX][ZONES_MAX];  /* -1: there is none */
    int16_t option_of[FLEET_POOLS_MAX][TP_SLOTS]; /* -1: not to be used */
};

/* Borrows both, which outlive it and pass fleet_check(). */
struct board *board_new(const struct fleet_request *request, const struct fleet *fleet);
void board_free(struct board *board);

/* The same board for another worker: what is found out in passing is its own. Ends before the
 * board does. */
struct board *board_twin(const struct board *board);
void board_twin_free(struct board *twin);

/* board_bytes() by the replay or our engine. */
int64_t board_bytes_replayed(const struct board *board, const struct setting *setting,
                             const struct option *option, int in_flight, int width,
                             int first, int end);

/* Bytes of one device of an option that holds the layers [first, end), `in_flight` stages
 * from the end of the pipeline on, among `width` replicas. */
static inline int64_t
board_bytes(const struct board *board, const struct setting *setting,
            const struct option *option, int in_flight, int width, int first, int end)
{
    if (!board->published || setting->engine_bytes)
        return board_bytes_replayed(board, setting, option, in_flight, width, first, end);
    const int64_t *parameters = board->parameters[option->slot];
    const int64_t *kept = board->kept_bytes[option->slot];
    return PUBLISHED_BYTES_PER_PARAMETER * (parameters[end] - parameters[first]) +
           (int64_t)in_flight * setting->micro_batch * (kept[end] - kept[first]) +
           (option->tp == 1 ? PUBLISHED_OVERHEAD_BYTES : PUBLISHED_OVERHEAD_TP_BYTES);
}

static inline int64_t
board_room(const struct board *board, const struct option *option)
{
    return board->fleet->kinds[option->kind].memory_bytes;
}

/* Was the option measured in this setting? */
static inline bool
board_measured(const struct setting *setting, const struct option *option)
{
    return setting->forward_s[option->kind][option->slot] != NULL;
}

/* Forward and backward of a micro-batch on an option. */
static inline double
board_compute_s(const struct setting *setting, const struct option *option, int first,
                int end)
{
    const double *forward = setting->forward_s[option->kind][option->slot];
    const double *backward = setting->backward_s[option->kind][option->slot];
    return forward[end] - forward[first] + (backward[end] - backward[first]);
}

/* board_ring_s() where it was not reckoned before; where it is kept from then on. */
double board_ring_reckon(const struct board *board, int32_t curve, double bytes,
                         int width, int parts, struct ring_time *out);

/* The reduction of so many bytes over a ring of `width` replicas whose slowest neighbours
 * have this link, nothing overlapped. In the replay the `parts` devices of a group share
 * it. */
static inline double
board_ring_s(const struct board *board, int32_t curve, double bytes, int width, int parts)
{
    uint64_t bits;
    memcpy(&bits, &bytes, sizeof(bits));
    uint64_t hash =
        (bits ^ ((uint64_t)curve << 20) ^ (uint64_t)width) * UINT64_C(0x9e3779b97f4a7c15);
    struct ring_time *known = &board->ring_times[hash >> 51];
    return known->width == width && known->curve == curve && known->bytes == bytes &&
                   known->parts == parts
               ? known->seconds
               : board_ring_reckon(board, curve, bytes, width, parts, known);
}

/* The optimizer step of a stage. */
double board_update_replayed_s(const struct board *board, const struct setting *setting,
                               const struct option *option, int width, int first,
                               int end);

static inline double
board_update_s(const struct board *board, const struct setting *setting,
               const struct option *option, int width, int first, int end)
{
    return board->published
               ? setting->update_s[option->kind][option->slot][first]
               : board_update_replayed_s(board, setting, option, width, first, end);
}

/* The output of a layer from one option to another; FLEET_NEVER_S when they are not
 * joined. */
static inline double
board_send_s(const struct board *board, const struct setting *setting,
             const struct option *from, const struct option *to, int layer)
{
    int32_t curve = *fleet_link(board->fleet, from->pool, from->slot, to->pool, to->slot);
    if (curve < 0)
        return FLEET_NEVER_S;
    return setting
        ->send_s[(int64_t)curve * board->sizes_count + board->size_of_layer[layer]];
}

/* In the replay one device of a group sends to one of the next. */
static inline double
board_boundary_s(const struct board *board, const struct setting *setting,
                 const struct option *from, const struct option *to, int layer)
{
    int32_t curve = *fleet_link(board->fleet, from->pool, 0, to->pool, 0);
    if (curve < 0 ||
        *fleet_link(board->fleet, from->pool, from->slot, to->pool, to->slot) < 0)
        return FLEET_NEVER_S;
    return setting
        ->send_s[(int64_t)curve * board->sizes_count + board->size_of_layer[layer]];
}

/* How long a stage of a pipeline is busy with a micro-batch, and how long that micro-batch is
 * on its way through the stage and on to the next ones. `before` and `after` are the neighbours'
 * options, NULL at the ends. */
struct leg_cost {
    double busy_s;
    double path_s;
};

/* What a stage sends on, to the stage after it, and back, to the one before it; nothing at
 * the ends. */
static inline double
board_activation_s(const struct board *board, const struct setting *setting,
                   const struct option *option, const struct option *after, int end)
{
    if (!after)
        return 0.0;
    return board->published ? board_send_s(board, setting, option, after, end - 1)
                            : board_boundary_s(board, setting, option, after, end - 1);
}

static inline double
board_gradient_s(const struct board *board, const struct setting *setting,
                 const struct option *before, const struct option *option, int first)
{
    if (!before)
        return 0.0;
    return board->published ? board_send_s(board, setting, option, before, first)
                            : board_boundary_s(board, setting, option, before, first - 1);
}

/* The same from its parts. */
static inline struct leg_cost
board_leg_cost(const struct board *board, int stages, const struct option *before,
               const struct option *after, double compute_s, double activation_s,
               double gradient_s)
{
    double transfer_s = activation_s + gradient_s;
    if (board->published) {
        if (before && !after)
            transfer_s = 2.0 * gradient_s;
        else if (!before && stages > 3)
            transfer_s = 2.0 * activation_s;
        return (struct leg_cost){compute_s + transfer_s, compute_s + transfer_s};
    }
    double busy_s = compute_s > transfer_s ? compute_s : transfer_s;
    if (!board->request->framework.overlap)
        busy_s = compute_s + transfer_s;
    return (struct leg_cost){busy_s, compute_s + transfer_s};
}

static inline struct leg_cost
board_leg(const struct board *board, const struct setting *setting, int stages,
          const struct option *before, const struct option *option,
          const struct option *after, int first, int end)
{
    return board_leg_cost(board, stages, before, after,
                          board_compute_s(setting, option, first, end),
                          board_activation_s(board, setting, option, after, end),
                          board_gradient_s(board, setting, before, option, first));
}

#endif
