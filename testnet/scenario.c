#include "testnet/scenario.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file's shape ---- */

struct node_file {
    char *name, *zone, *memory, *engine;
    double *join_s;
    int64_t *join_step, *count;
};

struct link_file {
    char *from, *to;
    double mbit_per_s, delay_ms;
};

struct event_file {
    char *target[ACTIONS];
    double *at_s;
    int64_t *at_step, *count;
};

struct expect_file {
    double *loss_below, *recovered_within_s, *within, *joined_within_s, *pause_below_s,
        *rejoined_within_s, *healed_within_s, *links_within, *links_by_s,
        *formed_within_s, *settled_within_s, *evicted_within_s;
    int64_t *steps, *stages, *replicas, *steps_lost_max, *steps_compared;
    bool new_leader, exact, fenced, minority_paused, links_passive, nobody_lost;
    char *same_loss_as;
};

struct scenario_file {
    char *name;
    struct node_file *nodes;
    struct link_file *links;
    struct event_file *events;
    uint32_t nodes_count, links_count, events_count;
    double *time_limit_s, *start_every_s;
    struct expect_file expect;
};

#define OPTIONAL (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)
#define WORD(key, flags, base, field)                                                    \
    CYAML_FIELD_STRING_PTR(key, flags, base, field, 1, NAME_BYTES_MAX)
#define NUMBER(base, field) CYAML_FIELD_FLOAT_PTR(#field, OPTIONAL, struct base, field)
#define COUNT(base, field) CYAML_FIELD_INT_PTR(#field, OPTIONAL, struct base, field)
#define TRUTH(base, field)                                                               \
    CYAML_FIELD_BOOL(#field, CYAML_FLAG_OPTIONAL, struct base, field)

static const cyaml_schema_field_t node_fields[] = {
    WORD("name", CYAML_FLAG_POINTER, struct node_file, name),
    WORD("zone", CYAML_FLAG_POINTER, struct node_file, zone),
    CYAML_FIELD_STRING_PTR("memory", OPTIONAL, struct node_file, memory, 1, 31),
    CYAML_FIELD_STRING_PTR("engine", OPTIONAL, struct node_file, engine, 1, 31),
    NUMBER(node_file, join_s),
    COUNT(node_file, join_step),
    COUNT(node_file, count),
    CYAML_FIELD_END};
static const cyaml_schema_value_t node_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct node_file, node_fields)};
static const cyaml_schema_field_t link_fields[] = {
    WORD("from", CYAML_FLAG_POINTER, struct link_file, from),
    WORD("to", CYAML_FLAG_POINTER, struct link_file, to),
    CYAML_FIELD_FLOAT("mbit_per_s", CYAML_FLAG_DEFAULT, struct link_file, mbit_per_s),
    CYAML_FIELD_FLOAT("delay_ms", CYAML_FLAG_DEFAULT, struct link_file, delay_ms),
    CYAML_FIELD_END};
static const cyaml_schema_value_t link_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct link_file, link_fields)};
static const cyaml_schema_field_t event_fields[] = {
    WORD("kill", OPTIONAL, struct event_file, target[ACTION_KILL]),
    WORD("stop", OPTIONAL, struct event_file, target[ACTION_STOP]),
    WORD("continue", OPTIONAL, struct event_file, target[ACTION_CONTINUE]),
    WORD("cut", OPTIONAL, struct event_file, target[ACTION_CUT]),
    WORD("stall", OPTIONAL, struct event_file, target[ACTION_STALL]),
    WORD("heal", OPTIONAL, struct event_file, target[ACTION_HEAL]),
    WORD("join", OPTIONAL, struct event_file, target[ACTION_JOIN]),
    WORD("leave", OPTIONAL, struct event_file, target[ACTION_LEAVE]),
    WORD("evict", OPTIONAL, struct event_file, target[ACTION_EVICT]),
    NUMBER(event_file, at_s),
    COUNT(event_file, at_step),
    COUNT(event_file, count),
    CYAML_FIELD_END};
