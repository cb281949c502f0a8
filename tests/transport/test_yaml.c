#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/base/rng.h"
#include "transport/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_yaml(void);

/* ---- a schema as a consumer writes it: a job's ---- */

enum precision { FP32, BF16 };
enum between { EXACT, LOCAL_SGD };

struct model {
    char family[16];
    uint32_t layers;
    uint16_t heads;
    uint32_t hidden;
    uint8_t context;
};

struct data {
    char *train;
    char *tokenizer;
};

struct optimizer {
    double learning_rate;
    float beta;
    uint32_t warmup_steps;
};

struct event {
    char kill[16];
    int64_t at_step;
};

struct job {
    char name[NAME_BYTES_MAX];
    struct model model;
    struct data data;
    int64_t steps;
    int8_t offset;
    struct optimizer optimizer;
    enum precision precision;
    double usd_per_hour;
    enum between *between_zones;
    uint32_t between_zones_count;
    uint64_t seed;
    bool resume;
    char **zones;
    uint32_t zones_count;
    struct event *events;
    uint32_t events_count;
    char *note;
};

static const cyaml_strval_t precisions[] = {{"fp32", FP32}, {"bf16", BF16}};
static const cyaml_strval_t betweens[] = {{"exact", EXACT}, {"local_sgd", LOCAL_SGD}};
static const cyaml_schema_value_t between_value = {
    CYAML_VALUE_ENUM(CYAML_FLAG_STRICT, enum between, betweens, 2)};
static const cyaml_schema_value_t zone_value = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 8)};
static const cyaml_schema_field_t model_fields[] = {
    CYAML_FIELD_STRING("family", CYAML_FLAG_DEFAULT, struct model, family, 1),
    CYAML_FIELD_UINT("layers", CYAML_FLAG_DEFAULT, struct model, layers),
    CYAML_FIELD_UINT("heads", CYAML_FLAG_OPTIONAL, struct model, heads),
    CYAML_FIELD_UINT("hidden", CYAML_FLAG_OPTIONAL, struct model, hidden),
    CYAML_FIELD_UINT("context", CYAML_FLAG_OPTIONAL, struct model, context),
    CYAML_FIELD_END,
};
static const cyaml_schema_field_t data_fields[] = {
    CYAML_FIELD_STRING_PTR("train", CYAML_FLAG_POINTER, struct data, train, 1, 100),
    CYAML_FIELD_STRING_PTR("tokenizer", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct data, tokenizer, 1, 16),
    CYAML_FIELD_END,
};
static const cyaml_schema_field_t optimizer_fields[] = {
    CYAML_FIELD_FLOAT("learning_rate", CYAML_FLAG_DEFAULT, struct optimizer,
                      learning_rate),
    CYAML_FIELD_FLOAT("beta", CYAML_FLAG_OPTIONAL, struct optimizer, beta),
    CYAML_FIELD_UINT("warmup_steps", CYAML_FLAG_OPTIONAL, struct optimizer, warmup_steps),
    CYAML_FIELD_END,
};
static const cyaml_schema_field_t event_fields[] = {
    CYAML_FIELD_STRING("kill", CYAML_FLAG_OPTIONAL, struct event, kill, 1),
    CYAML_FIELD_INT("at_step", CYAML_FLAG_DEFAULT, struct event, at_step),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t event_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct event, event_fields)};
static const cyaml_schema_field_t job_fields[] = {
    CYAML_FIELD_STRING("name", CYAML_FLAG_DEFAULT, struct job, name, 1),
    CYAML_FIELD_MAPPING("model", CYAML_FLAG_OPTIONAL, struct job, model, model_fields),
    CYAML_FIELD_MAPPING("data", CYAML_FLAG_OPTIONAL, struct job, data, data_fields),
    CYAML_FIELD_INT("steps", CYAML_FLAG_OPTIONAL, struct job, steps),
    CYAML_FIELD_INT("offset", CYAML_FLAG_OPTIONAL, struct job, offset),
    CYAML_FIELD_MAPPING("optimizer", CYAML_FLAG_OPTIONAL, struct job, optimizer,
                        optimizer_fields),
    CYAML_FIELD_ENUM("precision", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct job,
                     precision, precisions, 2),
    CYAML_FIELD_FLOAT("usd_per_hour", CYAML_FLAG_OPTIONAL, struct job, usd_per_hour),
    CYAML_FIELD_SEQUENCE("between_zones", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                         struct job, between_zones, &between_value, 1, 2),
    CYAML_FIELD_UINT("seed", CYAML_FLAG_OPTIONAL, struct job, seed),
    CYAML_FIELD_BOOL("resume", CYAML_FLAG_OPTIONAL, struct job, resume),
    CYAML_FIELD_SEQUENCE("zones", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct job,
                         zones, &zone_value, 0, CYAML_UNLIMITED),
    CYAML_FIELD_SEQUENCE("events", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct job,
                         events, &event_value, 0, 100),
    CYAML_FIELD_STRING_PTR("note", CYAML_FLAG_POINTER_NULL_STR | CYAML_FLAG_OPTIONAL,
                           struct job, note, 0, 20),
    CYAML_FIELD_IGNORE("extra", CYAML_FLAG_OPTIONAL),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t job_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct job, job_fields)};

