#include "node/engine/checkpoint.h"
#include "node/engine/safetensors.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/base/word.h"
#include "transport/json.h"
#include "transport/key.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_BYTES_MAX = 1 << 20, /* of JSON: a job's text, escaped, is the most of it */
    STEPS_MAX = 4096,
    MODEL_KIND = 0,
    TRAINER_VERSION = 2, /* 1: without a lineage */
    HASHED_TENSORS = 2   /* written[HASHED_TENSORS] and the one after it */
};

static const char *const written[] = {"config.json", "generation_config.json",
                                      "model.safetensors", "optimizer.safetensors",
                                      "trainer_state.json"};
enum { WRITTEN = sizeof(written) / sizeof(written[0]) };

struct checkpoint {
    struct model_shape shape;
    struct safetensors *model, *optimizer;
};

void
checkpoint_info_release(struct checkpoint_info *info)
{
    free(info->text);
    memset(info, 0, sizeof(*info));
}

/* ---- writing ---- */

static int
write_text(const char *folder, const char *name, const struct buf *text, struct err *err)
{
    char path[PATH_BYTES_MAX];
    return file_write(path_join(path, folder, name), text->data, text->len, 0600, err);
}

/* What Hugging Face's GPT2Config is made of. */
static int
write_config(const char *folder, const struct model_shape *shape, struct err *err)
{
    struct buf text = {0};
    struct json_writer writer;
    json_begin(&writer, &text);
    json_object_open(&writer, NULL);
    json_array_open(&writer, "architectures");
    json_put_text(&writer, NULL, "GPT2LMHeadModel");
    json_array_close(&writer);
    json_put_text(&writer, "model_type", "gpt2");
    json_put_text(&writer, "activation_function", "gelu_new");
    json_put_int(&writer, "n_layer", shape->blocks);
    json_put_int(&writer, "n_head", shape->heads);
    json_put_int(&writer, "n_embd", shape->hidden);
    json_put_int(&writer, "n_positions", shape->context);
    json_put_int(&writer, "n_ctx", shape->context);
    json_put_int(&writer, "vocab_size", shape->vocabulary);
    json_put_double(&writer, "layer_norm_epsilon", 1e-5);
    json_put_double(&writer, "embd_pdrop", 0);
    json_put_double(&writer, "attn_pdrop", 0);
    json_put_double(&writer, "resid_pdrop", 0);
    json_put_bool(&writer, "tie_word_embeddings", true);
    json_put_text(&writer, "torch_dtype", "float32");
    json_object_close(&writer);
    int result = write_text(folder, "config.json", &text, err);
    buf_clear(&text);
    json_begin(&writer, &text);
    json_object_open(&writer, NULL);
    json_put_bool(&writer, "do_sample", true);
    json_put_int(&writer, "max_length", shape->context);
    json_object_close(&writer);
    if (result == 0)
        result = write_text(folder, "generation_config.json", &text, err);
    buf_release(&text);
    return result;
}

/* 64-bit words as texts: JSON's integers are signed here. */
static void
put_word(struct json_writer *writer, const char *name, uint64_t word)
{
    char text[24];
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)word);
    json_put_text(writer, name, text);
}

static int
write_trainer(const char *folder, const struct checkpoint_info *info, struct err *err)
{
    struct buf text = {0};
    struct json_writer writer;
    char id[ID_TEXT_SIZE];
    json_begin(&writer, &text);
    json_object_open(&writer, NULL);
    json_put_int(&writer, "version", TRAINER_VERSION);
    json_put_int(&writer, "step", info->step);
    put_word(&writer, "epoch", info->lineage.epoch);
    put_word(&writer, "decree", info->lineage.tag);
    put_word(&writer, "samples_hash", info->samples_hash);
    put_word(&writer, "seed", info->seed);
    json_put_text(&writer, "name", info->name);
    json_put_text(&writer, "job", id_text(&info->job, id));
    json_put_text(&writer, "data", id_text(&info->data, id));
    json_put_int(&writer, "data_bytes", info->data_bytes);
    if (info->text)
        json_put_text(&writer, "text", info->text);
    json_object_close(&writer);
    int result = write_text(folder, "trainer_state.json", &text, err);
    buf_release(&text);
    return result;
}

