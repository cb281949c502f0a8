#include "gossip/link.h"
#include "gossip/survey.h"
#include "tests/suite.h"
#include "transport/base/rng.h"

#include <string.h>

Suite *suite_survey(void);

#define HOUR_MS INT64_C(3600000)

/* Nodes that probe each other over an invented time: node i's surveyor, and for each
 * directed link when it was measured. Zones are i % zones. */
enum { NODES = 8 };

struct field {
    int zones;
    struct survey *surveys[NODES];
    struct id ids[NODES];
    bool measured[NODES][NODES];
    struct {
        bool on;
        int to;
        int64_t until_ms, bytes;
    } running[NODES];
    int64_t now_ms, bytes[NODES];
    int probe_ms;
    int most_between; /* probes at one time between two zones */
};

static const char *
zone_of(const struct field *field, int node)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    return names[node % field->zones];
}

static int
number_of(const struct field *field, const struct id *id)
{
    for (int i = 0; i < NODES; i++)
        if (id_equal(&field->ids[i], id))
            return i;
    ck_abort();
    return -1;
}

static void
field_open(struct field *field, int zones)
{
    *field = (struct field){.zones = zones, .now_ms = 1000, .probe_ms = 600};
    for (int i = 0; i < NODES; i++) {
        field->ids[i].bytes[0] = (uint8_t)(i + 1);
        field->surveys[i] = survey_new((uint64_t)i);
    }
}

static void
field_close(struct field *field)
{
    for (int i = 0; i < NODES; i++)
        survey_free(field->surveys[i]);
}

static void ask(struct field *field, int from, const struct survey_ask *question);

static void
answer(struct field *field, int from, const struct id *by, uint64_t nonce,
       int64_t wait_ms)
{
    struct survey_ask next;
    struct survey_start start;
    switch (survey_answered(field->surveys[from], field->now_ms, by, nonce, wait_ms,
                            &next, &start)) {
    case SURVEY_NOTHING:
        break;
    case SURVEY_ASK:
        ask(field, from, &next);
        break;
    case SURVEY_START:
        ck_assert(!field->running[from].on);
        field->running[from].on = true;
        field->running[from].to = number_of(field, &start.peer);
        field->running[from].until_ms = field->now_ms + field->probe_ms;
        field->running[from].bytes = start.bytes;
        break;
    }
}

static void
ask(struct field *field, int from, const struct survey_ask *question)
{
    int to = number_of(field, &question->to), about = number_of(field, &question->about);
    struct survey_request request = {.from = field->ids[from],
                                     .about = question->about,
                                     .nonce = question->nonce,
                                     .from_zone = zone_of(field, from),
                                     .to_zone = zone_of(field, about),
                                     .receiver = to == about,
                                     .keeper = to == about % field->zones};
    int64_t wait_ms = survey_asked(field->surveys[to], field->now_ms, &request);
    answer(field, from, &question->to, question->nonce, wait_ms);
}

static void
check_limits(struct field *field)
{
    int incoming[NODES] = {0}, between[4][4] = {{0}};
    for (int i = 0; i < NODES; i++) {
        if (!field->running[i].on)
            continue;
        int to = field->running[i].to, pair[2] = {i % field->zones, to % field->zones};
        ck_assert_int_eq(++incoming[to], 1);
        if (pair[0] != pair[1] && ++between[pair[0]][pair[1]] > field->most_between)
            field->most_between = between[pair[0]][pair[1]];
    }
}