static struct err err;

static void
setup(void)
{
    err = (struct err){0};
}

static struct job *
taken(const char *text)
{
    void *job = NULL;
    /* An exact copy, so that a sanitizer sees a step beyond its end. */
    char *copy = xmemdup(text, strlen(text));
    ck_assert_msg(yaml_parse("job.yaml", copy, strlen(text), &job_schema, &job, &err) ==
                      0,
                  "%s: %s", text, err.msg);
    free(copy);
    ck_assert_ptr_nonnull(job);
    return job;
}

static void
refused(const char *text, const char *sentence)
{
    void *job = NULL;
    err = (struct err){0};
    char *copy = xmemdup(text, strlen(text));
    ck_assert_msg(yaml_parse("job.yaml", copy, strlen(text), &job_schema, &job, &err) ==
                      -1,
                  "taken: %s", text);
    free(copy);
    ck_assert_ptr_null(job);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.msg, sentence);
}

START_TEST(a_whole_job_is_read)
{
    struct job *job =
        taken("name: first-sail\n"
              "model: {family: gpt2, layers: 6, heads: 6, hidden: 384, context: 255}\n"
              "data: {train: corpus/*.txt, tokenizer: bytes}   # a comment\n"
              "steps: 1000\n"
              "offset: -3\n"
              "optimizer: {learning_rate: 6e-4, beta: 0.5, warmup_steps: 50}\n"
              "precision: bf16\n"
              "usd_per_hour: 12\n"
              "between_zones: [exact, local_sgd]\n"
              "seed: 18446744073709551615\n"
              "resume: true\n"
              "zones: [a, \"b\"]\n"
              "events:\n"
              "  - {kill: leader, at_step: 60}\n"
              "  - at_step: 70\n"
              "extra: {anything: [1, {goes: 010}], here: 1}\n");
    ck_assert_str_eq(job->name, "first-sail");
    ck_assert_str_eq(job->model.family, "gpt2");
    ck_assert_uint_eq(job->model.layers, 6);
    ck_assert_uint_eq(job->model.context, 255);
    ck_assert_str_eq(job->data.train, "corpus/*.txt");
    ck_assert_int_eq(job->steps, 1000);
    ck_assert_int_eq(job->offset, -3);
    ck_assert(job->optimizer.learning_rate == 6e-4);
    ck_assert(job->optimizer.beta == 0.5f);
    ck_assert_int_eq(job->precision, BF16);
    ck_assert(job->usd_per_hour == 12);
    ck_assert_uint_eq(job->between_zones_count, 2);
    ck_assert_int_eq(job->between_zones[1], LOCAL_SGD);
    ck_assert_uint_eq(job->seed, UINT64_MAX);
    ck_assert(job->resume);
    ck_assert_uint_eq(job->zones_count, 2);
    ck_assert_str_eq(job->zones[1], "b");
    ck_assert_uint_eq(job->events_count, 2);
    ck_assert_str_eq(job->events[0].kill, "leader");
    ck_assert_int_eq(job->events[1].at_step, 70);
    ck_assert_ptr_null(job->note);
    yaml_free(&job_schema, job);
    yaml_free(&job_schema, NULL);
}
END_TEST

START_TEST(what_is_not_given_is_zero)
{
    struct job *job = taken("name: a\nzones: []\nnote: ~\n");
    ck_assert_int_eq(job->steps, 0);
    ck_assert_uint_eq(job->zones_count, 0);
    ck_assert_ptr_null(job->note);
    yaml_free(&job_schema, job);
    job = taken("name: a\nnote:\n");
    ck_assert_ptr_null(job->note);
    yaml_free(&job_schema, job);
    job = taken("name: a\nnote: \"~\"\n");
    yaml_free(&job_schema, job);
}
END_TEST

