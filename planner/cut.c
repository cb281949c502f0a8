#include "planner/cut.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>

/* A run of layers with or without the embedding, with or without the head. */
enum { RUN_EMBEDDING = 1, RUN_HEAD = 2, RUN_ENDS = 4 };

/* Total bytes of runs at one micro-batch size, once asked for:
 * rows[in_flight - 1][ends * (blocks + 1) + blocks of the run]; 0: not yet. */
struct size_book {
    int micro_batch;
    int64_t *rows[STAGES_MAX];
};

struct cutter {
    const struct plan_request *request;
    int layers;
    int blocks;
    int micro_batch;
    struct size_book *book; /* of this micro-batch size */
    struct size_book *books;
    int books_count;
    int64_t *gradients; /* as a row of a book */
    /* The cut at hand. */
    const struct cut_stage *stages;
    bool tight; /* memory has shaped it */
};

static size_t
row_entries(const struct cutter *cutter)
{
    return RUN_ENDS * ((size_t)cutter->blocks + 1);
}

struct cutter *
cutter_new(const struct plan_request *request)
{
    struct cutter *cutter = xcalloc(1, sizeof(*cutter));
    cutter->request = request;
    cutter->layers = workload_layers(&request->shape);
    cutter->blocks = request->shape.blocks;
    cutter->gradients = xcalloc(row_entries(cutter), sizeof(*cutter->gradients));
    return cutter;
}

void
cutter_free(struct cutter *cutter)
{
    if (!cutter)
        return;
    for (int book = 0; book < cutter->books_count; book++)
        for (int row = 0; row < STAGES_MAX; row++)
            free(cutter->books[book].rows[row]);
    free(cutter->books);
    free(cutter->gradients);
    free(cutter);
}

static struct size_book *
open_book(struct cutter *cutter, int micro_batch)
{
    int number = 0;
    while (number < cutter->books_count &&
           cutter->books[number].micro_batch != micro_batch)
        number++;
    if (number == cutter->books_count) {
        cutter->books = xrealloc(cutter->books, (size_t)++cutter->books_count,
                                 sizeof(*cutter->books));
        cutter->books[number] = (struct size_book){.micro_batch = micro_batch};
    }
    return &cutter->books[number];
}

void
cutter_micro_batch(struct cutter *cutter, int micro_batch)
{
    must(micro_batch > 0);
    cutter->micro_batch = micro_batch;
    cutter->book = open_book(cutter, micro_batch);
}

/* Where the numbers of a run lie in a row of a book. */
static int
run_entry(const struct cutter *cutter, int first, int layers)
{
    int embedding = first == 0;
    int head = first + layers == cutter->layers;
    int ends = (embedding ? RUN_EMBEDDING : 0) + (head ? RUN_HEAD : 0);
    return ends * (cutter->blocks + 1) + layers - embedding - head;
}

static void
run_sizes(const struct cutter *cutter, int first, int layers, int in_flight,
          struct stage_bytes *out)
{
    struct stage_spec spec = {
        .first_layer = first,
        .layers = layers,
        .micro_batch = cutter->micro_batch,
        .in_flight = in_flight,
        .copies = cutter->request->copies,
    };
    workload_stage_bytes(&cutter->request->shape, &spec, out);
}

int64_t
cutter_run_bytes(struct cutter *cutter, int first_layer, int layers, int in_flight)
{
    must(in_flight >= 1 && in_flight <= STAGES_MAX);
    int64_t **row = &cutter->book->rows[in_flight - 1];
    if (!*row)
        *row = xcalloc(row_entries(cutter), sizeof(**row));
    int64_t *bytes = &(*row)[run_entry(cutter, first_layer, layers)];
    if (*bytes == 0) {
        struct stage_bytes sizes;
        run_sizes(cutter, first_layer, layers, in_flight, &sizes);
        *bytes = sizes.total;
    }
    return *bytes;
}

int64_t
cutter_gradient_bytes(struct cutter *cutter, int first_layer, int layers)
{
    int64_t *bytes = &cutter->gradients[run_entry(cutter, first_layer, layers)];
    if (*bytes == 0) {
        struct stage_bytes sizes;
        run_sizes(cutter, first_layer, layers, 1, &sizes);
        *bytes = sizes.gradients;
    }
    return *bytes;
}

/* Time of a run of layers on a stage, all replicas together. */
static int64_t
run_ns(const struct cutter *cutter, int stage, int first, int layers)
{
    const int64_t *layer_ns = cutter->stages[stage].layer_ns;
    bool embedding = first == 0;
    bool head = first + layers == cutter->layers;
    int64_t ns = (layers - embedding - head) * layer_ns[LAYER_BLOCK];
    if (embedding)
        ns += layer_ns[LAYER_EMBEDDING];
    if (head)
        ns += layer_ns[LAYER_HEAD];
    return ns;
}

static bool
run_fits(struct cutter *cutter, int stage, int first, int layers)
{
    const struct cut_stage *room = &cutter->stages[stage];
    if (cutter_run_bytes(cutter, first, layers, room->in_flight) <= room->memory_bytes)
        return true;
    cutter->tight = true;
    return false;
}

/* Give each stage in turn as many layers as it can do within `limit_ns` and hold. A run
 * that starts later is never larger or slower, so this finds a cut if there is one. */
