/*
 * control.c - the UNIX socket by which commands reach this node (status.h has the
 * protocol).
 *
 * Only its owner can open it. Clients are few; a client that does not read is dropped
 * once a megabyte waits for it.
 */
#include "node/admission.h"
#include "node/engine/train.h"
#include "node/node.h"
#include "node/plan/live.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/log.h"
#include "transport/codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = 32,
    REQUEST_BYTES_MAX = 256 << 10,
    WAITING_BYTES_MAX = 1 << 20,
    SUBMIT_MS_MAX = 90000,
    AGAIN_MS = 2000,
    FLUSH_MS = 20
};

struct client {
    int fd; /* -1: free place */
    struct buf in, out;
    bool follows;      /* gets events */
    bool follow_after; /* will, once its submission is accepted */
    bool submitted;    /* waits for the leader's answer */
    bool stops;        /* what it asked for is that the run ends */
    bool closing;      /* close when `out` is sent */
    uint64_t ticket;   /* names this talk; 0: none */
    int64_t since_ms;
};

/* A command that waits for the leader's answer. Leaders change: it is said again to the
 * one that leads now, until what it asks for is seen to be done. */
struct pending {
    bool active;
    bool stop;
    struct id job; /* to be run */
    struct buf body;
    struct id leader; /* it was said to this one, in this term */
    uint64_t term;
    int64_t sent_ms;
};

struct control {
    int fd;
    uint64_t tickets;
    char path[PATH_BYTES_MAX];
    struct pending pending;
    struct client clients[CLIENTS_MAX];
};

static void
drop(struct node *node, struct client *client)
{
    if (client->fd < 0)
        return;
    if (node->admission && !client->closing)
        admission_forget(node, client->ticket); /* nobody waits for it any more */
    loop_fd_cancel(node->loop, client->fd);
    close(client->fd);
    buf_release(&client->in);
    buf_release(&client->out);
    *client = (struct client){.fd = -1};
}

static void
flush(struct node *node, struct client *client)
{
    while (client->fd >= 0 && client->out.len > 0) {
        ssize_t sent = send(client->fd, client->out.data, client->out.len,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (sent <= 0) {
            drop(node, client);
            return;
        }
        client->out.len -= (size_t)sent;
        memmove(client->out.data, client->out.data + sent, client->out.len);
    }
    if (client->fd >= 0 && client->closing)
        drop(node, client);
}

static void
say(struct node *node, struct client *client, const char *text, size_t len)
{
    if (client->out.len + len > WAITING_BYTES_MAX) {
        log_limited(LOG_WARN, "node", "a command that does not read was dropped");
        drop(node, client);
        return;
    }
    buf_add(&client->out, text, len);
    flush(node, client);
}

/* The last line of a talk: {"done": true, ...}, or an error. */
static void
finish_with(struct node *node, struct client *client, const char *error, bool usage,
            const char *key, const char *text)
{
    struct buf line = {0};
    struct json_writer writer;
    json_begin(&writer, &line);
    json_object_open(&writer, NULL);
    if (error) {
        json_put_text(&writer, "error", error);
        json_put_bool(&writer, "usage", usage);
    } else {
        json_put_bool(&writer, "done", true);
        if (key && text)
            json_put_text(&writer, key, text);
    }
    json_object_close(&writer);
    buf_add(&line, "\n", 1);
    client->closing = true;
    client->follows = false;
    say(node, client, (char *)line.data, line.len);
    key_wipe(line.data, line.len); /* it may hold an invite */
    buf_release(&line);
}

static void
finish(struct node *node, struct client *client, const char *error, bool usage)
{
    finish_with(node, client, error, usage, NULL, NULL);
}

void
control_answer(struct node *node, uint64_t ticket, const char *error, const char *key,
               const char *text)
{
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &node->control->clients[i];
        if (client->fd >= 0 && client->ticket == ticket && !client->closing)
            finish_with(node, client, error, false, key, text);
    }
}

/* A line of this talk alone. */
static void
say_event(struct node *node, struct client *client, const char *event, bool with_run)
{
    struct buf line = {0};
    struct json_writer writer;
    json_begin(&writer, &line);
    json_object_open(&writer, NULL);
    json_put_int(&writer, "mono_ms", clock_ms());
    json_put_text(&writer, "event", event);
    if (with_run)
        status_put_run(node, &writer);
    json_object_close(&writer);
    buf_add(&line, "\n", 1);
    say(node, client, (char *)line.data, line.len);
    buf_release(&line);
}

