#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 32, CHILDREN_MAX = 64 };

static char binary[PATH_BYTES_MAX];
static char folder[PATH_BYTES_MAX];
static pid_t children[CHILDREN_MAX];
static int children_count;

const char *
swarm_folder(void)
{
    return folder;
}

const char *
swarm_path(const char *name)
{
    static char paths[64][PATH_BYTES_MAX];
    static int next;
    return path_join(paths[next++ % 64], folder, name);
}

void
swarm_write(const char *name, const char *text)
{
    struct err err;
    ck_assert_int_eq(file_write(swarm_path(name), text, strlen(text), 0600, &err), 0);
}

const char *
swarm_job(const char *name, int steps, const char *more)
{
    char text[1024], file[64];
    snprintf(file, sizeof(file), "%s.yaml", name);
    snprintf(text, sizeof(text),
             "name: %s\nmodel: {layers: 2, heads: 2, hidden: 32, context: 32}\n"
             "data: {train: \"corpus/*.txt\"}\nbatch: {sequences: 8}\nsteps: %d\n"
             "optimizer: {learning_rate: 3e-3}\n%s",
             name, steps, more);
    swarm_write(file, text);
    return swarm_path(file);
}

static void
write_corpus(void)
{
    static const char *const words[] = {"the ",  "light ", "and ",     "water ", "was ",
                                        "made ", "day ",   "night.\n", "earth ", "of "};
    struct rng rng = {.seed = 5};
    struct buf text = {0};
    while (text.len < 20000) {
        const char *word = words[rng_below(&rng, 10)];
        buf_add(&text, word, strlen(word));
    }
    buf_add(&text, "", 1);
    struct err err;
    ck_assert_int_eq(file_make_folder(swarm_path("corpus"), &err), 0);
    swarm_write("corpus/one.txt", (char *)text.data);
    buf_release(&text);
}

bool
swarm_begin(const char *test)
{
    const char *given = getenv("FLOTILLA");
    if (given) {
        snprintf(binary, sizeof(binary), "%s", given);
    } else {
        ssize_t len = readlink("/proc/self/exe", binary, sizeof(binary) - 16);
        binary[len > 0 ? len : 0] = '\0';
        char *slash = strrchr(binary, '/');
        if (slash)
            memcpy(slash + 1, "flotilla", 9);
    }
    if (access(binary, X_OK)) {
        suite_skip(test, "the binary is not built next to this program");
        return false;
    }
    suite_folder(folder);
    write_corpus();
    swarm_job("tiny", 30, "");
    unsetenv("FLOTILLA_SECRET");
    return true;
}

static void
forget(pid_t pid)
{
    for (int i = 0; i < children_count; i++)
        if (children[i] == pid)
            children[i--] = children[--children_count];
}

void
swarm_end(void)
{
    while (children_count > 0) {
        pid_t pid = children[0];
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        forget(pid);
    }
    struct err err;
    if (folder[0])
        file_remove_tree(folder, &err);
    folder[0] = '\0';
}

static bool
port_free(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool free_port = bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0;
    close(fd);
    return free_port;
}

int
swarm_ports(void)
{
    /* Below the ephemeral range, apart from other tests by this process's number. */
    static int next;
    if (next == 0)
        next = 10000 + (int)(getpid() % 7000) * 3;
    for (;; next += 3) {
        if (next > 32000)
            next = 10000;
        if (port_free(next) && port_free(next + 1) && port_free(next + 2)) {
            next += 3;
            return next - 3;
        }
    }
}

