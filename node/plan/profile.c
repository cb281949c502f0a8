#include "node/plan/profile.h"
#include "node/plan/strict.h"
#include "transport/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROFILE_FORMAT "flotilla profile 1"

/* Bounds that keep every product of the planner's within its numbers. */
static const int64_t elements_max = INT64_C(1) << 44;
static const double seconds_max = 1e5;

void
profile_file_init(struct profile_file *profile, int layers, int sizes_count,
                  int times_count)
{
    size_t n = (size_t)layers;
    *profile = (struct profile_file){
        .layers = layers, .sizes_count = sizes_count, .times_count = times_count};
    profile->sizes = xcalloc((size_t)sizes_count, sizeof(*profile->sizes));
    profile->times = xcalloc((size_t)times_count, sizeof(*profile->times));
    for (int i = 0; i < sizes_count; i++) {
        profile->sizes[i].parameters = xcalloc(n, sizeof(int64_t));
        profile->sizes[i].output_elements = xcalloc(n, sizeof(int64_t));
        profile->sizes[i].kept_elements = xcalloc(n, sizeof(int64_t));
    }
    for (int i = 0; i < times_count; i++) {
        profile->times[i].forward_s = xcalloc(n, sizeof(double));
        profile->times[i].backward_s = xcalloc(n, sizeof(double));
        profile->times[i].update_s = xcalloc(n, sizeof(double));
    }
}

void
profile_file_release(struct profile_file *profile)
{
    for (int i = 0; i < profile->sizes_count; i++) {
        free(profile->sizes[i].parameters);
        free(profile->sizes[i].output_elements);
        free(profile->sizes[i].kept_elements);
    }
    for (int i = 0; i < profile->times_count; i++) {
        free(profile->times[i].forward_s);
        free(profile->times[i].backward_s);
        free(profile->times[i].update_s);
    }
    free(profile->sizes);
    free(profile->times);
    *profile = (struct profile_file){0};
}

/* ---- reading ---- */

static int
take_sizes(const struct json *entry, const char *where, int layers,
           struct profile_sizes *out, struct err *err)
{
    static const char *const keys[] = {
        "tp", "parameters", "output_elements", "kept_elements", "update_parameters",
        NULL};
    int64_t tp;
    size_t n = (size_t)layers;
    if (strict_keys(entry, where, keys, err) ||
        strict_int(entry, where, "tp", 1, PROFILE_TP_MAX, &tp, err) ||
        strict_ints(entry, where, "parameters", n, 0, elements_max, out->parameters,
                    err) ||
        strict_ints(entry, where, "output_elements", n, 0, elements_max,
                    out->output_elements, err) ||
        strict_ints(entry, where, "kept_elements", n, 0, elements_max, out->kept_elements,
                    err) ||
        (json_get(entry, "update_parameters") &&
         strict_int(entry, where, "update_parameters", 0, elements_max,
                    &out->update_parameters, err)))
        return -1;
    out->tp = (int)tp;
    return 0;
}

static int
take_times(const struct json *entry, const char *where, int layers,
           struct profile_times *out, struct err *err)
{
    static const char *const keys[] = {
        "tp", "micro_batch", "precision", "forward_s", "backward_s", "update_s", NULL};
    const char *precision = "fp32";
    int64_t tp, micro_batch;
    size_t n = (size_t)layers;
    if (strict_keys(entry, where, keys, err) ||
        strict_int(entry, where, "tp", 1, PROFILE_TP_MAX, &tp, err) ||
        strict_int(entry, where, "micro_batch", 1, 1 << 20, &micro_batch, err) ||
        (json_get(entry, "precision") &&
         strict_text(entry, where, "precision", 16, &precision, err)) ||
        strict_numbers(entry, where, "forward_s", n, 0, seconds_max, out->forward_s,
                       err) ||
        strict_numbers(entry, where, "backward_s", n, 0, seconds_max, out->backward_s,
                       err) ||
        strict_numbers(entry, where, "update_s", n, 0, seconds_max, out->update_s, err))
        return -1;
    out->tp = (int)tp;
    out->micro_batch = (int)micro_batch;
    out->bf16 = strcmp(precision, "bf16") == 0;
    if (!out->bf16 && strcmp(precision, "fp32") != 0)
        return err_set(err, ERR_USAGE, "%s: precision is \"%s\"; use fp32 or bf16", where,
                       precision);
    double all = 0;
    for (size_t i = 0; i < n; i++)
        all += out->forward_s[i] + out->backward_s[i];
    if (!(all > 0))
        return err_set(err, ERR_USAGE, "%s: all layers together take no time", where);
    return 0;
}