START_TEST(an_unknown_key_has_its_line_and_the_nearest_known_one)
{
    refused("name: a\nsteps: 5\n\n# x\nprecison: fp32\nseed: 1\n",
            "job.yaml: line 5: unknown key \"precison\"; did you mean \"precision\"?");
    refused(
        "name: a\nmodel:\n  family: gpt2\n  layers: 2\n  hiden: 5\n",
        "job.yaml: line 5: unknown key \"hiden\" in \"model\"; did you mean \"hidden\"?");
    refused(
        "name: a\nmodel: {family: gpt2, layers: 2,\n  heasd: 5}\n",
        "job.yaml: line 3: unknown key \"heasd\" in \"model\"; did you mean \"heads\"?");
    refused("nmae: a\n",
            "job.yaml: line 1: unknown key \"nmae\"; did you mean \"name\"?");
    refused("name: a\nevents:\n- at_step: 1\n- {at_stpe: 2}\n",
            "job.yaml: line 4: unknown key \"at_stpe\" in \"events\"; did you mean "
            "\"at_step\"?");
    refused("name: a\noptimizer: {learning_rate: 1, warmup: 4}\n",
            "job.yaml: line 2: unknown key \"warmup\" in \"optimizer\"; did you mean "
            "\"warmup_steps\"?");
}
END_TEST

START_TEST(a_key_like_no_other_gets_the_list_of_known_ones)
{
    refused("name: a\nmodel: {family: gpt2, layers: 2, x: 5}\n",
            "job.yaml: line 2: unknown key \"x\" in \"model\"; known here: family, "
            "layers, heads, "
            "hidden, context");
}
END_TEST

START_TEST(strange_words_are_cut_and_cleaned_in_messages)
{
    void *job;
    char long_word[301] = "", text[400];
    memset(long_word, 'k', 300);
    snprintf(text, sizeof(text), "name: a\n\"\\e[2J\\n%s\": 1\n", long_word);
    ck_assert_int_eq(yaml_parse("job.yaml", text, strlen(text), &job_schema, &job, &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "line 2: unknown key \"?[2J?kkkk"));
    ck_assert_ptr_nonnull(strstr(err.msg, "kkk...\"; known here: name"));
}
END_TEST

START_TEST(a_key_given_twice_has_its_line)
{
    refused("name: a\nsteps: 5\nname: b\n",
            "job.yaml: line 3: key \"name\" is given twice");
    refused("name: a\nmodel:\n  family: x\n  layers: 1\n  family: y\n",
            "job.yaml: line 5: key \"family\" is given twice");
    refused("name: a\nextra: 1\nextra: 2\n",
            "job.yaml: line 3: key \"extra\" is given twice");
    struct job *job = taken("name: a\nevents: [{at_step: 1}, {at_step: 2}]\n");
    yaml_free(&job_schema, job); /* one key each */
}
END_TEST

START_TEST(a_missing_key_is_named_with_where_it_belongs)
{
    refused("steps: 5\n", "job.yaml: \"name\" is missing");
    refused("name: a\nmodel:\n  family: x\n",
            "job.yaml: line 3: \"model\" lacks \"layers\"");
    refused("name: a\nevents:\n- at_step: 1\n- kill: b1\n",
            "job.yaml: line 4: \"events\" lacks \"at_step\"");
    refused("{}", "job.yaml: \"name\" is missing");
}
END_TEST

START_TEST(a_whole_number_must_be_written_as_one)
{
    static const char *const bad[] = {"010", "0x10", "1_000", "1e3", "1.0",
                                      "+5",  "five", "5 5",   "0o7", "--5",
                                      "00",  "-01",  "1,000"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[100], sentence[200];
        snprintf(text, sizeof(text), "name: a\nsteps: %s\n", bad[i]);
        snprintf(sentence, sizeof(sentence),
                 "job.yaml: line 2: \"steps\" must be a whole number in decimal digits, "
                 "not \"%s\"",
                 bad[i]);
        refused(text, sentence);
        snprintf(text, sizeof(text), "name: a\nseed: %s\n", bad[i]);
        snprintf(sentence, sizeof(sentence),
                 "job.yaml: line 2: \"seed\" must be a whole number in decimal digits, "
                 "not \"%s\"",
                 bad[i]);
        refused(text, sentence);
    }
    refused("name: a\nsteps:\n", "job.yaml: line 2: \"steps\" has no value");
    refused("name: a\nsteps: \"5\"\n",
            "job.yaml: line 2: \"steps\" must not be in quotes");
    refused("name: a\nsteps: [5]\n",
            "job.yaml: line 2: \"steps\" must be a single value, not a list");
    refused("name: a\nsteps:\n  x: 1\n",
            "job.yaml: line 3: \"steps\" must be a single value, not a mapping");
}
END_TEST

