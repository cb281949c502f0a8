#include "testnet/relay.h"
#include "testnet/port.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/mailbox.h"
#include "transport/base/must.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 16 << 10,     /* read at once, at most */
    PIECE_BYTES_MIN = 1500,     /* ... on a slow link */
    PIECE_US = 1000,            /* ... and what passes in this time */
    BACKLOG_US = 20000,         /* what may wait for its turn on a link */
    QUEUE_BYTES_MIN = 64 << 10, /* of one connection and direction, besides what is */
    QUEUE_BYTES_FREE = 1 << 20, /* under way; without a rate */
    SOCKET_BYTES = 256 << 10,   /* the kernel's buffer in front of us */
    EVENTS_AT_ONCE = 64,
    LISTEN_BACKLOG = 64
};

struct way {
    double bytes_per_us; /* 0: no limit */
    int64_t delay_us;
    int64_t free_us; /* when the last byte taken leaves the sender */
};

struct piece {
    struct piece *next;
    int64_t due_us;
    size_t from, to; /* what is left of data */
    uint8_t data[PIECE_BYTES];
};

/* What an epoll event is about. */
struct handle {
    enum { HANDLE_TIMER, HANDLE_COMMANDS, HANDLE_PORT, HANDLE_SIDE } kind;
    int side;
    void *owner;
};

struct port {
    struct handle handle;
    int fd;
    int zone, from;
    struct sockaddr_in target;
};

/* From fds[side] to fds[1 - side]. */
struct flow {
    struct way *way;
    struct piece *head, *tail;
    size_t queued;
    bool reading;    /* may take a piece this turn */
    bool blocked;    /* the receiver's socket is full */
    bool ended;      /* the sender has closed */
    int64_t end_us;  /* when that arrives */
    bool end_passed; /* and was passed on */
};

struct connection {
    struct handle handles[2]; /* 0: the dialler's side, 1: the target's */
    int fds[2];
    uint32_t interest[2];
    bool watched[2];
    bool hung[2]; /* read without being told: there is an end to find */
    int zones[2];
    struct flow flows[2];
    bool connecting;
    bool broken; /* while stalled: closed when it heals */
    bool closed; /* freed at the end of the turn */
};

enum command_kind { COMMAND_PORT, COMMAND_CUT, COMMAND_STALL, COMMAND_END };

struct command {
    enum command_kind kind;
    int zone;
    bool on;
    struct port *port;
};

struct relay {
    pthread_t thread;
    struct mailbox *commands, *answers;
    int zones;
    struct way *ways;
    bool *cut, *stalled;
    int epoll, timer;
    struct handle timer_handle, commands_handle;
    struct port **ports;
    struct connection **connections;
    struct piece *spare;
    size_t ports_count, connections_count;
    bool stopping;
};

/* ---- small things ---- */

static bool
crosses(const struct connection *connection, const bool *zones)
{
    int left = connection->zones[0], right = connection->zones[1];
    return left != right && (zones[left] || zones[right]);
}

static struct piece *
piece_take(struct relay *relay)
{
    struct piece *piece = relay->spare;
    if (piece)
        relay->spare = piece->next;
    else
        piece = xcalloc(1, sizeof(*piece));
    piece->next = NULL;
    return piece;
}

static void
piece_give(struct relay *relay, struct piece *piece)
{
    piece->next = relay->spare;
    relay->spare = piece;
}

static void
watch(struct relay *relay, struct connection *connection, int side, uint32_t interest)
{
    if (!connection->watched[side] || connection->interest[side] == interest)
        return;
    struct epoll_event event = {.events = interest,
                                .data.ptr = &connection->handles[side]};
    epoll_ctl(relay->epoll, EPOLL_CTL_MOD, connection->fds[side], &event);
    connection->interest[side] = interest;
}

/* A descriptor with nothing left to hear would wake us for ever. */
static void
unwatch(struct relay *relay, struct connection *connection, int side)
{
    if (connection->watched[side])
        epoll_ctl(relay->epoll, EPOLL_CTL_DEL, connection->fds[side], NULL);
    connection->watched[side] = false;
}