pid_t
swarm_spawn(const char *log, const char *const *arguments)
{
    const char *argv[ARGUMENTS_MAX] = {"flotilla"};
    for (int i = 0; arguments[i]; i++) {
        ck_assert_int_lt(i, ARGUMENTS_MAX - 2);
        argv[i + 1] = arguments[i];
    }
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(out, 0);
    pid_t parent = getpid(), pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
        int null = open("/dev/null", O_RDONLY);
        dup2(null, 0);
        dup2(out, 1);
        dup2(out, 2);
        execv(binary, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(out);
    ck_assert_int_lt(children_count, CHILDREN_MAX);
    children[children_count++] = pid;
    return pid;
}

int
swarm_wait(pid_t pid, int64_t timeout_ms)
{
    int status;
    for (int64_t until = clock_ms() + timeout_ms; clock_ms() < until;
         clock_sleep_ms(10)) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            forget(pid);
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        }
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    forget(pid);
    return -1;
}

static void
collect(const char **out, const char *first, va_list more)
{
    int count = 0;
    for (const char *at = first; at; at = va_arg(more, const char *)) {
        ck_assert_int_lt(count, ARGUMENTS_MAX - 1);
        out[count++] = at;
    }
    out[count] = NULL;
}

int
swarm_run(struct buf *out, int64_t timeout_ms, const char *first, ...)
{
    const char *arguments[ARGUMENTS_MAX];
    va_list more;
    va_start(more, first);
    collect(arguments, first, more);
    va_end(more);
    const char *log = swarm_path("command.log");
    unlink(log);
    int code = swarm_wait(swarm_spawn(log, arguments), timeout_ms);
    struct err err;
    buf_clear(out);
    ck_assert_int_eq(file_read(log, 64 << 20, out, &err), 0);
    buf_add(out, "", 1);
    return code;
}

static void
start_with(struct peer *peer, const char *const *more)
{
    const char *arguments[ARGUMENTS_MAX] = {
        "node",        "--data",    peer->data, "--name",   peer->name, "--listen",
        peer->address, "--threads", "1",        "--memory", "256MiB"};
    int used = 0;
    while (arguments[used])
        used++;
    for (int i = 0; more[i]; i++) {
        ck_assert_int_lt(used, ARGUMENTS_MAX - 1);
        arguments[used++] = more[i];
    }
    peer->pid = swarm_spawn(peer->log, arguments);
}

void
peer_start(struct peer *peer, const char *name, const char *first, ...)
{
    char log[64];
    snprintf(log, sizeof(log), "%s.log", name);
    snprintf(peer->name, sizeof(peer->name), "%s", name);
    snprintf(peer->data, sizeof(peer->data), "%s", swarm_path(name));
    snprintf(peer->log, sizeof(peer->log), "%s", swarm_path(log));
    peer->port = swarm_ports();
    snprintf(peer->address, sizeof(peer->address), "127.0.0.1:%d", peer->port);
    const char *arguments[ARGUMENTS_MAX];
    va_list more;
    va_start(more, first);
    collect(arguments, first, more);
    va_end(more);
    start_with(peer, arguments);
}

void
peer_again(struct peer *peer, const char *join)
{
    unlink(peer->log);
    start_with(peer, (const char *const[]){join ? "--join" : NULL, join, NULL});
}

void
peer_kill(struct peer *peer)
{
    kill(peer->pid, SIGKILL);
    waitpid(peer->pid, NULL, 0);
    forget(peer->pid);
}

int
peer_leave(struct peer *peer, int64_t timeout_ms)
{
    kill(peer->pid, SIGTERM);
    return swarm_wait(peer->pid, timeout_ms);
}

/* ---- what was written ---- */

static bool
has_all(const char *line, const char *const *parts)
{
    for (int i = 0; parts[i]; i++)
        if (!strstr(line, parts[i]))
            return false;
    return true;
}

/* The last line of a file with all the parts. */
static bool
find_line(const char *path, const char *const *parts, char *line)
{
    struct buf text = {0};
    struct err err;
    bool found = false;
    if (file_read(path, 64 << 20, &text, &err) == 0 && text.len > 0) {
        buf_add(&text, "", 1);
        char *at = (char *)text.data;
        for (char *end; (end = strchr(at, '\n')); at = end + 1) {
            *end = '\0';
            if (!has_all(at, parts))
                continue;
            found = true;
            if (line)
                snprintf(line, 8192, "%s", at);
        }
    }
    buf_release(&text);
    return found;
}