START_TEST(a_whole_number_fits_its_field)
{
    struct job *job =
        taken("name: a\nsteps: -9223372036854775808\noffset: -128\nseed: 0\n");
    ck_assert_int_eq(job->steps, INT64_MIN);
    ck_assert_int_eq(job->offset, -128);
    yaml_free(&job_schema, job);
    job = taken("name: a\nsteps: 9223372036854775807\noffset: 127\n"
                "model: {family: x, layers: 4294967295, heads: 65535}");
    ck_assert_int_eq(job->steps, INT64_MAX);
    ck_assert_int_eq(job->offset, 127);
    ck_assert_uint_eq(job->model.layers, UINT32_MAX);
    ck_assert_uint_eq(job->model.heads, UINT16_MAX);
    yaml_free(&job_schema, job);

    refused("name: a\noffset: 128\n",
            "job.yaml: line 2: \"offset\" is 128, it must be from -128 to 127");
    refused("name: a\noffset: -129\n",
            "job.yaml: line 2: \"offset\" is -129, it must be from -128 to 127");
    refused("name: a\nsteps: 9223372036854775808\n",
            "job.yaml: line 2: \"steps\" is 9223372036854775808, which is far above what "
            "it may be");
    refused(
        "name: a\nsteps: -9223372036854775809\n",
        "job.yaml: line 2: \"steps\" is -9223372036854775809, which is far below what "
        "it may be");
    refused("name: a\nseed: 18446744073709551616\n",
            "job.yaml: line 2: \"seed\" is 18446744073709551616, it must be from 0 to "
            "18446744073709551615");
    refused(
        "name: a\nseed: -1\n",
        "job.yaml: line 2: \"seed\" is -1, it must be from 0 to 18446744073709551615");
    refused("name: a\nmodel: {family: x, layers: 1, context: 256}\n",
            "job.yaml: line 2: \"context\" is 256, it must be from 0 to 255");
    refused("name: a\nmodel: {family: x, layers: 1, heads: 65536}\n",
            "job.yaml: line 2: \"heads\" is 65536, it must be from 0 to 65535");
}
END_TEST

START_TEST(a_real_number_must_be_written_as_one)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {{"6e-4", 6e-4},   {"0.1", 0.1},        {"-3", -3},
                {"1000", 1000},   {"1.5E+10", 1.5e10}, {"0", 0},
                {"-0.25", -0.25}, {"1e5", 1e5},        {"0.000001", 0.000001}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char text[100];
        snprintf(text, sizeof(text), "name: a\nusd_per_hour: %s\n", good[i].text);
        struct job *job = taken(text);
        ck_assert(job->usd_per_hour == good[i].value);
        yaml_free(&job_schema, job);
    }
    static const char *const bad[] = {"010",   "0x10",  "1_000",   "nan",     "inf",
                                      ".nan",  "-.inf", "3e-4abc", ".5",      "5.",
                                      "1e",    "e5",    "+1",      "1e+",     "1.2.3",
                                      "0x1p3", "1e5.0", "1,5",     "infinity"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[100], sentence[200];
        snprintf(text, sizeof(text), "name: a\nusd_per_hour: %s\n", bad[i]);
        snprintf(sentence, sizeof(sentence),
                 "job.yaml: line 2: \"usd_per_hour\" must be a number such as 0.1 or "
                 "6e-4, not "
                 "\"%s\"",
                 bad[i]);
        refused(text, sentence);
    }
    refused("name: a\nusd_per_hour: 1e999\n",
            "job.yaml: line 2: \"usd_per_hour\" is 1e999, which is beyond what a number "
            "can hold");
    refused("name: a\noptimizer: {learning_rate: 1, beta: 1e39}\n",
            "job.yaml: line 2: \"beta\" is 1e39, which is beyond what single precision "
            "can hold");
    refused("name: a\nusd_per_hour:\n",
            "job.yaml: line 2: \"usd_per_hour\" has no value");
}
END_TEST

START_TEST(a_truth_is_true_or_false)
{
    struct job *job = taken("name: a\nresume: false\n");
    ck_assert(!job->resume);
    yaml_free(&job_schema, job);
    static const char *const bad[] = {"yes", "no",   "on",    "1",
                                      "0",   "True", "flase", "truee"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[100], sentence[200];
        snprintf(text, sizeof(text), "name: a\nresume: %s\n", bad[i]);
        snprintf(sentence, sizeof(sentence),
                 "job.yaml: line 2: \"resume\" must be true or false, not \"%s\"",
                 bad[i]);
        refused(text, sentence);
    }
}
END_TEST