static void
connection_close(struct relay *relay, struct connection *connection)
{
    if (connection->closed)
        return;
    connection->closed = true;
    for (int side = 0; side < 2; side++) {
        /* A child of the runner may hold it too until it has become a node: closing alone
         * would leave it with epoll, and us with events of what was freed. */
        unwatch(relay, connection, side);
        close(connection->fds[side]);
        struct piece *piece = connection->flows[side].head;
        while (piece) {
            struct piece *next = piece->next;
            piece_give(relay, piece);
            piece = next;
        }
    }
}

/* A peer broke the connection: at once, unless the line between them is frozen. */
static void
connection_break(struct relay *relay, struct connection *connection)
{
    if (!crosses(connection, relay->stalled)) {
        connection_close(relay, connection);
        return;
    }
    connection->broken = true;
    unwatch(relay, connection, 0);
    unwatch(relay, connection, 1);
}

/* ---- dialling ---- */

static int
dial(const struct sockaddr_in *target)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1,
        bytes = SOCKET_BYTES;
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    if (connect(fd, (const struct sockaddr *)target, sizeof(*target)) &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static void
take_connection(struct relay *relay, const struct port *port)
{
    int fd = accept4(port->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
    if (fd < 0)
        return;
    bool refused =
        port->zone != port->from && (relay->cut[port->zone] || relay->cut[port->from]);
    int target = refused ? -1 : dial(&port->target);
    if (target < 0) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct connection *connection = xcalloc(1, sizeof(*connection));
    connection->connecting = true;
    int fds[2] = {fd, target}, zones[2] = {port->from, port->zone};
    for (int side = 0; side < 2; side++) {
        connection->handles[side] = (struct handle){HANDLE_SIDE, side, connection};
        connection->fds[side] = fds[side];
        connection->zones[side] = zones[side];
        connection->flows[side].way =
            &relay->ways[zones[side] * relay->zones + zones[1 - side]];
        connection->interest[side] = side == 1 ? EPOLLOUT : 0;
        struct epoll_event event = {.events = connection->interest[side],
                                    .data.ptr = &connection->handles[side]};
        connection->watched[side] =
            epoll_ctl(relay->epoll, EPOLL_CTL_ADD, fds[side], &event) == 0;
    }
    relay->connections = xrealloc(relay->connections, relay->connections_count + 1,
                                  sizeof(struct connection *));
    relay->connections[relay->connections_count++] = connection;
}

/* ---- bytes ---- */

static size_t
piece_bytes(const struct way *way)
{
    double bytes = way->bytes_per_us * PIECE_US;
    if (way->bytes_per_us <= 0 || bytes > PIECE_BYTES)
        return PIECE_BYTES;
    return bytes < PIECE_BYTES_MIN ? PIECE_BYTES_MIN : (size_t)bytes;
}

static size_t
queue_bytes(const struct way *way)
{
    if (way->bytes_per_us <= 0)
        return QUEUE_BYTES_FREE;
    return QUEUE_BYTES_MIN + (size_t)(way->bytes_per_us *
                                      (double)(way->delay_us + INT64_C(2) * BACKLOG_US));
}

static void
flow_read(struct relay *relay, struct connection *connection, int side, int64_t now)
{
    struct flow *flow = &connection->flows[side];
    struct way *way = flow->way;
    struct piece *piece = piece_take(relay);
    ssize_t got = recv(connection->fds[side], piece->data, piece_bytes(way), 0);
    if (got <= 0) {
        int why = errno;
        piece_give(relay, piece);
        if (got < 0 && (why == EAGAIN || why == EWOULDBLOCK || why == EINTR))
            return;
        if (got < 0) {
            connection_break(relay, connection);
            return;
        }
        flow->ended = true;
        flow->end_us = now + way->delay_us;
        return;
    }
    piece->from = 0;
    piece->to = (size_t)got;
    int64_t leaves = now;
    if (way->bytes_per_us > 0) {
        if (way->free_us < now)
            way->free_us = now;
        way->free_us += (int64_t)((double)got / way->bytes_per_us + 0.5);
        leaves = way->free_us;
    }
    piece->due_us = leaves + way->delay_us;
    if (flow->head)
        flow->tail->next = piece;
    else
        flow->head = piece;
    flow->tail = piece;
    flow->queued += (size_t)got;
}

/* Hand over what has arrived by now. */
static void
flow_write(struct relay *relay, struct connection *connection, int side, int64_t now)
{
    struct flow *flow = &connection->flows[side];
    int to = connection->fds[1 - side];
    flow->blocked = false;
    while (flow->head && flow->head->due_us <= now) {
        struct piece *piece = flow->head;
        ssize_t sent =
            send(to, piece->data + piece->from, piece->to - piece->from, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            flow->blocked = true;
            return;
        }
        if (sent < 0) {
            connection_break(relay, connection);
            return;
        }
        piece->from += (size_t)sent;
        flow->queued -= (size_t)sent;
        if (piece->from < piece->to)
            continue;
        flow->head = piece->next;
        piece_give(relay, piece);
    }
    if (!flow->head && flow->ended && !flow->end_passed && flow->end_us <= now) {
        shutdown(to, SHUT_WR);
        flow->end_passed = true;
    }
}

/* ---- a turn ---- */

static void
earlier(int64_t *wake_us, int64_t at_us)
{
    if (at_us < *wake_us)
        *wake_us = at_us;
}

/* Deliver, decide what may be read, and say when to look again. */
static void
connection_turn(struct relay *relay, struct connection *connection, int64_t now,
                int64_t *wake_us)
{
    if (connection->connecting)
        return;
    uint32_t interest[2] = {0, 0};
    for (int side = 0; side < 2 && !connection->closed; side++) {
        struct flow *flow = &connection->flows[side];
        flow_write(relay, connection, side, now);
        if (connection->closed || connection->broken)
            return;
        if (flow->blocked)
            interest[1 - side] |= EPOLLOUT;
        else if (flow->head)
            earlier(wake_us, flow->head->due_us);
        else if (flow->ended && !flow->end_passed)
            earlier(wake_us, flow->end_us);
        flow->reading = false;
        if (flow->ended || flow->queued >= queue_bytes(flow->way))
            continue;
        int64_t backlog = flow->way->free_us - now;
        if (flow->way->bytes_per_us > 0 && backlog > BACKLOG_US) {
            earlier(wake_us, flow->way->free_us - BACKLOG_US);
            continue;
        }
        if (connection->hung[side]) {
            flow_read(relay, connection, side, now);
            earlier(wake_us, now);
            continue;
        }
        flow->reading = true;
        interest[side] |= EPOLLIN;
    }
    if (connection->closed || connection->broken)
        return;
    if (connection->flows[0].end_passed && connection->flows[1].end_passed) {
        connection_close(relay, connection);
        return;
    }
    for (int side = 0; side < 2; side++) {
        if (connection->flows[side].ended && connection->flows[1 - side].end_passed)
            unwatch(relay, connection, side);
        watch(relay, connection, side, interest[side]);
    }
}

static int64_t
turn(struct relay *relay, int64_t now)
{
    int64_t wake_us = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < relay->connections_count; i++) {
        struct connection *connection = relay->connections[i];
        if (!connection->closed && crosses(connection, relay->stalled)) {
            watch(relay, connection, 0, 0);
            if (!connection->connecting)
                watch(relay, connection, 1, 0);
        } else if (!connection->closed && connection->broken) {
            connection_close(relay, connection);
        } else if (!connection->closed) {
            connection_turn(relay, connection, now, &wake_us);
        }
        if (connection->closed)
            free(connection);
        else
            relay->connections[kept++] = connection;
    }
    relay->connections_count = kept;
    return wake_us;
}

static void
side_event(struct relay *relay, struct connection *connection, int side, uint32_t events,
           int64_t now)
{
    if (connection->closed || connection->broken)
        return;
    if (events & EPOLLERR || (connection->connecting && events & EPOLLHUP)) {
        if (connection->connecting)
            connection_close(relay, connection);
        else
            connection_break(relay, connection);
        return;
    }
    if (connection->connecting && side == 1) {
        connection->connecting = false;
        return;
    }
    if (connection->flows[side].reading && events & (EPOLLIN | EPOLLHUP)) {
        connection->flows[side].reading = false;
        flow_read(relay, connection, side, now);
    } else if (events & EPOLLHUP) {
        /* Over in both directions, with bytes left that we cannot take yet. */
        unwatch(relay, connection, side);
        connection->hung[side] = true;
    }
}

/* ---- commands ---- */

static void
obey(struct relay *relay, const struct command *command)
{
    switch (command->kind) {
    case COMMAND_PORT: {
        struct epoll_event event = {.events = EPOLLIN,
                                    .data.ptr = &command->port->handle};
        relay->ports =
            xrealloc(relay->ports, relay->ports_count + 1, sizeof(struct port *));
        relay->ports[relay->ports_count++] = command->port;
        epoll_ctl(relay->epoll, EPOLL_CTL_ADD, command->port->fd, &event);
        break;
    }
    case COMMAND_CUT:
        relay->cut[command->zone] = command->on;
        for (size_t i = 0; i < relay->connections_count; i++)
            if (crosses(relay->connections[i], relay->cut))
                connection_close(relay, relay->connections[i]);
        break;
    case COMMAND_STALL:
        relay->stalled[command->zone] = command->on;
        break;
    case COMMAND_END:
        relay->stopping = true;
        break;
    }
    must(mailbox_put(relay->answers, command));
}

static void
arm(const struct relay *relay, int64_t now, int64_t wake_us)
{
    int64_t wait_us = wake_us > now ? wake_us - now : 1;
    struct itimerspec when = {
        .it_value = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000}};
    timerfd_settime(relay->timer, 0, &when, NULL);
}

