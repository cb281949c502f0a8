#include "gossip/agree_state.h"
#include "gossip/digest.h"
#include "node/invite.h"
#include "node/node.h"
#include "node/view.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"
#include "transport/bulk_chunk.h"
#include "transport/detour.h"

#include <stdio.h>
#include <string.h>

Suite *suite_vectors(void);

/*
 * The bytes of tests/data/protocol.vectors were made from docs/protocol.md by a program
 * that shares nothing with this one (tests/second/vectors.py): what the page says and what
 * the program does are the same.
 */
static const uint64_t boot = (uint64_t)1 << 32;

/* Who and what the vectors are about; they come from the file, and every one of these is
 * held against the program by a test of its own. */
struct cast {
    struct buf file;
    struct key *a, *b, *token;
    struct secret *secret;
    struct id swarm, admission;
};

static int
digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The vector of this name, for the caller to release. */
static struct buf
vector(const struct cast *cast, const char *name)
{
    struct buf bytes = {0};
    size_t len = strlen(name);
    const char *at = (const char *)cast->file.data;
    while (at && (strncmp(at, name, len) != 0 || at[len] != ' '))
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    ck_assert_msg(at != NULL, "there is no vector %s", name);
    for (at += len + 1; *at != '\n'; at += 2) {
        uint8_t byte = (uint8_t)(digit(at[0]) << 4 | digit(at[1]));
        buf_add(&bytes, &byte, 1);
    }
    return bytes;
}

static void
assert_bytes(const struct cast *cast, const char *name, const void *bytes, size_t len)
{
    struct buf expected = vector(cast, name);
    ck_assert_msg(len == expected.len, "%s has %zu bytes, not %zu", name, expected.len,
                  len);
    for (size_t i = 0; i < len; i++)
        ck_assert_msg(((const uint8_t *)bytes)[i] == expected.data[i],
                      "%s differs at byte %zu", name, i);
    buf_release(&expected);
}

/* The same, of a buf that is then released. */
static void
assert_vector(const struct cast *cast, const char *name, struct buf *bytes)
{
    assert_bytes(cast, name, bytes->data, bytes->len);
    buf_release(bytes);
}

static void
assert_number(const struct cast *cast, const char *name, uint64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (56 - 8 * i));
    assert_bytes(cast, name, bytes, sizeof(bytes));
}

static struct id
vector_id(const struct cast *cast, const char *name)
{
    struct id id;
    struct buf bytes = vector(cast, name);
    ck_assert_uint_eq(bytes.len, ID_BYTES);
    memcpy(id.bytes, bytes.data, ID_BYTES);
    buf_release(&bytes);
    return id;
}

static struct key *
key_of(uint8_t seed_byte)
{
    uint8_t seed[32];
    memset(seed, seed_byte, sizeof(seed));
    return key_from_seed(seed);
}

static struct secret *
secret_of(char digit_before, char digit_after)
{
    struct err err;
    char text[65] = {0};
    for (int i = 0; i < 64; i += 2) {
        text[i] = digit_before;
        text[i + 1] = digit_after;
    }
    struct secret *secret = secret_parse(text, &err);
    ck_assert_ptr_nonnull(secret);
    return secret;
}

static struct cast
cast_open(void)
{
    struct err err;
    struct cast cast = {.a = key_of(0x0a), .b = key_of(0x0b), .token = key_of(0x70)};
    ck_assert_int_eq(file_read("tests/data/protocol.vectors", 1 << 20, &cast.file, &err),
                     0);
    buf_add(&cast.file, "", 1);
    cast.secret = secret_of('5', 'e');
    cast.admission = *secret_admit_id(cast.secret);
    cast.swarm = vector_id(&cast, "swarm");
    return cast;
}

static void
cast_close(struct cast *cast)
{
    key_free(cast->a);
    key_free(cast->b);
    key_free(cast->token);
    secret_free(cast->secret);
    buf_release(&cast->file);
}

/* ---- keys, frames, chunks ---- */