START_TEST(a_choice_is_one_of_those_known)
{
    refused("name: a\nprecision: fp23\n",
            "job.yaml: line 2: \"precision\" cannot be \"fp23\"; did you mean \"fp32\"?");
    refused("name: a\nprecision: half\n",
            "job.yaml: line 2: \"precision\" cannot be \"half\"; known here: fp32, bf16");
    refused("name: a\nprecision: 1\n",
            "job.yaml: line 2: \"precision\" cannot be \"1\"; known here: fp32, bf16");
    refused("name: a\nbetween_zones: [exact, local_sdg]\n",
            "job.yaml: line 2: entry 2 of \"between_zones\" cannot be \"local_sdg\"; did "
            "you mean "
            "\"local_sgd\"?");
}
END_TEST

START_TEST(a_list_has_its_form_and_length)
{
    refused("name: a\nbetween_zones: exact\n",
            "job.yaml: line 2: \"between_zones\" must be a list, such as [a, b]");
    refused("name: a\nbetween_zones: {exact: 1}\n",
            "job.yaml: line 2: \"between_zones\" must be a list, such as [a, b], not a "
            "mapping");
    refused("name: a\nbetween_zones: []\n",
            "job.yaml: line 2: \"between_zones\" has 0 entries, it needs at least 1");
    refused("name: a\nbetween_zones:\n- exact\n- exact\n- exact\n",
            "job.yaml: line 5: \"between_zones\" has more than 2 entries");
    refused("name: a\nbetween_zones:\n",
            "job.yaml: line 2: \"between_zones\" has no value");
    refused("name: a\nzones: [a, [b]]\n",
            "job.yaml: line 2: entry 2 of \"zones\" must be a single value, not a list");
    refused(
        "name: a\nevents: [5]\n",
        "job.yaml: line 2: entry 1 of \"events\" must be a mapping of keys to values");
}
END_TEST

START_TEST(a_text_has_its_length)
{
    struct job *job = taken("name: abcdefghijklmnopqrstuvwxyzabcde\n");
    ck_assert_uint_eq(strlen(job->name), NAME_BYTES_MAX - 1);
    yaml_free(&job_schema, job);
    refused("name: abcdefghijklmnopqrstuvwxyzabcdef\n",
            "job.yaml: line 1: \"name\" has 32 characters, the limit is 31");
    refused("name: a\nzones:\n- b\n- ninebytes\n",
            "job.yaml: line 4: entry 2 of \"zones\" has 9 characters, the limit is 8");
    refused("name: \"\"\n",
            "job.yaml: line 1: \"name\" has 0 characters, it needs at least 1");
    refused("name:\n", "job.yaml: line 1: \"name\" has no value");
    refused("name: \"a\\0b\"\n",
            "job.yaml: line 1: a NUL character cannot be part of a text");
    refused("\"name\\0x\": b\n",
            "job.yaml: line 1: a NUL character cannot be part of a text");
    refused("name: [a]\n",
            "job.yaml: line 1: \"name\" must be a single value, not a list");
}
END_TEST

START_TEST(a_mapping_is_not_a_word)
{
    refused("name: a\nmodel: gpt2\n",
            "job.yaml: line 2: \"model\" must be a mapping of keys to values");
    refused(
        "name: a\nmodel: [gpt2]\n",
        "job.yaml: line 2: \"model\" must be a mapping of keys to values, not a list");
    refused("name: a\nmodel:\n", "job.yaml: line 2: \"model\" has no value");
    refused("hello\n", "job.yaml: line 1: the file must be a mapping of keys to values");
    refused("- a\n- b\n",
            "job.yaml: line 1: the file must be a mapping of keys to values, not a list");
    refused("? [a]\n: b\n", "job.yaml: line 1: a key must be a word");
}
END_TEST

