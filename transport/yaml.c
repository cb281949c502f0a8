#include "transport/yaml.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/base/must.h"
#include "transport/base/word.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum {
    YAML_BYTES_MAX = 1 << 20, /* one file */
    YAML_DEPTH_MAX = 16,      /* nesting of a file; no schema is deeper */
    YAML_FIELDS_MAX = 64,     /* keys of one mapping */
    SHOWN_SIZE = 48,          /* a word of the file in a message */
    NAMED_SIZE = 96           /* what a value is called in a message */
};

/* ---- the walk: a file's events held against the schema ---- */

/* One open mapping or list. */
struct level {
    const char *key; /* the key that it is the value of; NULL at the top */
    const cyaml_schema_field_t *fields; /* a mapping's */
    const cyaml_schema_value_t *entry;  /* a list's */
    const cyaml_schema_value_t *list;   /* a list's own schema, for its length */
    const cyaml_schema_field_t *field;  /* a mapping's key that waits for its value */
    uint64_t seen; /* a mapping's keys so far, by their place in the schema */
    size_t count;  /* a list's elements so far */
    size_t line;
    bool ignored; /* whatever is inside */
};

struct walk {
    const char *name; /* of the file */
    yaml_parser_t parser;
    yaml_event_t event;
    const cyaml_schema_value_t *top;
    struct level levels[YAML_DEPTH_MAX];
    int depth;
    size_t documents;
};

/* A word of the file, safe and short enough to show. */
static const char *
shown(const char *word, char text[SHOWN_SIZE])
{
    size_t len = 0;
    for (; word[len] && len < SHOWN_SIZE - 1; len++) {
        unsigned char c = (unsigned char)word[len];
        text[len] = word[len];
        if (c < 0x20 || c == 0x7f)
            text[len] = '?';
    }
    text[len] = '\0';
    if (word[len])
        memcpy(text + SHOWN_SIZE - 4, "...", 4);
    return text;
}

static size_t
event_line(const struct walk *walk)
{
    return walk->event.start_mark.line + 1;
}

static const char *
event_text(const struct walk *walk)
{
    return (const char *)walk->event.data.scalar.value;
}

static int __attribute__((format(printf, 3, 4)))
wrong(const struct walk *walk, struct err *err, const char *fmt, ...)
{
    char reason[ERR_MSG_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof(reason), fmt, ap);
    va_end(ap);
    return err_set(err, ERR_USAGE, "%s: line %zu: %s", walk->name, event_line(walk),
                   reason);
}

static struct level *
top_level(struct walk *walk)
{
    return walk->depth > 0 ? &walk->levels[walk->depth - 1] : NULL;
}

/* What the value at hand is called: a key in quotes, or the place in a list. */
static const char *
value_name(const struct walk *walk, char text[NAMED_SIZE])
{
    const struct level *level = walk->depth > 0 ? &walk->levels[walk->depth - 1] : NULL;
    if (!level)
        snprintf(text, NAMED_SIZE, "the file");
    else if (level->field)
        snprintf(text, NAMED_SIZE, "\"%s\"", level->field->key);
    else
        snprintf(text, NAMED_SIZE, "entry %zu of \"%s\"", level->count,
                 level->key ? level->key : "the file");
    return text;
}

/* ---- did you mean ---- */

/* What is known at one place: the keys of a mapping or the values of an enumeration. */
struct known {
    const cyaml_schema_field_t *fields;
    const cyaml_strval_t *strings;
    size_t count;
};

static const char *
known_word(const struct known *known, size_t i)
{
    return known->fields ? known->fields[i].key : known->strings[i].str;
}

/* "; did you mean "batch"?", or all that is known while there is room. */
static const char *
hint(const struct known *known, const char *word, char text[ERR_MSG_SIZE])
{
    const char *words[YAML_FIELDS_MAX];
    must(known->count <= YAML_FIELDS_MAX);
    for (size_t i = 0; i < known->count; i++)
        words[i] = known_word(known, i);
    return word_hint(word, words, known->count, text);
}

static struct known
known_fields(const cyaml_schema_field_t *fields)
{
    struct known known = {.fields = fields};
    while (fields[known.count].key)
        known.count++;
    must(known.count <= YAML_FIELDS_MAX);
    return known;
}

/* ---- scalars ---- */