static const cyaml_schema_value_t event_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct event_file, event_fields)};
static const cyaml_schema_field_t expect_fields[] = {
    NUMBER(expect_file, loss_below),
    COUNT(expect_file, steps),
    COUNT(expect_file, stages),
    COUNT(expect_file, replicas),
    NUMBER(expect_file, recovered_within_s),
    COUNT(expect_file, steps_lost_max),
    TRUTH(expect_file, new_leader),
    CYAML_FIELD_STRING_PTR("same_loss_as", OPTIONAL, struct expect_file, same_loss_as, 1,
                           1024),
    NUMBER(expect_file, within),
    TRUTH(expect_file, exact),
    COUNT(expect_file, steps_compared),
    NUMBER(expect_file, joined_within_s),
    NUMBER(expect_file, pause_below_s),
    NUMBER(expect_file, rejoined_within_s),
    TRUTH(expect_file, fenced),
    TRUTH(expect_file, minority_paused),
    NUMBER(expect_file, healed_within_s),
    NUMBER(expect_file, links_within),
    NUMBER(expect_file, links_by_s),
    TRUTH(expect_file, links_passive),
    TRUTH(expect_file, nobody_lost),
    NUMBER(expect_file, formed_within_s),
    NUMBER(expect_file, settled_within_s),
    NUMBER(expect_file, evicted_within_s),
    CYAML_FIELD_END};
static const cyaml_schema_field_t scenario_fields[] = {
    WORD("name", OPTIONAL, struct scenario_file, name),
    CYAML_FIELD_SEQUENCE("nodes", CYAML_FLAG_POINTER, struct scenario_file, nodes,
                         &node_value, 1, TESTNET_NODES_MAX),
    CYAML_FIELD_SEQUENCE("links", OPTIONAL, struct scenario_file, links, &link_value, 0,
                         TESTNET_ZONES_MAX *TESTNET_ZONES_MAX),
    CYAML_FIELD_IGNORE("job", CYAML_FLAG_OPTIONAL),
    NUMBER(scenario_file, time_limit_s),
    NUMBER(scenario_file, start_every_s),
    CYAML_FIELD_SEQUENCE("events", OPTIONAL, struct scenario_file, events, &event_value,
                         0, TESTNET_EVENTS_MAX / 2),
    CYAML_FIELD_MAPPING("expect", CYAML_FLAG_OPTIONAL, struct scenario_file, expect,
                        expect_fields),
    CYAML_FIELD_END};
static const cyaml_schema_value_t scenario_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct scenario_file, scenario_fields)};

/* ---- names ---- */

static const char *const action_names[ACTIONS] = {
    "kill", "stop", "continue", "cut", "stall", "heal", "join", "leave", "evict"};

/* Words that events aim at; the others are names. */
static const char *const target_words[] = {
    [TARGET_LEADER] = "leader",       [TARGET_WORKER] = "worker",
    [TARGET_VOTER] = "voter",         [TARGET_LAST_VOTER] = "last_voter",
    [TARGET_BYSTANDER] = "bystander", [TARGET_KILLED] = "killed"};
enum { TARGETS = TARGET_KILLED + 1 };

static int
find_target(const char *word)
{
    for (int i = 0; i < TARGETS; i++)
        if (target_words[i] && strcmp(target_words[i], word) == 0)
            return i;
    return -1;
}

const char *
action_name(enum action action)
{
    return action_names[action];
}

const char *
event_text(const struct scenario *scenario, const struct scenario_event *event,
           char text[64])
{
    const char *target = target_words[event->target];
    char times[16] = "";
    if (!target)
        target = event->target == TARGET_ZONE ? scenario->zones[event->index]
                                              : scenario->nodes[event->index].name;
    if (event->count > 1)
        snprintf(times, sizeof(times), " x %d", event->count);
    snprintf(text, 64, "%s %s%s", action_names[event->action], target, times);
    return text;
}

static bool
name_plain(const char *name)
{
    return name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "._-") == strlen(name);
}

static int
find_node(const struct scenario *scenario, const char *name)
{
    for (int i = 0; i < scenario->nodes_count; i++)
        if (strcmp(scenario->nodes[i].name, name) == 0)
            return i;
    return -1;
}

static int
find_zone(const struct scenario *scenario, const char *name)
{
    for (int i = 0; i < scenario->zones_count; i++)
        if (strcmp(scenario->zones[i], name) == 0)
            return i;
    return -1;
}

