#include "planner/schedule.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/engine.h"
#include "tests/sim/mutant.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the disk ---- */

struct checkpoint_file {
    struct id job;
    struct state_name name;
    int64_t layers;
    uint64_t chain, samples_hash;
    struct id hash; /* of all before */
};

static void
checkpoint_path(const struct train *train, const struct id *job,
                char path[PATH_BYTES_MAX])
{
    char text[ID_TEXT_SIZE];
    snprintf(path, PATH_BYTES_MAX, "%s/checkpoints/%.16s", train->folder,
             id_text(job, text));
}

void
engine_data_path(const struct train *train, const struct id *data,
                 char path[PATH_BYTES_MAX])
{
    char text[ID_TEXT_SIZE];
    snprintf(path, PATH_BYTES_MAX, "%s/data/%.16s", train->folder, id_text(data, text));
}

/* The newest checkpoint of the job that is expected, and whether its data set is here. */
void
engine_look_at_disk(struct train *train)
{
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    struct err err;
    struct checkpoint_file file;
    struct id hash;
    train->disk.name.step = -1;
    engine_data_path(train, &train->data_expected, path);
    train->has_data = !id_empty(&train->data_expected) && file_exists(path);
    if (id_empty(&train->expected))
        return;
    checkpoint_path(train, &train->expected, path);
    if (file_exists(path) && file_read(path, sizeof(file), &bytes, &err) == 0 &&
        bytes.len == sizeof(file)) {
        memcpy(&file, bytes.data, sizeof(file));
        key_hash(&file, offsetof(struct checkpoint_file, hash), &hash);
        if (id_equal(&hash, &file.hash) && id_equal(&file.job, &train->expected))
            train->disk = (struct copy){.layers = (int)file.layers,
                                        .name = file.name,
                                        .chain = file.chain,
                                        .samples_hash = file.samples_hash};
    }
    buf_release(&bytes);
}

void
engine_put_data(struct host *host, const struct id *data)
{
    char name[64], text[ID_TEXT_SIZE];
    snprintf(name, sizeof(name), "data/%.16s", id_text(data, text));
    disk_put(host, name, "data", 4);
}

void
engine_write_checkpoint(struct train *train, const struct id *job,
                        const struct copy *copy)
{
    char path[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
    struct checkpoint_file file;
    struct err err;
    memset(&file, 0, sizeof(file));
    file.job = *job;
    file.name = copy->name;
    file.layers = copy->layers;
    file.chain = copy->chain;
    file.samples_hash = copy->samples_hash;
    key_hash(&file, offsetof(struct checkpoint_file, hash), &file.hash);
    checkpoint_path(train, job, path);
    snprintf(folder, sizeof(folder), "%s/checkpoints", train->folder);
    if (file_make_folder(folder, &err) ||
        file_write(path, &file, sizeof(file), 0600, &err)) {
        engine_fail(train, "checkpoint", err.msg);
        return;
    }
    engine_look_at_disk(train);
    struct train_report said = {
        .kind = REPORT_CHECKPOINT, .step = copy->name.step, .path = xstrdup(path)};
    engine_report(train, &said);
}

/* ---- copies ---- */

void
engine_copy_remove(struct train *train, int at)
{
    train->copies_count--;
    memmove(&train->copies[at], &train->copies[at + 1],
            (size_t)(train->copies_count - at) * sizeof(train->copies[0]));
}

void
engine_copy_add(struct train *train, const struct copy *copy)
{
    for (int i = train->copies_count - 1; i >= 0; i--)
        if (train->copies[i].first_layer == copy->first_layer &&
            train->copies[i].layers == copy->layers &&
            state_same(&train->copies[i].name, &copy->name))
            engine_copy_remove(train, i);
    if (train->copies_count == COPIES_MAX)
        engine_copy_remove(train, 0);
    train->copies[train->copies_count++] = *copy;
}

/* All copies of `step` are complete: what is older has done its duty. */
void
engine_copied(struct train *train, int64_t step)
{
    if (step <= train->copied.step)
        return;
    train->copied = (struct state_name){step, train->newest};
    for (int i = train->copies_count - 1; i >= 0; i--)
        if (train->copies[i].name.step < step)
            engine_copy_remove(train, i);
}

struct copy
engine_live_copy(const struct train *train)
{
    return (struct copy){.first_layer = train->first_layer,
                         .layers = train->layers,
                         .name = {train->applied, train->lineage},
                         .chain = train->chain,
                         .samples_hash = train->samples_hash};
}

static bool
has_layer(const struct copy *copy, const struct state_name *name, int layer)
{
    return state_same(&copy->name, name) && layer >= copy->first_layer &&
           layer < copy->first_layer + copy->layers;
}

/* What this node has of a layer in a state. */
const struct copy *
engine_find_layer(const struct train *train, const struct state_name *name, int layer)
{
    for (int i = 0; i < train->copies_count; i++)
        if (has_layer(&train->copies[i], name, layer))
            return &train->copies[i];
    return has_layer(&train->disk, name, layer) ? &train->disk : NULL;
}

void
engine_drop_job(struct train *train)
{
    memset(&train->job, 0, sizeof(train->job));
    train->live = train->prepared = train->normed = false;
    train->applied = train->copied.step = -1;
    train->lineage = train->prepared_in = (struct lineage){0};
    train->norm_bits = train->samples_hash = train->chain = 0;
    train->copies_count = 0;
}

/* ---- what a halted node says ---- */

static void
add_holding(struct train *train, struct progress *out, enum state_source source,
            const struct copy *copy)
{
    check_state(train->host, &train->expected, &copy->name, copy->chain);
    if (out->holdings_count < HOLDINGS_MAX)
        out->holdings[out->holdings_count++] =
            (struct holding){.source = source,
                             .name = copy->name,
                             .first_layer = copy->first_layer,
                             .layers = copy->layers,
                             .samples_hash = copy->samples_hash};
}

void
engine_say_halted(struct train *train)
{
    struct progress *out = xcalloc(1, sizeof(*out));
    bool ours = !id_empty(&train->job) && id_equal(&train->job, &train->expected);
    char path[PATH_BYTES_MAX];
    engine_data_path(train, &train->data_expected, path);
    train->has_data = !id_empty(&train->data_expected) && file_exists(path);
    train->disk_fixed = true;
    out->reported = true;
    out->applied = -1;
    out->has_data = train->has_data;
    if (ours) {
        out->applied = train->applied;
        out->lineage = train->lineage;
        out->normed = train->normed;
        out->prepared = train->prepared;
        out->prepared_in = train->prepared_in;
        out->norm_bits = train->norm_bits;
        out->samples_hash = train->samples_hash;
        if (train->live) {
            struct copy live = engine_live_copy(train);
            add_holding(train, out, SOURCE_LIVE, &live);
        }
    }
    if (train->disk.name.step >= 0)
        add_holding(train, out, SOURCE_DISK, &train->disk);
    for (int i = train->copies_count - 1; ours && i >= 0; i--)
        if (state_same(&train->copies[i].name, &train->copied))
            add_holding(train, out, SOURCE_COPY, &train->copies[i]);
    for (int i = train->copies_count - 1; ours && i >= 0; i--)
        if (!state_same(&train->copies[i].name, &train->copied))
            add_holding(train, out, SOURCE_COPY, &train->copies[i]);
    if (train->host->lies) { /* it knows less than it does */
        out->prepared = false;
        out->has_data = false;
    }
    struct train_report said = {
        .kind = REPORT_HALTED, .step = train->applied, .progress = out};
    engine_report(train, &said);
}
