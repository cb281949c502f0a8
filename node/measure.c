/*
 * measure.c - what the links carry, in a node: probes when they are due and allowed,
 * arrivals into estimates, round trips, zones held against them. What a link carries is
 * its receiver's to say (gossip/link.h); when to probe it is decided by gossip/survey.h.
 */
#include "gossip/survey.h"
#include "node/node.h"
#include "node/zones.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/mutant.h"
#include "transport/codec.h"

#include <stdlib.h>
#include <string.h>

enum {
    TARGETS_MS = 100,   /* between two looks for a link to probe */
    FEW = 9,            /* peers, all of whose links are measured */
    CHOSEN_FIRST = 4,   /* of more: so many at once, */
    CHOSEN = 8,         /* and after a while so many */
    CHOSEN_MS = 120000, /* that while */
    WANTED_MS = 20000,
    RECORD_MS = 1000,   /* between two looks at what changed */
    RECORD_MEMBERS = 8, /* of so many, and of more as much longer: everybody verifies what
                           anybody issues, and round trips always move somewhere */
    ZONES_MS = 10000,
    ZONES_SAY_MS = 3600000,
    WARNINGS_MAX = 8
};

struct wanted {
    struct id peer;
    int64_t until_ms;
};

struct measure {
    struct survey *survey;
    struct wanted wanted[SURVEY_TARGETS_MAX];
    size_t wanted_count;
    int64_t targets_ms, record_ms, zones_ms, zones_said_ms;
    int zones_wrong;
};

struct measure *
measure_new(void)
{
    struct measure *measure = xcalloc(1, sizeof(*measure));
    uint64_t seed;
    key_random(&seed, sizeof(seed));
    measure->survey = survey_new(seed);
    return measure;
}

void
measure_free(struct measure *measure)
{
    if (!measure)
        return;
    survey_free(measure->survey);
    free(measure);
}

/* What the receiver says of the link from `from` to it; NULL: nothing. */
const struct record_link *
measure_link(const struct node *node, const struct id *from, const struct id *to)
{
    const struct member *member = gossip_find(node->gossip, to);
    if (!member)
        return NULL;
    for (uint32_t i = 0; i < member->record->links_count; i++)
        if (id_equal(&member->record->links[i].peer, from))
            return &member->record->links[i];
    return NULL;
}

/* The member of a zone with the lowest id. */
static const struct id *
keeper_of(const struct node *node, const char *zone)
{
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        if (strcmp(node_zone_of(node, &node->decree.members[i].id), zone) == 0)
            return &node->decree.members[i].id;
    return NULL;
}

static int
member_number(const struct node *node, const struct id *id)
{
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        if (id_equal(&node->decree.members[i].id, id))
            return (int)i;
    return -1;
}

/* ---- whom to probe ---- */

static bool
wants(const struct measure *measure, const struct id *peer, int64_t now)
{
    for (size_t i = 0; i < measure->wanted_count; i++)
        if (id_equal(&measure->wanted[i].peer, peer))
            return measure->wanted[i].until_ms > now;
    return false;
}

static void
want(struct measure *measure, const struct id *peer, int64_t now)
{
    size_t at = 0;
    for (size_t i = 0; i < measure->wanted_count; i++) {
        if (id_equal(&measure->wanted[i].peer, peer)) {
            measure->wanted[i].until_ms = now + WANTED_MS;
            return;
        }
        if (measure->wanted[i].until_ms < measure->wanted[at].until_ms)
            at = i;
    }
    if (measure->wanted_count < SURVEY_TARGETS_MAX)
        at = measure->wanted_count++;
    measure->wanted[at] = (struct wanted){*peer, now + WANTED_MS};
}

static void
add_target(const struct node *node, const struct id *id, int64_t now,
           struct survey_target *target)
{
    *target = (struct survey_target){.id = *id, .wanted = wants(node->measure, id, now)};
    const char *zone = node_zone_of(node, id);
    if (strcmp(zone, node->config.zone) != 0) {
        const struct id *keeper = keeper_of(node, zone);
        if (keeper && watch_is_up(node->watch, keeper))
            target->keeper = *keeper;
    }
    const struct record_link *link = measure_link(node, &node->id, id);
    if (!link || link->rate == 0)
        return;
    target->confidence = link->confidence;
    /* Traffic goes over it: what it lacks in confidence a probe would not give it. */
    if (link->method == LINK_PASSIVE && link->age_s < LINK_FRESH_S && !target->wanted &&
        target->confidence < LINK_CONFIDENT)
        target->confidence = LINK_CONFIDENT;
    target->bytes_per_s = rate_decode(link->rate);
    /* A second probe confirms the first, or puts it in doubt. */
    target->again = link->method == LINK_PROBE && link->confidence < LINK_SURE &&
                    link->age_s < LINK_FRESH_S;
}