static bool
cut_within(struct cutter *cutter, struct plan *plan, int64_t limit_ns)
{
    int first = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        int low = 0;
        int high = cutter->layers - first - (plan->stages_count - 1 - s);
        while (low < high) {
            int middle = (low + high + 1) / 2;
            if (run_ns(cutter, s, first, middle) <= limit_ns &&
                run_fits(cutter, s, first, middle))
                low = middle;
            else
                high = middle - 1;
        }
        if (low == 0)
            return false;
        plan->stages[s].first_layer = first;
        plan->stages[s].layers = low;
        first += low;
    }
    return first == cutter->layers;
}

/* Move the border behind a stage by one layer if the slower of its two sides gets
 * faster. */
static bool
cut_shift(struct cutter *cutter, struct plan *plan, int s, int by)
{
    struct plan_stage *left = &plan->stages[s];
    struct plan_stage *right = &plan->stages[s + 1];
    int left_layers = left->layers + by;
    int right_layers = right->layers - by;
    int border = right->first_layer + by;
    if (left_layers < 1 || right_layers < 1)
        return false;
    int64_t left_ns = run_ns(cutter, s, left->first_layer, left->layers);
    int64_t right_ns = run_ns(cutter, s + 1, right->first_layer, right->layers);
    int64_t left_new = run_ns(cutter, s, left->first_layer, left_layers);
    int64_t right_new = run_ns(cutter, s + 1, border, right_layers);
    int64_t was = left_ns > right_ns ? left_ns : right_ns;
    int64_t is = left_new > right_new ? left_new : right_new;
    if (is >= was || !run_fits(cutter, s, left->first_layer, left_layers) ||
        !run_fits(cutter, s + 1, border, right_layers))
        return false;
    left->layers = left_layers;
    right->layers = right_layers;
    right->first_layer = border;
    return true;
}

enum cut_result
cut_layers(struct cutter *cutter, const struct cut_stage *stages, struct plan *plan)
{
    must(plan->stages_count >= 1 && plan->stages_count <= STAGES_MAX);
    cutter->stages = stages;
    if (!cut_within(cutter, plan, NS_NEVER))
        return CUT_NONE;
    int64_t high = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        int64_t ns = run_ns(cutter, s, stage->first_layer, stage->layers);
        high = ns > high ? ns : high;
    }
    int64_t low = 0;
    while (high - low > high / 4096) {
        int64_t middle = low + (high - low) / 2;
        if (cut_within(cutter, plan, middle))
            high = middle;
        else
            low = middle + 1;
    }
    cutter->tight = false;
    bool cut = cut_within(cutter, plan, high);
    must(cut);
    bool moved = true;
    for (int pass = 0; moved && pass < cutter->layers; pass++) {
        moved = false;
        for (int s = plan->stages_count - 2; s >= 0; s--)
            while (cut_shift(cutter, plan, s, -1) || cut_shift(cutter, plan, s, 1))
                moved = true;
    }
    return cutter->tight ? CUT_TIGHT : CUT_GOOD;
}

/* How far stage after stage gets when the blocks of a set have been used up for the first
 * of them, in the best order: the most layers, and the block that came last. */
struct reach {
    int layers; /* -1: no such order */
    int block;
};

/* The most layers from `first` on that fit, of at most `most`. */
static int
longest_run(struct cutter *cutter, int first, int most, int in_flight, int64_t room)
{
    int low = 0;
    while (low < most) {
        int middle = (low + most + 1) / 2;
        if (cutter_run_bytes(cutter, first, middle, in_flight) <= room)
            low = middle;
        else
            most = middle - 1;
    }
    return low;
}

/*
 * By sets of blocks: with the same blocks used up, having more layers behind is never
 * worse, since a run that starts later is never larger. So each set keeps only its best.
 */
bool
cut_assign(struct cutter *cutter, int stages_count, const int *group,
           const int *in_flight, const int64_t *block_bytes, int *block_of_stage)
{
    must(stages_count >= 1 && stages_count <= CUT_ASSIGN_MAX);
    struct reach best[1 << CUT_ASSIGN_MAX];
    int sets = 1 << stages_count;
    for (int set = 0; set < 1 << CUT_ASSIGN_MAX; set++)
        best[set] = (struct reach){set == 0 ? 0 : -1, -1};
    for (int set = 0; set < sets; set++) {
        int stage = __builtin_popcount((unsigned)set);
        int first = best[set].layers;
        if (first < 0 || stage == stages_count)
            continue;
        int most = cutter->layers - first - (stages_count - 1 - stage);
        for (int block = 0; block < stages_count; block++) {
            if ((set >> block & 1) || group[block] != group[stage])
                continue;
            int run =
                longest_run(cutter, first, most, in_flight[stage], block_bytes[block]);
            struct reach *next = &best[set | 1 << block];
            if (run > 0 && first + run > next->layers)
                *next = (struct reach){first + run, block};
        }
    }
    int set = sets - 1;
    if (best[set].layers != cutter->layers)
        return false;
    for (int stage = stages_count - 1; stage >= 0; stage--) {
        int block = best[set].block;
        must(block >= 0);
        block_of_stage[stage] = block;
        set &= ~(1 << block);
    }
    return true;
}
