/*
 * strict.h - JSON documents that a person or another program wrote: every member is known,
 * there, of its kind and in its range, or the file is refused with the member's place.
 *
 * `where` is what the object is called in messages: "a.json: stages[2]". All errors are
 * ERR_USAGE.
 */
#ifndef NODE_PLAN_STRICT_H
#define NODE_PLAN_STRICT_H

#include "transport/json.h"

#include <stddef.h>

/* Read a file; what cannot be read or is no JSON object is the caller's mistake, too. */
struct json *strict_read(const char *path, size_t bytes_max, struct err *err);
/* The same of a text that is called `name`. */
struct json *strict_parse(const char *name, const char *text, size_t len,
                          size_t bytes_max, struct err *err);

/* Is `object` an object of no other keys than these? `keys` ends in NULL. */
int strict_keys(const struct json *object, const char *where, const char *const *keys,
                struct err *err);

/* Required members; a number from `least` to `most`. */
int strict_int(const struct json *object, const char *where, const char *key,
               int64_t least, int64_t most, int64_t *out, struct err *err);
int strict_number(const struct json *object, const char *where, const char *key,
                  double least, double most, double *out, struct err *err);
int strict_text(const struct json *object, const char *where, const char *key,
                size_t bytes_max, const char **out, struct err *err);
/* An array of `least` to `most` elements. */
int strict_array(const struct json *object, const char *where, const char *key,
                 size_t least, size_t most, const struct json **out, struct err *err);

/* An array of exactly `count` numbers into `out`. */
int strict_ints(const struct json *object, const char *where, const char *key,
                size_t count, int64_t least, int64_t most, int64_t *out, struct err *err);
int strict_numbers(const struct json *object, const char *where, const char *key,
                   size_t count, double least, double most, double *out, struct err *err);

#endif
