#include "planner/refuse.h"
#include "planner/fleet_search.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool
pool_usable(const struct board *board, int pool)
{
    if (board->fleet->pools[pool].devices < 1)
        return false;
    for (int slot = 0; slot < TP_SLOTS; slot++) {
        int option = board->option_of[pool][slot];
        for (int s = 0; option >= 0 && s < board->settings_count; s++)
            if (board_measured(&board->settings[s], &board->options[option]))
                return true;
    }
    return false;
}

/* Devices of the pools of which something was measured. */
static int
usable(const struct board *board)
{
    int devices = 0;
    for (int p = 0; p < board->fleet->pools_count; p++)
        devices += pool_usable(board, p) ? board->fleet->pools[p].devices : 0;
    return devices;
}

/* ---- limits ---- */

static double
usd_per_hour(const struct board *board, const struct draft *draft)
{
    double sum = 0.0;
    for (int c = 0; c < draft->crews_count; c++) {
        for (int s = 0; s < draft->stages; s++) {
            const struct option *option = &board->options[draft->crews[c].option[s]];
            double price = board->fleet->pools[option->pool].usd_per_hour;
            sum += price > 0.0 ? draft->crews[c].count * option->tp * price : 0.0;
        }
    }
    return sum;
}

/* One limit more for a sentence, while there is room. */
static void __attribute__((format(printf, 2, 3)))
add(char text[ERR_MSG_SIZE], const char *fmt, ...)
{
    size_t used = strlen(text);
    if (used > 0)
        used += (size_t)snprintf(text + used, ERR_MSG_SIZE - used, ", ");
    if (used >= ERR_MSG_SIZE)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, ERR_MSG_SIZE - used, fmt, args);
    va_end(args);
}

/* What there is beside each limit that was given; a price below 0 is not known. */
static void
list_limits(const struct fleet_request *request, const struct fleet *fleet,
            double iteration_s, double usd, double usd_an_hour, char text[ERR_MSG_SIZE])
{
    double least = request->iterations_per_s_min;
    double tokens = (double)request->sequences * fleet->table.sequence_tokens;
    text[0] = '\0';
    if (least > 0.0)
        add(text, "%.6g iterations/s = %.6g tokens/s (at least %.6g = %.6g)",
            1.0 / iteration_s, tokens / iteration_s, least, tokens * least);
    if (request->usd_per_iteration_max >= 0.0 && usd >= 0.0)
        add(text, "%.6g USD an iteration (at most %.6g)", usd,
            request->usd_per_iteration_max);
    if (request->usd_per_hour_max >= 0.0 && usd_an_hour >= 0.0)
        add(text, "%.6g USD an hour (at most %.6g)", usd_an_hour,
            request->usd_per_hour_max);
    if ((request->usd_per_iteration_max >= 0.0 && usd < 0.0) ||
        (request->usd_per_hour_max >= 0.0 && usd_an_hour < 0.0))
        add(text, "a price that is not known");
}

static int
refuse_limits(const struct board *board, const struct draft *nearest, struct err *err)
{
    char text[ERR_MSG_SIZE];
    list_limits(board->request, board->fleet, nearest->iteration_s, nearest->usd,
                usd_per_hour(board, nearest), text);
    return err_set(err, ERR_PLAN, "no plan keeps the limits: the nearest has %s", text);
}

int
fleet_refuse_limits(const struct fleet_request *request, const struct fleet *fleet,
                    const struct estimate *estimate, struct err *err)
{
    char text[ERR_MSG_SIZE];
    list_limits(request, fleet, estimate->iteration_s, estimate->usd_per_iteration,
                estimate->devices_usd < 0.0
                    ? -1.0
                    : estimate->devices_usd / estimate->iteration_s * 3600.0,
                text);
    return err_set(err, ERR_PLAN, "the plan does not keep the job's limits: it has %s",
                   text);
}

/* ---- what a job fixes ---- */

static int
refuse_fixed(const struct board *board, struct err *err)
{
    const struct fleet_request *request = board->request;
    int64_t stages = request->pipeline > 0 ? request->pipeline : 1;
    int64_t width = request->replicas > 0 ? request->replicas : 1;
    int64_t tp = request->tp > 0 ? request->tp : 1;
    int most = usable(board);
    int total = 0;
    for (int s = 0; s < board->settings_count; s++)
        if (board->settings[s].total > total)
            total = board->settings[s].total;
    if (width > total)
        return err_set(err, ERR_PLAN,
                       "the job fixes %lld replicas, the batch of %d sequences has %d "
                       "micro-batch%s at most: fix fewer or take a larger batch",
                       (long long)width, request->sequences, total,
                       total == 1 ? "" : "es");
    if (stages * width * tp <= most)
        return 0;
    return err_set(err, ERR_PLAN,
                   "the job fixes %lld pipeline%s of %lld stage%s at tp %lld, which take "
                   "%lld devices; %d can be used: fix fewer or add devices",
                   (long long)width, width == 1 ? "" : "s", (long long)stages,
                   stages == 1 ? "" : "s", (long long)tp,
                   (long long)(stages * width * tp), most);
}

