/*
 * yaml.h - YAML files with a schema (libcyaml's and libyaml's home).
 *
 * The schema is libcyaml's own (its macros are visible through this header); its top is a
 * pointer to a mapping. Before libcyaml sees a text, its libyaml events are walked, so
 * that each of these is an error with its line: an unknown key ("did you mean"), a key
 * given twice or missing, a choice that is not known, a number that is not written as one
 * (010, 0x10, 1_000, 3e-4abc, nan, "5" in quotes) or does not fit its field, a truth that
 * is neither true nor false, a text or list that is too long or too short, a word where a
 * list or a mapping belongs. An empty file is no configuration; anchors, aliases, tags
 * and second documents are refused. What is optional and absent is zero. Whatever is
 * under a CYAML_IGNORE key is free. Sizes such as "1GiB" are texts for size_parse().
 */
#ifndef TRANSPORT_YAML_H
#define TRANSPORT_YAML_H

#include "transport/base/buf.h"
#include "transport/base/err.h"

#include <cyaml/cyaml.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read a file, or a text (NULL with a length of 0: empty) that is called `name` in
 * messages. `*out` is libcyaml's
 * allocation for the schema's top value (a pointer to a mapping): free with yaml_free().
 * ERR_USAGE: "job.yaml: line 7: unknown key "batchs"; did you mean "batch"?". */
int yaml_read(const char *path, const cyaml_schema_value_t *schema, void **out,
              struct err *err);
int yaml_parse(const char *name, const char *text, size_t len,
               const cyaml_schema_value_t *schema, void **out, struct err *err);
/* Hidden, because libyaml has a function of this name inside and would call ours. */
__attribute__((visibility("hidden"))) void yaml_free(const cyaml_schema_value_t *schema,
                                                     void *value);

/* Where in a text the value of a key stands. */
struct yaml_section {
    size_t start, end;   /* its bytes */
    size_t line, column; /* of its first byte, from 0 */
    bool scalar;         /* else a mapping or a list */
};

/* Find the value of a key, "job" or "job.data.train", in a text that is called `name` in
 * messages. `value` (or NULL) gets a scalar's text, a final NUL behind it. So one file
 * can hold another: the bytes, behind `line` empty lines and `column` blanks, are a text
 * of their own whose messages name the right lines. ERR_USAGE when there is no such key.
 */
int yaml_section(const char *name, const char *text, size_t len, const char *path,
                 struct yaml_section *out, struct buf *value, struct err *err);

/* "64KiB", "1.5 GiB", "2GB", "4096": bytes. ERR_USAGE otherwise. */
int size_parse(const char *text, int64_t *bytes, struct err *err);

#endif