/* ---- from the file's shape to ours ---- */

static int
check_node(const struct node_file *file, const struct scenario *scenario, struct err *err)
{
    int64_t bytes;
    if (!name_plain(file->name) || !name_plain(file->zone))
        return err_set(err, ERR_USAGE,
                       "node \"%s\": names and zones are letters, digits, '.', '_', '-'",
                       file->name);
    if (find_target(file->name) >= 0)
        return err_set(err, ERR_USAGE, "a node cannot be called \"%s\", events use it",
                       file->name);
    if (file->memory && size_parse(file->memory, &bytes, err))
        return err_wrap(err, "node \"%s\": memory", file->name);
    if (file->engine && strcmp(file->engine, "on") != 0 &&
        strcmp(file->engine, "off") != 0)
        return err_set(err, ERR_USAGE, "node \"%s\": engine is \"%s\"; use on or off",
                       file->name, file->engine);
    if (file->join_s && file->join_step)
        return err_set(err, ERR_USAGE, "node \"%s\" has join_s and join_step; one is it",
                       file->name);
    bool late = file->join_s || file->join_step;
    if ((file->join_s && *file->join_s < 0) || (file->join_step && *file->join_step < 0))
        return err_set(err, ERR_USAGE, "node \"%s\" joins before the beginning",
                       file->name);
    if (late && scenario->nodes_count == 0)
        return err_set(err, ERR_USAGE,
                       "node \"%s\" is the first and founds the swarm; it cannot be late",
                       file->name);
    if (file->count && (*file->count < 1 || *file->count > TESTNET_NODES_MAX))
        return err_set(err, ERR_USAGE, "node \"%s\": count is %lld, it is from 1 to %d",
                       file->name, (long long)*file->count, TESTNET_NODES_MAX);
    return 0;
}

static int
take_zone(const char *name, struct scenario *scenario, struct err *err)
{
    int zone = find_zone(scenario, name);
    if (zone >= 0)
        return zone;
    if (scenario->zones_count == TESTNET_ZONES_MAX)
        return err_set(err, ERR_USAGE, "there are more than %d zones", TESTNET_ZONES_MAX);
    snprintf(scenario->zones[scenario->zones_count], sizeof(scenario->zones[0]), "%s",
             name);
    return scenario->zones_count++;
}

/* One, or as many as it counts. */
static int
take_node(const struct node_file *file, struct scenario *scenario, struct err *err)
{
    if (check_node(file, scenario, err))
        return -1;
    int zone = take_zone(file->zone, scenario, err);
    if (zone < 0)
        return -1;
    int64_t count = file->count ? *file->count : 1;
    for (int64_t i = 1; i <= count; i++) {
        char name[NAME_BYTES_MAX + 8];
        if (file->count)
            snprintf(name, sizeof(name), "%s%lld", file->name, (long long)i);
        else
            snprintf(name, sizeof(name), "%s", file->name);
        if (strlen(name) > NAME_BYTES_MAX || find_node(scenario, name) >= 0)
            return err_set(err, ERR_USAGE, "node \"%s\" is there twice", name);
        if (scenario->nodes_count == TESTNET_NODES_MAX)
            return err_set(err, ERR_USAGE, "there are more than %d nodes",
                           TESTNET_NODES_MAX);
        struct scenario_node *node = &scenario->nodes[scenario->nodes_count++];
        node->zone = zone;
        snprintf(node->name, sizeof(node->name), "%.32s", name);
        snprintf(node->memory, sizeof(node->memory), "%s",
                 file->memory ? file->memory : "");
        node->engine_off = file->engine && strcmp(file->engine, "off") == 0;
        node->late = file->join_s || file->join_step;
        node->join_s = file->join_s ? *file->join_s : -1;
        node->join_step = file->join_step ? *file->join_step : -1;
    }
    return 0;
}