static int
write_tensors(const char *folder, const struct model_shape *shape,
              const struct checkpoint_state *state, struct err *err)
{
    static const char *const suffixes[] = {"", ".exp_avg", ".exp_avg_sq"};
    int count = workload_tensor_count(shape);
    struct safetensors_entry *entries = xcalloc((size_t)count * 2, sizeof(*entries));
    char path[PATH_BYTES_MAX];
    size_t used = 0;
    int result = 0;
    for (int kind = 0; kind < 3 && result == 0; kind++) {
        for (int t = 0; t < count; t++) {
            struct tensor_spec spec;
            workload_tensor(shape, t, &spec);
            struct safetensors_entry *entry = &entries[used++];
            snprintf(entry->name, sizeof(entry->name), "%s%s", spec.name, suffixes[kind]);
            entry->dims = spec.dims;
            entry->shape[0] = spec.shape[0];
            entry->shape[1] = spec.shape[1];
            entry->data = state->tensors[kind][t];
        }
        if (kind == MODEL_KIND) {
            result = safetensors_write(path_join(path, folder, "model.safetensors"),
                                       entries, used, err);
            used = 0;
        } else if (kind == 2) {
            result = safetensors_write(path_join(path, folder, "optimizer.safetensors"),
                                       entries, used, err);
        }
    }
    free(entries);
    return result;
}

static int
hash_file(const char *path, struct id *hash, int64_t *bytes, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, "could not open \"%s\"", path);
    struct key_hash sum;
    key_hash_init(&sum);
    *bytes = 0;
    static _Thread_local uint8_t block[1 << 16];
    ssize_t got;
    while ((got = read(fd, block, sizeof(block))) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            err_set_errno(err, "could not read \"%s\"", path);
            close(fd);
            return -1;
        }
        key_hash_add(&sum, block, (size_t)got);
        *bytes += got;
    }
    close(fd);
    key_hash_done(&sum, hash);
    return 0;
}

static int
write_manifest(const char *folder, struct err *err)
{
    struct buf text = {0};
    struct json_writer writer;
    json_begin(&writer, &text);
    json_object_open(&writer, NULL);
    json_put_int(&writer, "version", 1);
    json_object_open(&writer, "files");
    int result = 0;
    for (size_t i = 0; i < WRITTEN && result == 0; i++) {
        char path[PATH_BYTES_MAX], hex[ID_TEXT_SIZE];
        struct id hash = {{0}};
        int64_t bytes = 0;
        result = hash_file(path_join(path, folder, written[i]), &hash, &bytes, err);
        if (result)
            break;
        json_object_open(&writer, written[i]);
        json_put_int(&writer, "bytes", bytes);
        json_put_text(&writer, "blake2b", id_text(&hash, hex));
        json_object_close(&writer);
    }
    json_object_close(&writer);
    json_object_close(&writer);
    if (result == 0)
        result = write_text(folder, "manifest.json", &text, err);
    buf_release(&text);
    return result;
}

static void
step_name(int64_t step, char name[32])
{
    snprintf(name, 32, "step-%06lld", (long long)step);
}

/* Only what step_name() gives: "step-7" is no checkpoint of ours. */
static int64_t
step_of(const char *name)
{
    static const char prefix[] = "step-";
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
        return -1;
    char again[32];
    long long step = strtoll(name + sizeof(prefix) - 1, NULL, 10);
    step_name(step, again);
    return step >= 0 && strcmp(again, name) == 0 ? step : -1;
}

