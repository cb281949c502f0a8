#include "node/command/command.h"
#include "node/config.h"
#include "node/engine/checkpoint.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 16 << 20, IDLE_MS = 250, SILENCE_MS = 10000 };

/* argp's own exit status for a wrong command line. */
__attribute__((constructor)) static void
usage_is_two(void)
{
    argp_err_exit_status = EXIT_USAGE;
}

int
command_fail(const struct err *err)
{
    command_note("%s", err->msg);
    return err->code == ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

void
command_note(const char *fmt, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

void
command_take_data(const struct argp_state *state, const char *given, char *path)
{
    struct err err;
    if (config_data_take(given, path, &err))
        argp_error(state, "%s", err.msg);
}

int
command_checkpoint(const char *given, char path[PATH_BYTES_MAX], struct err *err)
{
    char manifest[PATH_BYTES_MAX], damaged[1024] = "";
    struct id any = {{0}};
    if (strlen(given) > PATH_BYTES_MAX - CONFIG_PATH_ROOM)
        return err_set(err, ERR_USAGE, "the path is too long");
    if (!file_exists(given))
        return err_set(err, ERR_USAGE, "there is no folder \"%s\"", given);
    if (file_exists(path_join(manifest, given, "manifest.json"))) {
        snprintf(path, PATH_BYTES_MAX, "%s", given);
        return 0;
    }
    int found = checkpoint_in(given, &any, path, damaged, sizeof(damaged), err);
    if (damaged[0])
        command_note("passed over: %s", damaged);
    if (found == 0 || damaged[0])
        return found;
    found = checkpoint_newest(given, &any, path, damaged, sizeof(damaged), err);
    if (damaged[0])
        command_note("passed over: %s", damaged);
    return found;
}

bool
command_folder_taken(const char *data)
{
    char path[PATH_BYTES_MAX];
    struct err held = {0};
    path_join(path, data, STATUS_LOCK_FILE);
    int fd = file_exists(path) ? file_lock(path, &held) : -1;
    if (fd >= 0)
        close(fd);
    return held.code == ERR_LIMIT;
}

/* Nobody listens at the socket. */
static int
no_node(const char *data, struct err *err)
{
    if (command_folder_taken(data))
        return err_set(
            err, ERR_PEER,
            "a node runs on the data folder \"%s\", but nobody can speak to it: "
            "its " STATUS_SOCKET_FILE " is gone, or it is starting or ending; if "
            "that lasts, end its process (SIGTERM: it leaves in order) and start "
            "it again",
            data);
    return err_set(err, ERR_PEER,
                   "no node runs on the data folder \"%s\"; start one with \"flotilla "
                   "node\", or name its folder with --data",
                   data);
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
            return no_node(data, err);
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

/* Whichever thread gets the signal (libraries start some before main()). */
static int interrupts[2] = {-1, -1};

static void
on_interrupt(int signal_number)
{
    (void)signal_number;
    int why = errno;
    ssize_t written = write(interrupts[1], "", 1);
    (void)written;
    errno = why;
}

/* A descriptor that tells of SIGINT, which no longer ends the process; -1: none. */
static int
catch_interrupt(const struct command_talk *talk)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    if (!talk || !talk->interruptible ||
        (interrupts[0] < 0 && pipe2(interrupts, O_CLOEXEC | O_NONBLOCK)))
        return -1;
    sigaction(SIGINT, &action, NULL);
    return interrupts[0];
}

/* It has not said a word yet. An error where it answers of itself, else a note: it may
 * wait for others. */
static int
say_silent(int fd, const struct command_talk *talk, struct err *err)
{
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    if (talk && talk->at_once)
        return err_set(
            err, ERR_PEER,
            "the node (process %d) has not answered for %d s: it is stopped, or "
            "it hangs; its log may say at what. The swarm goes on without it; "
            "SIGCONT lets one go on that was stopped, one that hangs is to be "
            "killed and started again",
            (int)peer.pid, SILENCE_MS / 1000);
    command_note(
        "the node (process %d) has not answered for %d s: it waits for the swarm, "
        "or it hangs (\"flotilla status\" says); waiting",
        (int)peer.pid, SILENCE_MS / 1000);
    return 0;
}

/* Until the node speaks: 0, or -1 when the user interrupts. */
static int
wait_for_node(int fd, int interrupt, bool *silent, struct command_talk *talk,
              struct err *err)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                            {.fd = interrupt, .events = POLLIN}};
    int64_t began = clock_ms();
    for (;;) {
        if (*silent && clock_ms() - began >= SILENCE_MS) {
            *silent = false; /* said once */
            if (say_silent(fd, talk, err))
                return -1;
        }
        int ready = poll(fds, 2,
                         talk && talk->idle ? IDLE_MS
                         : *silent          ? SILENCE_MS
                                            : -1);
        if (ready < 0 && errno != EINTR)
            return err_set_errno(err, "could not listen to the node");
        if (ready > 0 && fds[1].revents) {
            talk->interrupted = true;
            return err_set(err, ERR_STOPPED, "interrupted");
        }
        if (ready > 0)
            return 0;
        if (ready == 0 && talk && talk->idle)
            talk->idle(talk->arg);
    }
}

/* Next line of the node's, or NULL at the end. The line is parsed and must be freed. */
static struct json *
next_line(int fd, int interrupt, struct buf *in, bool *silent, struct command_talk *talk,
          struct err *err)
{
    for (;;) {
        char *end = in->len > 0 ? memchr(in->data, '\n', in->len) : NULL;
        if (end) {
            size_t len = (size_t)(end - (char *)in->data);
            struct json *line = json_parse((char *)in->data, len, LINE_BYTES_MAX, err);
            in->len -= len + 1;
            memmove(in->data, end + 1, in->len);
            return line;
        }
        char block[16384];
        if (wait_for_node(fd, interrupt, silent, talk, err))
            return NULL;
        *silent = false;
        ssize_t got = recv(fd, block, sizeof(block), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || in->len > LINE_BYTES_MAX) {
            err_set(err, ERR_STOPPED,
                    "the node closed the connection; it stopped or left");
            return NULL;
        }
        buf_add(in, block, (size_t)got);
    }
}

struct json *
command_ask(const char *data, const char *request, size_t len, struct command_talk *talk,
            struct err *err)
{
    int fd = dial(data, err), interrupt = -1;
    if (fd < 0)
        return NULL;
    struct buf in = {0};
    struct json *answer = NULL;
    bool silent = true;
    if (send_all(fd, request, len, err) || send_all(fd, "\n", 1, err))
        goto out;
    interrupt = catch_interrupt(talk);
    while ((answer = next_line(fd, interrupt, &in, &silent, talk, err))) {
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
        if (talk && talk->line && !talk->line(talk->arg, answer))
            break;
        json_free(answer);
    }
out:
    close(fd);
    buf_release(&in);
    return answer;
}
