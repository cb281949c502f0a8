#include "gossip/logarithm.h"
#include "gossip/record.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_record(void);

static struct secret *secret;
static struct key *key;
static struct id swarm = {{9, 9, 9}};

static void
setup(void)
{
    struct err err;
    uint8_t seed[32] = {7};
    ck_assert_int_eq(key_setup(&err), 0);
    secret = secret_make();
    key = key_from_seed(seed);
}

static void
teardown(void)
{
    secret_free(secret);
    key_free(key);
}

static void
some_text(struct rng *rng, char *out, size_t most)
{
    size_t len = (size_t)rng_below(rng, most + 1);
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(' ' + rng_below(rng, 94));
    out[len] = '\0';
}

static struct record
some_record(struct rng *rng)
{
    struct record record = {.id = *key_id(key),
                            .incarnation = rng_next(rng) >> rng_below(rng, 64),
                            .version = rng_next(rng) >> rng_below(rng, 64),
                            .leaving = rng_below(rng, 2),
                            .threads = (uint32_t)rng_below(rng, 65537),
                            .memory_bytes = rng_next(rng) >> 1,
                            .epoch = rng_next(rng)};
    some_text(rng, record.name, NAME_BYTES_MAX);
    some_text(rng, record.zone, NAME_BYTES_MAX);
    some_text(rng, record.address, ADDRESS_BYTES_MAX);
    some_text(rng, record.device, NAME_BYTES_MAX);
    secret_admit(secret, &swarm, &record.id, record.admission);
    record.links_count = (uint32_t)rng_below(rng, RECORD_LINKS_MAX + 1);
    for (uint32_t i = 0; i < record.links_count; i++) {
        struct record_link *link = &record.links[i];
        link->peer.bytes[0] = (uint8_t)(3 * i);
        link->peer.bytes[1] = (uint8_t)rng_next(rng);
        link->rate = (uint16_t)rng_next(rng);
        link->round_trip_us = (uint32_t)rng_next(rng);
        link->confidence = (uint8_t)rng_below(rng, 101);
        link->low = (uint16_t)rng_next(rng);
        link->method = (enum link_method)rng_below(rng, LINK_MODEL);
        link->age_s = (uint32_t)rng_next(rng);
        for (int k = 0; k < LINK_CURVE_POINTS; k++)
            link->curve[k] = (uint16_t)rng_next(rng);
    }
    return record;
}

static struct buf
signed_record(const struct record *record)
{
    struct buf out = {0};
    record_sign(record, key, &swarm, &out);
    return out;
}

static int
open_record(const struct buf *bytes, struct record *out, struct err *err)
{
    return record_open(bytes->data, bytes->len, &swarm, secret_admit_id(secret), out,
                       err);
}

static void
same_record(const struct record *left, const struct record *right)
{
    ck_assert(id_equal(&left->id, &right->id));
    ck_assert_uint_eq(left->incarnation, right->incarnation);
    ck_assert_uint_eq(left->version, right->version);
    ck_assert_int_eq(left->leaving, right->leaving);
    ck_assert_str_eq(left->name, right->name);
    ck_assert_str_eq(left->zone, right->zone);
    ck_assert_str_eq(left->address, right->address);
    ck_assert_str_eq(left->device, right->device);
    ck_assert_uint_eq(left->threads, right->threads);
    ck_assert_uint_eq(left->memory_bytes, right->memory_bytes);
    ck_assert_uint_eq(left->epoch, right->epoch);
    ck_assert_mem_eq(left->admission, right->admission, KEY_SIGNATURE_BYTES);
    ck_assert_uint_eq(left->links_count, right->links_count);
    for (uint32_t i = 0; i < left->links_count; i++) {
        ck_assert(id_equal(&left->links[i].peer, &right->links[i].peer));
        ck_assert_uint_eq(left->links[i].rate, right->links[i].rate);
        ck_assert_uint_eq(left->links[i].round_trip_us, right->links[i].round_trip_us);
        ck_assert_uint_eq(left->links[i].confidence, right->links[i].confidence);
        ck_assert_uint_eq(left->links[i].low, right->links[i].low);
        ck_assert_int_eq(left->links[i].method, right->links[i].method);
        ck_assert_uint_eq(left->links[i].age_s, right->links[i].age_s);
        for (int k = 0; k < LINK_CURVE_POINTS; k++)
            ck_assert_uint_eq(left->links[i].curve[k], right->links[i].curve[k]);
    }
}

