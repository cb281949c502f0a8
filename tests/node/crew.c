#include "tests/node/crew.h"
#include "node/engine/matmul.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TEXT_BYTES = 6000, WAIT_MS = 30000 };

/* ---- opening ---- */

static bool
port_is_free(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    ck_assert_int_ge(fd, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    bool is_free = bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
    close(fd);
    return is_free;
}

static struct address
free_address(void)
{
    static int last;
    struct address address = {.host = "127.0.0.1"};
    for (int tries = 0; tries < 1000; tries++) {
        int port = 12000 + (getpid() * 13 + last++) % 1900 * 4;
        if (port_is_free(port) && port_is_free(port + 1) && port_is_free(port + 2)) {
            address.port = (uint16_t)port;
            return address;
        }
    }
    ck_abort_msg("no three free ports in a row");
    return address;
}

static int
compare_keys(const void *left, const void *right)
{
    return id_compare(key_id(*(struct key *const *)left),
                      key_id(*(struct key *const *)right));
}

/* Words of a small language: something that can be learned. */
static void
make_data(struct crew *crew)
{
    char text[TEXT_BYTES + 1] = "", folder[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
    static const char *const words[] = {"the ",  "sea ", "and ",   "land ", "were ",
                                        "made ", "of ",  "light ", "day ",  "night "};
    struct rng rng = {.seed = 5};
    size_t at = 0;
    while (at < TEXT_BYTES - 8) {
        const char *word = words[rng_below(&rng, 10)];
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", word);
    }
    struct err err;
    key_hash(text, at, &crew->job.data);
    crew->job.data_bytes = (int64_t)at;
    char name[ID_TEXT_SIZE];
    path_join(folder, crew->nodes[0].folder, "data");
    ck_assert_int_eq(file_make_folder(folder, &err), 0);
    path_join(path, folder, id_text(&crew->job.data, name));
    ck_assert_int_eq(file_write(path, text, at, 0600, &err), 0);
}

void
crew_start(struct crew *crew, int node)
{
    struct crew_node *at = &crew->nodes[node];
    struct err err = {0};
    struct bulk_options bulk = {.key = at->key, .listen = at->peer.base};
    at->bulk = bulk_open(&bulk, &err);
    for (int tries = 0; !at->bulk && tries < 100; tries++) {
        clock_sleep_ms(20); /* the library closes its sockets in its own time */
        at->bulk = bulk_open(&bulk, &err);
    }
    ck_assert_msg(at->bulk, "%s", err.msg);
    struct train_options options = {.bulk = at->bulk,
                                    .folder = at->folder,
                                    .threads = 1,
                                    .fresh_at_ms = &at->fresh_at_ms,
                                    .fresh_ms = 1000};
    atomic_store(&at->fresh_at_ms, INT64_MAX / 2);
    at->train = train_start(&options, &err);
    ck_assert_msg(at->train, "%s", err.msg);
    memset(&at->progress, 0, sizeof(at->progress));
    at->applied = -1;
    train_expect(at->train, &crew->job.id, &crew->job.data);
}

void
crew_open(struct crew *crew, int count)
{
    memset(crew, 0, sizeof(*crew));
    struct err err = {0};
    ck_assert_int_eq(key_setup(&err), 0);
    ck_assert_int_eq(loop_setup(2, &err), 0);
    if (!matmul_provider_name()) /* before there are threads that multiply */
        matmul_setup();
    crew->loop = loop_new();
    crew->admit = admit_open(crew->loop, &err);
    ck_assert_msg(crew->admit, "%s", err.msg);
    crew->count = count;
    struct key *keys[CREW_MAX];
    for (int i = 0; i < count; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1), 99};
        keys[i] = key_from_seed(seed);
    }
    qsort(keys, (size_t)count, sizeof(struct key *), compare_keys);
    for (int i = 0; i < count; i++) {
        struct crew_node *node = &crew->nodes[i];
        node->key = keys[i];
        node->peer.id = *key_id(keys[i]);
        node->peer.base = free_address();
        node->zone = i / 2;
        suite_folder(node->folder);
        admit_allow(crew->admit, &node->peer.id);
    }
    crew->request = (struct plan_request){.shape = {.blocks = 2,
                                                    .heads = 2,
                                                    .hidden = 32,
                                                    .context = 16,
                                                    .vocabulary = 256},
                                          .sequences = 8};
    crew->job = (struct train_job){.name = "crew",
                                   .steps = 10,
                                   .seed = 3,
                                   .learning_rate = 1e-3,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .epsilon = 1e-8,
                                   .weight_decay = 0.1,
                                   .clip_norm = 1,
                                   .warmup_steps = 4};
    crew->job.id.bytes[0] = 7;
    make_data(crew);
    for (int i = 0; i < count; i++)
        crew_start(crew, i);
    for (int i = 0; i < STAGES_MAX; i++)
        crew->copied[i] = -1;
    crew->copied_everywhere = -1;
}