static int
compare_sizes(const void *left, const void *right)
{
    const struct profile_sizes *a = left, *b = right;
    return a->tp - b->tp;
}

static int
compare_times(const void *left, const void *right)
{
    const struct profile_times *a = left, *b = right;
    if (a->bf16 != b->bf16)
        return a->bf16 - b->bf16;
    return a->tp != b->tp ? a->tp - b->tp : a->micro_batch - b->micro_batch;
}

static int
in_order(const char *name, struct profile_file *out, struct err *err)
{
    qsort(out->sizes, (size_t)out->sizes_count, sizeof(*out->sizes), compare_sizes);
    qsort(out->times, (size_t)out->times_count, sizeof(*out->times), compare_times);
    for (int i = 1; i < out->sizes_count; i++)
        if (out->sizes[i].tp == out->sizes[i - 1].tp)
            return err_set(err, ERR_USAGE, "%s: sizes has tp %d twice", name,
                           out->sizes[i].tp);
    for (int i = 0; i < out->times_count; i++) {
        const struct profile_times *times = &out->times[i];
        if (i > 0 && compare_times(times - 1, times) == 0)
            return err_set(err, ERR_USAGE, "%s: times has tp %d, micro_batch %d twice",
                           name, times->tp, times->micro_batch);
        int s = 0;
        while (s < out->sizes_count && out->sizes[s].tp < times->tp)
            s++;
        if (s == out->sizes_count || out->sizes[s].tp != times->tp)
            return err_set(err, ERR_USAGE,
                           "%s: times has tp %d, of which sizes has nothing; a plan "
                           "needs both",
                           name, times->tp);
    }
    return 0;
}

static int
take_lists(const char *name, const struct json *sizes, const struct json *times,
           struct profile_file *out, struct err *err)
{
    char where[ERR_MSG_SIZE];
    for (int i = 0; i < out->sizes_count; i++) {
        snprintf(where, sizeof(where), "%s: sizes[%d]", name, i);
        if (take_sizes(json_at(sizes, (size_t)i), where, out->layers, &out->sizes[i],
                       err))
            return -1;
    }
    for (int i = 0; i < out->times_count; i++) {
        snprintf(where, sizeof(where), "%s: times[%d]", name, i);
        if (take_times(json_at(times, (size_t)i), where, out->layers, &out->times[i],
                       err))
            return -1;
    }
    return in_order(name, out, err);
}