START_TEST(keys_and_what_follows_from_the_secret)
{
    struct cast cast = cast_open();
    struct err err;
    struct buf sealed = vector(&cast, "secret.sealed.b");
    assert_bytes(&cast, "a.id", key_id(cast.a), ID_BYTES);
    assert_bytes(&cast, "b.id", key_id(cast.b), ID_BYTES);
    assert_bytes(&cast, "token.id", key_id(cast.token), ID_BYTES);
    assert_bytes(&cast, "a.curve", key_curve_public(cast.a), KEY_CURVE_BYTES);
    assert_bytes(&cast, "b.curve", key_curve_public(cast.b), KEY_CURVE_BYTES);
    assert_bytes(&cast, "token.curve", key_curve_public(cast.token), KEY_CURVE_BYTES);
    assert_bytes(&cast, "join.public", secret_join_public(cast.secret), KEY_CURVE_BYTES);
    assert_bytes(&cast, "joiner.public", secret_joiner_public(cast.secret),
                 KEY_CURVE_BYTES);
    assert_bytes(&cast, "admission.id", &cast.admission, ID_BYTES);
    ck_assert_uint_eq(sealed.len, SECRET_SEALED_BYTES);
    struct secret *opened = secret_unseal(sealed.data, cast.b, &err);
    ck_assert_ptr_nonnull(opened);
    ck_assert(id_equal(secret_admit_id(opened), &cast.admission));
    assert_number(&cast, "mix", rng_mix(1, 2));
    assert_number(&cast, "sample", rng_permute(boot + 5, 2, 1000, 3));
    assert_number(&cast, "weight",
                  detour_weight(key_id(cast.b), key_id(cast.a), key_id(cast.token)));
    secret_free(opened);
    buf_release(&sealed);
    cast_close(&cast);
}
END_TEST

START_TEST(frames_of_both_kinds)
{
    struct cast cast = cast_open();
    struct err err;
    struct frame frame;
    static const uint8_t asks[] = {0x91, 0xc2};
    struct buf beat = vector(&cast, "beat"), bytes = {0};
    frame_pack_plain(key_id(cast.a), &cast.swarm, FRAME_BEAT, key_id(cast.b), 7,
                     beat.data, beat.len, &bytes);
    assert_vector(&cast, "frame.direct", &bytes);
    frame_pack(cast.a, &cast.swarm, FRAME_HELLO, key_id(cast.b), boot + 1, asks,
               sizeof(asks), &bytes);
    assert_vector(&cast, "frame.carried", &bytes);
    bytes = vector(&cast, "frame.carried");
    ck_assert_int_eq(frame_unpack(bytes.data, bytes.len, &frame, &err), 0);
    ck_assert(frame.proven && frame.kind == FRAME_HELLO && frame.sequence == boot + 1);
    buf_release(&bytes);
    buf_release(&beat);
    cast_close(&cast);
}
END_TEST

START_TEST(the_header_of_a_chunk)
{
    struct cast cast = cast_open();
    struct err err;
    struct chunk_header header;
    uint8_t again[CHUNK_HEADER_BYTES];
    struct buf lone = vector(&cast, "recovery.header"), bytes = vector(&cast, "chunk");
    struct id hash;
    key_hash(lone.data, lone.len, &hash);
    ck_assert_int_eq(chunk_decode(bytes.data, bytes.len, &header, &err), 0);
    ck_assert(header.type == CHUNK_DATA && header.channel == BULK_REDUCE &&
              header.flags == CHUNK_FOLLOWS);
    ck_assert_uint_eq(header.generation, 1);
    ck_assert_uint_eq(header.length, 5);
    ck_assert_uint_eq(header.epoch, boot + 3);
    ck_assert_uint_eq(header.plan_tag, id_prefix(&hash));
    ck_assert_uint_eq(header.tag, 40);
    ck_assert_uint_eq(header.total, 9);
    ck_assert_uint_eq(header.offset, 4);
    ck_assert_uint_eq(header.number, 6);
    chunk_encode(&header, again);
    ck_assert_mem_eq(again, bytes.data, sizeof(again));
    ck_assert_mem_eq(bytes.data + CHUNK_HEADER_BYTES, "hello", 5);
    buf_release(&lone);
    buf_release(&bytes);
    cast_close(&cast);
}
END_TEST

/* ---- gossip ---- */