static void
field_turn(struct field *field)
{
    field->now_ms += 50;
    for (int i = 0; i < NODES; i++) {
        struct survey_target targets[NODES];
        struct survey_ask question;
        size_t count = 0;
        if (field->running[i].on && field->now_ms >= field->running[i].until_ms) {
            int to = field->running[i].to;
            uint64_t nonce;
            struct id keeper;
            field->running[i].on = false;
            field->measured[i][to] = true;
            field->bytes[i] += field->running[i].bytes;
            ck_assert(survey_ended(field->surveys[i], field->now_ms, &field->ids[to],
                                   field->running[i].bytes, &nonce, &keeper));
            survey_done(field->surveys[to], &field->ids[i], nonce);
            if (!id_empty(&keeper))
                survey_done(field->surveys[number_of(field, &keeper)], &field->ids[i],
                            nonce);
        }
        for (int k = 0; k < NODES; k++)
            if (k != i)
                targets[count++] = (struct survey_target){
                    .id = field->ids[k],
                    .keeper = k % field->zones != i % field->zones
                                  ? field->ids[k % field->zones]
                                  : (struct id){{0}},
                    .confidence = field->measured[i][k] ? 74 : 0,
                    .bytes_per_s = field->measured[i][k] ? 1250000 : 0};
        if (survey_tick(field->surveys[i], field->now_ms, targets, count, &question))
            ask(field, i, &question);
        check_limits(field);
    }
}

START_TEST(all_links_are_measured_one_in_and_one_out_at_a_time)
{
    struct field field;
    int turns = 0;
    bool all = false;
    field_open(&field, 1);
    for (int i = 0; i < NODES; i++)
        survey_uplink(field.surveys[i], 125000000);
    for (; !all && turns < 20 * 60; turns++) {
        field_turn(&field);
        all = true;
        for (int i = 0; i < NODES; i++)
            for (int k = 0; k < NODES; k++)
                all = all && (i == k || field.measured[i][k]);
    }
    ck_assert(all);
    /* 7 links of each at 0.6 s: not much more than twice that. */
    ck_assert_int_lt(turns * 50, 12000);
    field_close(&field);
}
END_TEST

START_TEST(between_two_zones_there_is_one_probe_at_a_time)
{
    struct field field;
    field_open(&field, 2);
    for (int i = 0; i < NODES; i++)
        survey_uplink(field.surveys[i], 125000000);
    for (int turns = 0; turns < 20 * 60; turns++)
        field_turn(&field);
    ck_assert_int_eq(field.most_between, 1);
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < NODES; k++)
            ck_assert(i == k || field.measured[i][k]);
    field_close(&field);
}
END_TEST

static const struct id there = {{9}};

/* Ask, be granted, send all that one may: how many bytes; 0: not asked for, -1: the
 * budget allows none. */
static int64_t
one_probe(struct survey *survey, int64_t now_ms, int64_t bytes_per_s)
{
    struct survey_target target = {
        .id = there, .bytes_per_s = bytes_per_s, .wanted = true};
    struct survey_ask question;
    struct survey_start start;
    if (!survey_tick(survey, now_ms, &target, 1, &question))
        return 0;
    if (survey_answered(survey, now_ms, &there, question.nonce, 0, &question, &start) !=
        SURVEY_START)
        return -1;
    uint64_t nonce;
    struct id keeper;
    ck_assert(survey_ended(survey, now_ms, &there, start.bytes, &nonce, &keeper));
    ck_assert(id_empty(&keeper));
    return start.bytes;
}

START_TEST(no_hour_sees_more_than_a_hundredth_of_the_uplink)
{
    static const int64_t rates[] = {125000, 1250000, 12500000};
    for (int r = 0; r < 3; r++) {
        struct survey *survey = survey_new(1);
        int64_t sent[5] = {0};
        survey_uplink(survey, rates[r]);
        for (int64_t ms = 1000; ms < 5 * HOUR_MS; ms += 1000) {
            int64_t bytes = one_probe(survey, ms, rates[r]);
            sent[ms / HOUR_MS] += bytes > 0 ? bytes : 0;
        }
        for (int hour = 0; hour < 5; hour++) {
            /* The day's limit may be the tighter one. */
            int64_t least = rates[r] * 10 < 40000000 ? rates[r] * 10 : 40000000;
            ck_assert_int_gt(sent[hour], least);
            ck_assert_int_le(sent[hour], rates[r] * 36 + 1000);
        }
        struct survey_counts counts;
        survey_count(survey, 5 * HOUR_MS, &counts);
        ck_assert_int_eq(counts.sent_bytes,
                         sent[0] + sent[1] + sent[2] + sent[3] + sent[4]);
        ck_assert_int_eq(counts.hour_bytes, rates[r] * 36);
        survey_free(survey);
    }
}
END_TEST

