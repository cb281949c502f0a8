#include "tests/suite.h"
#include "transport/bulk_chunk.h"

START_TEST(a_header_survives_the_wire_and_a_changed_one_does_not_pass)
{
    struct chunk_header header = {.type = CHUNK_DATA,
                                  .channel = BULK_REDUCE,
                                  .generation = 0xfedcba98,
                                  .length = 5,
                                  .epoch = 0x0102030405060708,
                                  .plan_tag = 0x1112131415161718,
                                  .tag = 0x2122232425262728,
                                  .total = 100,
                                  .offset = 95,
                                  .number = 0x3132333435363738};
    uint8_t frame[CHUNK_HEADER_BYTES + 5] = {0};
    struct chunk_header back;
    struct err err = {0};
    chunk_encode(&header, frame);
    ck_assert_int_eq(chunk_decode(frame, sizeof(frame), &back, &err), 0);
    uint8_t again[CHUNK_HEADER_BYTES];
    chunk_encode(&back, again);
    ck_assert_mem_eq(frame, again, sizeof(again));
    ck_assert_uint_eq(frame[16], 8); /* little-endian */
    for (size_t bytes = 0; bytes < sizeof(frame); bytes++)
        ck_assert_int_eq(chunk_decode(frame, bytes, &back, &err), -1);
    ck_assert_int_eq(err.code, ERR_WIRE);
    static const int checked[] = {0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 15, 48, 55};
    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
        frame[checked[i]] ^= 0x80;
        ck_assert_msg(chunk_decode(frame, sizeof(frame), &back, &err) == -1, "byte %d",
                      checked[i]);
        frame[checked[i]] ^= 0x80;
    }
}
END_TEST

START_TEST(types_do_not_borrow_each_others_fields)
{
    static const struct chunk_header bad[] = {
        {.type = CHUNK_DATA, .flags = 1},
        {.type = CHUNK_DATA, .flags = CHUNK_LAST},
        {.type = CHUNK_DATA, .flags = CHUNK_ENOUGH},
        {.type = CHUNK_DATA, .total = 5},
        {.type = CHUNK_DATA, .offset = 5, .total = 4},
        {.type = CHUNK_DATA, .offset = UINT64_MAX, .total = UINT64_MAX},
        {.type = CHUNK_CREDIT, .total = 5},
        {.type = CHUNK_CREDIT, .offset = 5},
        {.type = CHUNK_CREDIT, .tag = 5},
        {.type = CHUNK_CREDIT, .flags = 2},
        {.type = CHUNK_CREDIT, .flags = CHUNK_ENOUGH},
        {.type = CHUNK_HELLO, .number = 1},
        {.type = CHUNK_HELLO, .channel = BULK_COPY},
        {.type = CHUNK_HELLO, .flags = CHUNK_FOLLOWS},
    };
    static const struct chunk_header good[] = {
        {.type = CHUNK_DATA, .flags = CHUNK_FOLLOWS},
        {.type = CHUNK_DATA, .flags = CHUNK_FOLLOWS | CHUNK_LAST, .channel = BULK_PROBE},
        {.type = CHUNK_CREDIT, .flags = CHUNK_ENOUGH, .channel = BULK_PROBE, .number = 9},
        {.type = CHUNK_HELLO, .generation = 1, .epoch = 2, .plan_tag = 3},
    };
    uint8_t frame[CHUNK_HEADER_BYTES];
    struct chunk_header back;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {0};
        chunk_encode(&bad[i], frame);
        ck_assert_msg(chunk_decode(frame, sizeof(frame), &back, &err) == -1, "case %zu",
                      i);
        ck_assert_int_eq(err.code, ERR_WIRE);
        ck_assert(err.msg[0] != '\0');
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct err err = {0};
        chunk_encode(&good[i], frame);
        ck_assert_msg(chunk_decode(frame, sizeof(frame), &back, &err) == 0, "%s",
                      err.msg);
    }
}
END_TEST

START_TEST(a_payload_is_a_chunk_at_most)
{
    struct chunk_header header = {
        .type = CHUNK_DATA, .length = CHUNK_BYTES + 1, .total = CHUNK_BYTES + 1};
    static uint8_t frame[CHUNK_HEADER_BYTES + CHUNK_BYTES + 1];
    struct chunk_header back;
    struct err err = {0};
    chunk_encode(&header, frame);
    ck_assert_int_eq(chunk_decode(frame, sizeof(frame), &back, &err), -1);
    header.length--;
    chunk_encode(&header, frame);
    ck_assert_int_eq(chunk_decode(frame, sizeof(frame) - 1, &back, &err), 0);
}
END_TEST

Suite *suite_bulk_chunk(void);

Suite *
suite_bulk_chunk(void)
{
    Suite *suite = suite_create("bulk_chunk");
    TCase *header = suite_case(suite, "header", 10);
    tcase_add_test(header, a_header_survives_the_wire_and_a_changed_one_does_not_pass);
    tcase_add_test(header, types_do_not_borrow_each_others_fields);
    tcase_add_test(header, a_payload_is_a_chunk_at_most);
    return suite;
}
