#include "gossip/survey.h"
#include "gossip/link.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

enum {
    GRANTS_MAX = 64,
    WAITS_MAX = 256,
    ANSWER_MS = 1000,    /* an ask without an answer is given up */
    PROBE_MS_MAX = 4500, /* a probe without an end */
    REST_MS = 50,        /* between two probes of ours */
    AGAIN_MS = 200,      /* the receiver or the zones' path is busy */
    MEASURED_MS = 5000,  /* until its record tells what a probe brought */
    UNREACHED_MS = 1000, /* its data connection may be opening */
    FAILED_MS = 60 * 1000,
    PAUSE_MS_MAX = 10 * 60 * 1000,
    HOUR_MS = 60 * 60 * 1000,
    UNKNOWN_BYTES = 16 << 20,
    LEAST_BYTES_UNKNOWN = 256 << 10,
    LEAST_BYTES_MAX = 8 << 20
};

static const int64_t day_ms = INT64_C(24) * HOUR_MS;
static const int64_t day_bytes = INT64_C(2000000000);

/* What may be spent: `level` of at most `most`, which takes `fill_ms` to fill. */
struct bucket {
    int64_t level_bytes, most_bytes, fill_ms, at_ms;
};

struct grant {
    struct id from, about;
    uint64_t nonce;
    char from_zone[NAME_BYTES_MAX + 1], to_zone[NAME_BYTES_MAX + 1];
    bool receiver;
    int64_t until_ms;
};

struct wait {
    struct id peer;
    int64_t until_ms;
    int64_t wanted_ms;           /* the same where a plan wants the link */
    int64_t pause_ms, probed_ms; /* after its last probe */
};

enum state { IDLE, ASKED_KEEPER, ASKED_TARGET, PROBING };

struct survey {
    struct rng rng;
    enum state state;
    struct survey_target target;
    uint64_t nonce;
    int64_t since_ms, rest_until_ms;
    struct grant grants[GRANTS_MAX];
    size_t grants_count;
    struct wait waits[WAITS_MAX];
    size_t waits_count;
    struct bucket hour, day;
    bool uplink_known;
    int64_t started_bytes; /* of the probe that is under way */
    int64_t probes, sent_bytes;
};

struct survey *
survey_new(uint64_t seed)
{
    struct survey *survey = xcalloc(1, sizeof(*survey));
    survey->rng = (struct rng){.seed = seed};
    survey->hour = (struct bucket){
        .level_bytes = UNKNOWN_BYTES, .most_bytes = UNKNOWN_BYTES, .fill_ms = HOUR_MS};
    survey->day = (struct bucket){
        .level_bytes = day_bytes / 2, .most_bytes = day_bytes / 2, .fill_ms = day_ms};
    return survey;
}

void
survey_free(struct survey *survey)
{
    free(survey);
}

/* ---- the budget ---- */

static int64_t
level(const struct bucket *bucket, int64_t now_ms)
{
    int64_t passed = now_ms - bucket->at_ms;
    if (bucket->at_ms == 0 || passed < 0)
        return bucket->level_bytes;
    if (passed >= bucket->fill_ms)
        return bucket->most_bytes;
    /* In kilobytes, so that nothing overflows. */
    int64_t now =
        bucket->level_bytes + bucket->most_bytes / 1000 * passed / bucket->fill_ms * 1000;
    return now < bucket->most_bytes ? now : bucket->most_bytes;
}

static void
spend(struct bucket *bucket, int64_t now_ms, int64_t bytes)
{
    bucket->level_bytes = level(bucket, now_ms) - bytes;
    bucket->at_ms = now_ms;
}

static int64_t
allowance(const struct survey *survey, int64_t now_ms)
{
    int64_t hour = level(&survey->hour, now_ms), day = level(&survey->day, now_ms);
    return hour < day ? hour : day;
}