/* Events from here on, and where the run stands. */
static void
follow(struct node *node, struct client *client)
{
    client->follows = true;
    say_event(node, client, "run", true);
}

/* ---- requests ---- */

static void
do_status(struct node *node, struct client *client, const struct json *request)
{
    (void)request;
    struct buf line = {0};
    struct json_writer writer;
    json_begin(&writer, &line);
    json_object_open(&writer, NULL);
    json_put_bool(&writer, "done", true);
    json_object_open(&writer, "status");
    status_write(node, &writer);
    json_object_close(&writer);
    json_object_close(&writer);
    buf_add(&line, "\n", 1);
    client->closing = true;
    say(node, client, (char *)line.data, line.len);
    buf_release(&line);
}

/* The swarm as files for flotilla plan: {"done": true, "cluster": text, "profiles": [{file,
 * text}]}. */
static void
do_cluster(struct node *node, struct client *client, const struct json *request)
{
    const char *prefix = json_text(json_get(request, "prefix"), "");
    struct buf line = {0};
    struct json_writer writer;
    struct plan_live live;
    struct err err;
    if (config_name_check("the prefix", prefix, &err)) {
        finish(node, client, err.msg, true);
        return;
    }
    if (node->view->cluster.nodes_count == 0) {
        finish(node, client, "the swarm has no epoch yet; ask again in a moment", false);
        return;
    }
    plan_live_make(node->view, prefix, &live);
    buf_add(&live.cluster, "", 1);
    json_begin(&writer, &line);
    json_object_open(&writer, NULL);
    json_put_bool(&writer, "done", true);
    json_put_text(&writer, "cluster", (const char *)live.cluster.data);
    json_array_open(&writer, "profiles");
    for (int i = 0; i < live.profiles_count; i++) {
        buf_add(&live.profiles[i], "", 1);
        json_object_open(&writer, NULL);
        json_put_text(&writer, "file", live.files[i]);
        json_put_text(&writer, "text", (const char *)live.profiles[i].data);
        json_object_close(&writer);
    }
    json_array_close(&writer);
    json_object_close(&writer);
    buf_add(&line, "\n", 1);
    client->closing = true;
    say(node, client, (char *)line.data, line.len);
    buf_release(&line);
    plan_live_release(&live);
}

/* What a leader would not take is not sent to it: it would blame this node. */
static int
check_job(const struct job *job, struct err *err)
{
    struct buf bytes = {0};
    struct job again = {0};
    job_encode(job, &bytes);
    int result = job_decode(bytes.data, bytes.len, &again, err);
    job_release(&again);
    buf_release(&bytes);
    return result;
}

/* The job that a request carries, bound to its data and its run. */
static int
read_job(const struct json *request, struct job *job, struct err *err)
{
    const char *text = json_text(json_get(request, "job"), "");
    const char *name = json_text(json_get(request, "name"), "job.yaml");
    if (job_parse(name, text, strlen(text), job, err))
        return -1;
    struct id data, run, nonce;
    int64_t bytes = json_int(json_get(request, "data_bytes"), 0);
    if (!id_parse(&data, json_text(json_get(request, "data"), "")) || bytes < 1)
        return err_set(err, ERR_USAGE, "the request names no data set");
    key_random(&nonce, sizeof(nonce));
    job_bind(job, &data, bytes, &nonce);
    const char *resumed = json_text(json_get(request, "run"), "");
    if (resumed[0]) {
        if (!id_parse(&run, resumed))
            return err_set(err, ERR_USAGE, "the request names no run to resume");
        job->train.id = run;
    }
    return check_job(job, err);
}

/* Whoever waits for the leader's answer has it. */
static void
answered(struct node *node, const char *error, bool goes_on)
{
    node->control->pending.active = false;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &node->control->clients[i];
        if (client->fd < 0 || !client->submitted)
            continue;
        client->submitted = false;
        if (error[0] && !(client->stops && strcmp(error, LEAD_WITHDRAWN) == 0))
            finish(node, client, error, false);
        else if (!error[0] && client->follow_after && goes_on)
            follow(node, client);
        else
            finish(node, client, NULL, false);
    }
}

/* Says it to the leader, again when another one leads or no answer came. */
static void
tell_leader(struct node *node, int64_t now)
{
    struct pending *pending = &node->control->pending;
    const struct id *leader = agree_leader(node->agree);
    uint64_t term = agree_term(node->agree);
    if (id_empty(leader) || (id_equal(leader, &pending->leader) &&
                             term == pending->term && now - pending->sent_ms < AGAIN_MS))
        return;
    pending->leader = *leader;
    pending->term = term;
    pending->sent_ms = now;
    struct err err;
    if (!id_equal(leader, &node->id))
        node_send(node, leader, FRAME_SUBMIT, &pending->body);
    else if (frames_submit(node, leader, pending->body.data, pending->body.len, &err))
        answered(node, err.msg, false);
}