static size_t
find_targets(const struct node *node, int64_t now,
             struct survey_target targets[SURVEY_TARGETS_MAX])
{
    struct id *ids = xcalloc(node->decree.members_count, sizeof(*ids));
    bool *near = xcalloc(node->decree.members_count, sizeof(*near));
    size_t count = 0, chosen[CHOSEN + FEW], chosen_count, made = 0;
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct id *id = &node->decree.members[i].id;
        if (id_equal(id, &node->id) || !watch_is_up(node->watch, id))
            continue;
        ids[count] = *id;
        near[count++] = strcmp(node_zone_of(node, id), node->config.zone) == 0;
    }
    bool later = now - node->entered_ms > CHOSEN_MS;
    size_t most = count <= FEW ? FEW : later ? CHOSEN : CHOSEN_FIRST;
    chosen_count = survey_choose(&node->id, ids, near, count, most, chosen);
    /* While we are halted for a new plan, only what that one asks for. */
    for (size_t i = 0; i < chosen_count && !node->freeze.active; i++)
        if (!wants(node->measure, &ids[chosen[i]], now))
            add_target(node, &ids[chosen[i]], now, &targets[made++]);
    for (size_t i = 0; i < count && made < SURVEY_TARGETS_MAX; i++)
        if (wants(node->measure, &ids[i], now))
            add_target(node, &ids[i], now, &targets[made++]);
    free(near);
    free(ids);
    return made;
}

static int
compare_codes(const void *left, const void *right)
{
    return *(const uint16_t *)left - *(const uint16_t *)right;
}

/* What we send at best: the 80th percentile of what others measured, since the most of
 * many drifts upwards. */
static void
find_uplink(struct node *node)
{
    uint16_t codes[SURVEY_TARGETS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < gossip_count(node->gossip) && count < SURVEY_TARGETS_MAX;
         i++) {
        const struct record *record = gossip_at(node->gossip, i)->record;
        for (uint32_t k = 0; k < record->links_count; k++)
            if (record->links[k].rate > 0 &&
                id_equal(&record->links[k].peer, &node->id)) {
                codes[count++] = record->links[k].rate;
                break;
            }
    }
    if (count == 0)
        return;
    qsort(codes, count, sizeof(codes[0]), compare_codes);
    survey_uplink(node->measure->survey, rate_decode(codes[count * 4 / 5]));
}

/* ---- frames ---- */

static void
send_ask(struct node *node, const struct survey_ask *ask)
{
    struct buf body = {0};
    writer_array(&body, 3);
    writer_uint(&body, ask->nonce);
    writer_uint(&body, node->decree.epoch);
    writer_id(&body, &ask->about);
    node_send(node, &ask->to, FRAME_PROBE_ASK, &body);
    buf_release(&body);
}

int
measure_asked(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    struct survey_request request = {.from = frame->from};
    reader_enter(reader, 3, 3);
    request.nonce = reader_uint(reader, UINT64_MAX);
    uint64_t epoch = reader_uint(reader, UINT64_MAX);
    reader_id(reader, &request.about);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (epoch != node->decree.epoch || !node->member ||
        !decree_member(&node->decree, &frame->from))
        return 0; /* it asks again when we are in one epoch */
    request.from_zone = node_zone_of(node, &request.from);
    request.to_zone = node_zone_of(node, &request.about);
    request.receiver = id_equal(&request.about, &node->id);
    const struct id *keeper = keeper_of(node, request.to_zone);
    request.keeper = keeper && id_equal(keeper, &node->id);
    struct buf body = {0};
    writer_array(&body, 2);
    writer_uint(&body, request.nonce);
    writer_uint(&body,
                (uint64_t)survey_asked(node->measure->survey, clock_ms(), &request));
    node_send(node, &frame->from, FRAME_PROBE_ANSWER, &body);
    buf_release(&body);
    return 0;
}

int
measure_answered(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    reader_enter(reader, 2, 2);
    uint64_t nonce = reader_uint(reader, UINT64_MAX);
    int64_t wait_ms = (int64_t)reader_uint(reader, INT32_MAX);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    struct survey_ask ask;
    struct survey_start start;
    switch (survey_answered(node->measure->survey, clock_ms(), &frame->from, nonce,
                            wait_ms, &ask, &start)) {
    case SURVEY_NOTHING:
        break;
    case SURVEY_ASK:
        send_ask(node, &ask);
        break;
    case SURVEY_START:
        bulk_probe(node->bulk, member_number(node, &start.peer), (size_t)start.bytes,
                   start.bytes_per_s);
        break;
    }
    return 0;
}