/* [-] 0 | digits without a leading zero; returns what follows, or NULL. */
static const char *
whole_form(const char *text)
{
    text += *text == '-';
    size_t digits = strspn(text, "0123456789");
    return digits == 0 || (digits > 1 && *text == '0') ? NULL : text + digits;
}

/* A whole number, then maybe a fraction, then maybe an exponent. */
static bool
real_form(const char *text)
{
    const char *at = whole_form(text);
    if (!at)
        return false;
    if (*at == '.') {
        size_t digits = strspn(++at, "0123456789");
        if (digits == 0)
            return false;
        at += digits;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '-' || *at == '+';
        size_t digits = strspn(at, "0123456789");
        if (digits == 0)
            return false;
        at += digits;
    }
    return *at == '\0';
}

static int
check_int(const struct walk *walk, const cyaml_schema_value_t *schema, const char *text,
          struct err *err)
{
    char what[NAMED_SIZE], word[SHOWN_SIZE];
    const char *end = whole_form(text);
    if (!end || *end)
        return wrong(walk, err, "%s must be a whole number in decimal digits, not \"%s\"",
                     value_name(walk, what), shown(text, word));
    unsigned bits = 8 * schema->data_size;
    must(bits >= 8 && bits <= 64);
    errno = 0;
    if (schema->type == CYAML_UINT) {
        uint64_t most = UINT64_MAX >> (64 - bits);
        unsigned long long value = strtoull(text, NULL, 10);
        if (*text == '-' || errno || value > most)
            return wrong(walk, err, "%s is %s, it must be from 0 to %llu",
                         value_name(walk, what), shown(text, word),
                         (unsigned long long)most);
        return 0;
    }
    int64_t most = INT64_MAX >> (64 - bits);
    long long value = strtoll(text, NULL, 10);
    if (errno && bits == 64) /* its range is the reader's to say, and narrower */
        return wrong(walk, err, "%s is %s, which is far %s what it may be",
                     value_name(walk, what), shown(text, word),
                     *text == '-' ? "below" : "above");
    if (errno || value > most || value < -most - 1)
        return wrong(walk, err, "%s is %s, it must be from %lld to %lld",
                     value_name(walk, what), shown(text, word), (long long)(-most - 1),
                     (long long)most);
    return 0;
}

static int
check_float(const struct walk *walk, const cyaml_schema_value_t *schema, const char *text,
            struct err *err)
{
    char what[NAMED_SIZE], word[SHOWN_SIZE];
    if (!real_form(text))
        return wrong(walk, err, "%s must be a number such as 0.1 or 6e-4, not \"%s\"",
                     value_name(walk, what), shown(text, word));
    errno = 0;
    if (schema->data_size == sizeof(float))
        (void)strtof(text, NULL);
    else
        (void)strtod(text, NULL);
    if (errno)
        return wrong(walk, err, "%s is %s, which is beyond what %s can hold",
                     value_name(walk, what), shown(text, word),
                     schema->data_size == sizeof(float) ? "single precision"
                                                        : "a number");
    return 0;
}

static int
check_bool(const struct walk *walk, const char *text, struct err *err)
{
    char what[NAMED_SIZE], word[SHOWN_SIZE];
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return 0;
    return wrong(walk, err, "%s must be true or false, not \"%s\"",
                 value_name(walk, what), shown(text, word));
}

static int
check_enum(const struct walk *walk, const cyaml_schema_value_t *schema, const char *text,
           struct err *err)
{
    char what[NAMED_SIZE], word[SHOWN_SIZE], hints[ERR_MSG_SIZE];
    struct known known = {.strings = schema->enumeration.strings,
                          .count = schema->enumeration.count};
    for (size_t i = 0; i < known.count; i++)
        if (strcmp(text, known_word(&known, i)) == 0)
            return 0;
    return wrong(walk, err, "%s cannot be \"%s\"%s", value_name(walk, what),
                 shown(text, word), hint(&known, text, hints));
}

static int
check_string(const struct walk *walk, const cyaml_schema_value_t *schema, struct err *err)
{
    char what[NAMED_SIZE];
    size_t len = walk->event.data.scalar.length;
    size_t most = schema->string.max;
    if (!(schema->flags & CYAML_FLAG_POINTER) && most >= schema->data_size)
        most = schema->data_size - 1;
    if (len > most)
        return wrong(walk, err, "%s has %zu characters, the limit is %zu",
                     value_name(walk, what), len, most);
    if (len < schema->string.min)
        return wrong(walk, err, "%s has %zu characters, it needs at least %u",
                     value_name(walk, what), len, schema->string.min);
    return 0;
}

