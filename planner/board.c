#include "planner/board.h"
#include "planner/memory.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* ---- tables of the model ---- */

static void
sum_sizes(struct board *board)
{
    const struct layer_table *table = &board->fleet->table;
    int layers = board->layers;
    size_t room = (size_t)layers + 1;
    board->input_bytes = xcalloc(room, sizeof(*board->input_bytes));
    board->weight_bytes = xcalloc(room, sizeof(*board->weight_bytes));
    board->size_of_layer = xcalloc(room, sizeof(*board->size_of_layer));
    board->sizes = xcalloc(room, sizeof(*board->sizes));
    for (int slot = 0; slot < TP_SLOTS; slot++) {
        const struct layer_size *sizes = table->sizes[slot];
        if (!sizes)
            continue;
        board->parameters[slot] = xcalloc(room, sizeof(int64_t));
        board->kept_bytes[slot] = xcalloc(room, sizeof(int64_t));
        for (int l = 0; l < layers; l++) {
            board->parameters[slot][l + 1] =
                board->parameters[slot][l] + sizes[l].parameters;
            board->kept_bytes[slot][l + 1] =
                board->kept_bytes[slot][l] + sizes[l].kept_bytes;
            if (sizes[l].kept_bytes > board->largest_kept_bytes[slot])
                board->largest_kept_bytes[slot] = sizes[l].kept_bytes;
        }
    }
    for (int l = 0; l < layers; l++) {
        const struct layer_size *size = &table->sizes[0][l];
        board->input_bytes[l + 1] =
            board->input_bytes[l] + (l > 0 ? table->sizes[0][l - 1].output_bytes : 0);
        board->weight_bytes[l + 1] =
            board->weight_bytes[l] + 4.0 * (double)size->parameters;
        if (table->engine && l + 1 == layers) /* the tied gradient, kept apart */
            board->weight_bytes[l + 1] +=
                4.0 * (double)table->engine->vocabulary * (double)table->engine->hidden;
        int at = 0;
        while (at < board->sizes_count && board->sizes[at] != size->output_bytes)
            at++;
        board->sizes[at] = size->output_bytes;
        board->size_of_layer[l] = at;
        if (at == board->sizes_count)
            board->sizes_count++;
    }
}

/* ---- settings ---- */

static void
sum_times(struct board *board, struct setting *setting, int kind, int slot,
          const struct layer_time *times)
{
    size_t room = (size_t)board->layers + 1;
    double *forward = xcalloc(room, sizeof(*forward));
    double *backward = xcalloc(room, sizeof(*backward));
    double *update = xcalloc(room, sizeof(*update));
    double correction = board->fleet->kinds[kind].correction;
    for (int l = 0; l < board->layers; l++) {
        double again = setting->recompute == RECOMPUTE_LAYERS ? times[l].forward_s : 0.0;
        forward[l + 1] = forward[l] + times[l].forward_s * correction;
        backward[l + 1] = backward[l] + (times[l].backward_s + again) * correction;
        update[l + 1] = update[l] + times[l].update_s * correction;
        if (board->published || board->fleet->table.update_parameters[slot] > 0)
            update[l] = times[l].update_s * correction;
    }
    setting->forward_s[kind][slot] = forward;
    setting->backward_s[kind][slot] = backward;
    setting->update_s[kind][slot] = update;
}

static bool
setting_fill(struct board *board, struct setting *setting)
{
    const struct fleet *fleet = board->fleet;
    bool any = false;
    setting->total = board->request->sequences / setting->micro_batch;
    for (int o = 0; o < board->options_count; o++) {
        const struct option *option = &board->options[o];
        const struct layer_time *times =
            fleet_kind_times(&fleet->kinds[option->kind], setting->precision,
                             setting->micro_batch, option->tp);
        if (!times)
            continue;
        any = true;
        if (!setting->forward_s[option->kind][option->slot])
            sum_times(board, setting, option->kind, option->slot, times);
    }
    if (!any)
        return false;
    size_t count = (size_t)fleet->curves_count * (size_t)board->sizes_count;
    setting->send_s = xcalloc(count + 1, sizeof(*setting->send_s));
    double share = setting->precision == PRECISION_BF16 && !board->published ? 0.5 : 1.0;
    for (int c = 0; c < fleet->curves_count; c++)
        for (int s = 0; s < board->sizes_count; s++)
            setting->send_s[(int64_t)c * board->sizes_count + s] =
                fleet_send_s(&fleet->curves[c], (double)board->sizes[s] *
                                                    (double)setting->micro_batch * share);
    return true;
}