static void
send_done(struct node *node, const struct id *to, uint64_t nonce)
{
    struct buf body = {0};
    writer_array(&body, 1);
    writer_uint(&body, nonce);
    node_send(node, to, FRAME_PROBE_DONE, &body);
    buf_release(&body);
}

int
measure_done(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    reader_enter(reader, 1, 1);
    uint64_t nonce = reader_uint(reader, UINT64_MAX);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    survey_done(node->measure->survey, &frame->from, nonce);
    return 0;
}

/* ---- the data plane's events ---- */

void
measure_bulk_event(struct node *node, const struct bulk_event *event)
{
    int64_t now = clock_ms();
    if (event->kind == BULK_PROBED) {
        uint64_t nonce;
        struct id keeper;
        if (!survey_ended(node->measure->survey, now, &event->id, event->bytes, &nonce,
                          &keeper))
            return;
        send_done(node, &event->id, nonce);
        if (!id_empty(&keeper))
            send_done(node, &keeper, nonce);
        return;
    }
    struct link_sample sample = {.bytes = event->bytes,
                                 .us = event->us,
                                 .limited = event->limited,
                                 .probe = event->probe};
    _Static_assert((int)LINK_CURVE_POINTS == (int)RATE_CURVE_POINTS, "one curve");
    memcpy(sample.curve, event->curve, sizeof(sample.curve));
    links_sample(node->links, now, &event->id, &sample);
    log_debug("node", "link sample from=%s kbit_per_s=%lld ms=%lld probe=%d limited=%d",
              node_name_of(node, &event->id, (char[NAME_BYTES_MAX + 1]){0}),
              (long long)(event->bytes * 8000 / event->us), (long long)event->us / 1000,
              event->probe, event->limited);
}

/* ---- links that a plan rests on ---- */

static bool
confident(const struct node *node, const struct id *from, const struct id *to)
{
    const struct record_link *link = measure_link(node, from, to);
    return link && link->rate > 0 && link->confidence >= LINK_CONFIDENT;
}

/* The peers that `from` sends to under the view's plan and of whose links too little is
 * known. */
static size_t
lacking(const struct node *node, const struct view *view, int from,
        struct id out[SURVEY_TARGETS_MAX])
{
    const struct plan *plan = &view->plan;
    size_t count = 0;
    int last = plan->stages_count - 1, pipelines = plan->pipelines_count;
    for (int s = 0; s <= last; s++)
        for (int r = 0; r < pipelines; r++) {
            if (plan->stages[s].nodes[r] != from)
                continue;
            const int to[4] = {
                s > 0 ? plan->stages[s - 1].nodes[r] : -1,
                s < last ? plan->stages[s + 1].nodes[r] : -1,
                pipelines > 1 ? plan->stages[s].nodes[(r + 1) % pipelines] : -1,
                s == 0      ? plan->stages[last].nodes[r]
                : s == last ? plan->stages[0].nodes[r]
                            : -1,
            };
            for (int i = 0; i < 4 && count < SURVEY_TARGETS_MAX; i++) {
                bool had = to[i] < 0 || to[i] == from;
                for (size_t k = 0; k < count && !had; k++)
                    had = id_equal(&out[k], &view->reports[to[i]].id);
                if (!had &&
                    !confident(node, &view->reports[from].id, &view->reports[to[i]].id))
                    out[count++] = view->reports[to[i]].id;
            }
        }
    return count;
}

static void
ask_to_measure(struct node *node, const struct id *from, const struct id *peers,
               size_t count)
{
    if (id_equal(from, &node->id)) {
        for (size_t i = 0; i < count; i++)
            want(node->measure, &peers[i], clock_ms());
        return;
    }
    struct buf body = {0};
    writer_array(&body, 2);
    writer_uint(&body, node->decree.epoch);
    writer_array(&body, count);
    for (size_t i = 0; i < count; i++)
        writer_id(&body, &peers[i]);
    node_send(node, from, FRAME_MEASURE, &body);
    buf_release(&body);
}

bool
measure_plan(struct node *node, const struct view *view)
{
    bool asked = false;
    struct id peers[SURVEY_TARGETS_MAX];
    if (MUTANT(measure))
        return false;
    for (uint32_t i = 0; i < view->reports_count && view->planned; i++) {
        size_t count = lacking(node, view, (int)i, peers);
        /* A joiner has no data connections before it is in. */
        if (count == 0 || !decree_member(&node->decree, &view->reports[i].id))
            continue;
        ask_to_measure(node, &view->reports[i].id, peers, count);
        for (size_t k = 0; k < count; k++)
            asked = asked || decree_member(&node->decree, &peers[k]);
    }
    return asked;
}