START_TEST(an_empty_file_is_no_configuration)
{
    refused("", "job.yaml: the file is empty");
    refused("\n\n  \n", "job.yaml: the file is empty");
    refused("# only words\n", "job.yaml: the file is empty");
    refused("# words\n\n  # and more, without a line's end",
            "job.yaml: the file is empty");
    refused("\xef\xbb\xbf", "job.yaml: the file is empty");
    /* What file_read() leaves of a file of no bytes. */
    void *value = NULL;
    ck_assert_int_eq(yaml_parse("job.yaml", NULL, 0, &job_schema, &value, &err), -1);
    ck_assert_str_eq(err.msg, "job.yaml: the file is empty");
    ck_assert_int_eq(err.code, ERR_USAGE);
    struct yaml_section section;
    ck_assert_int_eq(yaml_section("job.yaml", NULL, 0, "job", &section, NULL, &err), -1);
    ck_assert_str_eq(err.msg, "job.yaml: \"job\" is missing");
    refused("---\n", "job.yaml: line 2: the file has no value");
}
END_TEST

START_TEST(one_file_is_one_document)
{
    struct job *job = taken("---\nname: a\n...\n");
    yaml_free(&job_schema, job);
    refused("name: a\n---\nname: b\n",
            "job.yaml: line 2: a second document begins; only one is read");
}
END_TEST

START_TEST(anchors_aliases_and_tags_are_refused)
{
    refused(
        "name: &n a\n",
        "job.yaml: line 1: anchors (\"&\") are not used here; in quotes it is a text");
    refused(
        "name: a\nmodel: &m {family: x, layers: 1}\n",
        "job.yaml: line 2: anchors (\"&\") are not used here; in quotes it is a text");
    refused(
        "name: a\nzones: &z [a]\n",
        "job.yaml: line 2: anchors (\"&\") are not used here; in quotes it is a text");
    refused(
        "name: *n\n",
        "job.yaml: line 1: aliases (\"*\") are not used here; in quotes it is a text");
    refused("name: !!str a\n", "job.yaml: line 1: tags (\"!\") are not used here");
    refused("name: a\nmodel: !x {}\n",
            "job.yaml: line 2: tags (\"!\") are not used here");
    refused("name: a\nzones: !x []\n",
            "job.yaml: line 2: tags (\"!\") are not used here");
}
END_TEST

START_TEST(what_is_not_yaml_has_its_line)
{
    refused("name: a\nsteps: 5: 6\n", "job.yaml: line 2: not valid YAML: mapping values "
                                      "are not allowed in this context");
    refused("name: a\n\tsteps: 5\n",
            "job.yaml: line 2: not valid YAML: found a tab character that "
            "violates indentation");
    refused("name: a\nzones: [a\n",
            "job.yaml: line 3: not valid YAML: did not find expected ',' or ']'");
    refused("name: a\n\n# \x01\n",
            "job.yaml: line 3: not valid YAML: control characters are not allowed");
    refused("\xff\xfen\n",
            "job.yaml: line 1: not valid YAML: invalid leading UTF-8 octet");
}
END_TEST

START_TEST(nesting_is_bounded_even_in_what_is_ignored)
{
    char text[200] = "name: a\nextra: ";
    memset(text + strlen(text), '[', 100);
    refused(text, "job.yaml: line 2: nested deeper than 16");
}
END_TEST