static void
to_leader(struct node *node, struct client *client, bool stop, const struct job *job)
{
    if (id_empty(agree_leader(node->agree))) {
        finish(node, client,
               node->paused[0] ? node->paused
                               : "the swarm has no leader at present; try again",
               false);
        return;
    }
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (node->control->clients[i].fd >= 0 && node->control->clients[i].submitted) {
            /* The leader's answer does not say to whom it is. */
            finish(
                node, client,
                "another command of this node waits for the leader's answer; try again",
                false);
            return;
        }
    }
    client->submitted = true;
    client->stops = stop;
    client->since_ms = clock_ms();
    struct pending *pending = &node->control->pending;
    buf_release(&pending->body);
    *pending = (struct pending){.active = true, .stop = stop};
    struct buf bytes = {0};
    if (job) {
        pending->job = job->train.id;
        job_encode(job, &bytes);
    }
    writer_array(&pending->body, 2);
    writer_bool(&pending->body, stop);
    writer_bytes(&pending->body, bytes.data, bytes.len);
    buf_release(&bytes);
    if (stop && node->view->state == JOB_STOPPING)
        answered(node, "", true);
    else
        tell_leader(node, clock_ms());
}

static void
do_train(struct node *node, struct client *client, const struct json *request)
{
    struct job job = {0};
    struct err err;
    if (read_job(request, &job, &err)) {
        finish(node, client, err.msg, true);
    } else {
        client->follow_after = json_bool(json_get(request, "follow"), false);
        to_leader(node, client, false, &job);
        if (client->fd >= 0 && client->submitted)
            say_event(node, client, "submitted", false);
    }
    job_release(&job);
}

static void
do_follow(struct node *node, struct client *client, const struct json *request)
{
    (void)request;
    if (node->view->state == JOB_NONE)
        finish(node, client, "no job is running", false);
    else
        follow(node, client);
}

static void
do_stop(struct node *node, struct client *client, const struct json *request)
{
    client->follow_after = json_bool(json_get(request, "follow"), false);
    to_leader(node, client, true, NULL);
}

/* Others are to dial this node back soon. */
static void
do_check(struct node *node, struct client *client, const struct json *request)
{
    (void)request;
    reach_again(node->reach);
    finish(node, client, NULL, false);
}

static void
do_leave(struct node *node, struct client *client, const struct json *request)
{
    (void)request;
    node_leave(node, "asked to leave");
    client->follows = true; /* until the node is gone */
}

static void
do_policy(struct node *node, struct client *client, const struct json *request)
{
    asks_command(node, json_text(json_get(request, "command"), ""), request,
                 client->ticket);
}

static const struct {
    const char *name;
    bool in_swarm; /* needs a swarm */
    void (*run)(struct node *, struct client *, const struct json *);
} requests[] = {
    {"status", false, do_status},  {"train", true, do_train},
    {"follow", true, do_follow},   {"stop", true, do_stop},
    {"cluster", true, do_cluster}, {"leave", false, do_leave},
    {"invite", true, do_policy},   {"revoke", true, do_policy},
    {"evict", true, do_policy},    {"rotate", true, do_policy},
    {"allow", true, do_policy},    {"disallow", true, do_policy},
    {"check", true, do_check},     {"mode", true, do_policy},
    {"recover", true, do_policy},
};

static void
do_request(struct node *node, struct client *client, const char *text, size_t len)
{
    struct err err;
    struct json *request = json_parse(text, len, REQUEST_BYTES_MAX, &err);
    if (!request) {
        finish(node, client, err.msg, true);
        return;
    }
    const char *name = json_text(json_get(request, "command"), "");
    size_t count = sizeof(requests) / sizeof(requests[0]), i = 0;
    while (i < count && strcmp(requests[i].name, name) != 0)
        i++;
    if (i == count)
        finish(node, client, "the node knows no such command; is it of another version?",
               true);
    else if (requests[i].in_swarm && !node->entered)
        finish(node, client, "this node is still joining; its log says what it waits for",
               false);
    else
        requests[i].run(node, client, request);
    json_free(request);
    node_effects(node);
}

/* ---- the socket ---- */