/* ---- links ---- */

/* The zones of the first two pools (or one and the same) that can be used and have no link;
 * false: all are joined. */
static bool
first_apart(const struct board *board, int *from, int *to)
{
    const struct fleet *fleet = board->fleet;
    for (int a = 0; a < fleet->pools_count; a++) {
        for (int b = 0; pool_usable(board, a) && b < fleet->pools_count; b++) {
            bool alone = a == b && fleet->pools[a].devices < 2;
            if (alone || !pool_usable(board, b) || fleet_curve(fleet, a, 0, b, 0))
                continue;
            *from = fleet->pools[a].zone;
            *to = fleet->pools[b].zone;
            return true;
        }
    }
    return false;
}

static int
refuse_links(const struct board *board, struct err *err)
{
    int from, to;
    if (!first_apart(board, &from, &to))
        return 0;
    struct fleet *joined = fleet_copy(board->fleet);
    int curve = joined->curves_count++;
    joined->curves =
        xrealloc(joined->curves, (size_t)joined->curves_count, sizeof(*joined->curves));
    joined->curves[curve] =
        (struct fleet_curve){.c0 = 1.0, .low_bytes = 1.0, .high_bytes = 1e12};
    int ends = joined->pools_count * TP_SLOTS;
    for (int i = 0; i < ends * ends; i++)
        if (joined->links[i] < 0)
            joined->links[i] = curve;
    struct fleet_request request = *board->request;
    struct fleet_answer answer;
    struct err ignored;
    request.quick = true;
    bool found = fleet_search_plan(&request, joined, &answer, &ignored) == 0;
    if (found)
        fleet_answer_release(&answer);
    fleet_free(joined);
    if (!found)
        return 0;
    const struct fleet_zone *zones = board->fleet->zones;
    if (from == to)
        return err_set(err, ERR_PLAN,
                       "the plan needs links that the cluster has not: devices in zone "
                       "\"%s\" have none to each other; give links from and to it",
                       zones[from].name);
    return err_set(err, ERR_PLAN,
                   "the plan needs links that the cluster has not: there is none from "
                   "zone \"%s\" to zone \"%s\"; give links",
                   zones[from].name, zones[to].name);
}

/* What is missing that no change of the layers makes up for: devices or links. */
static int
refuse_apart(const struct board *board, struct err *err)
{
    return refuse_fixed(board, err) != 0 || refuse_links(board, err) != 0 ? -1 : 0;
}

/* ---- room ---- */

/* Of some layers the option that lacks the least for the worst of them. */
struct tightest {
    const struct setting *setting;
    const struct option *option;
    int layer; /* first */
    int64_t need_bytes;
    int64_t missing_bytes; /* below 0: there is room */
};

/* Of the layers one by one, or all together. */
static struct tightest
find_tightest(const struct board *board, bool together)
{
    struct tightest least = {.missing_bytes = INT64_MAX};
    int each = together ? board->layers : 1;
    for (int s = 0; s < board->settings_count; s++) {
        for (int o = 0; o < board->options_count; o++) {
            struct tightest here = {.setting = &board->settings[s],
                                    .option = &board->options[o],
                                    .missing_bytes = INT64_MIN};
            if (!board_measured(here.setting, here.option))
                continue;
            int64_t room = board_room(board, here.option);
            for (int l = 0; l < board->layers; l += each) {
                int64_t need =
                    board_bytes(board, here.setting, here.option, 1, 1, l, l + each);
                if (need - room <= here.missing_bytes)
                    continue;
                here.missing_bytes = need - room;
                here.need_bytes = need;
                here.layer = l;
            }
            if (here.missing_bytes < least.missing_bytes)
                least = here;
        }
    }
    must(least.option);
    return least;
}

/* "needs 3 GiB at micro-batch 1 and tp 1, "A" has 2 GiB" */
static const char *
tell_tightest(const struct board *board, const struct tightest *tightest,
              char text[ERR_MSG_SIZE])
{
    const double gib = 1073741824.0;
    snprintf(text, ERR_MSG_SIZE,
             "needs %.4g GiB at micro-batch %d and tp %d, \"%s\" has %.4g GiB",
             (double)tightest->need_bytes / gib, tightest->setting->micro_batch,
             tightest->option->tp, board->fleet->kinds[tightest->option->kind].name,
             (double)board_room(board, tightest->option) / gib);
    return text;
}