/* When a checkpoint was written, in nanoseconds; without a manifest, its folder. */
static int64_t
written_ns(const char *path)
{
    char manifest[PATH_BYTES_MAX];
    struct stat status;
    if (stat(path_join(manifest, path, "manifest.json"), &status) && stat(path, &status))
        return 0;
    return (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
}

struct listed {
    int64_t step;
    int64_t time_ns; /* 0: in the order of the steps alone */
};

static int
compare_listed(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? 1 : -1;
    return (a->step < b->step) - (a->step > b->step); /* newest first */
}

/* The checkpoints in a job's folder, the largest step or the last written first. */
static size_t
list_steps(const char *folder, bool by_time, struct listed *list)
{
    DIR *dir = opendir(folder);
    size_t count = 0;
    struct dirent *entry;
    while (dir && count < STEPS_MAX && (entry = readdir(dir))) {
        char path[PATH_BYTES_MAX];
        int64_t step = step_of(entry->d_name);
        if (step < 0)
            continue;
        list[count++] = (struct listed){
            step, by_time ? written_ns(path_join(path, folder, entry->d_name)) : 0};
    }
    if (dir)
        closedir(dir);
    qsort(list, count, sizeof(*list), compare_listed);
    return count;
}

/* One file against its line of the manifest: its size, and its hash when asked. */
static int
check_file(const char *path, const struct json *line, bool hashed, struct err *err)
{
    struct id hash, expected;
    struct stat status;
    int64_t bytes = json_int(json_get(line, "bytes"), -1);
    if (!id_parse(&expected, json_text(json_get(line, "blake2b"), "")))
        return err_set(err, ERR_CORRUPT, "the manifest does not name \"%s\"", path);
    if (stat(path, &status))
        return err_set_errno(err, "could not open \"%s\"", path);
    if (status.st_size != bytes)
        return err_set(
            err, ERR_CORRUPT, "\"%s\" has %lld bytes, but the manifest says %lld", path,
            (long long)status.st_size, (long long)json_int(json_get(line, "bytes"), -1));
    if (!hashed)
        return 0;
    if (hash_file(path, &hash, &bytes, err))
        return -1;
    if (!id_equal(&hash, &expected))
        return err_set(err, ERR_CORRUPT,
                       "\"%s\" is damaged: its hash differs from the manifest's", path);
    return 0;
}

/* Is a checkpoint whole? Without hashes: by the sizes of its files. */
static int
check_manifest(const char *folder, bool hashed, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct json *manifest =
        json_read(path_join(path, folder, "manifest.json"), FILE_BYTES_MAX, err);
    if (!manifest)
        return err->code == ERR_SYSTEM
                   ? err_set(err, ERR_CORRUPT, "\"%s\" has no manifest", folder)
                   : -1;
    const struct json *files = json_get(manifest, "files");
    int result = 0;
    for (size_t i = 0; i < WRITTEN && result == 0; i++)
        result = check_file(path_join(path, folder, written[i]),
                            json_get(files, written[i]), hashed, err);
    json_free(manifest);
    if (result)
        err->code = ERR_CORRUPT;
    return result;
}

/* Of the checkpoints up to `step`, which is whole, the newest `keep` whole ones stay.
 * Newer ones are what a run that fell back has not reached again. */
void
checkpoint_remove_old(const char *folder, int64_t step, int keep)
{
    struct listed *list = xcalloc(STEPS_MAX, sizeof(*list));
    size_t count = keep > 0 ? list_steps(folder, false, list) : 0;
    int kept = 1;
    for (size_t i = 0; i < count; i++) {
        char path[PATH_BYTES_MAX], name[32];
        struct err ignored;
        step_name(list[i].step, name);
        path_join(path, folder, name);
        if (list[i].step >= step)
            continue;
        if (kept < keep && check_manifest(path, false, &ignored) == 0)
            kept++;
        else
            file_remove_tree(path, &ignored);
    }
    free(list);
}

/* What a process that was killed while it wrote has left behind. */
static void
remove_unfinished(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        char path[PATH_BYTES_MAX];
        struct err ignored;
        if (strncmp(entry->d_name, ".step-", 6) == 0 && len > 4 &&
            strcmp(entry->d_name + len - 4, ".new") == 0)
            file_remove_tree(path_join(path, folder, entry->d_name), &ignored);
    }
    if (dir)
        closedir(dir);
}

/* Put a finished folder in its place. The same step may be there from before a redone
 * step: the two change places in one operation, so that one of them is always there. */
static int
put_in_place(const char *temporary, const char *path, struct err *err)
{
    if (!file_exists(path)) {
        if (rename(temporary, path))
            return err_set_errno(err, "could not rename \"%s\"", temporary);
        return 0;
    }
    struct err ignored;
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        file_remove_tree(temporary, &ignored);
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS)
        return err_set_errno(err, "could not replace \"%s\"", path);
    /* A file system that cannot exchange: the old one is moved aside first. */
    char aside[PATH_BYTES_MAX + 8];
    snprintf(aside, sizeof(aside), "%s.old", path);
    if (file_remove_tree(aside, err))
        return -1;
    if (rename(path, aside))
        return err_set_errno(err, "could not rename \"%s\"", path);
    if (rename(temporary, path)) {
        err_set_errno(err, "could not rename \"%s\"", temporary);
        if (rename(aside, path))
            err_wrap(err, "the older checkpoint is in \"%s\"", aside);
        return -1;
    }
    file_remove_tree(aside, &ignored);
    return 0;
}