/* No value at all, where the schema knows none. */
static bool
null_allowed(const cyaml_schema_value_t *schema, const char *text)
{
    static const char *const nulls[] = {"null", "Null", "NULL", "~"};
    bool strings =
        (schema->flags & CYAML_FLAG_POINTER_NULL_STR) == CYAML_FLAG_POINTER_NULL_STR;
    for (size_t i = 0; strings && i < 4; i++)
        if (strcmp(text, nulls[i]) == 0)
            return true;
    return !*text && (schema->flags & CYAML_FLAG_POINTER_NULL) == CYAML_FLAG_POINTER_NULL;
}

static int
check_scalar(const struct walk *walk, const cyaml_schema_value_t *schema, struct err *err)
{
    char what[NAMED_SIZE];
    const char *text = event_text(walk);
    bool plain = walk->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (schema->type == CYAML_IGNORE || (plain && null_allowed(schema, text)))
        return 0;
    if (plain && !*text)
        return wrong(walk, err, "%s has no value", value_name(walk, what));
    bool quoted = !plain && (schema->type == CYAML_INT || schema->type == CYAML_UINT ||
                             schema->type == CYAML_FLOAT || schema->type == CYAML_BOOL);
    if (quoted)
        return wrong(walk, err, "%s must not be in quotes", value_name(walk, what));
    switch (schema->type) {
    case CYAML_INT:
    case CYAML_UINT:
        return check_int(walk, schema, text, err);
    case CYAML_FLOAT:
        return check_float(walk, schema, text, err);
    case CYAML_BOOL:
        return check_bool(walk, text, err);
    case CYAML_ENUM:
        return check_enum(walk, schema, text, err);
    case CYAML_STRING:
        return check_string(walk, schema, err);
    case CYAML_MAPPING:
        return wrong(walk, err, "%s must be a mapping of keys to values",
                     value_name(walk, what));
    default:
        return wrong(walk, err, "%s must be a list, such as [a, b]",
                     value_name(walk, what));
    }
}

/* ---- mappings and lists ---- */

static int
take_key(struct walk *walk, struct level *level, struct err *err)
{
    char word[SHOWN_SIZE], inside[NAMED_SIZE] = "", hints[ERR_MSG_SIZE];
    const char *key = event_text(walk);
    struct known known = known_fields(level->fields);
    for (size_t i = 0; i < known.count; i++) {
        if (strcmp(key, known.fields[i].key) != 0)
            continue;
        if (level->seen >> i & 1)
            return wrong(walk, err, "key \"%s\" is given twice", shown(key, word));
        level->seen |= (uint64_t)1 << i;
        level->field = &known.fields[i];
        return 0;
    }
    if (level->key)
        snprintf(inside, sizeof(inside), " in \"%s\"", level->key);
    return wrong(walk, err, "unknown key \"%s\"%s%s", shown(key, word), inside,
                 hint(&known, key, hints));
}

/* The schema of the value that comes next; NULL inside what is ignored. Counts a list's
 * entry. */
static int
next_schema(struct walk *walk, const cyaml_schema_value_t **schema, struct err *err)
{
    struct level *level = top_level(walk);
    *schema = NULL;
    if (!level) {
        *schema = walk->top;
    } else if (level->ignored) {
        *schema = NULL;
    } else if (level->fields) {
        if (!level->field)
            return wrong(walk, err, "a key must be a word");
        *schema = &level->field->value;
    } else {
        *schema = level->entry;
        level->count++;
        if (level->list->sequence.max != CYAML_UNLIMITED &&
            level->count > level->list->sequence.max)
            return wrong(walk, err, "\"%s\" has more than %u entries",
                         level->key ? level->key : "the file", level->list->sequence.max);
    }
    return 0;
}

/* The value of a key is complete. */
static void
value_done(struct walk *walk)
{
    struct level *level = top_level(walk);
    if (level)
        level->field = NULL;
}