static void
setting_add(struct board *board, int micro_batch, int variant)
{
    const struct fleet_request *request = board->request;
    const struct {
        enum choice choice;
        bool on;
    } parts[] = {{request->bf16, variant & 1},
                 {request->recompute, variant >> 1 & 1},
                 {request->shard_optimizer, variant >> 2 & 1}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].choice != CHOICE_OPEN &&
            parts[i].on != (parts[i].choice == CHOICE_ON))
            return;
    if (board->published && variant >> 1 != 0)
        return;
    if (board->settings_count == SETTINGS_MAX)
        return;
    struct setting *setting = &board->settings[board->settings_count];
    *setting = (struct setting){
        .micro_batch = micro_batch,
        .precision = variant & 1 ? PRECISION_BF16 : PRECISION_FP32,
        .recompute = variant >> 1 & 1 ? RECOMPUTE_LAYERS : RECOMPUTE_NONE,
        .shard_optimizer = (variant >> 2 & 1) != 0,
    };
    if (setting_fill(board, setting))
        board->settings_count++;
}

/* Micro-batch sizes that anything was measured with and that keep the batch, ascending. */
static int
list_sizes(const struct board *board, int sizes[MICRO_BATCH_SIZES_MAX])
{
    const struct fleet *fleet = board->fleet;
    int count = 0;
    int last = 0;
    for (;;) {
        int next = 0;
        for (int k = 0; k < fleet->kinds_count; k++) {
            for (int t = 0; t < fleet->kinds[k].times_count; t++) {
                int size = fleet->kinds[k].times[t].micro_batch;
                if (size > last && (next == 0 || size < next))
                    next = size;
            }
        }
        if (next == 0 || count == MICRO_BATCH_SIZES_MAX)
            return count;
        last = next;
        if (board->request->sequences % next != 0 ||
            (board->request->micro_batch > 0 && next != board->request->micro_batch))
            continue;
        sizes[count++] = next;
    }
}

/* The fastest link between single devices, by a message of a few megabytes. */
static int32_t
fastest_link(const struct fleet *fleet)
{
    int32_t best = -1;
    double best_s = 0.0;
    for (int a = 0; a < fleet->pools_count; a++) {
        for (int b = 0; b < fleet->pools_count; b++) {
            int32_t curve = *fleet_link(fleet, a, 0, b, 0);
            if (curve < 0)
                continue;
            double seconds = fleet_send_s(&fleet->curves[curve], 8e6);
            if (best < 0 || seconds < best_s) {
                best = curve;
                best_s = seconds;
            }
        }
    }
    return best;
}

/* What is found out in passing. */
static void
make_caches(struct board *board)
{
    board->ring_times = xcalloc(RING_TIMES, sizeof(*board->ring_times));
    for (int s = 0; s < board->settings_count; s++) {
        struct setting *setting = &board->settings[s];
        if (board->fleet->table.engine)
            setting->engine_bytes =
                xcalloc(((size_t)board->layers + 1) * 8, sizeof(*setting->engine_bytes));
    }
}

struct board *
board_new(const struct fleet_request *request, const struct fleet *fleet)
{
    struct board *board = xcalloc(1, sizeof(*board));
    board->request = request;
    board->fleet = fleet;
    board->published = fleet->cost_model == COST_MODEL_PUBLISHED;
    board->layers = fleet->table.layers_count;
    board->fastest = fastest_link(fleet);
    board->priced = request->objective == OBJECTIVE_COST ||
                    request->usd_per_iteration_max >= 0.0 ||
                    request->usd_per_hour_max >= 0.0;
    sum_sizes(board);
    memset(board->pool_of, 0xff, sizeof(board->pool_of));
    memset(board->option_of, 0xff, sizeof(board->option_of));
    for (int p = 0; p < fleet->pools_count; p++) {
        const struct fleet_pool *pool = &fleet->pools[p];
        board->pool_of[pool->kind][pool->zone] = (int16_t)p;
        for (int slot = 0; slot < TP_SLOTS; slot++) {
            int tp = 1 << slot;
            if (tp > pool->devices || tp > fleet_pool_group_max(fleet, p) ||
                !fleet->table.sizes[slot] || (request->tp > 0 && tp != request->tp))
                continue;
            board->option_of[p][slot] = (int16_t)board->options_count;
            board->options[board->options_count++] = (struct option){
                (int16_t)p, (int16_t)pool->kind, (int16_t)slot, (int16_t)tp};
        }
        board->devices += pool->devices;
    }
    int sizes[MICRO_BATCH_SIZES_MAX];
    int count = list_sizes(board, sizes);
    for (int variant = 0; variant < 8; variant++)
        for (int i = 0; i < count; i++)
            setting_add(board, sizes[i], variant);
    make_caches(board);
    return board;
}

void
board_free(struct board *board)
{
    if (!board)
        return;
    for (int s = 0; s < board->settings_count; s++) {
        struct setting *setting = &board->settings[s];
        for (int k = 0; k < FLEET_KINDS_MAX; k++) {
            for (int slot = 0; slot < TP_SLOTS; slot++) {
                free(setting->forward_s[k][slot]);
                free(setting->backward_s[k][slot]);
                free(setting->update_s[k][slot]);
            }
        }
        free(setting->send_s);
        free(setting->engine_bytes);
    }
    for (int slot = 0; slot < TP_SLOTS; slot++) {
        free(board->parameters[slot]);
        free(board->kept_bytes[slot]);
    }
    free(board->input_bytes);
    free(board->weight_bytes);
    free(board->size_of_layer);
    free(board->sizes);
    free(board->ring_times);
    free(board);
}