static void
names_of(const char *folder, int64_t step, char path[PATH_BYTES_MAX],
         char temporary[PATH_BYTES_MAX])
{
    char name[32], hidden[48];
    step_name(step, name);
    snprintf(hidden, sizeof(hidden), ".%s.new", name);
    path_join(path, folder, name);
    path_join(temporary, folder, hidden);
}

int
checkpoint_write_aside(const char *folder, const struct checkpoint_info *info,
                       const struct checkpoint_state *state, struct err *err)
{
    char path[PATH_BYTES_MAX], temporary[PATH_BYTES_MAX];
    names_of(folder, info->step, path, temporary);
    if (file_make_folder(folder, err))
        return -1;
    remove_unfinished(folder);
    if (file_make_folder(temporary, err) || write_config(temporary, &info->shape, err) ||
        write_tensors(temporary, &info->shape, state, err) ||
        write_trainer(temporary, info, err) || write_manifest(temporary, err)) {
        struct err ignored;
        file_remove_tree(temporary, &ignored);
        return -1;
    }
    return 0;
}

int
checkpoint_place(const char *folder, int64_t step, char *path, struct err *err)
{
    char temporary[PATH_BYTES_MAX];
    names_of(folder, step, path, temporary);
    if (put_in_place(temporary, path, err)) {
        struct err ignored;
        file_remove_tree(temporary, &ignored);
        return -1;
    }
    return file_sync_folder(folder, err);
}

int
checkpoint_write(const char *folder, const struct checkpoint_info *info,
                 const struct checkpoint_state *state, int keep, char *path,
                 struct err *err)
{
    if (checkpoint_write_aside(folder, info, state, err) ||
        checkpoint_place(folder, info->step, path, err))
        return -1;
    checkpoint_remove_old(folder, info->step, keep);
    return 0;
}

/* ---- reading ---- */