int
refuse_room(const struct board *board, struct err *err)
{
    const struct fleet_request *request = board->request;
    bool engine = board->fleet->table.engine; /* whose tp no job fixes */
    char text[ERR_MSG_SIZE];
    struct tightest layer = find_tightest(board, false);
    if (layer.missing_bytes > 0)
        return err_set(err, ERR_PLAN,
                       "cannot place layer %d: %s; use devices with more memory%s",
                       layer.layer, tell_tightest(board, &layer, text),
                       engine ? "" : " or a higher tp");
    if (refuse_apart(board, err) != 0)
        return -1;
    struct tightest whole = find_tightest(board, true);
    int devices = usable(board);
    bool fixed = request->pipeline > 0 || request->replicas > 0 ||
                 request->micro_batch > 0 || request->stage_zones_count > 0 ||
                 (request->tp > 0 && !engine);
    return err_set(
        err, ERR_PLAN,
        "the %d device%s that can be used %s no room for the model%s: whole it "
        "%s; %sadd devices",
        devices, devices == 1 ? "" : "s", devices == 1 ? "has" : "have",
        fixed ? " with what the job fixes" : "", tell_tightest(board, &whole, text),
        fixed ? "fix less or " : "");
}

/* ---- nothing measured ---- */

/* The job fixes a degree that nothing has: there is no machine that is large enough, or no
 * profile with it. */
static int
refuse_degree(const struct board *board, struct err *err)
{
    const struct fleet *fleet = board->fleet;
    int largest = -1;
    int most = 0;
    for (int p = 0; p < fleet->pools_count; p++) {
        int group = fleet_pool_group_max(fleet, p);
        if (group > fleet->pools[p].devices)
            group = fleet->pools[p].devices;
        if (group <= most)
            continue;
        most = group;
        largest = p;
    }
    if (most < board->request->tp)
        return err_set(err, ERR_PLAN,
                       "the job fixes tp to %d, and a group of devices stays in one "
                       "machine: the largest that can be used has %d of \"%s\"; fix a "
                       "lower tp",
                       board->request->tp, most,
                       fleet->kinds[fleet->pools[largest].kind].name);
    return err_set(
        err, ERR_PLAN,
        "the job fixes tp to %d, of which no profile has the sizes; fix another "
        "tp or measure it",
        board->request->tp);
}

static const char *
precision_words(const struct fleet_request *request)
{
    return request->bf16 == CHOICE_ON    ? " in bf16"
           : request->bf16 == CHOICE_OFF ? " in fp32"
                                         : "";
}

int
refuse_unmeasured(const struct board *board, struct err *err)
{
    const struct fleet_request *request = board->request;
    bool fixes_tp = request->tp > 0 && !board->fleet->table.engine;
    if (board->devices < 1)
        return err_set(err, ERR_PLAN, "there are no devices to plan with");
    if (fixes_tp && board->options_count == 0)
        return refuse_degree(board, err);
    char with[64] = "with";
    if (fixes_tp)
        snprintf(with, sizeof(with), "with tp %d and", request->tp);
    if (request->micro_batch > 0)
        return err_set(err, ERR_PLAN,
                       "no device was measured%s %s a micro-batch of %d, which the job "
                       "fixes for its batch of %d; fix another or measure it",
                       precision_words(request), with, request->micro_batch,
                       request->sequences);
    return err_set(
        err, ERR_PLAN,
        "no device was measured%s %s a micro-batch that divides the batch of %d "
        "sequence%s",
        precision_words(request), with, request->sequences,
        request->sequences == 1 ? "" : "s");
}

int
refuse_nearest(const struct board *board, const struct draft *nearest, struct err *err)
{
    const struct fleet_request *request = board->request;
    struct fleet_plan plan;
    draft_plan(board, nearest, &plan);
    bool as_fixed = fleet_plan_check(&plan, request, board->fleet, err) == 0;
    fleet_plan_release(&plan);
    if (as_fixed)
        return refuse_limits(board, nearest, err);
    struct err missing = *err;
    if (refuse_apart(board, err) != 0)
        return -1;
    bool limits = request->usd_per_iteration_max >= 0.0 ||
                  request->usd_per_hour_max >= 0.0 || request->iterations_per_s_min > 0.0;
    *err = missing;
    return err_wrap(err, "no plan has what the job fixes%s; of the nearest",
                    limits ? " and keeps its limits" : "");
}
