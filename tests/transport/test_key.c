#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *suite_key(void);

static struct err err;
static const uint8_t zeros[32];

static void
setup(void)
{
    err = (struct err){0};
    ck_assert_int_eq(key_setup(&err), 0);
}

/* A path of that name that nobody has used, in a folder of this process. */
static char *
in_folder(char path[PATH_BYTES_MAX], const char *name)
{
    static char folder[4096];
    static pid_t made_by;
    static int used;
    if (made_by != getpid()) {
        suite_folder(folder);
        made_by = getpid();
    }
    char part[32], inner[PATH_BYTES_MAX];
    snprintf(part, sizeof(part), "%d", used++);
    ck_assert_int_eq(file_make_folder(path_join(inner, folder, part), &err), 0);
    return path_join(path, inner, name);
}

static void
put(const char *path, const char *text, mode_t mode)
{
    ck_assert_int_eq(file_write(path, text, strlen(text), mode, &err), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
}

START_TEST(a_new_key_is_saved_and_found_again)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "node.key");
    bool made = false;
    struct key *first = key_open(path, &made, &err);
    ck_assert_msg(first != NULL, "%s", err.msg);
    ck_assert(made);
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    struct key *second = key_open(path, &made, &err);
    ck_assert_msg(second != NULL, "%s", err.msg);
    ck_assert(!made);
    ck_assert(id_equal(key_id(first), key_id(second)));
    ck_assert_mem_eq(key_curve_secret(first), key_curve_secret(second), KEY_CURVE_BYTES);
    key_free(first);
    key_free(second);
    struct key *third = key_open(path, NULL, &err);
    ck_assert_ptr_nonnull(third);
    key_free(third);
    key_free(NULL);
}
END_TEST

START_TEST(two_new_keys_differ)
{
    char path[PATH_BYTES_MAX], other[PATH_BYTES_MAX];
    struct key *first = key_open(in_folder(path, "a"), NULL, &err);
    struct key *second = key_open(in_folder(other, "b"), NULL, &err);
    ck_assert(first && second && !id_equal(key_id(first), key_id(second)));
    key_free(first);
    key_free(second);
}
END_TEST

START_TEST(a_key_file_that_others_may_read_is_refused)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "node.key");
    struct key *key = key_open(path, NULL, &err);
    ck_assert_ptr_nonnull(key);
    key_free(key);
    static const mode_t open_modes[] = {0640, 0604, 0620, 0666};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(chmod(path, open_modes[i]), 0);
        ck_assert_ptr_null(key_open(path, NULL, &err));
        ck_assert_int_eq(err.code, ERR_AUTH);
        ck_assert_ptr_nonnull(strstr(err.msg, path));
        ck_assert_ptr_nonnull(strstr(err.msg, "chmod 600"));
    }
}
END_TEST

START_TEST(a_damaged_key_file_is_named_and_kept)
{
    static const char *const texts[] = {
        "",
        "\n",
        "0123",
        "zz23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0\n",
        "0123456789abcdef0123456789abcdef 0123456789abcdef0123456789abcdef\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char path[PATH_BYTES_MAX];
        put(in_folder(path, "node.key"), texts[i], 0600);
        ck_assert_ptr_null(key_open(path, NULL, &err));
        ck_assert_int_eq(err.code, ERR_CORRUPT);
        ck_assert_ptr_nonnull(strstr(err.msg, path));
        struct buf kept = {0};
        ck_assert_int_eq(file_read(path, 1000, &kept, &err), 0);
        ck_assert_uint_eq(kept.len, strlen(texts[i]));
        buf_release(&kept);
    }
}
END_TEST