static int
take_link(const struct link_file *file, struct scenario *scenario, struct err *err)
{
    int from = find_zone(scenario, file->from), to = find_zone(scenario, file->to);
    if (from < 0 || to < 0)
        return err_set(err, ERR_USAGE, "link from \"%s\" to \"%s\": no node is in \"%s\"",
                       file->from, file->to, from < 0 ? file->from : file->to);
    struct scenario_link *link = &scenario->links[from][to];
    if (from == to)
        return err_set(err, ERR_USAGE, "link from \"%s\" to itself: not shaped here",
                       file->from);
    if (link->mbit_per_s > 0)
        return err_set(err, ERR_USAGE, "link from \"%s\" to \"%s\" is there twice",
                       file->from, file->to);
    if (!(file->mbit_per_s >= 0.01 && file->mbit_per_s <= 1e5) ||
        !(file->delay_ms >= 0 && file->delay_ms <= 10000))
        return err_set(err, ERR_USAGE,
                       "link from \"%s\" to \"%s\": mbit_per_s is from 0.01 to 100000, "
                       "delay_ms from 0 to 10000",
                       file->from, file->to);
    link->mbit_per_s = file->mbit_per_s;
    link->delay_ms = file->delay_ms;
    return 0;
}

static int
take_target(const char *word, struct scenario *scenario, struct scenario_event *event,
            struct err *err)
{
    bool zone = event->action == ACTION_CUT || event->action == ACTION_STALL ||
                event->action == ACTION_HEAL;
    int number = scenario->events_count + 1, target = zone ? -1 : find_target(word);
    bool follows = event->action == ACTION_CONTINUE || event->action == ACTION_JOIN;
    if (target >= 0) {
        event->target = (enum target)target;
        bool repeats = target == TARGET_LEADER || target == TARGET_WORKER;
        if (follows
                ? !repeats && !(target == TARGET_KILLED && event->action == ACTION_JOIN)
                : target == TARGET_KILLED)
            return err_set(err, ERR_USAGE, "event %d: %s cannot aim at \"%s\"", number,
                           action_names[event->action], word);
    } else {
        event->target = zone ? TARGET_ZONE : TARGET_NODE;
        event->index = zone ? find_zone(scenario, word) : find_node(scenario, word);
    }
    if (event->index < 0)
        return err_set(err, ERR_USAGE, "event %d: %s \"%s\": there is no such %s", number,
                       action_names[event->action], word, zone ? "zone" : "node");
    if (event->count > 1 && target != TARGET_VOTER && target != TARGET_BYSTANDER)
        return err_set(err, ERR_USAGE,
                       "event %d: only voter and bystander can be several", number);
    return 0;
}

static int
take_event(const struct event_file *file, struct scenario *scenario, struct err *err)
{
    struct scenario_event *event = &scenario->events[scenario->events_count];
    int actions = 0, number = scenario->events_count + 1;
    const char *word = NULL;
    for (int i = 0; i < ACTIONS; i++) {
        if (!file->target[i])
            continue;
        actions++;
        event->action = (enum action)i;
        word = file->target[i];
    }
    if (actions != 1)
        return err_set(err, ERR_USAGE,
                       "event %d does %s; one thing each, such as "
                       "{kill: leader, at_step: 60}",
                       number, actions ? "several things" : "nothing");
    if (!file->at_s == !file->at_step)
        return err_set(err, ERR_USAGE, "event %d needs one of at_s and at_step", number);
    event->at_s = file->at_s ? *file->at_s : -1;
    event->at_step = file->at_step ? *file->at_step : -1;
    if (event->at_s < 0 && event->at_step < 0)
        return err_set(err, ERR_USAGE, "event %d is before the beginning", number);
    event->count = file->count ? (int)*file->count : 1;
    if (file->count && (*file->count < 1 || *file->count > TESTNET_NODES_MAX))
        return err_set(err, ERR_USAGE, "event %d: count is %lld, it is from 1 to %d",
                       number, (long long)*file->count, TESTNET_NODES_MAX);
    if (take_target(word, scenario, event, err))
        return -1;
    scenario->events_count++;
    return 0;
}

