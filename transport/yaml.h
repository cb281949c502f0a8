/*
 * yaml.h - YAML files with a schema (libcyaml's and libyaml's home).
 *
 * The schema is libcyaml's own (its macros are visible through this header). Before
 * libcyaml sees a text, its libyaml events are walked: an unknown key is an error with
 * its line and "did you mean", so is a key given twice; a number must be written as one
 * (no 010, no 3e-4abc, no nan), an empty file is no configuration. Sizes such as "1GiB"
 * are texts for size_parse().
 */
#ifndef TRANSPORT_YAML_H
#define TRANSPORT_YAML_H

#include "transport/base/err.h"

#include <cyaml/cyaml.h>
#include <stddef.h>
#include <stdint.h>

/* Read a file, or a text that is called `name` in messages. `*out` is libcyaml's
 * allocation for the schema's top value (a pointer to a mapping): free with yaml_free().
 * ERR_USAGE: "job.yaml: line 7: unknown key "batchs"; did you mean "batch"?". */
int yaml_read(const char *path, const cyaml_schema_value_t *schema, void **out,
              struct err *err);
int yaml_parse(const char *name, const char *text, size_t len,
               const cyaml_schema_value_t *schema, void **out, struct err *err);
/* Hidden, because libyaml has a function of this name inside and would call ours. */
__attribute__((visibility("hidden"))) void yaml_free(const cyaml_schema_value_t *schema,
                                                     void *value);

/* "64KiB", "1.5 GiB", "2GB", "4096": bytes. ERR_USAGE otherwise. */
int size_parse(const char *text, int64_t *bytes, struct err *err);

#endif