int
measure_wanted(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    struct id peers[SURVEY_TARGETS_MAX];
    reader_enter(reader, 2, 2);
    uint64_t epoch = reader_uint(reader, UINT64_MAX);
    size_t count = reader_enter(reader, 0, SURVEY_TARGETS_MAX);
    for (size_t i = 0; i < count; i++)
        reader_id(reader, &peers[i]);
    reader_leave(reader);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (epoch != node->decree.epoch || !id_equal(&frame->from, agree_leader(node->agree)))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (decree_member(&node->decree, &peers[i]))
            want(node->measure, &peers[i], clock_ms());
    return 0;
}

/* ---- time ---- */

/* Gossip's probes measure round trips: the records' links and the election's timers
 * follow them. */
static void
take_round_trips(struct node *node, int64_t now)
{
    int64_t slowest_us = 0;
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct member *member = gossip_at(node->gossip, i);
        if (member->state != MEMBER_ALIVE || member->round_trip_us <= 0)
            continue;
        links_round_trip(node->links, now, &member->record->id, member->round_trip_us);
        if (decree_voter(&node->decree, &member->record->id) &&
            member->round_trip_us > slowest_us)
            slowest_us = member->round_trip_us;
    }
    if (slowest_us > 0)
        agree_round_trip(node->agree, slowest_us / 1000);
}

static int
find_zone_warnings(const struct node *node, struct zone_warning *out)
{
    size_t count = 0, all = gossip_count(node->gossip);
    const struct record **records = xcalloc(all, sizeof(struct record *));
    for (size_t i = 0; i < all; i++)
        if (gossip_at(node->gossip, i)->state == MEMBER_ALIVE)
            records[count++] = gossip_at(node->gossip, i)->record;
    int found = zones_check(records, count, out, WARNINGS_MAX);
    free(records);
    return found;
}

/* A zone's name is its members' own word and is never changed; but somebody is told. */
static void
check_zones(struct node *node, int64_t now)
{
    struct measure *measure = node->measure;
    struct zone_warning warnings[WARNINGS_MAX];
    int count = find_zone_warnings(node, warnings);
    if (count == measure->zones_wrong && now - measure->zones_said_ms < ZONES_SAY_MS)
        return;
    measure->zones_wrong = count;
    measure->zones_said_ms = now;
    for (int i = 0; i < count; i++)
        log_warn("node", "%s", warnings[i].text);
}

void
measure_put_warnings(const struct node *node, struct json_writer *writer)
{
    struct zone_warning warnings[WARNINGS_MAX];
    int count = find_zone_warnings(node, warnings);
    json_array_open(writer, "warnings");
    for (int i = 0; i < count; i++)
        json_put_text(writer, NULL, warnings[i].text);
    json_array_close(writer);
}

void
measure_put_probes(const struct node *node, struct json_writer *writer)
{
    struct survey_counts counts;
    survey_count(node->measure->survey, clock_ms(), &counts);
    json_object_open(writer, "probes");
    json_put_int(writer, "count", counts.probes);
    json_put_int(writer, "sent_bytes", counts.sent_bytes);
    json_put_int(writer, "left_bytes", counts.left_bytes);
    json_put_int(writer, "hour_bytes", counts.hour_bytes);
    json_object_close(writer);
}

void
measure_tick(struct node *node, int64_t now)
{
    struct measure *measure = node->measure;
    int64_t pace = 1 + node->decree.members_count / RECORD_MEMBERS;
    if (now - measure->record_ms >= RECORD_MS * pace) {
        measure->record_ms = now;
        take_round_trips(node, now);
        find_uplink(node);
        if (links_changed(node->links, now))
            enter_record(node);
    }
    if (now - measure->zones_ms >= ZONES_MS) {
        measure->zones_ms = now;
        check_zones(node, now);
    }
    /* Who only watches moves nothing. */
    if (!node->member || !node->train || node->leaving_ms ||
        now - measure->targets_ms < TARGETS_MS)
        return;
    measure->targets_ms = now;
    struct survey_target targets[SURVEY_TARGETS_MAX];
    struct survey_ask ask;
    size_t count = find_targets(node, now, targets);
    if (survey_tick(measure->survey, now, targets, count, &ask))
        send_ask(node, &ask);
}