static void
take_expect(const struct expect_file *file, struct expectations *out)
{
#define TAKE(field) (out->field = file->field ? *file->field : -1)
    TAKE(loss_below);
    TAKE(steps);
    TAKE(stages);
    TAKE(replicas);
    TAKE(recovered_within_s);
    TAKE(steps_lost_max);
    TAKE(joined_within_s);
    TAKE(pause_below_s);
    TAKE(rejoined_within_s);
    TAKE(healed_within_s);
    TAKE(links_within);
    TAKE(formed_within_s);
    TAKE(settled_within_s);
    TAKE(evicted_within_s);
#undef TAKE
    out->links_by_s = file->links_by_s ? *file->links_by_s : 10;
    out->links_passive = file->links_passive;
    out->nobody_lost = file->nobody_lost;
    out->within = file->within ? *file->within : 1e-3;
    out->steps_compared = file->steps_compared ? *file->steps_compared : 50;
    out->new_leader = file->new_leader;
    out->exact = file->exact;
    out->fenced = file->fenced;
    out->minority_paused = file->minority_paused;
}

/* ---- the job ---- */

/* `given` as a path from the folder of the file `from`; absolute, so that a copy of the
 * job can stand anywhere. */
static int
absolute_path(const char *from, const char *given, char out[PATH_BYTES_MAX],
              struct err *err)
{
    char folder[PATH_BYTES_MAX], real[PATH_BYTES_MAX];
    const char *slash = strrchr(from, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - from + 1) : 1,
             slash ? from : ".");
    if (given[0] == '/') {
        snprintf(out, PATH_BYTES_MAX, "%s", given);
        return 0;
    }
    if (!realpath(folder, real))
        return err_set_errno(err, "could not find the folder \"%s\"", folder);
    if (snprintf(out, PATH_BYTES_MAX, "%s/%s", real, given) >= PATH_BYTES_MAX)
        return err_set(err, ERR_USAGE, "the path \"%.80s\" is too long", given);
    return 0;
}

/* A text where the bytes of `section` stand alone on their old line and column, and
 * those of `hole` inside it are replaced by a quoted text. */
static char *
job_text(const char *text, const struct yaml_section *section,
         const struct yaml_section *hole, const char *word)
{
    struct buf out = {0};
    for (size_t i = 0; i < section->line; i++)
        buf_add(&out, "\n", 1);
    for (size_t i = 0; i < section->column; i++)
        buf_add(&out, " ", 1);
    size_t at = section->start;
    if (hole) {
        buf_add(&out, text + at, hole->start - at);
        buf_add(&out, "'", 1);
        for (; *word; word++)
            buf_add(&out, *word == '\'' ? "''" : word, *word == '\'' ? 2 : 1);
        buf_add(&out, "'", 1);
        at = hole->end;
    }
    buf_add(&out, text + at, section->end - at);
    buf_add(&out, "\n", 2);
    return (char *)out.data;
}

static int
job_take(const char *path, const char *text, size_t len,
         const struct yaml_section *section, const char *prefix,
         struct scenario *scenario, struct err *err)
{
    char key[64], absolute[PATH_BYTES_MAX] = "";
    struct yaml_section hole = {0};
    struct buf train = {0};
    int result = 0;
    snprintf(key, sizeof(key), "%sdata.train", prefix);
    struct err absent;
    bool found = yaml_section(path, text, len, key, &hole, &train, &absent) == 0;
    if (!found || !hole.scalar || !train.data)
        scenario->job = job_text(text, section, NULL, ""); /* the node will say so */
    else if (absolute_path(path, (char *)train.data, absolute, err))
        result = -1;
    else
        scenario->job = job_text(text, section, &hole, absolute);
    buf_release(&train);
    return result;
}

static int
take_job(const char *path, const char *text, size_t len, struct scenario *scenario,
         struct err *err)
{
    struct yaml_section section = {0};
    struct buf word = {0}, other = {0};
    struct err absent;
    int result = 0;
    if (yaml_section(path, text, len, "job", &section, &word, &absent))
        return 0;
    if (!section.scalar) {
        result = job_take(path, text, len, &section, "job.", scenario, err);
    } else {
        char file[PATH_BYTES_MAX];
        result = absolute_path(path, (char *)word.data, file, err) ||
                         file_read(file, JOB_BYTES_MAX, &other, err)
                     ? -1
                     : 0;
        struct yaml_section whole = {.end = other.len};
        if (result == 0)
            result =
                job_take(file, (char *)other.data, other.len, &whole, "", scenario, err);
        else if (err->code == ERR_SYSTEM)
            err->code = ERR_USAGE;
    }
    buf_release(&word);
    buf_release(&other);
    return result;
}