void
crew_kill(struct crew *crew, int node)
{
    struct crew_node *at = &crew->nodes[node];
    train_stop(at->train);
    at->train = NULL;
    bulk_close(at->bulk);
    at->bulk = NULL;
    memset(&at->progress, 0, sizeof(at->progress));
}

void
crew_close(struct crew *crew)
{
    for (int i = 0; i < crew->count; i++) {
        struct crew_node *node = &crew->nodes[i];
        if (node->train)
            crew_kill(crew, i);
        key_free(node->key);
        free(node->profile);
    }
    admit_close(crew->admit);
    loop_free(crew->loop);
    loop_teardown();
}

/* ---- reports ---- */

static void
all_copied(struct crew *crew, int64_t step)
{
    for (int s = 0; s < crew->plan.stages_count; s++)
        if (crew->copied[s] < step)
            return;
    if (step <= crew->copied_everywhere || crew->mute_copied)
        return;
    crew->copied_everywhere = step;
    for (int i = 0; i < crew->count; i++)
        if (crew->nodes[i].train)
            train_copied(crew->nodes[i].train, step);
}

/* Everybody who applies a step says the same of it. */
static void
take_step(struct crew *crew, struct crew_node *node, const struct train_report *report)
{
    ck_assert_int_lt(report->step, CREW_STEPS_MAX);
    ck_assert_msg(report->step == node->applied + 1, "step %lld applied after %lld",
                  (long long)report->step, (long long)node->applied);
    node->applied = report->step;
    node->step = *report;
    if (crew->applied_by[report->step]++ > 0) {
        /* Bit for bit. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
        ck_assert(memcmp(&crew->loss[report->step], &report->loss, sizeof(double)) == 0);
        ck_assert(crew->hash[report->step] == report->samples_hash);
    }
    crew->loss[report->step] = report->loss;
    crew->hash[report->step] = report->samples_hash;
}

static void
take_report(struct crew *crew, struct crew_node *node, struct train_report *report)
{
    switch (report->kind) {
    case REPORT_COMPUTE:
        node->computes++;
        break;
    case REPORT_STEP:
        take_step(crew, node, report);
        break;
    case REPORT_STALL:
        node->stalls++;
        break;
    case REPORT_HALTED:
        node->progress = *report->progress;
        node->halted = true;
        node->halt_ms = clock_ms();
        break;
    case REPORT_COPIED:
        node->copies++;
        if (report->step > crew->copied[report->stage])
            crew->copied[report->stage] = report->step;
        all_copied(crew, report->step);
        break;
    case REPORT_CHECKPOINT:
        node->checkpoints++;
        snprintf(node->checkpoint, sizeof(node->checkpoint), "%s", report->path);
        break;
    case REPORT_DONE:
        node->done++;
        break;
    case REPORT_PROFILED:
        free(node->profile);
        node->profile = report->profile;
        report->profile = NULL;
        break;
    case REPORT_FAILED:
        node->failed = true;
        node->failure = *report;
        break;
    case REPORT_MEMORY:
        node->predicted_bytes = report->predicted_bytes;
        break;
    }
    free(report->progress);
    free(report->path);
    free(report->profile);
}

struct wait {
    struct crew *crew;
    bool (*so)(struct crew *crew, void *arg);
    void *arg;
    int64_t until_ms;
    bool was_so;
};

static void
look(void *arg)
{
    struct wait *wait = arg;
    struct crew *crew = wait->crew;
    for (int i = 0; i < crew->count; i++) {
        struct train_report report;
        struct bulk_event event;
        struct crew_node *node = &crew->nodes[i];
        while (node->train && train_report_take(node->train, &report))
            take_report(crew, node, &report);
        while (node->bulk && bulk_event_take(node->bulk, &event))
            ;
    }
    wait->was_so = wait->so(crew, wait->arg);
    if (wait->was_so || clock_ms() >= wait->until_ms)
        loop_stop(crew->loop);
}

bool
crew_until(struct crew *crew, bool (*so)(struct crew *crew, void *arg), void *arg,
           int64_t ms)
{
    struct wait wait = {crew, so, arg, clock_ms() + ms, false};
    int timer = loop_timer(crew->loop, 1, look, &wait);
    loop_run(crew->loop);
    loop_timer_cancel(crew->loop, timer);
    return wait.was_so;
}

static void
no_failures(const struct crew *crew)
{
    for (int i = 0; i < crew->count; i++)
        ck_assert_msg(!crew->nodes[i].failed, "node %d: %s: %s", i,
                      crew->nodes[i].failure.what, crew->nodes[i].failure.err.msg);
}

/* ---- epochs ---- */

static int
member_number(const struct crew *crew, int node)
{
    int number = 0;
    ck_assert(crew->nodes[node].train);
    for (int i = 0; i < node; i++)
        number += crew->nodes[i].train != NULL;
    return number;
}

static void
make_cluster(const struct crew *crew, int members, struct cluster *cluster)
{
    cluster_init(cluster, members, 3);
    for (int i = 0, n = 0; i < crew->count; i++) {
        if (!crew->nodes[i].train)
            continue;
        cluster->nodes[n].id = crew->nodes[i].peer.id;
        cluster->nodes[n].zone = crew->nodes[i].zone;
        cluster->nodes[n].memory_bytes = 1 << 30;
        if (crew->nodes[i].profile)
            cluster->nodes[n].profile = *crew->nodes[i].profile;
        n++;
    }
    for (int i = 0; i < 9; i++)
        cluster->links[i] =
            (struct cluster_link){.bytes_per_s = 100000000, .round_trip_us = 100};
    for (int z = 0; z < 3; z++)
        snprintf(cluster->zones[z], sizeof(cluster->zones[z]), "z%d", z);
}

static struct plan
make_plan(const struct crew *crew, const struct crew_plan *from)
{
    struct plan plan = {.micro_batch = from->micro_batch,
                        .stages_count = from->stages,
                        .pipelines_count = from->pipelines,
                        .predicted_step_ns = 20000000};
    int count = crew->request.sequences / from->micro_batch, first = 0;
    for (int j = 0; j < from->pipelines; j++)
        plan.micro_batches[j] = count / from->pipelines + (j < count % from->pipelines);
    for (int s = 0; s < from->stages; s++) {
        struct plan_stage *stage = &plan.stages[s];
        stage->first_layer = first;
        stage->layers = from->layers[s];
        first += stage->layers;
        for (int j = 0; j < from->pipelines; j++)
            stage->nodes[j] = member_number(crew, from->nodes[s * from->pipelines + j]);
    }
    return plan;
}

static struct train_epoch *
make_epoch(const struct crew *crew, int self, int members,
           const struct progress *progress)
{
    struct train_epoch *epoch = xcalloc(1, sizeof(*epoch));
    struct err err = {0};
    epoch->lineage = (struct lineage){crew->epoch, crew->epoch + 77};
    epoch->self = self;
    epoch->job = crew->job;
    epoch->request = crew->request;
    epoch->plan = crew->plan;
    make_cluster(crew, members, &epoch->cluster);
    ck_assert_msg(recover(&epoch->plan, &epoch->request, &epoch->cluster, progress,
                          &epoch->recovery, &err) == 0,
                  "%s", err.msg);
    int submitter =
        crew->nodes[crew->submitter].train ? member_number(crew, crew->submitter) : -1;
    recover_duties(&epoch->plan, &epoch->cluster, submitter, &epoch->duties);
    epoch->text = xstrdup("name: crew\n");
    return epoch;
}

/* What was applied beyond the base step is given up: it will come again. */
static void
forget_above(struct crew *crew, int64_t base_step)
{
    for (int s = 0; s < CREW_STEPS_MAX; s++)
        if (s > base_step)
            crew->applied_by[s] = 0;
    for (int i = 0; i < crew->count; i++)
        crew->nodes[i].applied = base_step;
    for (int s = 0; s < STAGES_MAX; s++)
        crew->copied[s] = -1;
    crew->copied_everywhere = crew->recovery.copied.step;
}

int
crew_try_epoch(struct crew *crew, const struct crew_plan *from, struct err *err)
{
    struct progress progress[CREW_MAX] = {0};
    struct bulk_peer peers[CREW_MAX];
    int members = 0;
    for (int i = 0; i < crew->count; i++) {
        struct crew_node *node = &crew->nodes[i];
        if (!node->train)
            continue;
        progress[members] = node->progress;
        peers[members++] = node->peer;
    }
    crew->epoch++;
    crew->plan = make_plan(crew, from);
    struct cluster cluster;
    make_cluster(crew, members, &cluster);
    int failed =
        plan_check(&crew->plan, &crew->request, &cluster, err) ||
        recover(&crew->plan, &crew->request, &cluster, progress, &crew->recovery, err);
    cluster_release(&cluster);
    if (failed)
        return -1;
    recovery_release(&(struct recovery){.transfers = crew->recovery.transfers,
                                        .data_from = crew->recovery.data_from});
    forget_above(crew, crew->recovery.base_step);
    for (int i = 0, n = 0; i < crew->count; i++) {
        struct crew_node *node = &crew->nodes[i];
        node->done = 0;
        if (!node->train)
            continue;
        struct bulk_epoch entered = {.generation = 1,
                                     .epoch = crew->epoch,
                                     .plan_tag = crew->epoch + 77,
                                     .self = n,
                                     .peers_count = members,
                                     .peers = peers};
        bulk_enter(node->bulk, &entered);
        struct train_epoch *epoch = make_epoch(crew, n, members, progress);
        crew->duties = epoch->duties;
        train_epoch(node->train, &epoch);
        n++;
    }
    return 0;
}

void
crew_epoch(struct crew *crew, const struct crew_plan *plan)
{
    if (crew->epoch == 0)
        crew_halt(crew); /* everybody's first word */
    struct err err = {0};
    ck_assert_msg(crew_try_epoch(crew, plan, &err) == 0, "%s", err.msg);
}

static bool
all_halted(struct crew *crew, void *arg)
{
    (void)arg;
    for (int i = 0; i < crew->count; i++)
        if (crew->nodes[i].train && !crew->nodes[i].halted)
            return false;
    return true;
}

void
crew_halt(struct crew *crew)
{
    for (int i = 0; i < crew->count; i++) {
        crew->nodes[i].halted = false;
        if (!crew->nodes[i].train)
            continue;
        bulk_halt(crew->nodes[i].bulk);
        train_halt(crew->nodes[i].train);
    }
    ck_assert_msg(crew_until(crew, all_halted, NULL, WAIT_MS), "not all have halted");
}

static bool
worker(const struct crew *crew, int node)
{
    int stage, pipeline;
    return crew->nodes[node].train &&
           plan_place(&crew->plan, member_number(crew, node), &stage, &pipeline);
}

static bool
step_applied(struct crew *crew, void *arg)
{
    int64_t step = *(int64_t *)arg;
    no_failures(crew);
    for (int i = 0; i < crew->count; i++)
        if (worker(crew, i) && crew->nodes[i].applied < step)
            return false;
    return true;
}

void
crew_until_step(struct crew *crew, int64_t step)
{
    ck_assert_msg(crew_until(crew, step_applied, &step, WAIT_MS),
                  "step %lld was not applied everywhere", (long long)step);
}

static bool
gatherer(const struct crew *crew, int node)
{
    for (int i = 0; crew->nodes[node].train && i < crew->duties.gatherers_count; i++)
        if (crew->duties.gatherers[i] == member_number(crew, node))
            return true;
    return false;
}

static bool
all_done(struct crew *crew, void *arg)
{
    (void)arg;
    no_failures(crew);
    for (int i = 0; i < crew->count; i++)
        if ((worker(crew, i) || gatherer(crew, i)) && !crew->nodes[i].done)
            return false;
    return true;
}

void
crew_until_done(struct crew *crew)
{
    ck_assert_msg(crew_until(crew, all_done, NULL, WAIT_MS), "the run did not end");
}

/* ---- state ---- */

/* The node of a member's number. */
static const struct crew_node *
member(const struct crew *crew, int number)
{
    for (int i = 0; i < crew->count; i++)
        if (crew->nodes[i].train && number-- == 0)
            return &crew->nodes[i];
    ck_abort_msg("no such member");
    return NULL;
}

static const float *
state_of(const struct crew *crew, int layer, int pipeline, int tensor, int kind)
{
    int s = 0;
    while (layer >= crew->plan.stages[s].first_layer + crew->plan.stages[s].layers)
        s++;
    const struct crew_node *node = member(crew, crew->plan.stages[s].nodes[pipeline]);
    const struct train *train = node->train;
    ck_assert(node->halted && train->live);
    const float *state = stage_state(train->stage, tensor, (enum state_kind)kind);
    ck_assert_ptr_nonnull(state);
    return state;
}

float *
crew_state(const struct crew *crew, int pipeline, size_t *count)
{
    const struct model_shape *shape = &crew->request.shape;
    float *all = NULL;
    size_t floats = 0;
    for (int kind = 0; kind < STATE_KINDS; kind++) {
        for (int t = 0; t < workload_tensor_count(shape); t++) {
            struct tensor_spec spec;
            workload_tensor(shape, t, &spec);
            size_t elements = (size_t)spec.elements;
            all = xrealloc(all, floats + elements, sizeof(float));
            const float *state = state_of(crew, spec.layer, pipeline, t, kind);
            memcpy(all + floats, state, elements * sizeof(float));
            floats += elements;
            if (t > 0)
                continue;
            const float *head =
                state_of(crew, workload_layers(shape) - 1, pipeline, t, kind);
            ck_assert(memcmp(state, head, elements * sizeof(float)) == 0);
        }
    }
    *count = floats;
    return all;
}

double
crew_distance(const struct crew *crew, const float *left, const float *right)
{
    const struct model_shape *shape = &crew->request.shape;
    double worst = 0;
    for (int t = 0; t < workload_tensor_count(shape); t++) {
        struct tensor_spec spec;
        workload_tensor(shape, t, &spec);
        double apart = 0, size = 1e-12;
        for (int64_t i = 0; i < spec.elements; i++, left++, right++) {
            apart += ((double)*left - (double)*right) * ((double)*left - (double)*right);
            size += (double)*left * (double)*left;
        }
        worst = fmax(worst, sqrt(apart / size));
    }
    return worst;
}
