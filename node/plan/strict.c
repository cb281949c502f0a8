#include "node/plan/strict.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/base/word.h"

#include <stdio.h>
#include <string.h>

enum { KEYS_MAX = 32 };

struct json *
strict_parse(const char *name, const char *text, size_t len, size_t bytes_max,
             struct err *err)
{
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return err_set(err, ERR_USAGE,
                       "%s: begins with a byte order mark, which JSON has not; save it "
                       "without one",
                       name),
               NULL;
    struct json *root = json_parse(text ? text : "", len, bytes_max, err);
    if (root && json_is_object(root))
        return root;
    if (root)
        err_set(err, ERR_USAGE, "%s: is no JSON object", name);
    else
        err_wrap(err, "%s", name);
    err->code = ERR_USAGE;
    json_free(root);
    return NULL;
}

struct json *
strict_read(const char *path, size_t bytes_max, struct err *err)
{
    struct buf text = {0};
    struct json *root = NULL;
    if (file_read(path, bytes_max, &text, err))
        err->code = ERR_USAGE;
    else
        root = strict_parse(path, (const char *)text.data, text.len, bytes_max, err);
    buf_release(&text);
    return root;
}

int
strict_keys(const struct json *object, const char *where, const char *const *keys,
            struct err *err)
{
    char hints[ERR_MSG_SIZE];
    size_t count = 0;
    if (!json_is_object(object))
        return err_set(err, ERR_USAGE, "%s is no object", where);
    while (keys[count])
        count++;
    must(count <= KEYS_MAX);
    for (size_t i = 0; i < json_count(object); i++) {
        const char *key = json_key_at(object, i, NULL);
        size_t k = 0;
        while (k < count && strcmp(keys[k], key) != 0)
            k++;
        if (k == count)
            return err_set(err, ERR_USAGE, "%s: unknown key \"%.40s\"%s", where, key,
                           word_hint(key, keys, count, hints));
        if (i > KEYS_MAX)
            break;
    }
    return 0;
}

/* A member that must be there. */
static const struct json *
member(const struct json *object, const char *where, const char *key, struct err *err)
{
    const struct json *value = json_get(object, key);
    if (!value)
        err_set(err, ERR_USAGE, "%s: \"%s\" is missing", where, key);
    return value;
}

static int
whole(const struct json *value, const char *where, const char *name, int64_t least,
      int64_t most, int64_t *out, struct err *err)
{
    if (!json_is_int(value))
        return err_set(err, ERR_USAGE, "%s: %s must be a whole number", where, name);
    *out = json_int(value, 0);
    if (*out < least || *out > most)
        return err_set(err, ERR_USAGE, "%s: %s is %lld, it must be from %lld to %lld",
                       where, name, (long long)*out, (long long)least, (long long)most);
    return 0;
}

static int
number(const struct json *value, const char *where, const char *name, double least,
       double most, double *out, struct err *err)
{
    double x = json_double(value, -1), y = json_double(value, 1);
    if (x != y)
        return err_set(err, ERR_USAGE, "%s: %s must be a number", where, name);
    if (!(x >= least && x <= most))
        return err_set(err, ERR_USAGE, "%s: %s is %g, it must be from %g to %g", where,
                       name, x, least, most);
    *out = x;
    return 0;
}

int
strict_int(const struct json *object, const char *where, const char *key, int64_t least,
           int64_t most, int64_t *out, struct err *err)
{
    const struct json *value = member(object, where, key, err);
    return value ? whole(value, where, key, least, most, out, err) : -1;
}

int
strict_number(const struct json *object, const char *where, const char *key, double least,
              double most, double *out, struct err *err)
{
    const struct json *value = member(object, where, key, err);
    return value ? number(value, where, key, least, most, out, err) : -1;
}

int
strict_text(const struct json *object, const char *where, const char *key,
            size_t bytes_max, const char **out, struct err *err)
{
    const struct json *value = member(object, where, key, err);
    if (!value)
        return -1;
    if (!json_is_text(value))
        return err_set(err, ERR_USAGE, "%s: %s must be a text", where, key);
    *out = json_text(value, "");
    if (!**out || strlen(*out) > bytes_max)
        return err_set(err, ERR_USAGE, "%s: %s has %zu bytes, it must have 1 to %zu",
                       where, key, strlen(*out), bytes_max);
    return 0;
}

int
strict_array(const struct json *object, const char *where, const char *key, size_t least,
             size_t most, const struct json **out, struct err *err)
{
    const struct json *value = member(object, where, key, err);
    if (!value)
        return -1;
    if (!json_is_array(value))
        return err_set(err, ERR_USAGE, "%s: %s must be a list", where, key);
    size_t count = json_count(value);
    if (count < least || count > most) {
        char rule[64];
        snprintf(rule, sizeof(rule), least == most ? "%zu" : "%zu to %zu", least, most);
        return err_set(err, ERR_USAGE, "%s: %s has %zu entries, it must have %s", where,
                       key, count, rule);
    }
    *out = value;
    return 0;
}

int
strict_ints(const struct json *object, const char *where, const char *key, size_t count,
            int64_t least, int64_t most, int64_t *out, struct err *err)
{
    const struct json *list;
    char name[96];
    if (strict_array(object, where, key, count, count, &list, err))
        return -1;
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s[%zu]", key, i);
        if (whole(json_at(list, i), where, name, least, most, &out[i], err))
            return -1;
    }
    return 0;
}

int
strict_numbers(const struct json *object, const char *where, const char *key,
               size_t count, double least, double most, double *out, struct err *err)
{
    const struct json *list;
    char name[96];
    if (strict_array(object, where, key, count, count, &list, err))
        return -1;
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s[%zu]", key, i);
        if (number(json_at(list, i), where, name, least, most, &out[i], err))
            return -1;
    }
    return 0;
}
