#include "node/command/show.h"
#include "transport/base/buf.h"

#include <math.h>
#include <string.h>

enum {
    COLUMNS_MAX = 8,
    CELL_SIZE = ADDRESS_BYTES_MAX + 16,
    LONG_GONE_S = 600, /* a member that is gone is listed for so long */
    WHOLE_MBIT = 100,  /* from here on without decimals */
    FASTEST_MBIT = 10000
};

static const char *
text_of(const struct json *object, const char *key)
{
    return json_text(json_get(object, key), "");
}

static int64_t
int_of(const struct json *object, const char *key)
{
    return show_int(object, key, 0);
}

static double
double_of(const struct json *object, const char *key)
{
    return json_double(json_get(object, key), 0);
}

/* ---- tables: as wide as what is in them ---- */

struct table {
    size_t columns;
    unsigned right;   /* bit by column: aligned to the right */
    struct buf cells; /* of CELL_SIZE bytes each, row by row */
};

static void
add_cell(struct table *table, const char *text)
{
    char cell[CELL_SIZE] = "";
    snprintf(cell, sizeof(cell), "%s", text);
    buf_add(&table->cells, cell, sizeof(cell));
}

static void
print_table(FILE *out, struct table *table)
{
    const char *cells = (const char *)table->cells.data;
    size_t count = table->cells.len / CELL_SIZE;
    int widths[COLUMNS_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        int width = (int)strlen(cells + i * CELL_SIZE);
        int *widest = &widths[i % table->columns];
        *widest = width > *widest ? width : *widest;
    }
    fputc('\n', out);
    for (size_t i = 0; i < count; i++) {
        size_t column = i % table->columns;
        const char *cell = cells + i * CELL_SIZE;
        bool last = column + 1 == table->columns, right = table->right >> column & 1;
        int width = right ? widths[column] : last ? 0 : -widths[column];
        fprintf(out, "%*s%s", width, cell, last ? "\n" : "  ");
    }
    buf_release(&table->cells);
}

/* ---- members ---- */

static bool
gone(const struct json *member)
{
    const char *state = text_of(member, "state");
    return strcmp(state, "dead") == 0 || strcmp(state, "left") == 0 ||
           strcmp(state, "evicted") == 0;
}

static void
round_trip_text(const struct json *of, char text[64])
{
    double ms = double_of(of, "round_trip_ms");
    if (ms > 0)
        snprintf(text, 64, "%.1f ms", ms);
    else
        snprintf(text, 64, "unknown");
}

static void
add_member(struct table *table, const struct json *member)
{
    char text[64];
    add_cell(table, text_of(member, "name"));
    add_cell(table, text_of(member, "zone"));
    add_cell(table, text_of(member, "address"));
    int64_t since = int_of(member, "since_s");
    if (!gone(member) || strcmp(text_of(member, "state"), "evicted") == 0)
        snprintf(text, sizeof(text), "%.40s", text_of(member, "state"));
    else if (since < 60)
        snprintf(text, sizeof(text), "%.20s %lld s ago", text_of(member, "state"),
                 (long long)since);
    else
        snprintf(text, sizeof(text), "%.20s %lld min ago", text_of(member, "state"),
                 (long long)since / 60);
    add_cell(table, text);
    snprintf(text, sizeof(text), "%s%s%s",
             json_bool(json_get(member, "member"), false) ? "member" : "outside",
             json_bool(json_get(member, "voter"), false) ? ", voter" : "",
             json_bool(json_get(member, "worker"), false) ? ", works" : "");
    add_cell(table, text);
    snprintf(text, sizeof(text), "%.1f GiB",
             (double)int_of(member, "memory_bytes") / (1 << 30));
    add_cell(table, text);
    round_trip_text(member, text);
    add_cell(table, json_bool(json_get(member, "self"), false) ? "this node"
                    : gone(member)                             ? "-"
                                                               : text);
}

static void
print_members(FILE *out, const struct json *members, bool all)
{
    static const char *const heads[] = {"node", "zone",   "address",   "state",
                                        "part", "memory", "round trip"};
    struct table table = {.columns = 7, .right = 1 << 5};
    int64_t hidden = 0;
    for (size_t i = 0; i < table.columns; i++)
        add_cell(&table, heads[i]);
    for (size_t i = 0; i < json_count(members); i++) {
        const struct json *member = json_at(members, i);
        if (!all && gone(member) && int_of(member, "since_s") > LONG_GONE_S)
            hidden++;
        else
            add_member(&table, member);
    }
    print_table(out, &table);
    if (hidden > 0)
        fprintf(out, "%s gone for more than %d minutes; --all lists %s\n",
                show_count(hidden, "node"), LONG_GONE_S / 60,
                hidden == 1 ? "it" : "them");
}