static struct record
record_of(const struct cast *cast, const struct key *key, const char *name)
{
    struct record record = {.id = *key_id(key),
                            .incarnation = boot,
                            .version = 3,
                            .address = "127.0.0.1:7700",
                            .device = "cpu",
                            .threads = 2,
                            .memory_bytes = (uint64_t)1 << 33,
                            .epoch = 1,
                            .reach = REACH_ALL};
    snprintf(record.name, sizeof(record.name), "%s", name);
    snprintf(record.zone, sizeof(record.zone), "zone-%s", name);
    secret_admit(cast->secret, &cast->swarm, &record.id, record.admission);
    return record;
}

START_TEST(records_and_accusations)
{
    struct cast cast = cast_open();
    struct buf bytes = {0};
    struct record record = record_of(&cast, cast.a, "a");
    assert_bytes(&cast, "a.admission", record.admission, KEY_SIGNATURE_BYTES);
    record.links_count = 1;
    record.links[0] = (struct record_link){.peer = *key_id(cast.b),
                                           .rate = 330,
                                           .low = 318,
                                           .round_trip_us = 500,
                                           .confidence = 56,
                                           .method = LINK_PROBE,
                                           .age_s = 7,
                                           .curve = {0, 329, 327, 328}};
    record_sign(&record, cast.a, &cast.swarm, &bytes);
    assert_vector(&cast, "a.record", &bytes);
    record = record_of(&cast, cast.b, "b");
    record_sign(&record, cast.b, &cast.swarm, &bytes);
    assert_vector(&cast, "b.record", &bytes);
    struct accusation accusation = {.accuser = *key_id(cast.a), .kind = ACCUSE_SUSPECT};
    accusation_sign(&accusation, cast.a, &cast.swarm, key_id(cast.b), boot);
    assert_bytes(&cast, "a.accuses.b", accusation.signature, KEY_SIGNATURE_BYTES);
    cast_close(&cast);
}
END_TEST

START_TEST(a_message_of_gossip)
{
    struct cast cast = cast_open();
    struct err err;
    struct message message;
    struct buf record = vector(&cast, "a.record"), bytes = {0};
    struct record other = record_of(&cast, cast.b, "b");
    struct accusation accusation = {.accuser = *key_id(cast.a), .kind = ACCUSE_SUSPECT};
    secret_admit(cast.secret, &cast.swarm, &accusation.accuser, accusation.admission);
    accusation_sign(&accusation, cast.a, &cast.swarm, &other.id, boot);
    struct draft draft = {.nonce = UINT64_C(0x1122334455667788),
                          .subject = other.id,
                          .incarnation = boot,
                          .version = 3};
    draft_state(&draft, record.data, record.len, NULL, 0);
    draft_announce(&draft, &other, &accusation, 1);
    draft_ask(&draft, id_prefix(&other.id));
    draft_encode(&draft, &bytes);
    ck_assert_int_eq(message_decode(bytes.data, bytes.len, &message, &err), 0);
    message_release(&message);
    assert_vector(&cast, "message", &bytes);
    draft_release(&draft);
    buf_release(&record);
    cast_close(&cast);
}
END_TEST

START_TEST(digests_of_two_who_are_alive)
{
    struct cast cast = cast_open();
    struct table table = {0};
    struct record records[] = {record_of(&cast, cast.a, "a"),
                               record_of(&cast, cast.b, "b")};
    for (int i = 0; i < 2; i++)
        table_state(&table, table_add(&table, &records[i], "x", 1), MEMBER_ALIVE);
    struct digest digest;
    struct buf bytes = {0};
    const uint64_t bucket = 0, salt = UINT64_C(0x0123456789abcdef);
    digest_hash(&table, salt, 0, &digest);
    digest_encode(&digest, &bytes);
    assert_vector(&cast, "digest.hash", &bytes);
    digest_release(&digest);
    digest_list(&table, salt, 0, &bucket, 1, &digest);
    digest_encode(&digest, &bytes);
    assert_vector(&cast, "digest.list", &bytes);
    digest_release(&digest);
    table_release(&table);
    cast_close(&cast);
}
END_TEST

/* ---- agreement ---- */