static int
on_scalar(struct walk *walk, struct err *err)
{
    struct level *level = top_level(walk);
    if (walk->event.data.scalar.tag)
        return wrong(walk, err, "tags (\"!\") are not used here");
    if (strlen(event_text(walk)) != walk->event.data.scalar.length)
        return wrong(walk, err, "a NUL character cannot be part of a text");
    if (level && !level->ignored && level->fields && !level->field)
        return take_key(walk, level, err);
    const cyaml_schema_value_t *schema;
    if (next_schema(walk, &schema, err))
        return -1;
    if (schema && check_scalar(walk, schema, err))
        return -1;
    value_done(walk);
    return 0;
}

static int
on_open(struct walk *walk, bool mapping, struct err *err)
{
    char what[NAMED_SIZE];
    const cyaml_schema_value_t *schema;
    if (mapping ? walk->event.data.mapping_start.tag
                : walk->event.data.sequence_start.tag)
        return wrong(walk, err, "tags (\"!\") are not used here");
    if (next_schema(walk, &schema, err))
        return -1;
    if (walk->depth == YAML_DEPTH_MAX)
        return wrong(walk, err, "nested deeper than %d", YAML_DEPTH_MAX);
    const struct level *outer = top_level(walk);
    struct level level = {.line = event_line(walk),
                          .key = !outer         ? NULL
                                 : outer->field ? outer->field->key
                                                : outer->key};
    bool list =
        schema && (schema->type == CYAML_SEQUENCE ||
                   schema->type == CYAML_SEQUENCE_FIXED || schema->type == CYAML_FLAGS);
    if (!schema || schema->type == CYAML_IGNORE) {
        level.ignored = true;
    } else if (mapping && schema->type == CYAML_MAPPING) {
        level.fields = schema->mapping.fields;
    } else if (!mapping && list) {
        must(schema->type != CYAML_FLAGS); /* no schema of ours has them */
        level.list = schema;
        level.entry = schema->sequence.entry;
    } else {
        return wrong(walk, err, "%s must be %s, not a %s", value_name(walk, what),
                     schema->type == CYAML_MAPPING ? "a mapping of keys to values"
                     : list                        ? "a list, such as [a, b]"
                                                   : "a single value",
                     mapping ? "mapping" : "list");
    }
    walk->levels[walk->depth++] = level;
    return 0;
}

static int
on_close(struct walk *walk, struct err *err)
{
    const struct level *level = top_level(walk);
    must(level);
    if (!level->ignored && level->fields) {
        struct known known = known_fields(level->fields);
        for (size_t i = 0; i < known.count; i++) {
            if (level->seen >> i & 1 || known.fields[i].value.flags & CYAML_FLAG_OPTIONAL)
                continue;
            if (!level->key)
                return err_set(err, ERR_USAGE, "%s: \"%s\" is missing", walk->name,
                               known.fields[i].key);
            return err_set(err, ERR_USAGE, "%s: line %zu: \"%s\" lacks \"%s\"",
                           walk->name, level->line, level->key, known.fields[i].key);
        }
    }
    if (level->list && level->count < level->list->sequence.min)
        return err_set(err, ERR_USAGE,
                       "%s: line %zu: \"%s\" has %zu entries, it needs at least %u",
                       walk->name, level->line, level->key ? level->key : "the file",
                       level->count, level->list->sequence.min);
    walk->depth--;
    value_done(walk);
    return 0;
}

/* ---- the file ---- */

static int
on_event(struct walk *walk, struct err *err)
{
    switch (walk->event.type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++walk->documents > 1)
            return wrong(walk, err, "a second document begins; only one is read");
        return 0;
    case YAML_ALIAS_EVENT:
        return wrong(walk, err,
                     "aliases (\"*\") are not used here; in quotes it is a text");
    case YAML_SCALAR_EVENT:
        if (walk->event.data.scalar.anchor)
            break;
        return on_scalar(walk, err);
    case YAML_MAPPING_START_EVENT:
        if (walk->event.data.mapping_start.anchor)
            break;
        return on_open(walk, true, err);
    case YAML_SEQUENCE_START_EVENT:
        if (walk->event.data.sequence_start.anchor)
            break;
        return on_open(walk, false, err);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        return on_close(walk, err);
    default:
        return 0;
    }
    return wrong(walk, err, "anchors (\"&\") are not used here; in quotes it is a text");
}