START_TEST(a_key_file_that_is_too_long_or_no_file_is_refused)
{
    char path[PATH_BYTES_MAX], huge[1000];
    memset(huge, ' ', sizeof(huge));
    huge[sizeof(huge) - 1] = '\0';
    put(in_folder(path, "node.key"), huge, 0600);
    ck_assert_ptr_null(key_open(path, NULL, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);

    char folder[PATH_BYTES_MAX];
    in_folder(folder, "folder");
    ck_assert_int_eq(file_make_folder(folder, &err), 0);
    ck_assert_ptr_null(key_open(folder, NULL, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);
}
END_TEST

START_TEST(a_key_that_cannot_be_saved_says_where)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "absent/node.key");
    ck_assert_ptr_null(key_open(path, NULL, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "absent/node.key"));
}
END_TEST

/* RFC 8032, section 7.1, test 1. */
START_TEST(a_seed_gives_the_public_key_and_signature_of_rfc_8032)
{
    struct id seed, expected;
    ck_assert(id_parse(&seed, "9d61b19deffd5a60ba844af492ec2cc4"
                              "4449c5697b326919703bac031cae7f60"));
    ck_assert(id_parse(&expected, "d75a980182b10ab7d54bfed3c964073a"
                                  "0ee172f3daa62325af021a68f707511a"));
    struct key *key = key_from_seed(seed.bytes);
    ck_assert(id_equal(key_id(key), &expected));
    uint8_t signature[KEY_SIGNATURE_BYTES];
    key_sign(key, "", 0, signature);
    static const uint8_t head[8] = {0xe5, 0x56, 0x43, 0x00, 0xc3, 0x60, 0xac, 0x72};
    ck_assert_mem_eq(signature, head, sizeof(head));
    ck_assert(key_verify(key_id(key), "", 0, signature));
    key_free(key);
}
END_TEST