static struct agree *
agree_of(const struct key *key, const struct buf *saved)
{
    struct err err;
    struct agree_options options = {.key = key, .incarnation = boot, .seed = 1};
    struct agree *agree = agree_new(&options, 1000, saved ? saved->data : NULL,
                                    saved ? saved->len : 0, &err);
    ck_assert_msg(agree != NULL, "%s", agree ? "" : err.msg);
    return agree;
}

/* The state that was persisted last. */
static void
assert_state(const struct cast *cast, const char *name, const struct effects *effects)
{
    const struct effect *last = NULL;
    for (size_t i = 0; i < effects->count; i++)
        if (effects->list[i].kind == EFFECT_PERSIST)
            last = &effects->list[i];
    ck_assert_ptr_nonnull(last);
    assert_bytes(cast, name, last->bytes, last->len);
}

/* Header, signed words and link of the newest decree. */
static void
assert_decree(const struct cast *cast, const struct agree *agree, const char *header,
              const char *words, const char *link)
{
    struct buf bytes = {0};
    const struct decree *decree = agree_decree(agree);
    decree_header_encode(decree, &bytes);
    assert_vector(cast, header, &bytes);
    accept_encode(decree, agree_decree_hash(agree), agree->certificate.term, &bytes);
    assert_vector(cast, words, &bytes);
    link_encode(decree, &agree->certificate, &bytes);
    assert_vector(cast, link, &bytes);
}

START_TEST(a_founding_and_the_epoch_after_it)
{
    struct cast cast = cast_open();
    struct err err;
    struct effects effects = {0};
    struct view empty = {0};
    struct buf body = {0}, bytes = {0}, second = vector(&cast, "second.view");
    uint8_t nonce[ID_BYTES];
    memset(nonce, 0x4e, sizeof(nonce));
    policy_found(&empty.policy, &cast.admission);
    view_encode(&empty, &body);
    assert_bytes(&cast, "founding.view", body.data, body.len);
    struct agree *agree = agree_of(cast.a, NULL);
    agree_found(agree, 1000, boot, nonce, body.data, body.len, &effects);
    assert_bytes(&cast, "swarm", agree_decree_hash(agree), ID_BYTES);
    assert_decree(&cast, agree, "founding.header", "founding.accept", "founding.link");
    struct decree_member members[] = {{*key_id(cast.a), boot}, {*key_id(cast.b), boot}};
    ck_assert_int_eq(agree_propose(agree, 1100, CAUSE_JOIN, members, 2, NULL, 0,
                                   second.data, second.len, &effects, &err),
                     0);
    assert_decree(&cast, agree, "second.header", "second.accept", "second.link");
    agree_export(agree, &bytes);
    assert_vector(&cast, "commit", &bytes);
    agree_free(agree);
    effects_release(&effects);
    buf_release(&second);
    buf_release(&body);
    cast_close(&cast);
}
END_TEST

static void
sign_recovery(void *arg, const void *bytes, size_t len,
              uint8_t signature[KEY_SIGNATURE_BYTES])
{
    const struct cast *cast = arg;
    assert_bytes(cast, "recovery.signs", bytes, len);
    secret_sign(cast->secret, bytes, len, signature);
}

START_TEST(a_recovery)
{
    struct cast cast = cast_open();
    struct err err;
    struct effects effects = {0};
    struct buf commit = vector(&cast, "commit"), body = vector(&cast, "founding.view");
    struct buf bytes = {0};
    struct agree *agree = agree_of(cast.b, NULL);
    ck_assert_int_eq(agree_import(agree, 1000, commit.data, commit.len, &effects, &err),
                     0);
    agree_authority(agree, &cast.admission, 1);
    struct decree_member lone = {*key_id(cast.b), boot};
    ck_assert_int_eq(agree_recover(agree, 1100, &lone, 1, body.data, body.len,
                                   sign_recovery, &cast, &effects, &err),
                     0);
    assert_decree(&cast, agree, "recovery.header", "recovery.signs", "recovery.link");
    assert_state(&cast, "b.state", &effects);
    agree_export(agree, &bytes);
    assert_vector(&cast, "recovery.commit", &bytes);
    agree_free(agree);
    effects_release(&effects);
    buf_release(&commit);
    buf_release(&body);
    cast_close(&cast);
}
END_TEST