void
survey_uplink(struct survey *survey, int64_t bytes_per_s)
{
    if (bytes_per_s <= 0)
        return;
    if (bytes_per_s > day_bytes)
        bytes_per_s = day_bytes; /* the day's is the limit anyway */
    struct bucket *hour = &survey->hour;
    int64_t most = bytes_per_s * 18; /* a hundredth, an hour, half of it */
    int64_t spent = hour->most_bytes - hour->level_bytes;
    if (survey->uplink_known)
        spent = spent * 1000 / (hour->most_bytes / 1000 + 1) * (most / 1000) / 1000;
    hour->level_bytes = most - spent;
    hour->most_bytes = most;
    survey->uplink_known = true;
}

void
survey_count(const struct survey *survey, int64_t now_ms, struct survey_counts *counts)
{
    int64_t left = allowance(survey, now_ms);
    *counts = (struct survey_counts){.probes = survey->probes,
                                     .sent_bytes = survey->sent_bytes,
                                     .left_bytes = left > 0 ? left : 0,
                                     .hour_bytes = 2 * survey->hour.most_bytes};
    if (counts->hour_bytes > day_bytes)
        counts->hour_bytes = day_bytes;
}

/* A second of what the link is thought to carry at most, and some to find its pace. */
static int64_t
probe_bytes(const struct survey *survey, int64_t now_ms)
{
    int64_t rate = survey->target.bytes_per_s, most = SURVEY_BYTES_MAX;
    if (rate > 0 && rate < most)
        most = rate + (512 << 10);
    most = most < SURVEY_BYTES_MAX ? most : SURVEY_BYTES_MAX;
    int64_t left = allowance(survey, now_ms);
    return most < left ? most : left;
}

/* ---- whom to ask ---- */

static struct wait *
find_wait(struct survey *survey, const struct id *peer)
{
    for (size_t i = 0; i < survey->waits_count; i++)
        if (id_equal(&survey->waits[i].peer, peer))
            return &survey->waits[i];
    return NULL;
}

static bool
waits(struct survey *survey, const struct survey_target *target, int64_t now_ms)
{
    const struct wait *wait = find_wait(survey, &target->id);
    return wait && now_ms < (target->wanted ? wait->wanted_ms : wait->until_ms);
}

/* The peer's entry; when there is no room the one that would end first gives way. */
static struct wait *
want_wait(struct survey *survey, const struct id *peer)
{
    struct wait *wait = find_wait(survey, peer);
    if (wait)
        return wait;
    size_t at = 0;
    for (size_t i = 0; i < survey->waits_count; i++)
        if (survey->waits[i].until_ms < survey->waits[at].until_ms)
            at = i;
    if (survey->waits_count < WAITS_MAX)
        at = survey->waits_count++;
    survey->waits[at] = (struct wait){.peer = *peer};
    return &survey->waits[at];
}

static void
rest(struct survey *survey, int64_t now_ms, int64_t wait_ms)
{
    struct wait *wait = want_wait(survey, &survey->target.id);
    wait->until_ms = wait->wanted_ms = now_ms + wait_ms;
    survey->state = IDLE;
    survey->rest_until_ms = now_ms + REST_MS;
}

/* What takes too long is given up. */
static void
give_up(struct survey *survey, int64_t now_ms)
{
    int64_t passed = now_ms - survey->since_ms;
    if (survey->state == PROBING && passed >= PROBE_MS_MAX) {
        /* It may have sent all that it was allowed to. */
        survey->sent_bytes += survey->started_bytes;
        rest(survey, now_ms, FAILED_MS);
    } else if ((survey->state == ASKED_KEEPER || survey->state == ASKED_TARGET) &&
               passed >= ANSWER_MS) {
        rest(survey, now_ms, AGAIN_MS + (int64_t)rng_below(&survey->rng, 2 * ANSWER_MS));
    }
}

static void
put_ask(struct survey *survey, int64_t now_ms, bool keeper, struct survey_ask *ask)
{
    survey->state = keeper ? ASKED_KEEPER : ASKED_TARGET;
    survey->since_ms = now_ms;
    *ask = (struct survey_ask){.to = keeper ? survey->target.keeper : survey->target.id,
                               .about = survey->target.id,
                               .nonce = survey->nonce};
}