static void *
relay_main(void *arg)
{
    struct relay *relay = arg;
    struct epoll_event events[EVENTS_AT_ONCE];
    int64_t wake_us = INT64_MAX;
    while (!relay->stopping) {
        if (wake_us != INT64_MAX)
            arm(relay, clock_us(), wake_us);
        int count = epoll_wait(relay->epoll, events, EVENTS_AT_ONCE, -1);
        int64_t now = clock_us();
        for (int i = 0; i < count; i++) {
            struct handle *handle = events[i].data.ptr;
            uint64_t expired;
            struct command command;
            switch (handle->kind) {
            case HANDLE_TIMER:
                if (read(relay->timer, &expired, sizeof(expired)) < 0)
                    break;
                break;
            case HANDLE_COMMANDS:
                mailbox_clear(relay->commands);
                while (mailbox_take(relay->commands, &command))
                    obey(relay, &command);
                break;
            case HANDLE_PORT:
                take_connection(relay, handle->owner);
                break;
            case HANDLE_SIDE:
                side_event(relay, handle->owner, handle->side, events[i].events, now);
                break;
            }
        }
        wake_us = turn(relay, clock_us());
    }
    return NULL;
}

/* ---- from the other thread ---- */

static void
ask(struct relay *relay, const struct command *command)
{
    struct command answer;
    must(mailbox_put(relay->commands, command));
    while (!mailbox_take(relay->answers, &answer))
        mailbox_wait(relay->answers, -1);
}