START_TEST(the_durable_state)
{
    struct cast cast = cast_open();
    struct effects effects = {0};
    struct buf saved = vector(&cast, "a.state");
    struct id third = vector_id(&cast, "third.hash");
    struct agree *agree = agree_of(cast.a, &saved);
    ck_assert_uint_eq(agree->promised, 3);
    ck_assert(id_equal(&agree->voted, key_id(cast.b)));
    ck_assert_uint_eq(agree->accepted_term, 2);
    ck_assert(id_equal(&agree->accepted_hash, &third));
    ck_assert_uint_eq(agree_decree(agree)->epoch, 2);
    agree_persist(agree, &effects);
    assert_state(&cast, "a.state", &effects);
    agree_free(agree);
    effects_release(&effects);
    buf_release(&saved);
    cast_close(&cast);
}
END_TEST

/* Of two voters a is the first, and so a quorum: above its promise it is elected, proposes
 * what it accepted, and asks for votes again. */
START_TEST(who_comes_back_with_that_state_adopts_what_it_accepted)
{
    struct cast cast = cast_open();
    struct effects effects = {0};
    struct buf saved = vector(&cast, "a.state");
    struct id third = vector_id(&cast, "third.hash");
    struct agree *agree = agree_of(cast.a, &saved);
    for (int64_t now_ms = 1050; agree_decree(agree)->epoch < 3; now_ms += 50) {
        ck_assert_int_lt(now_ms, 5000);
        agree_tick(agree, now_ms, &effects);
    }
    ck_assert(id_equal(agree_decree_hash(agree), &third));
    ck_assert_uint_eq(agree->certificate.term, 4);
    ck_assert_uint_eq(agree->accepted_term, 0);
    ck_assert(agree_idle(agree));
    ck_assert_uint_eq(agree->promised, 5);
    agree_free(agree);
    effects_release(&effects);
    buf_release(&saved);
    cast_close(&cast);
}
END_TEST

START_TEST(what_elections_say)
{
    struct cast cast = cast_open();
    struct err err;
    struct buf bytes = {0}, decree = vector(&cast, "third.decree"), read = {0};
    struct id second = vector_id(&cast, "second.hash");
    beat_encode(&(struct beat){.term = 1, .epoch = 2, .hash = second}, &bytes);
    assert_vector(&cast, "beat", &bytes);
    beat_reply_encode(&(struct beat_reply){.term = 2, .epoch = 2}, &bytes);
    assert_vector(&cast, "beat_reply", &bytes);
    vote_ask_encode(&(struct vote_ask){.term = 2, .epoch = 2, .hash = second}, &bytes);
    assert_vector(&cast, "vote_ask", &bytes);
    struct vote_reply reply = {.term = 3,
                               .my_term = 3,
                               .my_epoch = 2,
                               .accepted_term = 2,
                               .accepted = decree.data,
                               .accepted_len = decree.len};
    vote_reply_encode(&reply, &bytes);
    assert_vector(&cast, "vote_reply", &bytes);
    read = vector(&cast, "vote_refused");
    ck_assert_int_eq(vote_reply_decode(read.data, read.len, &reply, &err), 0);
    ck_assert(reply.reason == REASON_STALE_TERM && reply.my_term == 7);
    vote_reply_encode(&reply, &bytes);
    assert_vector(&cast, "vote_refused", &bytes);
    buf_release(&read);
    buf_release(&decree);
    cast_close(&cast);
}
END_TEST