/* Whom this node cannot dial, and how it speaks to them. */
static void
print_ways(FILE *out, const struct json *status)
{
    const struct json *members = json_get(status, "members");
    for (size_t i = 0; i < json_count(members); i++) {
        const struct json *member = json_at(members, i);
        const char *way = text_of(member, "way"), *data = text_of(member, "data_way");
        if (gone(member) || json_bool(json_get(member, "self"), false))
            continue;
        if (strcmp(way, "round") == 0 || strcmp(data, "round") == 0)
            fprintf(out, "%s and this node cannot connect; %s carries between them\n",
                    text_of(member, "name"),
                    text_of(member, "via")[0] ? text_of(member, "via") : "a third node");
        else if (strcmp(way, "back") == 0 || strcmp(data, "back") == 0)
            fprintf(out,
                    "%s cannot be dialled from here; it is answered on its own "
                    "connections\n",
                    text_of(member, "name"));
    }
    const char *verdict = text_of(json_get(status, "reach"), "verdict");
    if (strcmp(verdict, "unreachable") == 0 || strcmp(verdict, "reachable by some") == 0)
        fprintf(out, "this node is %s; flotilla doctor says which ports to open\n",
                verdict);
    const struct json *carried = json_get(status, "carried");
    if (int_of(carried, "bytes") > 0)
        fprintf(out, "this node carried %.1f MB for others\n",
                (double)int_of(carried, "bytes") / 1e6);
}

/* ---- links ---- */

static bool
present(const struct json *members, const char *name)
{
    for (size_t i = 0; i < json_count(members); i++) {
        const struct json *member = json_at(members, i);
        if (strcmp(text_of(member, "name"), name) == 0 && !gone(member))
            return true;
    }
    return false;
}

static void
add_link(struct table *table, const struct json *link)
{
    char text[64];
    double rate = double_of(link, "mbit_per_s");
    add_cell(table, text_of(link, "from"));
    add_cell(table, text_of(link, "to"));
    if (rate > FASTEST_MBIT)
        snprintf(text, sizeof(text), ">%d", FASTEST_MBIT);
    else if (rate > 0)
        snprintf(text, sizeof(text), "%.*f", rate >= WHOLE_MBIT ? 0 : 1, rate);
    else
        snprintf(text, sizeof(text), "unknown");
    add_cell(table, text);
    round_trip_text(link, text);
    add_cell(table, text);
    add_cell(table, text_of(link, "method"));
    int64_t age_s = int_of(link, "age_s");
    if (rate <= 0 || strcmp(text_of(link, "method"), "model") == 0)
        snprintf(text, sizeof(text), "-");
    else if (age_s < 100)
        snprintf(text, sizeof(text), "%lld s", (long long)age_s);
    else
        snprintf(text, sizeof(text), "%lld min", (long long)age_s / 60);
    add_cell(table, text);
    snprintf(text, sizeof(text), "%lld %%", (long long)int_of(link, "confidence"));
    add_cell(table, text);
}

static void
print_links(FILE *out, const struct json *links, const struct json *members)
{
    static const char *const heads[] = {"from", "to",  "Mbit/s",    "round trip",
                                        "by",   "age", "confidence"};
    struct table table = {.columns = 7, .right = 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6};
    size_t shown = 0;
    for (size_t i = 0; i < table.columns; i++)
        add_cell(&table, heads[i]);
    for (size_t i = 0; i < json_count(links); i++) {
        const struct json *link = json_at(links, i);
        if (!present(members, text_of(link, "from")) ||
            !present(members, text_of(link, "to")))
            continue;
        add_link(&table, link);
        shown++;
    }
    if (shown > 0)
        print_table(out, &table);
    buf_release(&table.cells);
}

/* ---- the plan ---- */

/* "embedding, blocks 1-2, head". */
static void
layers_text(int64_t first, int64_t count, int64_t blocks, char *text, size_t size)
{
    int64_t last = first + count - 1;
    int64_t low = first > 1 ? first : 1, high = last < blocks ? last : blocks;
    char middle[64] = "";
    if (blocks == 0) { /* a node of another version */
        snprintf(text, size, "layers %lld-%lld", (long long)first, (long long)last);
        return;
    }
    if (low == high)
        snprintf(middle, sizeof(middle), "block %lld", (long long)low);
    else if (low < high)
        snprintf(middle, sizeof(middle), "blocks %lld-%lld", (long long)low,
                 (long long)high);
    bool head = last > blocks, embedding = first == 0;
    snprintf(text, size, "%s%s%s%s%s", embedding ? "embedding" : "",
             embedding && middle[0] ? ", " : "", middle,
             head && (embedding || middle[0]) ? ", " : "", head ? "head" : "");
}

static void
print_plan(FILE *out, const struct json *plan)
{
    const struct json *stages = json_get(plan, "stages");
    char text[640];
    if (json_count(stages) == 0)
        return;
    fprintf(out, "\nplan: %s, %s each, micro-batches of %s\n",
            show_count((int64_t)json_count(stages), "stage"),
            show_count(int_of(plan, "pipelines"), "replica"),
            show_count(int_of(plan, "micro_batch"), "sequence"));
    if (json_bool(json_get(plan, "loosened"), false)) {
        show_loosened(plan, text, sizeof(text));
        fprintf(out, "      %s\n", text);
    }
    for (size_t s = 0; s < json_count(stages); s++) {
        const struct json *stage = json_at(stages, s);
        const struct json *replicas = json_get(stage, "replicas");
        layers_text(int_of(stage, "first_layer"), int_of(stage, "layers"),
                    int_of(plan, "blocks"), text, sizeof(text));
        fprintf(out, "  stage %zu  %s:", s, text);
        for (size_t r = 0; r < json_count(replicas); r++) {
            const struct json *replica = json_at(replicas, r);
            snprintf(text, sizeof(text), "%s/%s (%s)", text_of(replica, "zone"),
                     text_of(replica, "node"),
                     show_count(int_of(replica, "micro_batches"), "micro-batch"));
            fprintf(out, "%s %s", r ? "," : "", text);
        }
        fputc('\n', out);
    }
}

