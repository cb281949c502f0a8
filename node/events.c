#include "node/events.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/base/log.h"
#include "transport/base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EVENTS_BYTES_MAX = 64 << 20 };

struct events {
    int fd;
    struct buf line;
    struct json_writer writer;
    bool open; /* between begin and end */
    bool torn; /* the file ends within a line */
    void (*follow)(void *arg, const char *text, size_t len);
    void *arg;
};

struct events *
events_open(const char *folder, struct err *err)
{
    char path[PATH_BYTES_MAX], old[PATH_BYTES_MAX];
    path_join(path, folder, STATUS_EVENTS_FILE);
    path_join(old, folder, STATUS_EVENTS_FILE ".1");
    struct stat status;
    if (stat(path, &status) == 0 && status.st_size > EVENTS_BYTES_MAX &&
        rename(path, old)) {
        err_set_errno(err, "could not rename \"%s\"", path);
        return NULL;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_set_errno(err, "could not open \"%s\"", path);
        return NULL;
    }
    struct events *events = xcalloc(1, sizeof(*events));
    events->fd = fd;
    char last = '\n';
    off_t end = lseek(fd, 0, SEEK_END);
    events->torn = end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';
    return events;
}

void
events_close(struct events *events)
{
    if (!events)
        return;
    close(events->fd);
    buf_release(&events->line);
    free(events);
}

struct json_writer *
events_begin(struct events *events, const char *event)
{
    must(!events->open);
    events->open = true;
    buf_clear(&events->line);
    json_begin(&events->writer, &events->line);
    json_object_open(&events->writer, NULL);
    json_put_int(&events->writer, "mono_ms", clock_ms());
    json_put_text(&events->writer, "event", event);
    return &events->writer;
}

void
events_end(struct events *events)
{
    must(events->open);
    events->open = false;
    json_object_close(&events->writer);
    buf_add(&events->line, "\n", 1);
    /* One write a line, so that a reader never sees half of one; after what a full disk
     * cut off a new line begins. */
    if (events->torn && write(events->fd, "\n", 1) == 1)
        events->torn = false;
    ssize_t written = write(events->fd, events->line.data, events->line.len);
    events->torn |= written > 0 && written < (ssize_t)events->line.len;
    if (written < (ssize_t)events->line.len)
        log_limited(LOG_WARN, "node", "event log not written reason=\"%s\"",
                    written < 0 ? strerror(errno) : "the disk is full");
    if (events->follow)
        events->follow(events->arg, (const char *)events->line.data, events->line.len);
}

void
events_follow(struct events *events,
              void (*line)(void *arg, const char *text, size_t len), void *arg)
{
    events->follow = line;
    events->arg = arg;
}