static int
start(struct relay *relay, struct err *err)
{
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (relay->epoll < 0 || relay->timer < 0)
        return err_set_errno(err, "could not start the relay");
    relay->timer_handle.kind = HANDLE_TIMER;
    relay->commands_handle.kind = HANDLE_COMMANDS;
    struct epoll_event timer = {.events = EPOLLIN, .data.ptr = &relay->timer_handle},
                       command = {.events = EPOLLIN, .data.ptr = &relay->commands_handle};
    sigset_t all, before;
    sigfillset(&all);
    if (epoll_ctl(relay->epoll, EPOLL_CTL_ADD, relay->timer, &timer) ||
        epoll_ctl(relay->epoll, EPOLL_CTL_ADD, mailbox_fd(relay->commands), &command))
        return err_set_errno(err, "could not start the relay");
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&relay->thread, NULL, relay_main, relay);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return code ? err_set_errno(err, "could not start the relay's thread") : 0;
}

static void
relay_free(struct relay *relay)
{
    for (size_t i = 0; i < relay->connections_count; i++) {
        connection_close(relay, relay->connections[i]);
        free(relay->connections[i]);
    }
    for (size_t i = 0; i < relay->ports_count; i++) {
        close(relay->ports[i]->fd);
        free(relay->ports[i]);
    }
    while (relay->spare)
        free(piece_take(relay));
    if (relay->epoll >= 0)
        close(relay->epoll);
    if (relay->timer >= 0)
        close(relay->timer);
    mailbox_free(relay->commands);
    mailbox_free(relay->answers);
    free(relay->connections);
    free(relay->ports);
    free(relay->ways);
    free(relay->cut);
    free(relay->stalled);
    free(relay);
}

