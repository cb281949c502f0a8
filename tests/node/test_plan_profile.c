#include "node/plan/profile.h"
#include "tests/node/plan_world.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_plan_profile(void);

static const char good[] =
    "{\"format\": \"flotilla profile 1\", \"model\": \"m\", \"device\": \"d\", "
    "\"layers\": 2, \"tokens\": 64, \"element_bytes\": 4,\n"
    "\"sizes\": [{\"tp\": 1, \"parameters\": [5, 6], \"output_elements\": [7, 8], "
    "\"kept_elements\": [9, 10], \"update_parameters\": 77}],\n"
    "\"times\": [{\"tp\": 1, \"micro_batch\": 4, \"forward_s\": [0.5, 1e-3], "
    "\"backward_s\": [1, 2], \"update_s\": [0, 0]},\n"
    "{\"tp\": 1, \"micro_batch\": 2, \"precision\": \"fp32\", \"forward_s\": [0.25, "
    "5e-4], \"backward_s\": [1, 2], \"update_s\": [0, 0]}]}";

static struct profile_file profile;
static struct err err;

static void
refused_with(const char *piece, const char *other, const char *why)
{
    char text[2048];
    plan_world_text(good, piece, other, text, sizeof(text));
    err = (struct err){0};
    ck_assert_msg(profile_file_parse("p.json", text, strlen(text), &profile, &err) == -1,
                  "taken: %s", text);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strncmp(err.msg, "p.json", 6) == 0 && strstr(err.msg, why),
                  "\"%s\" does not say \"%s\"", err.msg, why);
}

START_TEST(what_is_written_is_read_again)
{
    ck_assert_msg(profile_file_parse("p.json", good, strlen(good), &profile, &err) == 0,
                  "%s", err.msg);
    ck_assert_str_eq(profile.model, "m");
    ck_assert_int_eq(profile.sizes[0].kept_elements[1], 10);
    ck_assert_int_eq(profile.sizes[0].update_parameters, 77);
    ck_assert_int_eq(profile.times[0].micro_batch, 2); /* in order */
    ck_assert(profile.times[1].forward_s[1] == 1e-3);
    struct buf first = {0}, second = {0};
    profile_file_write(&profile, &first);
    profile_file_release(&profile);
    ck_assert_msg(profile_file_parse("p.json", (const char *)first.data, first.len,
                                     &profile, &err) == 0,
                  "%s", err.msg);
    profile_file_write(&profile, &second);
    ck_assert(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    profile_file_release(&profile);
    buf_release(&first);
    buf_release(&second);
}
END_TEST

START_TEST(holes_are_named)
{
    refused_with("[5, 6]", "[5]", "sizes[0]: parameters has 1 entries, it must have 2");
    refused_with("[0.5, 1e-3]", "[0.5, null]", "times[0]: forward_s[1] must be a number");
    refused_with("\"kept_elements\": [9, 10], ", "",
                 "sizes[0]: \"kept_elements\" is missing");
    refused_with("\"times\": [{\"tp\": 1", "\"times\": [{\"tp\": 2",
                 "times has tp 2, of which sizes has nothing");
    refused_with("\"micro_batch\": 2", "\"micro_batch\": 4", "tp 1, micro_batch 4 twice");
    refused_with("\"layers\": 2, ", "", "\"layers\" is missing");
}
END_TEST

START_TEST(typos_and_wrong_values_are_named)
{
    refused_with("\"tokens\"", "\"token\"",
                 "unknown key \"token\"; did you mean \"tokens\"?");
    refused_with("\"forward_s\"", "\"forward\"",
                 "times[0]: unknown key \"forward\"; did you mean \"forward_s\"?");
    refused_with("[0.5, 1e-3]", "[-0.5, 1e-3]", "forward_s[0] is -0.5");
    refused_with("[9, 10]", "[9, 1e3]", "kept_elements[1] must be a whole number");
    refused_with("\"layers\": 2", "\"layers\": 100000", "layers is 100000");
    refused_with("profile 1", "profile 2", "this version reads \"flotilla profile 1\"");
    refused_with("\"fp32\"", "\"fp8\"", "precision is \"fp8\"; use fp32 or bf16");
    refused_with("{\"format\"", "[{\"format\"", "not valid JSON");
}
END_TEST

Suite *
suite_plan_profile(void)
{
    Suite *suite = suite_create("plan_profile");
    TCase *tc = suite_case(suite, "profiles", 10);
    tcase_add_test(tc, what_is_written_is_read_again);
    tcase_add_test(tc, holes_are_named);
    tcase_add_test(tc, typos_and_wrong_values_are_named);
    return suite;
}