/* ---- the whole ---- */

static void
take_name(const char *path, const char *given, char name[NAME_BYTES_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    snprintf(name, NAME_BYTES_MAX + 1, "%s", given ? given : slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (!given && dot && dot > name)
        *dot = '\0';
}

/* Late joins are events like others. */
static void
add_joins(struct scenario *scenario)
{
    for (int i = 0; i < scenario->nodes_count; i++) {
        const struct scenario_node *node = &scenario->nodes[i];
        if (node->late && scenario->events_count < TESTNET_EVENTS_MAX)
            scenario->events[scenario->events_count++] =
                (struct scenario_event){.action = ACTION_JOIN,
                                        .target = TARGET_NODE,
                                        .index = i,
                                        .count = 1,
                                        .at_s = node->join_s,
                                        .at_step = node->join_step};
    }
}

static int
take_file(const char *path, const struct scenario_file *file, struct scenario *scenario,
          struct err *err)
{
    int late = 0;
    take_name(path, file->name, scenario->name);
    for (uint32_t i = 0; i < file->nodes_count; i++)
        if (take_node(&file->nodes[i], scenario, err))
            return -1;
    for (int i = 0; i < scenario->nodes_count; i++)
        late += scenario->nodes[i].late;
    if (late > TESTNET_EVENTS_MAX / 2)
        return err_set(err, ERR_USAGE, "more than %d nodes are late",
                       TESTNET_EVENTS_MAX / 2);
    for (uint32_t i = 0; i < file->links_count; i++)
        if (take_link(&file->links[i], scenario, err))
            return -1;
    for (uint32_t i = 0; i < file->events_count; i++)
        if (take_event(&file->events[i], scenario, err))
            return -1;
    add_joins(scenario);
    take_expect(&file->expect, &scenario->expect);
    scenario->time_limit_s = file->time_limit_s ? *file->time_limit_s : 120;
    if (!(scenario->time_limit_s >= 1 && scenario->time_limit_s <= 86400))
        return err_set(err, ERR_USAGE, "time_limit_s is %g, it must be from 1 to 86400",
                       scenario->time_limit_s);
    scenario->start_every_s = file->start_every_s ? *file->start_every_s : 0;
    if (!(scenario->start_every_s >= 0 && scenario->start_every_s <= 3600))
        return err_set(err, ERR_USAGE, "start_every_s is %g, it must be from 0 to 3600",
                       scenario->start_every_s);
    if (file->expect.same_loss_as && absolute_path(path, file->expect.same_loss_as,
                                                   scenario->expect.same_loss_as, err))
        return -1;
    return 0;
}

struct scenario *
scenario_read(const char *path, struct err *err)
{
    struct buf text = {0};
    void *file = NULL;
    struct scenario *scenario = xcalloc(1, sizeof(*scenario));
    int result = file_read(path, 1 << 20, &text, err);
    if (result && err->code == ERR_SYSTEM)
        err->code = ERR_USAGE;
    if (result == 0)
        result =
            yaml_parse(path, (char *)text.data, text.len, &scenario_schema, &file, err);
    if (result == 0) {
        result = take_file(path, file, scenario, err) ||
                         take_job(path, (char *)text.data, text.len, scenario, err)
                     ? err_wrap(err, "%s", path)
                     : 0;
        yaml_free(&scenario_schema, file);
    }
    buf_release(&text);
    if (result) {
        scenario_free(scenario);
        return NULL;
    }
    return scenario;
}

void
scenario_free(struct scenario *scenario)
{
    if (!scenario)
        return;
    free(scenario->job);
    free(scenario);
}

bool
scenario_relayed(const struct scenario *scenario, int from, int to)
{
    const struct scenario_link *there = &scenario->links[from][to],
                               *back = &scenario->links[to][from];
    bool shaped = there->mbit_per_s > 0 || there->delay_ms > 0 || back->mbit_per_s > 0 ||
                  back->delay_ms > 0;
    for (int i = 0; i < scenario->events_count && !shaped; i++)
        shaped = scenario->events[i].target == TARGET_ZONE;
    return from != to && shaped;
}