START_TEST(what_was_signed_opens_as_it_was)
{
    struct rng rng = {.seed = suite_seed("what_was_signed_opens_as_it_was", 1)};
    for (int i = 0; i < 300; i++) {
        struct record record = some_record(&rng), opened;
        struct err err = {0};
        struct buf bytes = signed_record(&record);
        ck_assert_uint_le(bytes.len, RECORD_BYTES_MAX);
        ck_assert_msg(open_record(&bytes, &opened, &err) == 0, "%s", err.msg);
        same_record(&record, &opened);
        struct buf again = signed_record(&opened);
        ck_assert_uint_eq(again.len, bytes.len);
        ck_assert_mem_eq(again.data, bytes.data, bytes.len);
        buf_release(&again);
        buf_release(&bytes);
    }
}
END_TEST

START_TEST(the_largest_record_fits)
{
    struct rng rng = {.seed = 3};
    struct record record = some_record(&rng), opened;
    struct err err;
    record.links_count = RECORD_LINKS_MAX;
    for (uint32_t i = 0; i < RECORD_LINKS_MAX; i++) {
        memset(&record.links[i], 0xff, sizeof(record.links[i]));
        record.links[i].peer.bytes[0] = (uint8_t)i;
        record.links[i].confidence = 100;
        record.links[i].method = LINK_PROBE;
    }
    memset(record.name, 'n', NAME_BYTES_MAX);
    memset(record.zone, 'z', NAME_BYTES_MAX);
    memset(record.device, 'd', NAME_BYTES_MAX);
    memset(record.address, 'a', sizeof(record.address) - 1);
    record.incarnation = record.version = record.epoch = UINT64_MAX;
    struct buf bytes = signed_record(&record);
    ck_assert_int_eq(open_record(&bytes, &opened, &err), 0);
    same_record(&record, &opened);
    buf_release(&bytes);
}
END_TEST

START_TEST(a_record_with_any_bit_flipped_is_refused_and_nothing_is_written)
{
    struct rng rng = {.seed = 4};
    struct record record = some_record(&rng);
    record.links_count = 2;
    struct buf bytes = signed_record(&record);
    for (size_t at = 0; at < bytes.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            struct record out = {.epoch = 77};
            struct err err = {0};
            bytes.data[at] ^= (uint8_t)(1 << bit);
            ck_assert_int_eq(open_record(&bytes, &out, &err), -1);
            ck_assert(err.code == ERR_WIRE || err.code == ERR_AUTH);
            ck_assert_uint_gt(strlen(err.msg), 10);
            ck_assert_uint_eq(out.epoch, 77);
            bytes.data[at] ^= (uint8_t)(1 << bit);
        }
    buf_release(&bytes);
}
END_TEST

START_TEST(a_record_cut_short_or_gone_on_is_refused)
{
    struct rng rng = {.seed = 5};
    struct record record = some_record(&rng), out;
    struct err err = {0};
    struct buf bytes = signed_record(&record);
    for (size_t len = 0; len < bytes.len; len++) {
        /* A copy of this very size, so that a read past the end shows. */
        uint8_t *copy = xmemdup(bytes.data, len);
        ck_assert_int_eq(
            record_open(copy, len, &swarm, secret_admit_id(secret), &out, &err), -1);
        ck_assert_int_eq(err.code, ERR_WIRE);
        free(copy);
    }
    buf_add(&bytes, "", 1);
    ck_assert_int_eq(open_record(&bytes, &out, &err), -1);
    ck_assert_int_eq(err.code, ERR_WIRE);
    uint8_t *huge = xcalloc(1, RECORD_BYTES_MAX + 1);
    ck_assert_int_eq(record_open(huge, RECORD_BYTES_MAX + 1, &swarm,
                                 secret_admit_id(secret), &out, &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "limit"));
    free(huge);
    buf_release(&bytes);
}
END_TEST

