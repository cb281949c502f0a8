#include "node/reached.h"
#include "transport/base/file.h"
#include "transport/codec.h"

#include <string.h>

static const char file_name[] = "run.state";

void
reached_load(struct reached *reached, const char *folder)
{
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    struct err err;
    struct reached read = {0};
    *reached = read;
    if (file_read(path_join(path, folder, file_name), 256, &bytes, &err) == 0) {
        struct reader *reader = reader_open(bytes.data, bytes.len, &err);
        if (reader) {
            reader_enter(reader, 3, 3);
            reader_id(reader, &read.job);
            read.step = reader_int(reader, 0, INT64_MAX / 2);
            read.samples_hash = reader_uint(reader, UINT64_MAX);
            reader_leave(reader);
            if (reader_close(&reader, &err) == 0)
                *reached = read;
        }
    }
    buf_release(&bytes);
    reached->kept_step = reached->step;
}

int
reached_note(struct reached *reached, int64_t now_ms, const char *folder,
             const struct id *job, int64_t step, uint64_t samples_hash, struct err *err)
{
    bool other = !id_equal(&reached->job, job);
    reached->job = *job;
    reached->step = step;
    reached->samples_hash = samples_hash;
    if (!other && now_ms - reached->kept_ms < REACHED_KEEP_MS)
        return 0;
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    writer_array(&bytes, 3);
    writer_id(&bytes, job);
    writer_int(&bytes, step);
    writer_uint(&bytes, samples_hash);
    int result =
        file_write(path_join(path, folder, file_name), bytes.data, bytes.len, 0600, err);
    buf_release(&bytes);
    reached->kept_ms = now_ms;
    if (result == 0)
        reached->kept_step = step;
    return result;
}

void
reached_fill(const struct reached *reached, const struct id *job,
             struct progress *progress)
{
    if (progress->applied >= 0 || reached->step == 0 || !id_equal(&reached->job, job))
        return;
    progress->applied = reached->step;
    progress->samples_hash = reached->samples_hash;
    progress->prepared = progress->normed = false;
    progress->lineage = (struct lineage){0};
}
