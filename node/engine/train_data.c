#include "node/engine/train_parts.h"
#include "transport/base/file.h"
#include "transport/base/log.h"
#include "transport/base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Above every tag of a layer. */
static const uint64_t data_tag = UINT64_MAX;

static void
data_path(const struct train *train, const struct id *data, const char *suffix,
          char path[PATH_BYTES_MAX])
{
    char folder[PATH_BYTES_MAX], name[ID_TEXT_SIZE + 8], text[ID_TEXT_SIZE];
    path_join(folder, train->folder, "data");
    snprintf(name, sizeof(name), "%s%s", id_text(data, text), suffix);
    path_join(path, folder, name);
}

bool
data_present(struct train *train, const struct id *data)
{
    char path[PATH_BYTES_MAX];
    struct stat about;
    data_path(train, data, "", path);
    if (id_empty(data) || stat(path, &about))
        return false;
    /* What was refused is not read again before it has changed. */
    if (id_equal(&train->refused, data) && train->refused_size == about.st_size &&
        train->refused_at.tv_sec == about.st_mtim.tv_sec &&
        train->refused_at.tv_nsec == about.st_mtim.tv_nsec)
        return false;
    train->refused = *data;
    train->refused_size = about.st_size;
    train->refused_at = about.st_mtim;
    struct id hash;
    int64_t bytes;
    struct err err;
    if (data_hash(path, &hash, &bytes, &err)) {
        log_warn("engine", "data set not usable reason=\"%s\"", err.msg);
        return false;
    }
    if (!id_equal(&hash, data)) {
        log_warn("engine", "data set \"%s\" has another content than its name says",
                 path);
        return false;
    }
    memset(&train->refused, 0, sizeof(train->refused));
    return true;
}

static int
wanted_from(const struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    return epoch->recovery.data_from ? epoch->recovery.data_from[epoch->self] : -1;
}

int
data_post(struct train *train, struct handover *handover, struct err *err)
{
    const struct train_job *job = &train->epoch->job;
    int from = wanted_from(train);
    if (from < 0 || from == train->epoch->self)
        return 0;
    char folder[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
    path_join(folder, train->folder, "data");
    data_path(train, &job->data, ".new", path);
    if (file_make_folder(folder, err))
        return -1;
    handover->data_file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (handover->data_file < 0)
        return err_set_errno(err, "could not make \"%s\"", path);
    /* Reserved first: a full disk is an error here, not a signal later. */
    errno = posix_fallocate(handover->data_file, 0, (off_t)job->data_bytes);
    if (errno) {
        err_set_errno(err, "no room for the data set, %lld bytes, at \"%s\"",
                      (long long)job->data_bytes, path);
        unlink(path);
        return -1;
    }
    void *map = mmap(NULL, (size_t)job->data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                     handover->data_file, 0);
    if (map == MAP_FAILED)
        return err_set_errno(err, "could not map \"%s\"", path);
    handover->data_map = map;
    handover->data_receive = bulk_receive(train_port(train, BULK_STATE), from, BULK_STATE,
                                          data_tag, map, (size_t)job->data_bytes);
    return 0;
}

int
data_give(struct train *train, struct handover *handover, struct err *err)
{
    const struct train_epoch *epoch = train->epoch;
    size_t bytes = (size_t)epoch->job.data_bytes;
    for (int n = 0; epoch->recovery.data_from && n < epoch->cluster.nodes_count; n++) {
        if (n == epoch->self || epoch->recovery.data_from[n] != epoch->self)
            continue;
        if (!handover->given) {
            char path[PATH_BYTES_MAX];
            data_path(train, &epoch->job.data, "", path);
            int file = open(path, O_RDONLY | O_CLOEXEC);
            if (file < 0)
                return err_set_errno(err, "could not open \"%s\"", path);
            off_t size = lseek(file, 0, SEEK_END);
            void *map = MAP_FAILED;
            if (size == (off_t)bytes)
                map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
            close(file);
            if (map == MAP_FAILED)
                return err_set(err, ERR_CORRUPT,
                               "data set \"%s\" has %lld bytes, expected %zu", path,
                               (long long)size, bytes);
            handover->given = map;
        }
        handover_send(train, handover, n, data_tag, handover->given, bytes);
    }
    return 0;
}

int
data_take(struct train *train, struct handover *handover, struct err *err)
{
    if (!handover->data_receive)
        return 0;
    const struct train_job *job = &train->epoch->job;
    int from = wanted_from(train);
    if (train_wait(train, BULK_STATE, &handover->data_receive, WAIT_STATE, from, err))
        return -1;
    char part[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
    data_path(train, &job->data, ".new", part);
    data_path(train, &job->data, "", path);
    if (msync(handover->data_map, (size_t)job->data_bytes, MS_SYNC) ||
        fsync(handover->data_file))
        return err_set_errno(err, "could not write \"%s\"", part);
    struct id hash;
    int64_t bytes;
    if (data_hash(part, &hash, &bytes, err))
        return -1;
    if (!id_equal(&hash, &job->data)) {
        unlink(part);
        return err_set(err, ERR_CORRUPT,
                       "the data set that peer %d gave has another content than its name "
                       "says; it was not kept",
                       from);
    }
    if (rename(part, path))
        return err_set_errno(err, "could not rename \"%s\" to \"%s\"", part, path);
    train->has_data = true;
    return 0;
}

void
data_release(struct train *train, struct handover *handover)
{
    size_t bytes = (size_t)train->epoch->job.data_bytes;
    if (handover->data_map)
        munmap(handover->data_map, bytes);
    if (handover->given)
        munmap(handover->given, bytes);
    if (handover->data_file >= 0)
        close(handover->data_file);
}

int
data_use(struct train *train, struct err *err)
{
    const struct train_job *job = &train->epoch->job;
    if (train->data && id_equal(&train->data_open, &job->data) &&
        train->data_context == train->shape.context)
        return 0;
    data_close(train->data);
    char path[PATH_BYTES_MAX];
    data_path(train, &job->data, "", path);
    train->data = data_open(path, train->shape.context, err);
    train->data_open = job->data;
    train->data_context = train->shape.context;
    return train->data ? 0 : -1;
}