START_TEST(what_is_said_of_a_proposal)
{
    struct cast cast = cast_open();
    struct err err;
    struct decree third;
    struct buf bytes = {0}, decree = vector(&cast, "third.decree");
    struct id hash = vector_id(&cast, "third.hash");
    ck_assert_int_eq(decree_decode(decree.data, decree.len, &third, &err), 0);
    propose_encode(
        &(struct propose){
            .term = 2, .adopted = true, .decree = decree.data, .decree_len = decree.len},
        &bytes);
    assert_vector(&cast, "propose", &bytes);
    struct accept accept = {.term = 2, .epoch = 3, .hash = hash};
    accept_sign(cast.a, &third, &hash, 2, accept.signature);
    accept_message_encode(&accept, &bytes);
    assert_vector(&cast, "accept", &bytes);
    reject_encode(&(struct reject){.term = 2,
                                   .epoch = 3,
                                   .hash = hash,
                                   .reason = REASON_WRONG,
                                   .my_term = 2,
                                   .my_epoch = 2,
                                   .text = "its voters do not follow"},
                  &bytes);
    assert_vector(&cast, "reject", &bytes);
    fetch_encode(&(struct fetch){.epoch = 2}, &bytes);
    assert_vector(&cast, "fetch", &bytes);
    decree_release(&third);
    buf_release(&decree);
    cast_close(&cast);
}
END_TEST

/* ---- views ---- */

START_TEST(reports)
{
    static const char *const names[] = {"a.report", "report.run"};
    struct cast cast = cast_open();
    struct err err;
    struct buf record = vector(&cast, "a.record");
    struct id job = vector_id(&cast, "job.id");
    for (int i = 0; i < 2; i++) {
        struct buf bytes = vector(&cast, names[i]), again = {0};
        struct report report;
        ck_assert_int_eq(report_open(bytes.data, bytes.len, &cast.swarm, &cast.admission,
                                     &report, &err),
                         0);
        ck_assert_uint_eq(report.term, (uint64_t)i + 1);
        ck_assert(i == 0 ||
                  (id_equal(&report.job, &job) && report.progress.applied == 40 &&
                   report.progress.lineage.tag == 77 &&
                   report.progress.holdings_count == 2 &&
                   report.profile.entries[1].update_ns[2] == 7));
        report_sign(&report, record.data, record.len, cast.a, &cast.swarm, &again);
        assert_vector(&cast, names[i], &again);
        buf_release(&bytes);
    }
    buf_release(&record);
    cast_close(&cast);
}
END_TEST

START_TEST(views_and_their_jobs)
{
    static const char *const names[] = {"founding.view", "second.view", "third.view"};
    struct cast cast = cast_open();
    struct err err;
    for (int i = 0; i < 3; i++) {
        struct buf bytes = vector(&cast, names[i]), again = {0};
        struct view view;
        int failed =
            view_decode(bytes.data, bytes.len, &cast.swarm, &cast.admission, &view, &err);
        ck_assert_msg(failed == 0, "%s: %s", names[i], failed ? err.msg : "");
        ck_assert_uint_eq(view.reports_count, i == 0 ? 0 : 2);
        ck_assert_int_eq(view.planned, i == 2);
        if (i == 2) {
            int a = view_node(&view, key_id(cast.a));
            ck_assert_int_eq(view.plan.stages[0].nodes[0], a);
            ck_assert_int_eq(view.plan.stages[1].nodes[0], 1 - a);
            job_encode(&view.job, &again);
            assert_vector(&cast, "job", &again);
            struct id data = view.job.train.data;
            job_bind(&view.job, &data, 4096, &(struct id){{0}});
            assert_bytes(&cast, "job.id", &view.job.train.id, ID_BYTES);
        }
        view_encode(&view, &again);
        assert_vector(&cast, names[i], &again);
        view_release(&view);
        buf_release(&bytes);
    }
    cast_close(&cast);
}
END_TEST

START_TEST(a_change_of_the_policy)
{
    struct cast cast = cast_open();
    struct err err;
    struct buf bytes = {0}, rotated = vector(&cast, "rotated.view"), again = {0};
    struct secret *next = secret_of('5', 'f');
    struct policy_request request = {.from = *key_id(cast.a),
                                     .version = 1,
                                     .op = POLICY_ROTATE,
                                     .admit_id = *secret_admit_id(next)};
    policy_request_sign(&request, cast.a, &cast.swarm, &bytes);
    assert_bytes(&cast, "rotate", bytes.data, bytes.len);
    struct policy policy;
    struct view view;
    policy_found(&policy, &cast.admission);
    ck_assert_int_eq(
        policy_apply(&policy, &request, &cast.swarm, bytes.data, bytes.len, &err), 0);
    ck_assert_int_eq(
        view_decode(rotated.data, rotated.len, &cast.swarm, &cast.admission, &view, &err),
        0);
    policy_release(&view.policy);
    view.policy = policy;
    view_encode(&view, &again);
    assert_vector(&cast, "rotated.view", &again);
    view_release(&view);
    secret_free(next);
    buf_release(&bytes);
    buf_release(&rotated);
    cast_close(&cast);
}
END_TEST