struct board *
board_twin(const struct board *board)
{
    struct board *twin = xcalloc(1, sizeof(*twin));
    *twin = *board;
    make_caches(twin);
    return twin;
}

void
board_twin_free(struct board *twin)
{
    if (!twin)
        return;
    for (int s = 0; s < twin->settings_count; s++)
        free(twin->settings[s].engine_bytes);
    free(twin->ring_times);
    free(twin);
}

/* ---- prices of a stage ---- */

/* Bytes of a replica of our engine's model: those of one micro-batch in flight, and what
 * each further one adds. By its blocks and which ends it holds; 0: not asked for yet. */
static int64_t
engine_bytes(const struct board *board, const struct setting *setting, int in_flight,
             int width, int first, int end)
{
    const struct model_shape *shape = board->fleet->table.engine;
    bool embedding = first == 0;
    bool head = end == board->layers;
    int64_t at = (end - first) * 4 + embedding * 2 + head;
    int64_t *known = &setting->engine_bytes[at * 2];
    if (known[0] == 0) {
        struct stage_spec spec = {.first_layer = first,
                                  .layers = end - first,
                                  .micro_batch = setting->micro_batch,
                                  .in_flight = 1,
                                  .copies = board->fleet->table.engine_copies};
        struct stage_bytes bytes;
        workload_stage_bytes(shape, &spec, &bytes);
        known[0] = bytes.total;
        spec.in_flight = 2;
        workload_stage_bytes(shape, &spec, &bytes);
        known[1] = bytes.total - known[0];
    }
    /* No pipeline has more micro-batches than are left when the others have one each. */
    int most = setting->total - (width - 1);
    if (in_flight > most)
        in_flight = most < 1 ? 1 : most;
    return known[0] + (in_flight - 1) * known[1];
}

int64_t
board_bytes_replayed(const struct board *board, const struct setting *setting,
                     const struct option *option, int in_flight, int width, int first,
                     int end)
{
    if (setting->engine_bytes)
        return engine_bytes(board, setting, in_flight, width, first, end);
    int64_t parameters =
        board->parameters[option->slot][end] - board->parameters[option->slot][first];
    int64_t kept =
        board->kept_bytes[option->slot][end] - board->kept_bytes[option->slot][first];
    struct run_sizes run = {
        .parameters = parameters,
        .kept_bytes = kept,
        .input_bytes = board->input_bytes[end] - board->input_bytes[first],
        .largest_bytes = board->largest_kept_bytes[option->slot],
    };
    if (first > 0)
        run.boundary_bytes += board->sizes[board->size_of_layer[first - 1]];
    if (end < board->layers)
        run.boundary_bytes += board->sizes[board->size_of_layer[end - 1]];
    struct run_terms terms = {
        .precision = setting->precision,
        .recompute = setting->recompute,
        .shard_optimizer = setting->shard_optimizer,
        .micro_batch = setting->micro_batch,
        .width = width,
        .tp = option->tp,
        .in_flight = in_flight,
    };
    struct memory_parts parts;
    memory_of_run(&run, &terms, &board->request->framework, &parts);
    return parts.total;
}

double
board_ring_reckon(const struct board *board, int32_t curve, double bytes, int width,
                  int parts, struct ring_time *out)
{
    const struct fleet_curve *link = &board->fleet->curves[curve];
    double seconds;
    if (board->published) {
        seconds = published_reduce_s(link, bytes, width);
    } else {
        double bucket = board->request->framework.bucket_bytes;
        double buckets = bytes / bucket;
        if (!(buckets > 1.0)) {
            buckets = 1.0;
            bucket = bytes;
        }
        double piece = bucket / (double)width / (double)parts;
        double hop_s = fleet_send_s(link, piece) - link->delay_s;
        seconds =
            buckets * 2.0 * (double)(width - 1) * (hop_s * (double)parts + link->delay_s);
    }
    *out = (struct ring_time){bytes, seconds, curve, (int16_t)parts, width};
    return seconds;
}

double
board_update_replayed_s(const struct board *board, const struct setting *setting,
                        const struct option *option, int width, int first, int end)
{
    const double *update = setting->update_s[option->kind][option->slot];
    int64_t covered = board->fleet->table.update_parameters[option->slot];
    double seconds = update[end] - update[first];
    if (covered > 0) {
        int64_t parameters =
            board->parameters[option->slot][end] - board->parameters[option->slot][first];
        seconds = update[first] * (double)parameters / (double)covered;
    }
    return setting->shard_optimizer ? seconds / (double)width : seconds;
}