/* The parser's own complaint; one about bytes has an offset and no line. */
static int
not_yaml(const struct walk *walk, const char *text, size_t len, struct err *err)
{
    const yaml_parser_t *parser = &walk->parser;
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) {
        line = 1;
        for (size_t i = 0; i < parser->problem_offset && i < len; i++)
            line += text[i] == '\n';
    }
    return err_set(err, ERR_USAGE, "%s: line %zu: not valid YAML: %s", walk->name, line,
                   parser->problem ? parser->problem : "it cannot be parsed");
}

static int
check_text(const char *name, const char *text, size_t len,
           const cyaml_schema_value_t *schema, struct err *err)
{
    struct walk walk = {.name = name, .top = schema};
    must(yaml_parser_initialize(&walk.parser));
    yaml_parser_set_encoding(&walk.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&walk.parser, (const unsigned char *)text, len);
    int result = 0;
    bool more = true;
    while (more && result == 0) {
        if (!yaml_parser_parse(&walk.parser, &walk.event)) {
            result = not_yaml(&walk, text, len, err);
            break;
        }
        more = walk.event.type != YAML_STREAM_END_EVENT;
        result = on_event(&walk, err);
        yaml_event_delete(&walk.event);
    }
    if (result == 0 && walk.documents == 0)
        result = err_set(err, ERR_USAGE, "%s: the file is empty", name);
    yaml_parser_delete(&walk.parser);
    return result;
}

static const cyaml_config_t library = {
    .mem_fn = cyaml_mem,
    .log_level = CYAML_LOG_ERROR,
    .flags = CYAML_CFG_NO_ALIAS,
};