START_TEST(a_record_of_another_swarm_or_secret_or_signer_is_refused)
{
    struct rng rng = {.seed = 6};
    struct record record = some_record(&rng), out;
    struct err err = {0};
    struct buf bytes = signed_record(&record);
    struct id elsewhere = {{1}};
    ck_assert_int_eq(record_open(bytes.data, bytes.len, &elsewhere,
                                 secret_admit_id(secret), &out, &err),
                     -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    struct secret *other = secret_make();
    ck_assert_int_eq(
        record_open(bytes.data, bytes.len, &swarm, secret_admit_id(other), &out, &err),
        -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    ck_assert_ptr_nonnull(strstr(err.msg, "secret"));
    secret_free(other);
    buf_release(&bytes);

    /* Admitted, but with somebody else's admission. */
    uint8_t seed[32] = {8};
    struct key *stranger = key_from_seed(seed);
    record.id = *key_id(stranger);
    struct buf forged = {0};
    record_sign(&record, stranger, &swarm, &forged);
    ck_assert_int_eq(open_record(&forged, &out, &err), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    buf_release(&forged);
    key_free(stranger);
}
END_TEST

START_TEST(links_out_of_order_are_refused)
{
    /* What record_sign() would never make: swap the ids of two links in the bytes. */
    struct rng rng = {.seed = 11};
    struct record record = some_record(&rng), out;
    struct err err = {0};
    record.links_count = 2;
    memset(record.links[0].peer.bytes, 0x41, ID_BYTES);
    memset(record.links[1].peer.bytes, 0x42, ID_BYTES);
    struct buf bytes = signed_record(&record);
    for (size_t i = 0; i < bytes.len - KEY_SIGNATURE_BYTES; i++)
        if (memcmp(&bytes.data[i], record.links[1].peer.bytes, ID_BYTES) == 0)
            memset(&bytes.data[i], 0x41, ID_BYTES);
    ck_assert_int_eq(record_peek(bytes.data, bytes.len, &out, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "ascending"));
    buf_release(&bytes);
}
END_TEST

START_TEST(newer_is_incarnation_first_then_version)
{
    struct record left = {.incarnation = 2, .version = 1};
    struct record right = {.incarnation = 1, .version = 9};
    ck_assert_int_gt(record_compare(&left, &right), 0);
    ck_assert_int_lt(record_compare(&right, &left), 0);
    right.incarnation = 2;
    ck_assert_int_lt(record_compare(&left, &right), 0);
    left.version = 9;
    ck_assert_int_eq(record_compare(&left, &right), 0);
    left.incarnation = UINT64_MAX;
    ck_assert_int_gt(record_compare(&left, &right), 0);
}
END_TEST

START_TEST(whose_a_record_seems_to_be_shows_without_reading_it)
{
    struct rng rng = {.seed = suite_seed("whose_a_record_seems_to_be", 1)};
    for (int i = 0; i < 100; i++) {
        struct record record = some_record(&rng);
        struct buf bytes = signed_record(&record);
        struct id id = {{0}};
        ck_assert(record_hint(bytes.data, bytes.len, &id));
        ck_assert(id_equal(&id, &record.id));
        size_t shortest = bytes.len;
        for (size_t len = 0; len < bytes.len && shortest == bytes.len; len++) {
            /* A copy of this very size, so that a read past the end shows. */
            uint8_t *copy = xmemdup(bytes.data, len);
            if (record_hint(copy, len, &id))
                shortest = len;
            free(copy);
        }
        ck_assert_uint_ge(shortest, ID_BYTES);
        ck_assert_uint_lt(shortest, ID_BYTES + 16);
        bytes.data[0]++;
        ck_assert(!record_hint(bytes.data, bytes.len, &id));
        buf_release(&bytes);
    }
}
END_TEST

START_TEST(a_rate_survives_its_code)
{
    ck_assert_uint_eq(rate_encode(0), 0);
    ck_assert_uint_eq(rate_encode(-5), 0);
    ck_assert_int_eq(rate_decode(0), 0);
    uint16_t most = rate_encode(INT64_MAX);
    for (uint16_t code = 1; code < most; code++) {
        ck_assert_uint_eq(rate_encode(rate_decode(code)), code);
        ck_assert_int_gt(rate_decode((uint16_t)(code + 1)), rate_decode(code));
    }
    ck_assert_int_eq(rate_decode(UINT16_MAX), INT64_MAX);
}
END_TEST

START_TEST(a_rate_code_is_sixteen_times_the_logarithm_of_kilobits)
{
    ck_assert_uint_eq(rate_encode(125), 1); /* 1 kbit/s is 0, which is taken */
    ck_assert_uint_eq(rate_encode(128000), 160);
    ck_assert_uint_eq(rate_encode(12500000), 266);  /* 100 Mbit/s: 16 x 16.61 */
    ck_assert_uint_eq(rate_encode(125000000), 319); /* 1 Gbit/s: 16 x 19.93 */
    struct rng rng = {.seed = suite_seed("rate_code", 2)};
    for (int i = 0; i < 20000; i++) {
        int64_t rate = (int64_t)(rng_next(&rng) >> (1 + rng_below(&rng, 55)));
        if (rate < 140)
            continue;
        double exact = 16 * log2((double)rate / 125);
        ck_assert_double_lt(fabs(exact - rate_encode(rate)), 0.502);
        ck_assert_double_lt(
            fabs(log2((double)rate_decode(rate_encode(rate)) / (double)rate)), 0.036);
    }
}
END_TEST

START_TEST(logarithms_and_powers_agree_with_the_library)
{
    struct rng rng = {.seed = suite_seed("logarithm", 3)};
    for (int i = 0; i < 20000; i++) {
        uint64_t value = rng_next(&rng) >> rng_below(&rng, 64);
        if (value == 0)
            continue;
        double exact = 65536 * log2((double)value);
        ck_assert_double_lt(fabs(exact - logarithm_of(value)), 4);
        int64_t exponent = (int64_t)rng_below(&rng, 62UL * 65536);
        double power = exp2((double)exponent / 65536);
        ck_assert_double_lt(fabs((double)logarithm_power(exponent) - power),
                            0.51 + power * 1e-8);
    }
    ck_assert_int_eq(logarithm_power(-65536), 1); /* a half, rounded */
    ck_assert_int_eq(logarithm_power(-65537), 0);
    ck_assert_int_eq(logarithm_power(-100L * 65536), 0);
    ck_assert_int_eq(logarithm_power(63L * 65536), INT64_MAX);
}
END_TEST

Suite *
suite_record(void)
{
    Suite *suite = suite_create("record");
    TCase *tests = suite_case(suite, "record", 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_signed_opens_as_it_was);
    tcase_add_test(tests, the_largest_record_fits);
    tcase_add_test(tests,
                   a_record_with_any_bit_flipped_is_refused_and_nothing_is_written);
    tcase_add_test(tests, a_record_cut_short_or_gone_on_is_refused);
    tcase_add_test(tests, a_record_of_another_swarm_or_secret_or_signer_is_refused);
    tcase_add_test(tests, links_out_of_order_are_refused);
    tcase_add_test(tests, whose_a_record_seems_to_be_shows_without_reading_it);
    tcase_add_test(tests, newer_is_incarnation_first_then_version);
    TCase *rates = suite_case(suite, "rate", 10);
    tcase_add_test(rates, a_rate_survives_its_code);
    tcase_add_test(rates, a_rate_code_is_sixteen_times_the_logarithm_of_kilobits);
    tcase_add_test(rates, logarithms_and_powers_agree_with_the_library);
    return suite;
}