bool
survey_tick(struct survey *survey, int64_t now_ms, const struct survey_target *targets,
            size_t count, struct survey_ask *ask)
{
    give_up(survey, now_ms);
    if (survey->state != IDLE || now_ms < survey->rest_until_ms)
        return false;
    const struct survey_target *choice = NULL;
    uint64_t ties = 0;
    for (size_t i = 0; i < count; i++) {
        const struct survey_target *target = &targets[i];
        if ((target->confidence >= LINK_CONFIDENT && !target->again) ||
            waits(survey, target, now_ms))
            continue;
        bool better =
            !choice || target->wanted > choice->wanted ||
            (target->wanted == choice->wanted && target->confidence < choice->confidence);
        bool equal = choice && target->wanted == choice->wanted &&
                     target->confidence == choice->confidence;
        /* Among equals by chance, so that not all ask the same one. */
        if (equal)
            better = rng_below(&survey->rng, ++ties + 1) == 0;
        else if (better)
            ties = 0;
        if (better)
            choice = target;
    }
    if (!choice)
        return false;
    survey->target = *choice;
    /* What would end before it has filled the link is better saved up for. */
    int64_t least = choice->bytes_per_s > 0 && choice->bytes_per_s / 8 < LEAST_BYTES_MAX
                        ? choice->bytes_per_s / 8
                    : choice->bytes_per_s > 0 ? LEAST_BYTES_MAX
                                              : LEAST_BYTES_UNKNOWN;
    if (probe_bytes(survey, now_ms) < least) {
        survey->rest_until_ms = now_ms + ANSWER_MS; /* nothing left to spend */
        return false;
    }
    survey->nonce = rng_next(&survey->rng);
    put_ask(survey, now_ms, !id_empty(&choice->keeper), ask);
    return true;
}

enum survey_step
survey_answered(struct survey *survey, int64_t now_ms, const struct id *from,
                uint64_t nonce, int64_t wait_ms, struct survey_ask *ask,
                struct survey_start *start)
{
    bool keeper = survey->state == ASKED_KEEPER;
    const struct id *asked = keeper ? &survey->target.keeper : &survey->target.id;
    if ((!keeper && survey->state != ASKED_TARGET) || nonce != survey->nonce ||
        !id_equal(from, asked))
        return SURVEY_NOTHING;
    if (wait_ms > 0) {
        if (wait_ms > FAILED_MS)
            wait_ms = FAILED_MS;
        rest(survey, now_ms,
             wait_ms / 2 + (int64_t)rng_below(&survey->rng, (uint64_t)wait_ms + 1));
        return SURVEY_NOTHING;
    }
    if (keeper && !id_equal(&survey->target.keeper, &survey->target.id)) {
        put_ask(survey, now_ms, false, ask);
        return SURVEY_ASK;
    }
    int64_t bytes = probe_bytes(survey, now_ms);
    if (bytes <= 0) {
        rest(survey, now_ms, FAILED_MS);
        return SURVEY_NOTHING;
    }
    survey->state = PROBING;
    survey->since_ms = now_ms;
    survey->started_bytes = bytes;
    spend(&survey->hour, now_ms, bytes); /* what is not needed comes back */
    spend(&survey->day, now_ms, bytes);
    survey->probes++;
    *start = (struct survey_start){.peer = survey->target.id,
                                   .bytes = bytes,
                                   .bytes_per_s = survey->target.bytes_per_s};
    return SURVEY_START;
}

bool
survey_ended(struct survey *survey, int64_t now_ms, const struct id *peer, int64_t bytes,
             uint64_t *nonce, struct id *keeper)
{
    if (survey->state != PROBING || !id_equal(peer, &survey->target.id))
        return false;
    must(bytes >= 0);
    survey->sent_bytes += bytes;
    spend(&survey->hour, now_ms, bytes - survey->started_bytes);
    spend(&survey->day, now_ms, bytes - survey->started_bytes);
    *nonce = survey->nonce;
    *keeper = survey->target.keeper;
    if (id_equal(keeper, peer))
        *keeper = (struct id){0};
    rest(survey, now_ms, bytes > 0 ? MEASURED_MS : UNREACHED_MS);
    if (bytes > 0) {
        /* What a probe did not settle the next ones are in no hurry to. */
        struct wait *wait = want_wait(survey, peer);
        bool again = wait->pause_ms > 0 && now_ms - wait->probed_ms < HOUR_MS;
        wait->pause_ms = again ? 2 * wait->pause_ms : MEASURED_MS;
        if (wait->pause_ms > PAUSE_MS_MAX)
            wait->pause_ms = PAUSE_MS_MAX;
        wait->probed_ms = now_ms;
        wait->until_ms = now_ms + wait->pause_ms;
    }
    return true;
}