START_TEST(no_day_sees_more_than_two_gigabytes)
{
    struct survey *survey = survey_new(1);
    int64_t sent = 0;
    survey_uplink(survey, INT64_C(12500000000));
    for (int64_t ms = 1000; ms < 24 * HOUR_MS; ms += 5000) {
        int64_t bytes = one_probe(survey, ms, INT64_C(1250000000));
        ck_assert_int_le(bytes, SURVEY_BYTES_MAX);
        sent += bytes > 0 ? bytes : 0;
    }
    ck_assert_int_le(sent, INT64_C(2000000000));
    ck_assert_int_gt(sent, INT64_C(1900000000));
    survey_free(survey);
}
END_TEST

START_TEST(while_the_uplink_is_not_known_there_are_16_mib)
{
    struct survey *survey = survey_new(1);
    int64_t bytes = one_probe(survey, 1000, 0);
    ck_assert_int_eq(bytes, 16 << 20);
    ck_assert_int_eq(one_probe(survey, 10000, 0), 0);
    survey_uplink(survey, 125000000); /* what was spent stays spent */
    struct survey_counts counts;
    survey_count(survey, 10000, &counts);
    ck_assert_int_ge(counts.left_bytes, 1000000000 - (16 << 20));
    ck_assert_int_lt(counts.left_bytes, 1000000000 - (15 << 20));
    ck_assert_int_gt(one_probe(survey, 20000, 0), 0);
    survey_free(survey);
}
END_TEST

START_TEST(a_peer_whose_data_connection_is_not_open_yet_is_asked_again_soon)
{
    struct survey *survey = survey_new(1);
    struct survey_target target = {.id = there};
    struct survey_ask question;
    struct survey_start start;
    uint64_t nonce;
    struct id keeper;
    ck_assert(survey_tick(survey, 1000, &target, 1, &question));
    ck_assert_int_eq(
        survey_answered(survey, 1000, &there, question.nonce, 0, &question, &start),
        SURVEY_START);
    ck_assert(survey_ended(survey, 1000, &there, 0, &nonce, &keeper));
    ck_assert(!survey_tick(survey, 1500, &target, 1, &question));
    ck_assert(survey_tick(survey, 2000, &target, 1, &question));
    survey_free(survey);
}
END_TEST

START_TEST(what_no_probe_settles_is_probed_less_and_less_often)
{
    struct survey *survey = survey_new(1);
    int64_t last_ms = 0, gaps[16];
    int count = 0;
    survey_uplink(survey, 125000000);
    for (int64_t ms = 1000; ms < HOUR_MS; ms += 1000) {
        struct survey_target target = {.id = there, .bytes_per_s = 1250000};
        struct survey_ask question;
        struct survey_start start;
        uint64_t nonce;
        struct id keeper;
        if (!survey_tick(survey, ms, &target, 1, &question))
            continue;
        survey_answered(survey, ms, &there, question.nonce, 0, &question, &start);
        ck_assert(survey_ended(survey, ms, &there, 1 << 20, &nonce, &keeper));
        if (last_ms)
            gaps[count++] = ms - last_ms;
        ck_assert_int_lt(count, 16);
        last_ms = ms;
    }
    ck_assert_int_eq(gaps[0], 5000);
    for (int i = 1; i < count; i++)
        ck_assert(gaps[i] == 2 * gaps[i - 1] || gaps[i] == 600000);
    ck_assert_int_eq(gaps[count - 1], 600000);
    survey_free(survey);
}
END_TEST