static void
on_client(void *arg, int fd)
{
    struct node *node = arg;
    struct client *client = NULL;
    for (int i = 0; i < CLIENTS_MAX; i++)
        if (node->control->clients[i].fd == fd)
            client = &node->control->clients[i];
    if (!client)
        return;
    char block[16384];
    ssize_t got = recv(fd, block, sizeof(block), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || client->in.len + (size_t)got > REQUEST_BYTES_MAX) {
        drop(node, client);
        return;
    }
    buf_add(&client->in, block, (size_t)got);
    char *end = memchr(client->in.data, '\n', client->in.len);
    if (!end)
        return;
    struct buf line = client->in;
    client->in = (struct buf){0};
    do_request(node, client, (char *)line.data, (size_t)(end - (char *)line.data));
    buf_release(&line);
}

static void
on_connect(void *arg, int fd)
{
    struct node *node = arg;
    int talk = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (talk < 0)
        return;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &node->control->clients[i];
        if (client->fd >= 0)
            continue;
        *client = (struct client){
            .fd = talk, .ticket = ++node->control->tickets, .since_ms = clock_ms()};
        loop_fd(node->loop, talk, on_client, node);
        return;
    }
    close(talk);
}

static void
on_event(void *arg, const char *text, size_t len)
{
    struct node *node = arg;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &node->control->clients[i];
        if (client->fd >= 0 && client->follows && !client->closing)
            say(node, client, text, len);
    }
}

static void
on_flush(void *arg)
{
    struct node *node = arg;
    int64_t now = clock_ms();
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &node->control->clients[i];
        if (client->fd < 0)
            continue;
        if (client->submitted && node_leaderless(node, now))
            answered(node,
                     node->paused[0] ? node->paused
                                     : "the swarm has no leader at present; try again",
                     false);
        else if (client->submitted && now - client->since_ms > SUBMIT_MS_MAX)
            answered(node,
                     "the leader does not answer; \"flotilla status\" says who leads",
                     false);
        flush(node, client);
    }
    if (node->control->pending.active)
        tell_leader(node, now);
}

void
control_submitted(struct node *node, const struct id *from, const char *error)
{
    const struct pending *pending = &node->control->pending;
    if (!pending->active || !id_equal(from, &pending->leader))
        return;
    /* A leader that took it may be gone before it is done: control_committed() tells. */
    if (!error[0] && pending->stop && node->view->state == JOB_RUNNING)
        return;
    /* Stopped before it began: nothing more will be heard of it. */
    answered(node, error, !pending->stop || node->view->state != JOB_NONE);
}

void
control_committed(struct node *node)
{
    const struct pending *pending = &node->control->pending;
    const struct view *view = node->view;
    if (!pending->active)
        return;
    if (pending->stop
            ? view->state != JOB_RUNNING
            : view->state != JOB_NONE && id_equal(&view->job.train.id, &pending->job))
        answered(node, "", true);
}

int
control_open(struct node *node, struct err *err)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    struct control *control = xcalloc(1, sizeof(*control));
    control->fd = -1;
    for (int i = 0; i < CLIENTS_MAX; i++)
        control->clients[i].fd = -1;
    node->control = control;
    path_join(control->path, node->config.data, STATUS_SOCKET_FILE);
    if (strlen(control->path) >= sizeof(where.sun_path))
        return err_set(
            err, ERR_USAGE,
            "the data folder's path \"%s\" is too long for a UNIX socket (%zu bytes at "
            "most with the socket's name); use a shorter --data",
            node->config.data, sizeof(where.sun_path) - 1);
    memcpy(where.sun_path, control->path, strlen(control->path) + 1);
    unlink(control->path);
    mode_t mask = umask(077); /* the folder may be an older one, open to others */
    control->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int failed = control->fd < 0 ||
                 bind(control->fd, (struct sockaddr *)&where, sizeof(where)) ||
                 listen(control->fd, 16);
    umask(mask);
    if (failed)
        return err_set_errno(err, "could not open the control socket \"%s\"",
                             control->path);
    loop_fd(node->loop, control->fd, on_connect, node);
    loop_timer(node->loop, FLUSH_MS, on_flush, node);
    events_follow(node->events, on_event, node);
    return 0;
}

void
control_close(struct node *node)
{
    struct control *control = node->control;
    if (!control)
        return;
    for (int i = 0; i < CLIENTS_MAX; i++)
        drop(node, &control->clients[i]);
    if (control->fd >= 0) {
        loop_fd_cancel(node->loop, control->fd);
        close(control->fd);
        unlink(control->path);
    }
    if (node->events)
        events_follow(node->events, NULL, NULL);
    buf_release(&control->pending.body);
    free(control);
    node->control = NULL;
}