struct relay *
relay_start(int zones, const struct relay_link *links, struct err *err)
{
    must(zones > 0);
    struct relay *relay = xcalloc(1, sizeof(*relay));
    size_t count = (size_t)zones;
    relay->zones = zones;
    relay->ways = xcalloc(count * count, sizeof(*relay->ways));
    relay->cut = xcalloc(count, sizeof(*relay->cut));
    relay->stalled = xcalloc(count, sizeof(*relay->stalled));
    for (size_t i = 0; i < count * count; i++) {
        relay->ways[i].bytes_per_us = links[i].mbit_per_s / 8;
        relay->ways[i].delay_us = (int64_t)(links[i].delay_ms * 1000);
    }
    relay->commands = mailbox_new(sizeof(struct command), 4);
    relay->answers = mailbox_new(sizeof(struct command), 4);
    if (start(relay, err)) {
        relay_free(relay);
        return NULL;
    }
    return relay;
}

void
relay_stop(struct relay *relay)
{
    if (!relay)
        return;
    ask(relay, &(struct command){.kind = COMMAND_END});
    pthread_join(relay->thread, NULL);
    relay_free(relay);
}

int
relay_open(struct relay *relay, const struct address *base, int zone, int from,
           struct address *via, struct err *err)
{
    int fds[PORT_TRIPLE], bytes = SOCKET_BYTES;
    must(zone >= 0 && zone < relay->zones && from >= 0 && from < relay->zones);
    if (port_triple(fds, via, err))
        return -1;
    for (int i = 0; i < PORT_TRIPLE; i++) {
        /* An accepted socket has its listener's buffer. */
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
        if (listen(fds[i], LISTEN_BACKLOG)) {
            err_set_errno(err, "could not listen on port %d of the relay", via->port + i);
            while (i < PORT_TRIPLE)
                close(fds[i++]);
            return -1;
        }
        struct port *port = xcalloc(1, sizeof(*port));
        port->handle = (struct handle){HANDLE_PORT, 0, port};
        port->fd = fds[i];
        port->zone = zone;
        port->from = from;
        port->target = (struct sockaddr_in){.sin_family = AF_INET,
                                            .sin_port = htons((uint16_t)(base->port + i)),
                                            .sin_addr.s_addr = port_host()};
        ask(relay, &(struct command){.kind = COMMAND_PORT, .port = port});
    }
    return 0;
}

void
relay_cut(struct relay *relay, int zone, bool on)
{
    must(zone >= 0 && zone < relay->zones);
    ask(relay, &(struct command){.kind = COMMAND_CUT, .zone = zone, .on = on});
}

void
relay_stall(struct relay *relay, int zone, bool on)
{
    must(zone >= 0 && zone < relay->zones);
    ask(relay, &(struct command){.kind = COMMAND_STALL, .zone = zone, .on = on});
}