static int
take(const char *name, const struct json *root, struct profile_file *out, struct err *err)
{
    static const char *const keys[] = {"format", "model",  "device",
                                       "layers", "tokens", "element_bytes",
                                       "sizes",  "times",  NULL};
    const char *format, *model, *device;
    const struct json *sizes, *times;
    int64_t layers, tokens, element_bytes;
    if (strict_keys(root, name, keys, err) ||
        strict_text(root, name, "format", 64, &format, err))
        return -1;
    if (strcmp(format, PROFILE_FORMAT) != 0)
        return err_set(err, ERR_USAGE,
                       "%s: format is \"%s\"; this version reads \"" PROFILE_FORMAT "\"",
                       name, format);
    if (strict_text(root, name, "model", PROFILE_MODEL_MAX, &model, err) ||
        strict_text(root, name, "device", NAME_BYTES_MAX, &device, err) ||
        strict_int(root, name, "layers", 1, LAYERS_MAX, &layers, err) ||
        strict_int(root, name, "tokens", 1, 1 << 24, &tokens, err) ||
        strict_int(root, name, "element_bytes", 1, 8, &element_bytes, err) ||
        strict_array(root, name, "sizes", 1, PROFILE_SIZES_MAX, &sizes, err) ||
        strict_array(root, name, "times", 1, PROFILE_TIMES_MAX, &times, err))
        return -1;
    profile_file_init(out, (int)layers, (int)json_count(sizes), (int)json_count(times));
    out->tokens = tokens;
    out->element_bytes = element_bytes;
    memcpy(out->model, model, strlen(model) + 1);
    memcpy(out->device, device, strlen(device) + 1);
    if (take_lists(name, sizes, times, out, err)) {
        profile_file_release(out);
        return -1;
    }
    return 0;
}

int
profile_file_parse(const char *name, const char *text, size_t len,
                   struct profile_file *out, struct err *err)
{
    struct json *root = strict_parse(name, text, len, PROFILE_BYTES_MAX, err);
    int result = root ? take(name, root, out, err) : -1;
    json_free(root);
    return result;
}

int
profile_file_read(const char *path, struct profile_file *out, struct err *err)
{
    struct json *root = strict_read(path, PROFILE_BYTES_MAX, err);
    int result = root ? take(path, root, out, err) : -1;
    json_free(root);
    return result;
}

/* ---- writing ---- */

static void
write_ints(struct json_writer *writer, const char *key, const int64_t *values, int count)
{
    json_array_open(writer, key);
    for (int i = 0; i < count; i++)
        json_put_int(writer, NULL, values[i]);
    json_array_close(writer);
}

static void
write_numbers(struct json_writer *writer, const char *key, const double *values,
              int count)
{
    json_array_open(writer, key);
    for (int i = 0; i < count; i++)
        json_put_double(writer, NULL, values[i]);
    json_array_close(writer);
}

void
profile_file_write(const struct profile_file *profile, struct buf *out)
{
    struct json_writer writer;
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "format", PROFILE_FORMAT);
    json_put_text(&writer, "model", profile->model);
    json_put_text(&writer, "device", profile->device);
    json_put_int(&writer, "layers", profile->layers);
    json_put_int(&writer, "tokens", profile->tokens);
    json_put_int(&writer, "element_bytes", profile->element_bytes);
    json_array_open(&writer, "sizes");
    for (int i = 0; i < profile->sizes_count; i++) {
        const struct profile_sizes *sizes = &profile->sizes[i];
        json_object_open(&writer, NULL);
        json_put_int(&writer, "tp", sizes->tp);
        write_ints(&writer, "parameters", sizes->parameters, profile->layers);
        write_ints(&writer, "output_elements", sizes->output_elements, profile->layers);
        write_ints(&writer, "kept_elements", sizes->kept_elements, profile->layers);
        if (sizes->update_parameters > 0)
            json_put_int(&writer, "update_parameters", sizes->update_parameters);
        json_object_close(&writer);
    }
    json_array_close(&writer);
    json_array_open(&writer, "times");
    for (int i = 0; i < profile->times_count; i++) {
        const struct profile_times *times = &profile->times[i];
        json_object_open(&writer, NULL);
        json_put_int(&writer, "tp", times->tp);
        json_put_int(&writer, "micro_batch", times->micro_batch);
        json_put_text(&writer, "precision", times->bf16 ? "bf16" : "fp32");
        write_numbers(&writer, "forward_s", times->forward_s, profile->layers);
        write_numbers(&writer, "backward_s", times->backward_s, profile->layers);
        write_numbers(&writer, "update_s", times->update_s, profile->layers);
        json_object_close(&writer);
    }
    json_array_close(&writer);
    json_object_close(&writer);
}
