#include "node/report.h"
#include "transport/codec.h"

#include <string.h>

static const char purpose[] = "report1";

static void
signed_part(const struct id *swarm, const void *body, size_t len, struct buf *out)
{
    buf_add(out, purpose, sizeof(purpose));
    buf_add(out, swarm->bytes, ID_BYTES);
    buf_add(out, body, len);
}

static void
write_lineage(const struct lineage *lineage, struct buf *out)
{
    writer_array(out, 2);
    writer_uint(out, lineage->epoch);
    writer_uint(out, lineage->tag);
}

static void
read_lineage(struct reader *reader, struct lineage *lineage)
{
    reader_enter(reader, 2, 2);
    lineage->epoch = reader_uint(reader, UINT64_MAX);
    lineage->tag = reader_uint(reader, UINT64_MAX);
    reader_leave(reader);
}

static void
write_progress(const struct progress *progress, struct buf *out)
{
    writer_array(out, 10);
    writer_bool(out, progress->reported);
    writer_int(out, progress->applied);
    write_lineage(&progress->lineage, out);
    writer_bool(out, progress->normed);
    writer_bool(out, progress->prepared);
    write_lineage(&progress->prepared_in, out);
    writer_uint(out, progress->norm_bits);
    writer_uint(out, progress->samples_hash);
    writer_bool(out, progress->has_data);
    writer_array(out, (size_t)progress->holdings_count);
    for (int i = 0; i < progress->holdings_count; i++) {
        const struct holding *holding = &progress->holdings[i];
        writer_array(out, 6);
        writer_uint(out, holding->source);
        writer_int(out, holding->name.step);
        write_lineage(&holding->name.lineage, out);
        writer_int(out, holding->first_layer);
        writer_int(out, holding->layers);
        writer_uint(out, holding->samples_hash);
    }
}

static void
read_progress(struct reader *reader, struct progress *progress)
{
    reader_enter(reader, 10, 10);
    progress->reported = reader_bool(reader);
    progress->applied = reader_int(reader, -1, INT64_MAX / 2);
    read_lineage(reader, &progress->lineage);
    progress->normed = reader_bool(reader);
    progress->prepared = reader_bool(reader);
    read_lineage(reader, &progress->prepared_in);
    progress->norm_bits = reader_uint(reader, UINT64_MAX);
    progress->samples_hash = reader_uint(reader, UINT64_MAX);
    progress->has_data = reader_bool(reader);
    size_t count = reader_enter(reader, 0, HOLDINGS_MAX);
    progress->holdings_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        struct holding *holding = &progress->holdings[i];
        reader_enter(reader, 6, 6);
        holding->source = (enum state_source)reader_uint(reader, SOURCE_DISK);
        holding->name.step = reader_int(reader, 0, INT64_MAX / 2);
        read_lineage(reader, &holding->name.lineage);
        holding->first_layer = (int)reader_int(reader, 0, LAYERS_MAX - 1);
        holding->layers = (int)reader_int(reader, 1, LAYERS_MAX);
        holding->samples_hash = reader_uint(reader, UINT64_MAX);
        reader_leave(reader);
        if (holding->source == SOURCE_NONE)
            reader_fail(reader, "a holding without a source");
    }
    reader_leave(reader);
    reader_leave(reader);
}

static void
write_profile(const struct profile *profile, struct buf *out)
{
    writer_array(out, 2);
    writer_int(out, profile->correction_ppm);
    writer_array(out, (size_t)profile->count);
    for (int i = 0; i < profile->count; i++) {
        const struct profile_entry *entry = &profile->entries[i];
        writer_array(out, 1 + 3 * LAYER_KINDS);
        writer_int(out, entry->micro_batch);
        for (int kind = 0; kind < LAYER_KINDS; kind++) {
            writer_int(out, entry->forward_ns[kind]);
            writer_int(out, entry->backward_ns[kind]);
            writer_int(out, entry->update_ns[kind]);
        }
    }
}