/* Bytes of the byte order mark that some editors begin a file with. */
static size_t
mark_bytes(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int
yaml_parse(const char *name, const char *text, size_t len,
           const cyaml_schema_value_t *schema, void **out, struct err *err)
{
    must(schema->type == CYAML_MAPPING && schema->flags & CYAML_FLAG_POINTER);
    must(text || len == 0);
    text = text ? text : ""; /* an empty file's buffer; libyaml asserts a text */
    if (len > YAML_BYTES_MAX)
        return err_set(err, ERR_USAGE, "%s: larger than %d bytes", name, YAML_BYTES_MAX);
    size_t mark = mark_bytes(text, len);
    text += mark;
    len -= mark;
    if (check_text(name, text, len, schema, err))
        return -1;
    void *value = NULL;
    cyaml_err_t code =
        cyaml_load_data((const uint8_t *)text, len, &library, schema, &value, NULL);
    if (code != CYAML_OK)
        return err_set(err, ERR_USAGE, "%s: cannot be read: %s", name,
                       cyaml_strerror(code));
    if (!value)
        return err_set(err, ERR_USAGE, "%s: nothing is set", name);
    *out = value;
    return 0;
}

int
yaml_read(const char *path, const cyaml_schema_value_t *schema, void **out,
          struct err *err)
{
    struct buf text = {0};
    int result = file_read(path, YAML_BYTES_MAX, &text, err);
    if (result && err->code == ERR_LIMIT)
        err->code = ERR_USAGE;
    buf_add(&text, "", 1); /* a final NUL, for the parser's complaints */
    if (result == 0)
        result =
            yaml_parse(path, (const char *)text.data, text.len - 1, schema, out, err);
    buf_release(&text);
    return result;
}

void
yaml_free(const cyaml_schema_value_t *schema, void *value)
{
    if (value)
        cyaml_free(&library, schema, value, 0);
}

/* ---- sections ---- */

/* The next event of a parser; the caller deletes it. */
static int
next_event(struct walk *walk, const char *text, size_t len, struct err *err)
{
    return yaml_parser_parse(&walk->parser, &walk->event)
               ? 0
               : not_yaml(walk, text, len, err);
}

/* How an event changes the number of open mappings and lists. */
static int
event_nests(const yaml_event_t *event)
{
    bool opens = event->type == YAML_MAPPING_START_EVENT ||
                 event->type == YAML_SEQUENCE_START_EVENT;
    bool closes =
        event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
    return opens ? 1 : closes ? -1 : 0;
}

/* A mark counts characters of UTF-8. */
static size_t
mark_byte(const char *text, size_t len, size_t characters)
{
    size_t at = 0;
    while (at < len && (characters > 0 || ((unsigned char)text[at] & 0xc0) == 0x80))
        characters -= ((unsigned char)text[at++] & 0xc0) != 0x80;
    return at;
}

/* The event at hand begins the value: note where it stands, to its end. */
static int
take_section(struct walk *walk, const char *text, size_t len, struct yaml_section *out,
             struct buf *value, struct err *err)
{
    const yaml_mark_t *start = &walk->event.start_mark;
    *out = (struct yaml_section){.start = mark_byte(text, len, start->index),
                                 .line = start->line,
                                 .column = start->column,
                                 .scalar = walk->event.type == YAML_SCALAR_EVENT};
    if (out->scalar && value) {
        buf_add(value, event_text(walk), walk->event.data.scalar.length);
        buf_add(value, "", 1);
    }
    int open = event_nests(&walk->event);
    while (open > 0) {
        yaml_event_delete(&walk->event);
        if (next_event(walk, text, len, err))
            return -1;
        open += event_nests(&walk->event);
    }
    out->end = mark_byte(text, len, walk->event.end_mark.index);
    return 0;
}

/* Is the event at hand the part of the path that we look for? */
static bool
is_part(const struct walk *walk, const char *path)
{
    size_t part = strcspn(path, ".");
    return walk->event.type == YAML_SCALAR_EVENT &&
           walk->event.data.scalar.length == part &&
           memcmp(event_text(walk), path, part) == 0;
}

int
yaml_section(const char *name, const char *text, size_t len, const char *path,
             struct yaml_section *out, struct buf *value, struct err *err)
{
    struct walk walk = {.name = name};
    const char *rest = path;
    int depth = 0, wanted = 1; /* mappings and lists open; those that lead to the key */
    bool key = true, ours = false, more = true;
    must(text || len == 0);
    text = text ? text : "";
    size_t mark = mark_bytes(text, len);
    text += mark;
    len -= mark;
    must(yaml_parser_initialize(&walk.parser));
    yaml_parser_set_encoding(&walk.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&walk.parser, (const unsigned char *)text, len);
    int result = 0, found = 0;
    while (more && !found && (result = next_event(&walk, text, len, err)) == 0) {
        int nests = event_nests(&walk.event);
        if (ours && rest[strcspn(rest, ".")] == '\0') {
            found = 1;
            result = take_section(&walk, text, len, out, value, err);
        } else if (ours) {
            more = walk.event.type == YAML_MAPPING_START_EVENT;
            rest += strcspn(rest, ".") + 1;
            depth = ++wanted;
            ours = false;
            key = true;
        } else if (nests == 0 && depth == wanted) {
            ours = key && is_part(&walk, rest);
            key = !key;
        } else if (nests != 0) {
            depth += nests;
            key = depth == wanted; /* inside it at last, or a value has ended */
            more = depth >= wanted || nests > 0;
        } else {
            more = walk.event.type != YAML_STREAM_END_EVENT;
        }
        yaml_event_delete(&walk.event);
    }
    yaml_parser_delete(&walk.parser);
    if (result == 0 && !found)
        return err_set(err, ERR_USAGE, "%s: \"%s\" is missing", name, path);
    if (result == 0) {
        out->start += mark;
        out->end += mark;
    }
    return result;
}

/* ---- sizes ---- */

int
size_parse(const char *text, int64_t *bytes, struct err *err)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"B", 1},        {"kB", 1e3},    {"KB", 1e3},     {"MB", 1e6},
                 {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
                 {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char word[SHOWN_SIZE];
    size_t number = strspn(text, "0123456789.");
    const char *unit = text + number;
    unit += *unit == ' ';
    char digits[SHOWN_SIZE];
    snprintf(digits, sizeof(digits), "%.*s", number < sizeof(digits) ? (int)number : 0,
             text);
    if (real_form(digits) && *unit == '\0')
        return err_set(
            err, ERR_USAGE,
            "size \"%s\" has no unit; write one, such as 512MiB or 1.5GiB, or B "
            "for bytes",
            shown(text, word));
    if (real_form(digits)) {
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
            if (strcmp(unit, units[i].unit) != 0)
                continue;
            double value = strtod(digits, NULL) * units[i].bytes;
            if (value >= 0x1p62)
                return err_set(err, ERR_USAGE, "size \"%s\" is too large",
                               shown(text, word));
            *bytes = (int64_t)value;
            return 0;
        }
    }
    return err_set(
        err, ERR_USAGE,
        "size \"%s\" is not one; write a number and a unit, such as 512MiB or 1.5GiB",
        shown(text, word));
}
