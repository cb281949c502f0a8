#include "node/command.h"
#include "node/config.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* argp's own exit status for a wrong command line. */
__attribute__((constructor)) static void
usage_is_two(void)
{
    argp_err_exit_status = EXIT_USAGE;
}

int
command_fail(const struct err *err)
{
    fflush(stdout);
    fprintf(stderr, "flotilla: %s\n", err->msg);
    return err->code == ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

void
command_take_data(const struct argp_state *state, const char *given, char *path)
{
    struct err err;
    if (config_data_take(given, path, &err))
        argp_error(state, "%s", err.msg);
}

static int
dial(const char *data, struct err *err)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    char path[PATH_BYTES_MAX];
    path_join(path, data, STATUS_SOCKET_FILE);
    if (strlen(path) >= sizeof(where.sun_path))
        return err_set(err, ERR_USAGE, "the data folder's path \"%s\" is too long", data);
    memcpy(where.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set_errno(err, "could not open a socket");
    if (connect(fd, (struct sockaddr *)&where, sizeof(where))) {
        int why = errno;
        close(fd);
        errno = why;
        if (why == ENOENT || why == ECONNREFUSED || why == ENOTDIR)
            return err_set(
                err, ERR_PEER,
                "no node runs on the data folder \"%s\"; start one with \"flotilla "
                "node\", or name its folder with --data",
                data);
        return err_set_errno(err, "could not reach the node of \"%s\"", data);
    }
    return fd;
}

int
command_node_runs(const char *data, struct err *err)
{
    int fd = dial(data, err);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int
send_all(int fd, const char *text, size_t len, struct err *err)
{
    while (len > 0) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return err_set_errno(err, "could not speak to the node");
        text += sent;
        len -= (size_t)sent;
    }
    return 0;
}

/* Next line of the node's, or NULL at the end. The line is parsed and must be freed. */
static struct json *
next_line(int fd, struct buf *in, struct err *err)
{
    for (;;) {
        char *end = in->len > 0 ? memchr(in->data, '\n', in->len) : NULL;
        if (end) {
            size_t len = (size_t)(end - (char *)in->data);
            struct json *line = json_parse((char *)in->data, len, 16 << 20, err);
            in->len -= len + 1;
            memmove(in->data, end + 1, in->len);
            return line;
        }
        char block[16384];
        ssize_t got = recv(fd, block, sizeof(block), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || in->len > 16 << 20) {
            err_set(err, ERR_STOPPED,
                    "the node closed the connection; it stopped or left");
            return NULL;
        }
        buf_add(in, block, (size_t)got);
    }
}

struct json *
command_ask(const char *data, const char *request, size_t len,
            bool (*line)(void *arg, const struct json *event), void *arg, struct err *err)
{
    int fd = dial(data, err);
    if (fd < 0)
        return NULL;
    struct buf in = {0};
    struct json *answer = NULL;
    if (send_all(fd, request, len, err) || send_all(fd, "\n", 1, err))
        goto out;
    while ((answer = next_line(fd, &in, err))) {
        const char *why = json_text(json_get(answer, "error"), NULL);
        if (why) {
            bool usage = json_bool(json_get(answer, "usage"), false);
            err_set(err, usage ? ERR_USAGE : ERR_PEER, "%s", why);
            json_free(answer);
            answer = NULL;
            break;
        }
        if (json_bool(json_get(answer, "done"), false))
            break;
        if (line && !line(arg, answer))
            break;
        json_free(answer);
    }
out:
    close(fd);
    buf_release(&in);
    return answer;
}
