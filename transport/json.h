/*
 * json.h - JSON texts, read and written (jansson's home).
 */
#ifndef TRANSPORT_JSON_H
#define TRANSPORT_JSON_H

#include "transport/base/buf.h"
#include "transport/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- reading: a tree; children are borrowed from the root ---- */

struct json; /* opaque: a value */

/* NULL with ERR_CORRUPT: line, what is wrong; or larger than `bytes_max`. Duplicate keys
 * are refused, depth is bounded. */
struct json *json_parse(const char *text, size_t len, size_t bytes_max, struct err *err);
struct json *json_read(const char *path, size_t bytes_max, struct err *err);
void json_free(struct json *root);

/* A member of an object or an element of an array; NULL when absent or not that kind. */
const struct json *json_get(const struct json *object, const char *key);
const struct json *json_at(const struct json *array, size_t index);
size_t json_count(const struct json *array_or_object); /* 0 for scalars and NULL */
/* The n-th key of an object, in the file's order. */
const char *json_key_at(const struct json *object, size_t index,
                        const struct json **value);

/* With a default for NULL or another kind. */
const char *json_text(const struct json *value, const char *otherwise);
int64_t json_int(const struct json *value, int64_t otherwise);
double json_double(const struct json *value,
                   double otherwise); /* an integer is a number, too */
bool json_bool(const struct json *value, bool otherwise);
/* The value as compact text, keys in their order. The caller frees it. */
char *json_print(const struct json *value);

bool json_is_object(const struct json *value);
bool json_is_array(const struct json *value);
bool json_is_text(const struct json *value);
bool json_is_int(const struct json *value);

/* ---- writing: appends to a buf, commas and escapes taken care of ---- */

struct json_writer {
    struct buf *out;
    bool comma; /* the next element needs one */
    int depth;
};

void json_begin(struct json_writer *writer, struct buf *out);
void json_object_open(struct json_writer *writer,
                      const char *key); /* key NULL inside an array or at the top */
void json_object_close(struct json_writer *writer);
void json_array_open(struct json_writer *writer, const char *key);
void json_array_close(struct json_writer *writer);
void json_put_text(struct json_writer *writer, const char *key, const char *value);
void json_put_int(struct json_writer *writer, const char *key, int64_t value);
void json_put_double(
    struct json_writer *writer, const char *key,
    double value); /* 17 significant digits; finite, or 0 is written for what is not */
void json_put_bool(struct json_writer *writer, const char *key, bool value);
/* A value that is JSON already. */
void json_put_raw(struct json_writer *writer, const char *key, const char *text,
                  size_t len);

#endif