START_TEST(what_a_probe_did_not_need_may_be_spent_again)
{
    struct survey *survey = survey_new(1);
    struct survey_target target = {.id = there};
    struct survey_ask question;
    struct survey_start start;
    struct survey_counts counts;
    uint64_t nonce;
    struct id keeper;
    ck_assert(survey_tick(survey, 1000, &target, 1, &question));
    ck_assert_int_eq(
        survey_answered(survey, 1000, &there, question.nonce, 0, &question, &start),
        SURVEY_START);
    survey_count(survey, 1000, &counts);
    ck_assert_int_eq(counts.left_bytes, 0);
    ck_assert(survey_ended(survey, 1500, &there, 1 << 20, &nonce, &keeper));
    ck_assert_uint_eq(nonce, question.nonce);
    survey_count(survey, 1500, &counts);
    ck_assert_int_ge(counts.left_bytes, 15 << 20);
    ck_assert_int_eq(counts.sent_bytes, 1 << 20);
    ck_assert_int_eq(counts.probes, 1);
    survey_free(survey);
}
END_TEST

START_TEST(what_is_known_well_is_not_probed_and_what_a_plan_wants_goes_first)
{
    struct survey *survey = survey_new(1);
    struct survey_target targets[3] = {
        {.id = {{1}}, .confidence = 74, .bytes_per_s = 1000},
        {.id = {{2}}},
        {.id = {{3}}, .confidence = 40, .bytes_per_s = 1000, .wanted = true}};
    struct survey_ask question;
    ck_assert(!survey_tick(survey, 1000, targets, 1, &question));
    ck_assert(!survey_tick(survey, 1000, targets, 0, &question));
    ck_assert(survey_tick(survey, 1000, targets, 3, &question));
    ck_assert(id_equal(&question.to, &targets[2].id));
    ck_assert(!survey_tick(survey, 1100, targets, 3, &question)); /* one at a time */
    survey_free(survey);
}
END_TEST

START_TEST(an_answer_that_was_not_asked_for_starts_nothing)
{
    struct survey *survey = survey_new(1);
    struct survey_target target = {.id = there, .keeper = {{4}}};
    struct survey_ask question, next;
    struct survey_start start;
    struct id other = {{5}};
    ck_assert_int_eq(survey_answered(survey, 1000, &there, 0, 0, &next, &start),
                     SURVEY_NOTHING);
    ck_assert(survey_tick(survey, 1000, &target, 1, &question));
    ck_assert(id_equal(&question.to, &target.keeper));
    ck_assert(id_equal(&question.about, &there));
    uint64_t nonce = question.nonce;
    ck_assert_int_eq(survey_answered(survey, 1000, &other, nonce, 0, &next, &start),
                     SURVEY_NOTHING);
    ck_assert_int_eq(
        survey_answered(survey, 1000, &target.keeper, nonce + 1, 0, &next, &start),
        SURVEY_NOTHING);
    ck_assert_int_eq(survey_answered(survey, 1000, &there, nonce, 0, &next, &start),
                     SURVEY_NOTHING); /* the keeper goes first */
    ck_assert_int_eq(
        survey_answered(survey, 1000, &target.keeper, nonce, 0, &next, &start),
        SURVEY_ASK);
    ck_assert(id_equal(&next.to, &there));
    ck_assert_int_eq(survey_answered(survey, 1000, &there, nonce, 0, &next, &start),
                     SURVEY_START);
    /* No end comes: given up, and after a while asked anew. */
    ck_assert(!survey_tick(survey, 3000, &target, 1, &question));
    ck_assert(!survey_tick(survey, 6000, &target, 1, &question));
    ck_assert(survey_tick(survey, 70000, &target, 1, &question));
    survey_free(survey);
}
END_TEST

