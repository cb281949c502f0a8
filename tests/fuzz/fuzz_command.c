/*
 * The commands against a node whose every word is the input (the first byte says which
 * command): each ends with one of its exit codes, whatever it is told. So does "allow
 * --file" on any file, and the doctor on any status document.
 */
#include "node/command/command.h"
#include "node/doctor.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/key.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS_MAX = 8 };

static const struct {
    int (*run)(int argc, char **argv);
    const char *words[4]; /* FOLDER and FILE stand for ours */
} commands[] = {
    {cmd_status, {"--json"}},
    {cmd_status, {"--all"}},
    {cmd_status, {NULL}},
    {cmd_status, {"--cluster", "FILE"}},
    {cmd_train, {"--follow"}},
    {cmd_train, {"--follow", "--json"}},
    {cmd_stop, {NULL}},
    {cmd_leave, {NULL}},
    {cmd_invite, {NULL}},
    {cmd_invite, {"--list"}},
    {cmd_invite, {"--list", "--json"}},
    {cmd_allow, {"--list"}},
    {cmd_allow, {"--list", "--json"}},
    {cmd_allow, {"--file", "FILE"}},
    {cmd_recover, {"--survivors", "a,b"}},
    {cmd_secret, {"rotate"}},
    {NULL, {NULL}}, /* the doctor */
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]), FROM_FILE = 13 };

static char folder[] = "/tmp/fuzz_command.XXXXXX";
static char file[PATH_BYTES_MAX];

/* ---- the node ---- */

static int listener;
static pthread_mutex_t speaking = PTHREAD_MUTEX_INITIALIZER;
static const void *answer; /* by the mutex */
static size_t answer_len;

static void
serve(int fd)
{
    char block[4096];
    ssize_t got;
    do
        got = recv(fd, block, sizeof(block), 0);
    while (got > 0 && !memchr(block, '\n', (size_t)got));
    const char *at = answer;
    for (size_t left = answer_len; left > 0; left -= (size_t)got, at += got)
        if ((got = send(fd, at, left, MSG_NOSIGNAL)) <= 0)
            return;
}

static void *
play_node(void *arg)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        must(fd >= 0);
        pthread_mutex_lock(&speaking);
        serve(fd);
        close(fd);
        pthread_mutex_unlock(&speaking);
    }
    return arg;
}

static void
set_answer(const void *bytes, size_t len)
{
    pthread_mutex_lock(&speaking);
    answer = bytes;
    answer_len = len;
    pthread_mutex_unlock(&speaking);
}

/* ---- the commands ---- */

static void
clean_up(void)
{
    struct err err;
    file_remove_tree(folder, &err);
}

static void
setup(void)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    struct err err = {0};
    pthread_t thread;
    must(key_setup(&err) == 0 && mkdtemp(folder));
    atexit(clean_up);
    snprintf(file, sizeof(file), "%s/file.yaml", folder);
    snprintf(where.sun_path, sizeof(where.sun_path), "%s/" STATUS_SOCKET_FILE, folder);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(listener >= 0 && bind(listener, (struct sockaddr *)&where, sizeof(where)) == 0);
    must(listen(listener, 4) == 0);
    must(pthread_create(&thread, NULL, play_node, NULL) == 0);
    /* What they print is for nobody; the fuzzer has kept its own. */
    FILE *nowhere = fopen("/dev/null", "w");
    must(nowhere && freopen("/dev/null", "w", stdout));
    stderr = nowhere;
}

static void
put_file(const uint8_t *data, size_t size)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
}

static void
run_command(size_t which)
{
    char name[] = "flotilla", option[] = "--data", words[4][PATH_BYTES_MAX];
    char *argv[WORDS_MAX] = {name, option, folder};
    int argc = 3;
    for (int i = 0; i < 4 && commands[which].words[i]; i++) {
        const char *word = commands[which].words[i];
        snprintf(words[i], sizeof(words[i]), "%s", strcmp(word, "FILE") ? word : file);
        argv[argc++] = words[i];
    }
    int code = commands[which].run(argc, argv);
    must(code == EXIT_DONE || code == EXIT_FAILED || code == EXIT_USAGE);
}

static void
examine(const uint8_t *data, size_t size)
{
    struct findings findings = {0};
    struct err err;
    struct json *status = json_parse((const char *)data, size, size, &err);
    doctor_swarm(&findings, status, 10);
    doctor_reach(&findings, status);
    doctor_network(&findings, status);
    must(findings.count <= FINDINGS_MAX);
    for (int i = 0; i < findings.count; i++)
        must(findings.list[i].text[0]);
    json_free(status);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char done[] = "{\"done\": true}\n";
    if (!file[0])
        setup();
    if (size < 1 || size > 1 << 16)
        return 0;
    size_t which = data[0] % COMMANDS;
    data++, size--;
    if (which == FROM_FILE)
        put_file(data, size);
    set_answer(which == FROM_FILE ? (const void *)done : data,
               which == FROM_FILE ? sizeof(done) - 1 : size);
    if (commands[which].run)
        run_command(which);
    else
        examine(data, size);
    set_answer(NULL, 0);
    return 0;
}