/* ---- joining ---- */

static void
assert_request(const struct cast *cast, const char *name, bool invited)
{
    struct err err;
    struct buf bytes = vector(cast, name), words = {0};
    struct reader *reader = reader_open(bytes.data, bytes.len, &err);
    struct id swarm, id, invite = {{0}};
    char address[ADDRESS_BYTES_MAX + 8];
    uint8_t signature[KEY_SIGNATURE_BYTES], proof[KEY_SIGNATURE_BYTES];
    ck_assert_ptr_nonnull(reader);
    reader_enter(reader, invited ? 7 : 5, invited ? 7 : 5);
    ck_assert_uint_eq(reader_uint(reader, UINT64_MAX), 2);
    reader_id(reader, &swarm);
    reader_id(reader, &id);
    reader_text(reader, address, sizeof(address));
    reader_fixed(reader, signature, sizeof(signature));
    if (invited) {
        reader_id(reader, &invite);
        reader_fixed(reader, proof, sizeof(proof));
    }
    reader_leave(reader);
    ck_assert_int_eq(reader_close(&reader, &err), 0);
    seed_join_words(&swarm, &id, address, &words);
    ck_assert(key_verify(&id, words.data, words.len, signature));
    ck_assert(invited ? id_equal(&swarm, &cast->swarm) : id_empty(&swarm));
    ck_assert(!invited || (id_equal(&invite, key_id(cast->token)) &&
                           policy_proves(&invite, &swarm, &id, proof)));
    buf_release(&words);
    buf_release(&bytes);
}

START_TEST(requests_to_join_and_an_invite)
{
    struct cast cast = cast_open();
    struct err err;
    assert_request(&cast, "join.request", false);
    assert_request(&cast, "join.invited", true);
    struct buf bytes = vector(&cast, "invite");
    struct invite invite;
    char text[INVITE_TEXT_SIZE];
    buf_add(&bytes, "", 1);
    ck_assert_int_eq(invite_parse((const char *)bytes.data, &invite, &err), 0);
    ck_assert(id_equal(&invite.swarm, &cast.swarm));
    ck_assert_mem_eq(invite.door, secret_join_public(cast.secret), KEY_CURVE_BYTES);
    struct key *key = key_from_seed(invite.token);
    ck_assert(id_equal(key_id(key), key_id(cast.token)));
    invite_text(&invite, text);
    ck_assert_str_eq(text, (const char *)bytes.data);
    key_free(key);
    buf_release(&bytes);
    cast_close(&cast);
}
END_TEST

Suite *
suite_vectors(void)
{
    Suite *suite = suite_create("vectors");
    TCase *wire = suite_case(suite, "wire", 20);
    tcase_add_test(wire, keys_and_what_follows_from_the_secret);
    tcase_add_test(wire, frames_of_both_kinds);
    tcase_add_test(wire, the_header_of_a_chunk);
    tcase_add_test(wire, records_and_accusations);
    tcase_add_test(wire, a_message_of_gossip);
    tcase_add_test(wire, digests_of_two_who_are_alive);
    tcase_add_test(wire, requests_to_join_and_an_invite);
    TCase *agreement = suite_case(suite, "agreement", 20);
    tcase_add_test(agreement, a_founding_and_the_epoch_after_it);
    tcase_add_test(agreement, a_recovery);
    tcase_add_test(agreement, the_durable_state);
    tcase_add_test(agreement, who_comes_back_with_that_state_adopts_what_it_accepted);
    tcase_add_test(agreement, what_elections_say);
    tcase_add_test(agreement, what_is_said_of_a_proposal);
    TCase *views = suite_case(suite, "views", 20);
    tcase_add_test(views, reports);
    tcase_add_test(views, views_and_their_jobs);
    tcase_add_test(views, a_change_of_the_policy);
    return suite;
}
