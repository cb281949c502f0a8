#include "transport/json.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/base/utf8.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* jansson has macros of these names; ours are functions. */
#undef json_is_object
#undef json_is_array

/* A struct json is jansson's json_t by another name: callers hold pointers alone. */

/* jansson recurses over the nesting, up to 2048 deep; nothing that we read is deeper than
 * this. */
enum { JSON_DEPTH_MAX = 64 };

static json_t *
theirs(const struct json *value)
{
    return (json_t *)(uintptr_t)value;
}

static const struct json *
ours(const json_t *value)
{
    return (const struct json *)value;
}

/* Brackets outside texts are never nested deeper than the limit; whether they match is
 * jansson's to say. */
static int
depth_check(const char *text, size_t len, struct err *err)
{
    int depth = 0, line = 1;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '\n')
            line++;
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++depth > JSON_DEPTH_MAX)
            return err_set(err, ERR_CORRUPT, "line %d: nested deeper than %d", line,
                           JSON_DEPTH_MAX);
        else if (!quoted && (c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return 0;
}

struct json *
json_parse(const char *text, size_t len, size_t bytes_max, struct err *err)
{
    if (len > bytes_max) {
        err_set(err, ERR_CORRUPT, "JSON of %zu bytes, the limit is %zu", len, bytes_max);
        return NULL;
    }
    if (depth_check(text, len, err))
        return NULL;
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_numeric_overflow)
        err_set(err, ERR_CORRUPT,
                "line %d: a number is out of range: whole ones are from %lld to %lld, "
                "others up to 1.7e308",
                error.line, (long long)INT64_MIN, (long long)INT64_MAX);
    else if (!root)
        err_set(err, ERR_CORRUPT, "line %d: not valid JSON: %s", error.line, error.text);
    return (struct json *)root;
}

struct json *
json_read(const char *path, size_t bytes_max, struct err *err)
{
    struct buf text = {0};
    struct json *root = NULL;
    if (file_read(path, bytes_max, &text, err)) {
        if (err->code == ERR_LIMIT)
            err->code = ERR_CORRUPT;
    } else {
        root = json_parse(text.data ? (const char *)text.data : "", text.len, bytes_max,
                          err);
        if (!root)
            err_wrap(err, "\"%s\"", path);
    }
    buf_release(&text);
    return root;
}

void
json_free(struct json *root)
{
    json_decref(theirs(root));
}

const struct json *
json_get(const struct json *object, const char *key)
{
    return ours(json_object_get(theirs(object), key));
}

const struct json *
json_at(const struct json *array, size_t index)
{
    return ours(json_array_get(theirs(array), index));
}

size_t
json_count(const struct json *array_or_object)
{
    const json_t *value = theirs(array_or_object);
    return json_is_object(array_or_object) ? json_object_size(value)
                                           : json_array_size(value);
}

const char *
json_key_at(const struct json *object, size_t index, const struct json **value)
{
    void *at = json_object_iter(theirs(object));
    while (at && index-- > 0)
        at = json_object_iter_next(theirs(object), at);
    if (!at)
        return NULL;
    if (value)
        *value = ours(json_object_iter_value(at));
    return json_object_iter_key(at);
}

const char *
json_text(const struct json *value, const char *otherwise)
{
    return json_is_text(value) ? json_string_value(theirs(value)) : otherwise;
}

int64_t
json_int(const struct json *value, int64_t otherwise)
{
    return json_is_int(value) ? json_integer_value(theirs(value)) : otherwise;
}

double
json_double(const struct json *value, double otherwise)
{
    const json_t *number = theirs(value);
    return json_is_number(number) ? json_number_value(number) : otherwise;
}

bool
json_bool(const struct json *value, bool otherwise)
{
    const json_t *truth = theirs(value);
    return json_is_boolean(truth) ? json_is_true(truth) : otherwise;
}

char *
json_print(const struct json *value)
{
    char *text = json_dumps(theirs(value),
                            JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    must(text); /* what was parsed can be printed */
    return text;
}

bool
json_is_object(const struct json *value)
{
    return value && json_typeof(theirs(value)) == JSON_OBJECT;
}

bool
json_is_array(const struct json *value)
{
    return value && json_typeof(theirs(value)) == JSON_ARRAY;
}

bool
json_is_text(const struct json *value)
{
    return value && json_typeof(theirs(value)) == JSON_STRING;
}

bool
json_is_int(const struct json *value)
{
    return value && json_typeof(theirs(value)) == JSON_INTEGER;
}

/* ---- writing ---- */

static void
put_quoted(struct buf *out, const char *text)
{
    buf_add(out, "\"", 1);
    while (*text) {
        unsigned char c = (unsigned char)*text;
        size_t len = utf8_bytes(text);
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_add(out, "\\n", 2);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else if (len == 0)
            buf_add(out, "\\ufffd", 6);
        else
            buf_add(out, text, len);
        text += len ? len : 1;
    }
    buf_add(out, "\"", 1);
}

/* What stands before a value: a comma if one is due, the key if there is one. */
static void
put_key(struct json_writer *writer, const char *key)
{
    if (writer->comma)
        buf_add(writer->out, ",", 1);
    writer->comma = true;
    if (key) {
        put_quoted(writer->out, key);
        buf_add(writer->out, ":", 1);
    }
}

static void
put_open(struct json_writer *writer, const char *key, const char *bracket)
{
    put_key(writer, key);
    buf_add(writer->out, bracket, 1);
    writer->comma = false;
    writer->depth++;
}

static void
put_close(struct json_writer *writer, const char *bracket)
{
    must(writer->depth > 0);
    buf_add(writer->out, bracket, 1);
    writer->comma = true;
    writer->depth--;
}

void
json_begin(struct json_writer *writer, struct buf *out)
{
    *writer = (struct json_writer){.out = out};
}

void
json_object_open(struct json_writer *writer, const char *key)
{
    put_open(writer, key, "{");
}

void
json_object_close(struct json_writer *writer)
{
    put_close(writer, "}");
}

void
json_array_open(struct json_writer *writer, const char *key)
{
    put_open(writer, key, "[");
}

void
json_array_close(struct json_writer *writer)
{
    put_close(writer, "]");
}

void
json_put_text(struct json_writer *writer, const char *key, const char *value)
{
    must(value);
    put_key(writer, key);
    put_quoted(writer->out, value);
}

void
json_put_int(struct json_writer *writer, const char *key, int64_t value)
{
    put_key(writer, key);
    buf_printf(writer->out, "%lld", (long long)value);
}

void
json_put_double(struct json_writer *writer, const char *key, double value)
{
    char text[32];
    put_key(writer, key);
    snprintf(text, sizeof(text), "%.17g", isfinite(value) ? value : 0.0);
    /* A fraction or an exponent makes it a real for every reader, and keeps the sign of
     * zero. */
    buf_printf(writer->out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

void
json_put_bool(struct json_writer *writer, const char *key, bool value)
{
    put_key(writer, key);
    buf_printf(writer->out, "%s", value ? "true" : "false");
}

void
json_put_raw(struct json_writer *writer, const char *key, const char *text, size_t len)
{
    put_key(writer, key);
    buf_add(writer->out, text, len);
}