START_TEST(a_file_is_read_and_named_as_the_user_named_it)
{
    char folder[4096], path[PATH_BYTES_MAX], sentence[PATH_BYTES_MAX + 100];
    void *job = NULL;
    path_join(path, suite_folder(folder), "job.yaml");
    ck_assert_int_eq(yaml_read(path, &job_schema, &job, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, path));

    ck_assert_int_eq(file_write(path, "name: a\n", 8, 0600, &err), 0);
    ck_assert_int_eq(yaml_read(path, &job_schema, &job, &err), 0);
    ck_assert_str_eq(((struct job *)job)->name, "a");
    yaml_free(&job_schema, job);
    job = NULL;

    ck_assert_int_eq(file_write(path, "nam: a\n", 7, 0600, &err), 0);
    ck_assert_int_eq(yaml_read(path, &job_schema, &job, &err), -1);
    snprintf(sentence, sizeof(sentence),
             "%s: line 1: unknown key \"nam\"; did you mean \"name\"?", path);
    ck_assert_str_eq(err.msg, sentence);

    ck_assert_int_eq(file_write(path, "", 0, 0600, &err), 0);
    ck_assert_int_eq(yaml_read(path, &job_schema, &job, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);

    char *huge = xcalloc((2 << 20) + 1, 1);
    memset(huge, '#', 2 << 20);
    ck_assert_int_eq(file_write(path, huge, 2 << 20, 0600, &err), 0);
    ck_assert_int_eq(yaml_read(path, &job_schema, &job, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "1048576"));
    ck_assert_int_eq(yaml_parse("x", huge, 2 << 20, &job_schema, &job, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_null(job);
    free(huge);
}
END_TEST

/* A job with one byte changed, left out or doubled is read whole or refused with a
 * sentence. */
START_TEST(a_damaged_file_is_read_or_refused_with_a_sentence)
{
    static const char good[] =
        "name: a\nmodel: {family: gpt2, layers: 6}\nsteps: 10\n"
        "optimizer: {learning_rate: 6e-4}\nbetween_zones: [exact]\n"
        "events:\n  - {kill: x, at_step: 6}\n  - at_step: 7\n";
    struct rng rng = {.seed = suite_seed("a_damaged_file", 30), .stream = 5};
    for (int round = 0; round < 4000; round++) {
        char text[sizeof(good) + 1];
        size_t len = sizeof(good) - 1, at = rng_below(&rng, len);
        memcpy(text, good, len);
        switch (rng_below(&rng, 3)) {
        case 0:
            text[at] = (char)rng_below(&rng, 128);
            break;
        case 1:
            memmove(text + at, text + at + 1, --len - at);
            break;
        default:
            memmove(text + at + 1, text + at, len++ - at);
        }
        char *copy = xmemdup(text, len);
        void *job = NULL;
        err = (struct err){0};
        if (yaml_parse("job.yaml", copy, len, &job_schema, &job, &err)) {
            ck_assert_int_eq(err.code, ERR_USAGE);
            ck_assert_int_eq(strncmp(err.msg, "job.yaml: ", 10), 0);
            ck_assert_msg(!strstr(err.msg, "cannot be read"),
                          "left to the library: %.*s: %s", (int)len, text, err.msg);
            ck_assert_ptr_null(job);
        } else {
            ck_assert_ptr_nonnull(job);
        }
        yaml_free(&job_schema, job);
        free(copy);
    }
}
END_TEST

START_TEST(sizes_have_units)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"4096B", 4096},
                {"0 B", 0},
                {"64KiB", 65536},
                {"1.5 GiB", 1610612736},
                {"2GB", 2000000000},
                {"1kB", 1000},
                {"1KB", 1000},
                {"3 MB", 3000000},
                {"512MiB", 512 << 20},
                {"7B", 7},
                {"1TiB", INT64_C(1) << 40},
                {"0.5TB", 500000000000}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t bytes = -1;
        ck_assert_msg(size_parse(good[i].text, &bytes, &err) == 0, "%s", err.msg);
        ck_assert_int_eq(bytes, good[i].bytes);
    }
    static const char *const bad[] = {
        "",   "40",  "GiB",  "-1GiB",    "1.5.2GB", "1  GiB", " 1GiB", "1GiB ", "1gib",
        "1G", "1e3", "0x10", "10 bytes", "1.GiB",   ".5GiB",  "nan",   "01GiB", "1,5GiB"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t bytes = -1;
        err = (struct err){0};
        ck_assert_msg(size_parse(bad[i], &bytes, &err) == -1, "taken: %s", bad[i]);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_int_eq(bytes, -1);
        ck_assert_ptr_nonnull(strstr(err.msg, "such as 512MiB"));
    }
    int64_t bytes = -1;
    ck_assert_int_eq(size_parse("99999999999TiB", &bytes, &err), -1);
    ck_assert_str_eq(err.msg, "size \"99999999999TiB\" is too large");
    ck_assert_int_eq(bytes, -1);
    char digits[200];
    memset(digits, '9', sizeof(digits));
    digits[199] = '\0';
    ck_assert_int_eq(size_parse(digits, &bytes, &err), -1);
}
END_TEST

/* The section as a text of its own: empty lines and blanks in front of it. */
static char *
cut_out(const char *text, const struct yaml_section *section)
{
    struct buf out = {0};
    for (size_t i = 0; i < section->line; i++)
        buf_add(&out, "\n", 1);
    for (size_t i = 0; i < section->column; i++)
        buf_add(&out, " ", 1);
    buf_add(&out, text + section->start, section->end - section->start);
    buf_add(&out, "", 1);
    return (char *)out.data;
}

