/*
 * Any bytes as JSON: refused with a sentence, or a tree that can be walked; its texts are
 * written and read again.
 */
#include "transport/base/must.h"
#include "transport/json.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes an object's or array's own scalars; nested ones as nothing. */
static void
copy_scalars(const struct json *value, struct json_writer *to)
{
    for (size_t i = 0; i < json_count(value); i++) {
        const struct json *child = json_at(value, i);
        const char *key = json_key_at(value, i, &child);
        if (json_is_text(child))
            json_put_text(to, key, json_text(child, ""));
        else if (json_is_int(child))
            json_put_int(to, key, json_int(child, 0));
        else if (json_is_object(child) || json_is_array(child))
            json_put_bool(to, key, json_count(child) > 0);
        else
            json_put_double(to, key, json_double(child, 0));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    if (size > 1 << 16)
        return 0;
    struct json *root = json_parse((const char *)data, size, 1 << 16, &err);
    if (!root) {
        must(err.code == ERR_CORRUPT && err.msg[0]);
        return 0;
    }
    struct buf out = {0};
    struct json_writer writer;
    json_begin(&writer, &out);
    if (json_is_object(root)) {
        json_object_open(&writer, NULL);
        copy_scalars(root, &writer);
        json_object_close(&writer);
    } else {
        json_array_open(&writer, NULL);
        copy_scalars(root, &writer);
        json_array_close(&writer);
    }
    struct json *again = json_parse((const char *)out.data, out.len, out.len, &err);
    must(again && json_count(again) == json_count(root));
    for (size_t i = 0; i < json_count(root); i++) {
        const struct json *left = json_at(root, i), *right = json_at(again, i);
        const char *key = json_key_at(root, i, &left);
        const char *other = json_key_at(again, i, &right);
        must(!key || strcmp(key, other) == 0);
        must(strcmp(json_text(left, "-"), json_text(right, "-")) == 0);
        must(json_int(left, 7) == json_int(right, 7));
        double x = json_double(left, 0), y = json_double(right, 0);
        must(x == y && signbit(x) == signbit(y));
    }
    json_free(again);
    json_free(root);
    buf_release(&out);
    return 0;
}
