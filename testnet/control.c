#include "testnet/control.h"
#include "node/status.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STATUS_BYTES_MAX = 4 << 20 };

static int
dial(const char *folder)
{
    char path[PATH_BYTES_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    path_join(path, folder, STATUS_SOCKET_FILE);
    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

struct json *
control_status(const char *folder, int timeout_ms)
{
    static const char request[] = "{\"command\": \"status\"}\n";
    int64_t end = clock_ms() + timeout_ms;
    struct buf answer = {0};
    struct json *status = NULL;
    struct err err;
    int fd = dial(folder);
    if (fd < 0 || send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
        goto out;
    while (answer.len < STATUS_BYTES_MAX) {
        char slice[4096];
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int64_t left = end - clock_ms();
        if (left <= 0 || poll(&poller, 1, (int)left) <= 0)
            goto out;
        ssize_t got = recv(fd, slice, sizeof(slice), 0);
        if (got <= 0)
            break;
        buf_add(&answer, slice, (size_t)got);
    }
    status = json_parse((const char *)answer.data, answer.len, STATUS_BYTES_MAX, &err);
out:
    if (fd >= 0)
        close(fd);
    buf_release(&answer);
    return status;
}

int
control_tell(const char *folder, const char *request)
{
    int fd = dial(folder);
    size_t len = strlen(request);
    if (fd >= 0 && send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len) {
        close(fd);
        return -1;
    }
    return fd;
}