static bool
take_word(const struct json *value, uint64_t *out)
{
    const char *text = json_text(value, "");
    *out = strtoull(text, NULL, 16);
    return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

/* Of a checkpoint that tells no lineage: its tensors tell it from all others. */
static int
lineage_by_content(const char *folder, struct lineage *lineage, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct json *manifest =
        json_read(path_join(path, folder, "manifest.json"), FILE_BYTES_MAX, err);
    if (!manifest)
        return -1;
    struct id hashes[2] = {{{0}}}, both;
    bool right = true;
    for (int i = 0; i < 2; i++) {
        const struct json *line =
            json_get(json_get(manifest, "files"), written[HASHED_TENSORS + i]);
        right = right && id_parse(&hashes[i], json_text(json_get(line, "blake2b"), ""));
    }
    json_free(manifest);
    if (!right)
        return err_set(err, ERR_CORRUPT, "\"%s\" does not name the tensors' hashes",
                       path);
    key_hash(hashes, sizeof(hashes), &both);
    *lineage = (struct lineage){.tag = id_prefix(&both)};
    return 0;
}

static int
read_lineage(const char *folder, const struct json *state, struct lineage *lineage,
             struct err *err)
{
    int64_t version = json_int(json_get(state, "version"), -1);
    if (version == 1)
        return lineage_by_content(folder, lineage, err);
    if (version != TRAINER_VERSION)
        return err_set(err, ERR_CORRUPT,
                       "\"%s\" is a checkpoint of version %lld, and this program knows 1 "
                       "and %d; use the program that wrote it",
                       folder, (long long)version, TRAINER_VERSION);
    if (take_word(json_get(state, "epoch"), &lineage->epoch) &&
        take_word(json_get(state, "decree"), &lineage->tag))
        return 0;
    return err_set(err, ERR_CORRUPT, "\"%s\" does not say in which epoch it was computed",
                   folder);
}

/* As a job may have them. */
static const int64_t steps_max = INT64_C(1) << 40, data_bytes_max = INT64_C(1) << 50;

static int
read_trainer(const char *folder, struct checkpoint_info *info, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct json *state =
        json_read(path_join(path, folder, "trainer_state.json"), FILE_BYTES_MAX, err);
    if (!state)
        return -1;
    if (read_lineage(folder, state, &info->lineage, err)) {
        json_free(state);
        return -1;
    }
    const char *text = json_text(json_get(state, "text"), NULL);
    info->step = json_int(json_get(state, "step"), -1);
    info->data_bytes = json_int(json_get(state, "data_bytes"), -1);
    const char *name = json_text(json_get(state, "name"), "");
    if (word_names(name))
        snprintf(info->name, sizeof(info->name), "%s", name);
    bool right = info->step >= 0 && info->step <= steps_max && info->data_bytes >= 0 &&
                 info->data_bytes <= data_bytes_max && info->name[0] &&
                 take_word(json_get(state, "samples_hash"), &info->samples_hash) &&
                 take_word(json_get(state, "seed"), &info->seed) &&
                 id_parse(&info->job, json_text(json_get(state, "job"), "")) &&
                 id_parse(&info->data, json_text(json_get(state, "data"), ""));
    if (right && text && strlen(text) < JOB_BYTES_MAX)
        info->text = xstrdup(text);
    json_free(state);
    return right ? 0
                 : err_set(err, ERR_CORRUPT, "\"%s\" lacks what a run is resumed from",
                           path);
}

static int
read_shape(const char *folder, struct model_shape *shape, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct json *config =
        json_read(path_join(path, folder, "config.json"), FILE_BYTES_MAX, err);
    if (!config)
        return -1;
    int64_t values[] = {json_int(json_get(config, "n_layer"), 0),
                        json_int(json_get(config, "n_head"), 0),
                        json_int(json_get(config, "n_embd"), 0),
                        json_int(json_get(config, "n_positions"), 0),
                        json_int(json_get(config, "vocab_size"), 0)};
    json_free(config);
    for (size_t i = 0; i < 5; i++)
        if (values[i] < 1 || values[i] > 1 << 24)
            return err_set(err, ERR_CORRUPT, "\"%s\" describes no model", path);
    *shape = (struct model_shape){.blocks = (int)values[0],
                                  .heads = (int)values[1],
                                  .hidden = (int)values[2],
                                  .context = (int)values[3],
                                  .vocabulary = (int)values[4]};
    if (model_shape_check(shape, err)) {
        err->code = ERR_CORRUPT;
        return err_wrap(err, "\"%s\"", path);
    }
    return 0;
}

/* A tensor's data, of the shape that its model gives it. */
static const void *
find_tensor(const struct checkpoint *checkpoint, const struct tensor_spec *spec, int kind,
            struct err *err)
{
    static const char *const suffixes[] = {"", ".exp_avg", ".exp_avg_sq"};
    must(kind >= 0 && kind < 3);
    char name[128];
    snprintf(name, sizeof(name), "%s%s", spec->name, suffixes[kind]);
    int dims;
    int64_t shape[2];
    const void *data =
        safetensors_find(kind == MODEL_KIND ? checkpoint->model : checkpoint->optimizer,
                         name, &dims, shape);
    if (!data)
        err_set(err, ERR_CORRUPT, "the checkpoint has no tensor \"%s\"", name);
    else if (dims == spec->dims && shape[0] == spec->shape[0] &&
             (dims == 1 || shape[1] == spec->shape[1]))
        return data;
    else
        err_set(err, ERR_CORRUPT, "tensor \"%s\" has another shape than its model", name);
    return NULL;
}

/* All that its configuration speaks of is there: nobody makes room for a model that is
 * not. */
static int
check_tensors(const struct checkpoint *checkpoint, const char *path, struct err *err)
{
    int count = workload_tensor_count(&checkpoint->shape);
    for (int i = 0; i < 3 * count; i++) {
        struct tensor_spec spec;
        workload_tensor(&checkpoint->shape, i % count, &spec);
        if (!find_tensor(checkpoint, &spec, i / count, err))
            return err_wrap(err, "\"%s\"", path);
    }
    return 0;
}

struct checkpoint *
checkpoint_open(const char *path, struct checkpoint_info *info, struct err *err)
{
    char file[PATH_BYTES_MAX];
    struct checkpoint *checkpoint = xcalloc(1, sizeof(*checkpoint));
    struct checkpoint_info found = {0};
    if (check_manifest(path, true, err) || read_shape(path, &found.shape, err) ||
        read_trainer(path, &found, err))
        goto fail;
    checkpoint->shape = found.shape;
    checkpoint->model = safetensors_open(path_join(file, path, "model.safetensors"), err);
    if (!checkpoint->model)
        goto fail;
    checkpoint->optimizer =
        safetensors_open(path_join(file, path, "optimizer.safetensors"), err);
    if (!checkpoint->optimizer || check_tensors(checkpoint, path, err))
        goto fail;
    *info = found;
    return checkpoint;
fail:
    checkpoint_info_release(&found);
    checkpoint_close(checkpoint);
    return NULL;
}

void
checkpoint_close(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    safetensors_close(checkpoint->model);
    safetensors_close(checkpoint->optimizer);
    free(checkpoint);
}

int
checkpoint_tensor(const struct checkpoint *checkpoint, int tensor, int kind, float *out,
                  struct err *err)
{
    struct tensor_spec spec;
    workload_tensor(&checkpoint->shape, tensor, &spec);
    const void *data = find_tensor(checkpoint, &spec, kind, err);
    if (!data)
        return -1;
    memcpy(out, data, (size_t)spec.elements * sizeof(float));
    return 0;
}

/* ---- the newest ---- */

static void
note_damage(char *damaged, size_t size, const struct err *err)
{
    if (!damaged || size == 0)
        return;
    size_t used = strlen(damaged);
    snprintf(damaged + used, size - used, "%s%s", used ? "; " : "", err->msg);
}

/* Known to be of another job, before anything is read whole. */
static bool
of_another(const char *path, const struct id *job)
{
    struct checkpoint_info info = {0};
    struct err ignored;
    bool other = !id_empty(job) && read_trainer(path, &info, &ignored) == 0 &&
                 !id_equal(job, &info.job);
    checkpoint_info_release(&info);
    return other;
}

/* Of one job: the largest step. Of any: the one written last, since a later run of the
 * same name may have begun anew. */
static bool
newest_in(const char *folder, const struct id *job, char *path, char *damaged,
          size_t damaged_size)
{
    struct listed *list = xcalloc(STEPS_MAX, sizeof(*list));
    size_t count = list_steps(folder, id_empty(job), list);
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        char name[32], candidate[PATH_BYTES_MAX];
        struct checkpoint_info info = {0};
        struct err err;
        step_name(list[i].step, name);
        path_join(candidate, folder, name);
        if (of_another(candidate, job))
            continue;
        struct checkpoint *checkpoint = checkpoint_open(candidate, &info, &err);
        if (!checkpoint) {
            note_damage(damaged, damaged_size, &err);
        } else if (id_empty(job) || id_equal(job, &info.job)) {
            memcpy(path, candidate, PATH_BYTES_MAX);
            found = true;
        }
        checkpoint_info_release(&info);
        checkpoint_close(checkpoint);
    }
    free(list);
    return found;
}