START_TEST(permissions_lapse_and_are_bounded)
{
    struct survey *survey = survey_new(1);
    struct survey_request request = {.from = {{1}},
                                     .about = {{2}},
                                     .nonce = 7,
                                     .from_zone = "a",
                                     .to_zone = "b",
                                     .receiver = true,
                                     .keeper = true};
    ck_assert_int_eq(survey_asked(survey, 1000, &request), 0);
    ck_assert_int_eq(survey_asked(survey, 1000, &request), 0); /* said again */
    struct survey_request other = request;
    other.from.bytes[0] = 3;
    ck_assert_int_gt(survey_asked(survey, 1000, &other), 0);
    survey_done(survey, &request.from, 8); /* another's */
    ck_assert_int_gt(survey_asked(survey, 1000, &other), 0);
    ck_assert_int_eq(survey_asked(survey, 1000 + SURVEY_GRANT_MS, &other), 0);
    survey_done(survey, &other.from, 7);
    ck_assert_int_eq(survey_asked(survey, 1001 + SURVEY_GRANT_MS, &request), 0);
    other.receiver = other.keeper = false; /* nobody's business of ours */
    ck_assert_int_gt(survey_asked(survey, 90000, &other), 0);
    for (int i = 0; i < 1000; i++) {
        struct survey_request one = {.from = {{(uint8_t)i, (uint8_t)(i >> 8), 1}},
                                     .about = {{2}},
                                     .from_zone = "a",
                                     .to_zone = "a",
                                     .keeper = true};
        int64_t wait_ms = survey_asked(survey, 90000, &one);
        ck_assert(i < 32 ? wait_ms == 0 : i > 64 ? wait_ms > 0 : true);
    }
    survey_free(survey);
}
END_TEST

START_TEST(of_many_each_chooses_some_near_and_some_far_and_all_are_chosen)
{
    enum { MANY = 300 };
    static struct id ids[MANY];
    static bool near[MANY];
    static int chosen_by[MANY];
    size_t chosen[8], again[8];
    for (int i = 0; i < MANY; i++) {
        ids[i].bytes[0] = (uint8_t)i;
        ids[i].bytes[1] = (uint8_t)(i >> 8);
        ids[i].bytes[7] = (uint8_t)(i * 7);
    }
    for (int self = 0; self < MANY; self++) {
        for (int i = 0; i < MANY; i++)
            near[i] = i % 3 == self % 3;
        ck_assert_uint_eq(survey_choose(&ids[self], ids, near, MANY, 8, chosen), 8);
        ck_assert_uint_eq(survey_choose(&ids[self], ids, near, MANY, 8, again), 8);
        ck_assert(memcmp(chosen, again, sizeof(chosen)) == 0);
        int of_near = 0;
        for (int k = 0; k < 8; k++) {
            ck_assert(k == 0 || chosen[k - 1] < chosen[k]);
            of_near += near[chosen[k]];
            chosen_by[chosen[k]]++;
        }
        ck_assert_int_eq(of_near, 4);
    }
    for (int i = 0; i < MANY; i++)
        ck_assert_int_lt(chosen_by[i], 30);
    ck_assert_uint_eq(survey_choose(&ids[0], ids, near, 3, 8, chosen), 3);
    ck_assert_uint_eq(survey_choose(&ids[0], ids, near, 0, 8, chosen), 0);
}
END_TEST

Suite *
suite_survey(void)
{
    Suite *suite = suite_create("survey");
    TCase *tests = suite_case(suite, "survey", 30);
    tcase_add_test(tests, all_links_are_measured_one_in_and_one_out_at_a_time);
    tcase_add_test(tests, between_two_zones_there_is_one_probe_at_a_time);
    tcase_add_test(tests, no_hour_sees_more_than_a_hundredth_of_the_uplink);
    tcase_add_test(tests, no_day_sees_more_than_two_gigabytes);
    tcase_add_test(tests, while_the_uplink_is_not_known_there_are_16_mib);
    tcase_add_test(tests,
                   a_peer_whose_data_connection_is_not_open_yet_is_asked_again_soon);
    tcase_add_test(tests, what_no_probe_settles_is_probed_less_and_less_often);
    tcase_add_test(tests, what_a_probe_did_not_need_may_be_spent_again);
    tcase_add_test(tests,
                   what_is_known_well_is_not_probed_and_what_a_plan_wants_goes_first);
    tcase_add_test(tests, an_answer_that_was_not_asked_for_starts_nothing);
    tcase_add_test(tests, permissions_lapse_and_are_bounded);
    tcase_add_test(tests, of_many_each_chooses_some_near_and_some_far_and_all_are_chosen);
    return suite;
}