static void
read_profile(struct reader *reader, struct profile *profile)
{
    const int64_t hour_ns = INT64_C(3600000000000);
    reader_enter(reader, 2, 2);
    profile->correction_ppm = reader_int(reader, 1000, INT64_C(1000000000));
    size_t count = reader_enter(reader, 0, PROFILE_ENTRIES_MAX);
    profile->count = (int)count;
    int before = 0;
    for (size_t i = 0; i < count; i++) {
        struct profile_entry *entry = &profile->entries[i];
        reader_enter(reader, 1 + 3 * LAYER_KINDS, 1 + 3 * LAYER_KINDS);
        entry->micro_batch = (int)reader_int(reader, before + 1, 1 << 20);
        before = entry->micro_batch > 0 ? entry->micro_batch : before;
        for (int kind = 0; kind < LAYER_KINDS; kind++) {
            entry->forward_ns[kind] = reader_int(reader, 0, hour_ns);
            entry->backward_ns[kind] = reader_int(reader, 0, hour_ns);
            entry->update_ns[kind] = reader_int(reader, 0, hour_ns);
        }
        reader_leave(reader);
    }
    reader_leave(reader);
    reader_leave(reader);
}

void
report_sign(const struct report *report, const void *record, size_t record_len,
            const struct key *key, const struct id *swarm, struct buf *out)
{
    struct buf body = {0}, words = {0};
    writer_array(&body, 8);
    writer_id(&body, &report->id);
    writer_uint(&body, report->term);
    writer_uint(&body, report->epoch);
    writer_id(&body, &report->job);
    writer_bytes(&body, record, record_len);
    write_progress(&report->progress, &body);
    write_profile(&report->profile, &body);
    writer_bool(&body, report->steady);

    uint8_t signature[KEY_SIGNATURE_BYTES];
    signed_part(swarm, body.data, body.len, &words);
    key_sign(key, words.data, words.len, signature);
    writer_array(out, 2);
    writer_bytes(out, body.data, body.len);
    writer_bytes(out, signature, sizeof(signature));
    buf_release(&body);
    buf_release(&words);
}

static int
read_body(const uint8_t *body, size_t len, const struct id *swarm,
          const struct id *admit_id, struct report *out, struct err *err)
{
    struct reader *reader = reader_open(body, len, err);
    if (!reader)
        return -1;
    reader_enter(reader, 8, 8);
    reader_id(reader, &out->id);
    out->term = reader_uint(reader, UINT64_MAX);
    out->epoch = reader_uint(reader, UINT64_MAX);
    reader_id(reader, &out->job);
    size_t record_len;
    const uint8_t *record = reader_bytes(reader, RECORD_BYTES_MAX, &record_len);
    read_progress(reader, &out->progress);
    read_profile(reader, &out->profile);
    out->steady = reader_bool(reader);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (record_open(record, record_len, swarm, admit_id, &out->record, err))
        return -1;
    if (!id_equal(&out->record.id, &out->id))
        return err_set(err, ERR_WIRE, "the record in it is another node's");
    return 0;
}

int
report_open(const void *bytes, size_t len, const struct id *swarm,
            const struct id *admit_id, struct report *out, struct err *err)
{
    struct report report = {0};
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "report");
    uint8_t signature[KEY_SIGNATURE_BYTES];
    size_t body_len;
    reader_enter(reader, 2, 2);
    const uint8_t *body = reader_bytes(reader, 64 << 10, &body_len);
    reader_fixed(reader, signature, sizeof(signature));
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "report");
    if (read_body(body, body_len, swarm, admit_id, &report, err))
        return err_wrap(err, "report");

    struct buf words = {0};
    signed_part(swarm, body, body_len, &words);
    bool right = key_verify(&report.id, words.data, words.len, signature);
    buf_release(&words);
    if (!right)
        return err_set(err, ERR_AUTH, "report: the signature is not its sender's");
    *out = report;
    return 0;
}