START_TEST(a_signature_holds_for_its_bytes_and_signer_alone)
{
    struct key *key = key_from_seed(zeros);
    uint8_t one[32] = {1};
    struct key *other = key_from_seed(one);
    uint8_t signature[KEY_SIGNATURE_BYTES];
    uint8_t text[] = "stage 2 of 4";
    key_sign(key, text, sizeof(text), signature);
    ck_assert(key_verify(key_id(key), text, sizeof(text), signature));
    ck_assert(!key_verify(key_id(other), text, sizeof(text), signature));
    ck_assert(!key_verify(key_id(key), text, sizeof(text) - 1, signature));
    for (int bit = 0; bit < 8 * (int)sizeof(text); bit++) {
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert(!key_verify(key_id(key), text, sizeof(text), signature));
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (int bit = 0; bit < 8 * KEY_SIGNATURE_BYTES; bit++) {
        signature[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert(!key_verify(key_id(key), text, sizeof(text), signature));
        signature[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    key_free(key);
    key_free(other);
}
END_TEST

START_TEST(the_curve_key_follows_from_the_id)
{
    for (int i = 0; i < 50; i++) {
        uint8_t seed[32] = {(uint8_t)i, 7};
        struct key *key = key_from_seed(seed);
        uint8_t curve[KEY_CURVE_BYTES];
        ck_assert(key_curve_of(key_id(key), curve));
        ck_assert_mem_eq(curve, key_curve_public(key), KEY_CURVE_BYTES);
        ck_assert_mem_ne(curve, key_curve_secret(key), KEY_CURVE_BYTES);
        key_free(key);
    }
}
END_TEST

START_TEST(an_id_that_is_no_point_has_no_curve_key)
{
    uint8_t curve[KEY_CURVE_BYTES];
    memset(curve, 0xaa, sizeof(curve));
    struct id id = {{0}};
    ck_assert(!key_curve_of(&id, curve)); /* order 4 */
    id.bytes[0] = 1;
    ck_assert(!key_curve_of(&id, curve)); /* the neutral element */
    id.bytes[0] = 2;
    ck_assert(!key_curve_of(&id, curve)); /* not on the curve */
    memset(id.bytes, 0xff, ID_BYTES);
    ck_assert(!key_curve_of(&id, curve)); /* not canonical */
    for (size_t i = 0; i < sizeof(curve); i++)
        ck_assert_uint_eq(curve[i], 0xaa); /* untouched */
    uint8_t signature[KEY_SIGNATURE_BYTES] = {0};
    ck_assert(!key_verify(&id, "x", 1, signature));
}
END_TEST

START_TEST(a_secret_survives_its_file)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "swarm.secret");
    struct secret *made = secret_make();
    ck_assert_int_eq(secret_write(made, path, &err), 0);
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    struct secret *got = secret_read(path, &err);
    ck_assert_msg(got != NULL, "%s", err.msg);
    ck_assert_mem_eq(secret_join_public(made), secret_join_public(got), 32);
    ck_assert_mem_eq(secret_join_secret(made), secret_join_secret(got), 32);
    ck_assert_mem_eq(secret_joiner_public(made), secret_joiner_public(got), 32);
    ck_assert_mem_eq(secret_joiner_secret(made), secret_joiner_secret(got), 32);
    ck_assert(id_equal(secret_admit_id(made), secret_admit_id(got)));

    struct buf text = {0};
    ck_assert_int_eq(file_read(path, 1000, &text, &err), 0);
    buf_add(&text, " \t\r\n", 5);
    char padded[200];
    snprintf(padded, sizeof(padded), "\n  %s", (const char *)text.data);
    struct secret *parsed = secret_parse(padded, &err);
    ck_assert_ptr_nonnull(parsed);
    ck_assert(id_equal(secret_admit_id(made), secret_admit_id(parsed)));
    buf_release(&text);
    secret_free(made);
    secret_free(got);
    secret_free(parsed);
    secret_free(NULL);
}
END_TEST

START_TEST(a_secret_that_is_none_is_refused_and_never_printed)
{
    static const char *const texts[] = {
        "",
        "swordfish",
        "0x23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef00",
        "0123456789abcdef 0123456789abcdef0123456789abcdef0123456789abcde",
    };
    char path[PATH_BYTES_MAX];
    in_folder(path, "swarm.secret");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_ptr_null(secret_parse(texts[i], &err));
        ck_assert_int_eq(err.code, ERR_AUTH);
        ck_assert(!*texts[i] || !strstr(err.msg, texts[i]));
        put(path, texts[i], 0600);
        ck_assert_ptr_null(secret_read(path, &err));
        ck_assert_int_eq(err.code, ERR_AUTH);
        ck_assert(!*texts[i] || !strstr(err.msg, texts[i]));
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_ptr_null(secret_read(path, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
}
END_TEST

START_TEST(a_secret_file_that_others_may_read_is_refused)
{
    char path[PATH_BYTES_MAX];
    in_folder(path, "swarm.secret");
    struct secret *made = secret_make();
    ck_assert_int_eq(secret_write(made, path, &err), 0);
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_ptr_null(secret_read(path, &err));
    ck_assert_int_eq(err.code, ERR_AUTH);
    secret_free(made);
}
END_TEST

START_TEST(a_secret_is_sealed_for_one_node)
{
    struct secret *made = secret_make();
    struct key *to = key_from_seed((const uint8_t[32]){1});
    struct key *other = key_from_seed((const uint8_t[32]){2});
    uint8_t sealed[SECRET_SEALED_BYTES];
    ck_assert(secret_seal(made, key_id(to), sealed));
    struct secret *got = secret_unseal(sealed, to, &err);
    ck_assert_ptr_nonnull(got);
    ck_assert(id_equal(secret_admit_id(got), secret_admit_id(made)));
    ck_assert_ptr_null(secret_unseal(sealed, other, &err));
    ck_assert_int_eq(err.code, ERR_AUTH);
    sealed[70] ^= 1;
    ck_assert_ptr_null(secret_unseal(sealed, to, &err));
    struct id none;
    memset(&none, 0xff, sizeof(none));
    ck_assert(!secret_seal(made, &none, sealed));
    secret_free(made);
    secret_free(got);
    key_free(to);
    key_free(other);
}
END_TEST

/* Locked memory of this process in KiB, by the kernel. */
static long
locked_kib(void)
{
    struct buf text = {0};
    ck_assert_int_eq(file_read("/proc/self/status", 64 << 10, &text, &err), 0);
    buf_add(&text, "", 1);
    const char *at = strstr((char *)text.data, "VmLck:");
    ck_assert_ptr_nonnull(at);
    long kib = strtol(at + 6, NULL, 10);
    buf_release(&text);
    return kib;
}

/* AddressSanitizer takes mlock() for itself and does nothing. */
static bool
locking_shows(void)
{
    long before = locked_kib();
    size_t bytes = 1 << 16;
    void *page = alloc_arena(bytes);
    ck_assert_ptr_nonnull(page);
    mlock(page, bytes);
    bool shows = locked_kib() > before;
    munlock(page, bytes);
    arena_release(page, bytes);
    return shows;
}

START_TEST(secrets_lie_in_locked_memory_until_they_are_wiped)
{
    if (!locking_shows()) {
        suite_skip(__func__, "memory cannot be locked here, or that is not to be seen");
        return;
    }
    long before = locked_kib();
    struct secret *secret = secret_make();
    struct key *key = key_from_seed((const uint8_t[32]){3});
    if (!key_locked()) {
        suite_skip(__func__, "the limit of locked memory is too low here");
        secret_free(secret);
        key_free(key);
        return;
    }
    ck_assert_int_ge(locked_kib(), before + 8); /* a page or more each */
    secret_free(secret);
    key_free(key);
    ck_assert_int_le(locked_kib(), before);
}
END_TEST

START_TEST(a_guarded_process_leaves_no_core)
{
    ck_assert_int_eq(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 1);
    key_guard(true);
    ck_assert_int_eq(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
    key_guard(false);
    ck_assert_int_eq(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 1);
}
END_TEST

/* Other builds must derive the same keys, so the values are part of the protocol. */
START_TEST(what_follows_from_a_secret_is_fixed)
{
    struct secret *secret = secret_parse(
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", &err);
    ck_assert_ptr_nonnull(secret);
    char text[ID_TEXT_SIZE];
    struct id id;
    memcpy(id.bytes, secret_join_public(secret), ID_BYTES);
    ck_assert_str_eq(id_text(&id, text),
                     "02f99e3616c9e242b0078967b5d01de16f507026d315fe38220525eb3a246850");
    memcpy(id.bytes, secret_joiner_public(secret), ID_BYTES);
    ck_assert_str_eq(id_text(&id, text),
                     "111709f5cefdc45349a6a606c98e6c9314ae643be5c9bdd3911e14581a9e6b32");
    ck_assert_str_eq(id_text(secret_admit_id(secret), text),
                     "1ee0b1c3c9b790f9dc41253551b2e45b3a28ac644f795eb8b2337bd97810aefa");
    secret_free(secret);
}
END_TEST

START_TEST(an_admission_holds_for_one_node_of_one_swarm)
{
    struct secret *secret = secret_make();
    struct secret *other = secret_make();
    struct id swarm = {{1}}, node = {{2}};
    uint8_t signature[KEY_SIGNATURE_BYTES];
    secret_admit(secret, &swarm, &node, signature);
    ck_assert(secret_admitted(secret_admit_id(secret), &swarm, &node, signature));
    ck_assert(!secret_admitted(secret_admit_id(other), &swarm, &node, signature));
    ck_assert(!secret_admitted(secret_admit_id(secret), &node, &node, signature));
    ck_assert(!secret_admitted(secret_admit_id(secret), &swarm, &swarm, signature));
    ck_assert(!secret_admitted(secret_admit_id(secret), &node, &swarm, signature));
    signature[3] ^= 1;
    ck_assert(!secret_admitted(secret_admit_id(secret), &swarm, &node, signature));
    secret_free(secret);
    secret_free(other);
}
END_TEST

START_TEST(a_hash_is_blake2b_256_in_one_piece_or_many)
{
    struct id whole, pieces;
    char text[ID_TEXT_SIZE];
    key_hash("abc", 3, &whole);
    ck_assert_str_eq(id_text(&whole, text),
                     "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    key_hash(NULL, 0, &whole);
    ck_assert_str_eq(id_text(&whole, text),
                     "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");

    char data[1000];
    key_random(data, sizeof(data));
    key_hash(data, sizeof(data), &whole);
    for (size_t step = 1; step < sizeof(data); step += 37) {
        struct key_hash hash;
        key_hash_init(&hash);
        for (size_t at = 0; at < sizeof(data); at += step)
            key_hash_add(&hash, data + at,
                         at + step <= sizeof(data) ? step : sizeof(data) - at);
        key_hash_done(&hash, &pieces);
        ck_assert(id_equal(&whole, &pieces));
    }
}
END_TEST

START_TEST(what_is_sealed_for_one_node_is_read_by_it_alone_and_whole)
{
    struct key *from = key_from_seed((const uint8_t[32]){1});
    struct key *to = key_from_seed((const uint8_t[32]){2});
    struct key *carrier = key_from_seed((const uint8_t[32]){3});
    static const uint8_t nonce[KEY_NONCE_BYTES] = {7};
    uint8_t text[100] = "weights", sealed[100 + KEY_SEAL_BYTES], back[100] = {0};
    ck_assert(key_seal(from, key_id(to), nonce, text, sizeof(text), sealed));
    ck_assert(key_unseal(to, key_id(from), nonce, sealed, sizeof(sealed), back));
    ck_assert_mem_eq(text, back, sizeof(text));
    ck_assert(!key_unseal(carrier, key_id(from), nonce, sealed, sizeof(sealed), back));
    ck_assert(!key_unseal(to, key_id(carrier), nonce, sealed, sizeof(sealed), back));
    ck_assert(!key_unseal(to, key_id(from), nonce, sealed, KEY_SEAL_BYTES - 1, back));
    for (size_t i = 0; i < sizeof(sealed); i++) {
        sealed[i] ^= 1;
        ck_assert(!key_unseal(to, key_id(from), nonce, sealed, sizeof(sealed), back));
        sealed[i] ^= 1;
    }
    static const uint8_t other[KEY_NONCE_BYTES] = {8};
    ck_assert(!key_unseal(to, key_id(from), other, sealed, sizeof(sealed), back));
    key_free(from);
    key_free(to);
    key_free(carrier);
}
END_TEST

Suite *
suite_key(void)
{
    Suite *suite = suite_create("key");
    TCase *tests = suite_case(suite, "key", 20);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, what_is_sealed_for_one_node_is_read_by_it_alone_and_whole);
    tcase_add_test(tests, a_new_key_is_saved_and_found_again);
    tcase_add_test(tests, two_new_keys_differ);
    tcase_add_test(tests, a_key_file_that_others_may_read_is_refused);
    tcase_add_test(tests, a_damaged_key_file_is_named_and_kept);
    tcase_add_test(tests, a_key_file_that_is_too_long_or_no_file_is_refused);
    tcase_add_test(tests, a_key_that_cannot_be_saved_says_where);
    tcase_add_test(tests, a_seed_gives_the_public_key_and_signature_of_rfc_8032);
    tcase_add_test(tests, a_signature_holds_for_its_bytes_and_signer_alone);
    tcase_add_test(tests, the_curve_key_follows_from_the_id);
    tcase_add_test(tests, an_id_that_is_no_point_has_no_curve_key);
    tcase_add_test(tests, a_secret_survives_its_file);
    tcase_add_test(tests, a_secret_that_is_none_is_refused_and_never_printed);
    tcase_add_test(tests, a_secret_file_that_others_may_read_is_refused);
    tcase_add_test(tests, a_secret_is_sealed_for_one_node);
    tcase_add_test(tests, secrets_lie_in_locked_memory_until_they_are_wiped);
    tcase_add_test(tests, a_guarded_process_leaves_no_core);
    tcase_add_test(tests, what_follows_from_a_secret_is_fixed);
    tcase_add_test(tests, an_admission_holds_for_one_node_of_one_swarm);
    tcase_add_test(tests, a_hash_is_blake2b_256_in_one_piece_or_many);
    return suite;
}