START_TEST(a_file_inside_a_file_keeps_its_lines)
{
    static const char *const holders[] = {
        "nodes: [{name: a}, {job: {model: x}}]\nother: {deep: [1, {job: no}]}\n"
        "job: {name: n,\n  model: {layerz: 4}}\nlast: 1\n",
        "nodes:\n  - name: \"\xc3\xa4\xe2\x82\xac\"\njob:\n  name: n\n  model:\n"
        "    layerz: 4\nlast: 1\n",
        "\xef\xbb\xbfnodes: 1\njob:\n  name: n\n  model:\n    layerz: 4\nlast: 1\n"};
    static const char *const lines[] = {"line 4", "line 6", "line 5"};
    for (int i = 0; i < 3; i++) {
        struct yaml_section section;
        ck_assert_int_eq(yaml_section("s.yaml", holders[i], strlen(holders[i]), "job",
                                      &section, NULL, &err),
                         0);
        ck_assert(!section.scalar);
        char *text = cut_out(holders[i], &section);
        ck_assert_ptr_null(strstr(text, "last"));
        void *out;
        ck_assert_int_eq(
            yaml_parse("s.yaml", text, strlen(text), &job_schema, &out, &err), -1);
        ck_assert_msg(strstr(err.msg, lines[i]) && strstr(err.msg, "\"layers\"?"), "%s",
                      err.msg);
        free(text);
    }
}
END_TEST

START_TEST(a_value_is_found_by_its_path)
{
    static const char text[] = "a: {b: {c: [1, {d: x}], d: 'it''s', e: }, d: no}\n"
                               "d: [a, {d: q}]\nx: {d: last}\n";
    static const struct {
        const char *path, *value, *bytes;
    } good[] = {{"a.b.d", "it's", "'it''s'"}, {"a.d", "no", "no"},
                {"x.d", "last", "last"},      {"d", "", "[a, {d: q}]"},
                {"a.b.c", "", "[1, {d: x}]"}, {"a.b.e", "", ""}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct yaml_section section;
        struct buf value = {0};
        ck_assert_msg(yaml_section("t", text, sizeof(text) - 1, good[i].path, &section,
                                   &value, &err) == 0,
                      "%s", err.msg);
        ck_assert_uint_eq(section.end - section.start, strlen(good[i].bytes));
        ck_assert_int_eq(
            memcmp(text + section.start, good[i].bytes, strlen(good[i].bytes)), 0);
        ck_assert_str_eq(value.data ? (char *)value.data : "", good[i].value);
        buf_release(&value);
    }
    static const char *const bad[] = {"b",     "a.b.c.d", "a.x", "x.d.e",
                                      "a.b.x", "d.d",     "",    "x."};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct yaml_section section;
        ck_assert_msg(
            yaml_section("t", text, sizeof(text) - 1, bad[i], &section, NULL, &err) == -1,
            "found: %s", bad[i]);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_ptr_nonnull(strstr(err.msg, "is missing"));
    }
    struct yaml_section section;
    ck_assert_int_eq(yaml_section("t", "a: [\nb", 7, "b", &section, NULL, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "not valid YAML"));
}
END_TEST

Suite *
suite_yaml(void)
{
    Suite *suite = suite_create("yaml");
    TCase *tests = suite_case(suite, "yaml", 30);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_whole_job_is_read);
    tcase_add_test(tests, what_is_not_given_is_zero);
    tcase_add_test(tests, an_unknown_key_has_its_line_and_the_nearest_known_one);
    tcase_add_test(tests, a_key_like_no_other_gets_the_list_of_known_ones);
    tcase_add_test(tests, strange_words_are_cut_and_cleaned_in_messages);
    tcase_add_test(tests, a_key_given_twice_has_its_line);
    tcase_add_test(tests, a_missing_key_is_named_with_where_it_belongs);
    tcase_add_test(tests, a_whole_number_must_be_written_as_one);
    tcase_add_test(tests, a_whole_number_fits_its_field);
    tcase_add_test(tests, a_real_number_must_be_written_as_one);
    tcase_add_test(tests, a_truth_is_true_or_false);
    tcase_add_test(tests, a_choice_is_one_of_those_known);
    tcase_add_test(tests, a_list_has_its_form_and_length);
    tcase_add_test(tests, a_text_has_its_length);
    tcase_add_test(tests, a_mapping_is_not_a_word);
    tcase_add_test(tests, an_empty_file_is_no_configuration);
    tcase_add_test(tests, one_file_is_one_document);
    tcase_add_test(tests, anchors_aliases_and_tags_are_refused);
    tcase_add_test(tests, what_is_not_yaml_has_its_line);
    tcase_add_test(tests, nesting_is_bounded_even_in_what_is_ignored);
    tcase_add_test(tests, a_file_is_read_and_named_as_the_user_named_it);
    tcase_add_test(tests, a_damaged_file_is_read_or_refused_with_a_sentence);
    tcase_add_test(tests, sizes_have_units);
    tcase_add_test(tests, a_file_inside_a_file_keeps_its_lines);
    tcase_add_test(tests, a_value_is_found_by_its_path);
    return suite;
}