int
checkpoint_in(const char *folder, const struct id *job, char path[PATH_BYTES_MAX],
              char *damaged, size_t damaged_size, struct err *err)
{
    if (damaged && damaged_size > 0)
        damaged[0] = '\0';
    if (!newest_in(folder, job, path, damaged, damaged_size))
        return err_set(err, ERR_USAGE, "there is no whole checkpoint in \"%s\"", folder);
    return 0;
}

int
checkpoint_newest(const char *root, const struct id *job, char path[PATH_BYTES_MAX],
                  char *damaged, size_t damaged_size, struct err *err)
{
    if (damaged && damaged_size > 0)
        damaged[0] = '\0';
    DIR *dir = opendir(root);
    struct dirent *entry;
    int64_t best_time = -1;
    int found = -1;
    while (dir && (entry = readdir(dir))) {
        char folder[PATH_BYTES_MAX], candidate[PATH_BYTES_MAX];
        if (entry->d_name[0] == '.')
            continue;
        path_join(folder, root, entry->d_name);
        if (!newest_in(folder, job, candidate, damaged, damaged_size))
            continue;
        /* Among several jobs: the one that was written last. */
        int64_t time = written_ns(candidate);
        if (time > best_time) {
            best_time = time;
            memcpy(path, candidate, PATH_BYTES_MAX);
            found = 0;
        }
    }
    if (dir)
        closedir(dir);
    if (found)
        return err_set(err, ERR_USAGE, "there is no whole checkpoint in \"%s\"", root);
    return 0;
}
