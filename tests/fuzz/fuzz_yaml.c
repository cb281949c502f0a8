/*
 * Any bytes as a YAML file under a schema that has every kind of value that ours have:
 * read whole, or refused with a sentence of ours (never with one of the library's, which
 * has no line). Sizes ride along.
 */
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/yaml.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct inner {
    char a[8];
    int8_t b;
};

struct outer {
    struct inner m;
    struct inner *l;
    uint32_t l_count;
    char **t;
    uint32_t t_count;
    char *s;
    double d;
    float f;
    uint16_t u;
    int64_t i;
    bool y;
    int e;
};

static const cyaml_strval_t words[] = {{"one", 1}, {"two", 2}};
static const cyaml_schema_field_t inner_fields[] = {
    CYAML_FIELD_STRING("a", CYAML_FLAG_DEFAULT, struct inner, a, 1),
    CYAML_FIELD_INT("b", CYAML_FLAG_OPTIONAL, struct inner, b),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t inner_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct inner, inner_fields)};
static const cyaml_schema_value_t text_value = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 0, 8)};
static const cyaml_schema_field_t outer_fields[] = {
    CYAML_FIELD_MAPPING("m", CYAML_FLAG_OPTIONAL, struct outer, m, inner_fields),
    CYAML_FIELD_SEQUENCE("l", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct outer, l,
                         &inner_value, 0, 4),
    CYAML_FIELD_SEQUENCE("t", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct outer, t,
                         &text_value, 1, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("s", CYAML_FLAG_POINTER_NULL_STR | CYAML_FLAG_OPTIONAL,
                           struct outer, s, 0, 8),
    CYAML_FIELD_FLOAT("d", CYAML_FLAG_OPTIONAL, struct outer, d),
    CYAML_FIELD_FLOAT("f", CYAML_FLAG_OPTIONAL, struct outer, f),
    CYAML_FIELD_UINT("u", CYAML_FLAG_OPTIONAL, struct outer, u),
    CYAML_FIELD_INT("i", CYAML_FLAG_OPTIONAL, struct outer, i),
    CYAML_FIELD_BOOL("y", CYAML_FLAG_OPTIONAL, struct outer, y),
    CYAML_FIELD_ENUM("e", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct outer, e, words,
                     2),
    CYAML_FIELD_IGNORE("x", CYAML_FLAG_OPTIONAL),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct outer, outer_fields)};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *value = NULL;
    struct err err = {0};
    if (yaml_parse("fuzz", (const char *)data, size, &schema, &value, &err)) {
        must(err.code == ERR_USAGE && strncmp(err.msg, "fuzz: ", 6) == 0 && !value);
        must(strncmp(err.msg + 6, "cannot be read", 14) != 0);
    } else {
        const struct outer *outer = value;
        must(isfinite(outer->d) && isfinite(outer->f) && outer->l_count <= 4);
        must(outer->e == 0 || outer->e == 1 || outer->e == 2);
    }
    yaml_free(&schema, value);

    char *text = xcalloc(size + 1, 1);
    if (size > 0)
        memcpy(text, data, size);
    int64_t bytes = -1;
    if (size_parse(text, &bytes, &err) == 0)
        must(bytes >= 0);
    else
        must(bytes == -1);
    free(text);
    return 0;
}