/* ---- being asked ---- */

int64_t
survey_asked(struct survey *survey, int64_t now_ms, const struct survey_request *request)
{
    size_t kept = 0;
    bool busy = false, far = strcmp(request->from_zone, request->to_zone) != 0;
    for (size_t i = 0; i < survey->grants_count; i++) {
        const struct grant *grant = &survey->grants[i];
        if (grant->until_ms <= now_ms ||
            (id_equal(&grant->from, &request->from) && grant->nonce != request->nonce))
            continue; /* lapsed, or given up by its sender, who asks anew */
        bool mine = id_equal(&grant->from, &request->from);
        if (!mine && request->receiver && grant->receiver)
            busy = true;
        if (!mine && request->keeper && far &&
            strcmp(grant->from_zone, request->from_zone) == 0 &&
            strcmp(grant->to_zone, request->to_zone) == 0)
            busy = true;
        if (!mine)
            survey->grants[kept++] = *grant;
    }
    survey->grants_count = kept;
    if (!request->receiver && !request->keeper)
        return FAILED_MS; /* it has another view of the members than we have */
    if (busy || survey->grants_count == GRANTS_MAX)
        return AGAIN_MS;
    struct grant *grant = &survey->grants[survey->grants_count++];
    *grant = (struct grant){.from = request->from,
                            .about = request->about,
                            .nonce = request->nonce,
                            .receiver = request->receiver,
                            .until_ms = now_ms + SURVEY_GRANT_MS};
    memcpy(grant->from_zone, request->from_zone,
           strnlen(request->from_zone, NAME_BYTES_MAX));
    memcpy(grant->to_zone, request->to_zone, strnlen(request->to_zone, NAME_BYTES_MAX));
    return 0;
}

void
survey_done(struct survey *survey, const struct id *from, uint64_t nonce)
{
    for (size_t i = 0; i < survey->grants_count; i++)
        if (id_equal(&survey->grants[i].from, from) && survey->grants[i].nonce == nonce)
            survey->grants[i--] = survey->grants[--survey->grants_count];
}

/* ---- a large swarm ---- */

static uint64_t
weight(const struct id *self, const struct id *peer)
{
    return rng_mix(rng_mix(id_prefix(self), 1), id_prefix(peer));
}

struct choice {
    const struct id *self, *ids;
    const bool *near;
    size_t count, taken;
    size_t *chosen; /* ascending */
};

static bool
has(const struct choice *choice, size_t i)
{
    for (size_t k = 0; k < choice->taken; k++)
        if (choice->chosen[k] == i)
            return true;
    return false;
}

/* Take the heaviest of those that are near, or of those that are not, until there are
 * `most` in all. */
static void
take_heaviest(struct choice *choice, bool near, size_t most)
{
    while (choice->taken < most) {
        size_t best = choice->count;
        for (size_t i = 0; i < choice->count; i++)
            if (choice->near[i] == near && !has(choice, i) &&
                (best == choice->count || weight(choice->self, &choice->ids[i]) >
                                              weight(choice->self, &choice->ids[best])))
                best = i;
        if (best == choice->count)
            return;
        size_t at = choice->taken++;
        for (; at > 0 && choice->chosen[at - 1] > best; at--)
            choice->chosen[at] = choice->chosen[at - 1];
        choice->chosen[at] = best;
    }
}

size_t
survey_choose(const struct id *self, const struct id *ids, const bool *near, size_t count,
              size_t most, size_t *chosen)
{
    must(most <= SURVEY_TARGETS_MAX);
    struct choice choice = {
        .self = self, .ids = ids, .near = near, .count = count, .chosen = chosen};
    take_heaviest(&choice, true, most / 2);
    take_heaviest(&choice, false, most);
    take_heaviest(&choice, true, most);
    return choice.taken;
}