static void
wait_line(const char *path, int64_t timeout_ms, char *line, const char *const *parts)
{
    for (int64_t until = clock_ms() + timeout_ms; !find_line(path, parts, line);
         clock_sleep_ms(20)) {
        if (clock_ms() < until)
            continue;
        struct buf text = {0};
        struct err err;
        file_read(path, 64 << 20, &text, &err);
        buf_add(&text, "", 1);
        size_t from = text.len > 4000 ? text.len - 4000 : 0;
        fprintf(stderr, "%s ends:\n%s\n", path, (char *)text.data + from);
        ck_abort_msg("no line with \"%s\" (%s) in %s", parts[0], parts[1] ? parts[1] : "",
                     path);
    }
}

void
swarm_line(const char *path, int64_t timeout_ms, char line[8192], const char *first, ...)
{
    const char *parts[ARGUMENTS_MAX];
    va_list more;
    va_start(more, first);
    collect(parts, first, more);
    va_end(more);
    wait_line(path, timeout_ms, line, parts);
}

static const char *
events_path(const struct peer *peer)
{
    static char path[PATH_BYTES_MAX];
    return path_join(path, peer->data, "events.jsonl");
}

void
peer_event(const struct peer *peer, int64_t timeout_ms, char line[8192],
           const char *first, ...)
{
    const char *parts[ARGUMENTS_MAX];
    va_list more;
    va_start(more, first);
    collect(parts, first, more);
    va_end(more);
    wait_line(events_path(peer), timeout_ms, line, parts);
}

void
peer_logs(const struct peer *peer, int64_t timeout_ms, const char *text)
{
    wait_line(peer->log, timeout_ms, NULL, (const char *const[]){text, NULL});
}

static const char step_event[] = "\"event\":\"step\"";

int64_t
peer_step(const struct peer *peer)
{
    char line[8192];
    struct err err;
    if (!find_line(events_path(peer), (const char *const[]){step_event, NULL}, line))
        return 0;
    struct json *event = json_parse(line, strlen(line), 8192, &err);
    int64_t step = json_int(json_get(event, "step"), 0);
    json_free(event);
    return step;
}

bool
peer_loss(const struct peer *peer, int64_t step, char loss[64])
{
    char line[8192], key[64];
    snprintf(key, sizeof(key), "\"step\":%lld,", (long long)step);
    if (!find_line(events_path(peer), (const char *const[]){step_event, key, NULL}, line))
        return false;
    const char *at = strstr(line, "\"loss\":");
    ck_assert_ptr_nonnull(at);
    at += strlen("\"loss\":");
    snprintf(loss, 64, "%.*s", (int)strcspn(at, ",}"), at);
    return true;
}

void
peer_advances(const struct peer *peer, int64_t steps, int64_t timeout_ms)
{
    int64_t from = peer_step(peer), until = clock_ms() + timeout_ms;
    while (peer_step(peer) < from + steps) {
        ck_assert_msg(clock_ms() < until, "%s stands at step %lld, wanted %lld",
                      peer->name, (long long)peer_step(peer), (long long)(from + steps));
        clock_sleep_ms(30);
    }
}

struct json *
peer_status(const struct peer *peer)
{
    struct buf out = {0};
    struct err err = {0};
    int code = swarm_run(&out, 5000, "status", "--json", "--data", peer->data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
    struct json *status =
        json_parse((char *)out.data, strlen((char *)out.data), 1 << 20, &err);
    ck_assert_msg(status != NULL, "%s", err.msg);
    buf_release(&out);
    return status;
}

void
swarm_nobody_lost(const char *line)
{
    ck_assert_msg(strstr(line, "\"cause\":\"job\"") || strstr(line, "\"cause\":\"slow\""),
                  "%s", line);
}