/* ---- the job ---- */

static void
print_copies(FILE *out, const struct json *job)
{
    int64_t copy = int_of(job, "copy_step"), checkpoint = int_of(job, "checkpoint_step");
    if (copy > 0)
        fprintf(out, "     recovery copy of step %lld", (long long)copy);
    else
        fprintf(out, "     no recovery copy yet");
    if (checkpoint > 0)
        fprintf(out, ", checkpoint of step %lld here\n", (long long)checkpoint);
    else
        fprintf(out, ", no checkpoint written here since this node started\n");
}

static void
print_job(FILE *out, const struct json *status)
{
    const struct json *job = json_get(status, "job");
    const char *ended = text_of(status, "ended");
    const char *submitted = text_of(status, "submitted");
    if (!json_is_object(job) && submitted[0]) {
        fprintf(out, "job: none yet; the members measure themselves on \"%s\"\n",
                submitted);
        return;
    }
    if (!json_is_object(job)) {
        fprintf(out, "job: none%s%s\n", ended[0] ? "; the last one ended: " : "", ended);
        return;
    }
    int64_t step = int_of(job, "step"), nodes = int_of(job, "participating");
    double measured = double_of(job, "step_s"),
           predicted = double_of(job, "predicted_step_s");
    fprintf(out, "job: %s, %s, step %lld of %lld", text_of(job, "name"),
            text_of(job, "state"), (long long)step, (long long)int_of(job, "steps"));
    if (step > 0)
        fprintf(out, ", loss %.4f, %.0f tokens/s", double_of(job, "loss"),
                double_of(job, "tokens_per_s"));
    fprintf(out, "\n     %s %s", show_count(nodes, "node"),
            nodes == 1 ? "computes" : "compute");
    if (measured > 0)
        fprintf(out, "; a step takes %.3f s", measured);
    if (predicted > 0)
        fprintf(out, "%s %.3f s", measured > 0 ? ", predicted were" : "; predicted step",
                predicted);
    fputc('\n', out);
    if (measured > 0 && predicted > 0 &&
        fabs(measured - predicted) > 0.5 * fmin(measured, predicted))
        fprintf(out,
                "     these differ by more than half: the machines do other work, or "
                "are not as they were measured\n");
    print_copies(out, job);
}

static void
print_probes(FILE *out, const struct json *probes)
{
    if (int_of(probes, "count") == 0)
        return;
    fprintf(out, "%s by this node sent %.1f MB; any hour may see %.1f MB\n",
            show_count(int_of(probes, "count"), "probe"),
            (double)int_of(probes, "sent_bytes") / 1e6,
            (double)int_of(probes, "hour_bytes") / 1e6);
}

static void
print_warnings(FILE *out, const struct json *warnings)
{
    for (size_t i = 0; i < json_count(warnings); i++)
        fprintf(out, "%swarning: %s\n", i ? "" : "\n",
                json_text(json_at(warnings, i), ""));
}

void
show_status(FILE *out, const struct json *status, bool all)
{
    fprintf(out, "node %s (%s), zone %s, %s, flotilla %s\n", text_of(status, "name"),
            text_of(status, "id"), text_of(status, "zone"), text_of(status, "address"),
            text_of(status, "version"));
    if (!json_bool(json_get(status, "entered"), false)) {
        fprintf(out, "still joining; the node's log says what it waits for\n");
        return;
    }
    const char *leader = text_of(status, "leader_name");
    fprintf(out, "swarm %s, epoch %lld, term %lld, leader %s, this node is %s\n",
            text_of(status, "swarm"), (long long)int_of(status, "epoch"),
            (long long)int_of(status, "term"), leader[0] ? leader : "none",
            text_of(status, "role"));
    int64_t rival = int_of(status, "rival_generation");
    if (rival > 0)
        fprintf(out,
                "RIVAL: generation %lld was begun at two places (see the log); run "
                "\"flotilla recover\" again at the one that is to live\n",
                (long long)rival);
    if (text_of(status, "paused")[0])
        fprintf(out, "PAUSED: %s\n", text_of(status, "paused"));
    print_job(out, status);
    print_plan(out, json_get(status, "plan"));
    print_members(out, json_get(status, "members"), all);
    print_ways(out, status);
    print_links(out, json_get(status, "links"), json_get(status, "members"));
    print_probes(out, json_get(status, "probes"));
    print_warnings(out, json_get(status, "warnings"));
}
