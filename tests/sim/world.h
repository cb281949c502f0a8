/*
 * world.h - the invented world in which real nodes live: one seeded scheduler, virtual
 * time, hosts with a disk, a clock and perhaps a process each.
 *
 * The nodes are the program's own (all of node/ on the real cores and planner), linked against
 * invented versions of what lies outside: sockets (net.c), the loop (loop.c), the data
 * plane and the engine (plane.c, engine.c), the operating system (system.c, disk.c). All
 * of them live in one process, so every call into a node says first whose it is: `here`.
 *
 *     event --> here = its host --> the node's handler --> events --> what must hold
 *
 * One seed gives one run: everything random comes from `world.rng` or the host's own.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "node/node.h"
#include "transport/base/rng.h"

enum { HOSTS_MAX = 48, WHY_SIZE = 512, MS = 1000, SECOND = 1000000 };

struct disk;

/* What may go wrong, per seed; 0: it does not. Rates are per million. */
struct faults {
    int64_t delay_us, jitter_us; /* of every message */
    int delay_far;               /* times as much between zones */
    int drop_ppm;                /* gossip frames that vanish */
    int twice_ppm;               /* frames that come twice */
    int stall_ppm, stall_ms;     /* frames that are held up, with all behind them */
    int break_ppm;               /* a connection closes under a frame */
    int crash_disk_ppm;          /* per call to the disk: the machine stops in it */
    int full_disk_ppm;           /* per write: no space left */
    int64_t every_ms;            /* between two of the following, about; 0: never */
    int crash, pause, cut, oneway, bridge, isolate, refuse, dark, leave, drift, job, stop,
        forget, plane; /* weights */
};

struct host {
    int index;
    struct node *node; /* NULL: no process */
    uint64_t life;     /* of the process: events of an older one are void */
    struct disk *disk;
    struct rng rng; /* the process's random numbers */
    char zone[4];
    char address[24];
    int64_t memory_bytes;
    int speed_percent;
    bool lies;     /* in its record and reports */
    bool contrary; /* its planner computes another plan */

    bool dying;        /* it crashes once the call at hand returns */
    bool starting;     /* node_open() is under way */
    bool dark;         /* the machine is off: no answers, not even refusals */
    bool left;         /* it went of its own will */
    bool banned;       /* out of this run for good */
    bool outcast;      /* story_guard.c starts and ends it, and nobody waits for it */
    int64_t paused_us; /* stopped until then */
    int64_t woke_ms;   /* its clock when it last went on; 0: it never was stopped */
    int64_t busy_us;   /* at work until then */
    int64_t cost_us;   /* of one event, when slow */
    int64_t clock_us, at_us; /* its clock showed clock_us at at_us */
    int64_t rate_ppm;
    int64_t restart_us; /* 0: not by itself */
    int failed_starts;
    int fenced;         /* how often this process said so */
    int64_t starts_us;  /* first start; 0: still to come */
    int64_t started_us; /* last start */

    struct loop *loop;
    struct admit *admit;
    struct mesh *mesh;
    struct bulk *bulk;
    struct train *train;
    struct join_server *door;
};

struct event;
typedef void (*event_fn)(struct event *event);

struct event {
    int64_t at_us;
    uint64_t order;
    int host; /* -1: the world's own */
    uint64_t life;
    event_fn fn;
    bool urgent;  /* a timer: before what waits for a process that was stopped */
    int from;     /* host that sent it, -1: none did */
    bool held;    /* it waits for a process that is stopped */
    bool arrived; /* it lies in a socket of a process that does not run */
    int64_t a, b, c;
    void *what;
    uint8_t *data; /* owned */
    size_t len;
};

/* An event to come, with what orders it side by side. */
struct due {
    int64_t at_us;
    uint64_t order;
    struct event *event;
};

struct world {
    uint64_t seed;
    struct rng rng;
    int64_t now_us;
    bool real_keys;
    bool trace;  /* print what happens */
    bool healed; /* no more faults */
    bool ways;   /* nodes answer on others' connections, and carry for others (net.c) */
    struct faults faults;
    struct host hosts[HOSTS_MAX];
    int hosts_count;
    bool blocked[HOSTS_MAX][HOSTS_MAX]; /* from, to */
    bool refused[HOSTS_MAX][HOSTS_MAX]; /* a firewall answers instead */
    bool split[HOSTS_MAX][HOSTS_MAX];   /* the data plane alone */

    struct due *heap; /* the earliest first */
    size_t heap_count, heap_room;
    uint64_t order;
    uint64_t events, frames;
    uint64_t hash;      /* of all that happened */
    char why[WHY_SIZE]; /* the first breach; empty: all is well */
    int crashes, starts, cuts, pauses, jobs;
};

extern struct world world;
extern struct host *here; /* whose code runs; NULL: nobody's */

void world_open(uint64_t seed);
void world_close(void);

/* Something that happens `in_us` from now, to a process of this life, or to the world
 * (host NULL). Fill in the rest. */
struct event *world_in(int64_t in_us, const struct host *host, event_fn fn);
/* One event; false: there is none. */
bool world_step(void);
void world_run(int64_t us);

/* Something that must hold does not: the first one is kept. */
void world_breach(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void world_mix(uint64_t value);
void world_mix_bytes(const void *bytes, size_t len);
/* A line of the story, kept as the last ones and printed with --trace. */
void world_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void world_last_words(void); /* prints the last lines */

bool world_chance(int ppm); /* of the scheduler */
uint64_t world_below(uint64_t bound);
int64_t world_delay(int from, int to); /* of one message, one way */
bool world_path(int from, int to);     /* does it come through now? */

struct host *host_of(const struct id *id); /* by the process that runs; NULL */
struct host *host_at(const char *name);    /* by an address's host; NULL */
bool host_up(const struct host *host);     /* runs, is not stopped */
int64_t host_clock_us(const struct host *host);
void host_drift(struct host *host, int64_t rate_ppm);
/* `join`: an address, an invite, or NULL. A node that cannot start is the world's to
 * mend. */
void host_start(struct host *host, const char *join);
void host_crash(struct host *host);
void host_pause(struct host *host, int64_t us);
/* One that is stopped for longer goes on in `us`. */
void host_wake_by(struct host *host, int64_t us);

/* ---- the parts of the world ---- */

/* loop.c: a descriptor of the host's loop may be readable. */
void loop_ready(struct host *host, int fd);
bool loop_stopped(const struct loop *loop);

/* net.c: connections after what happened to the world. */
void net_process_gone(int index);
void net_paths_changed(void);
void net_open(void);
/* Connections between them that the first one has not closed. */
int net_connections(const struct host *host, const struct host *other);
/* ---- admit.c ---- */
void net_refuse(struct admit *admit); /* a handshake failed there */
bool net_evicted(const struct admit *admit, const struct id *node);
/* The invite among those open there whose key this is. */
bool net_invited(const struct host *host, const uint8_t curve_public[KEY_CURVE_BYTES],
                 struct id *invite);
void net_close(void);

/* plane.c */
void plane_process_gone(int index);
void plane_break(struct host *a, struct host *b); /* the connection between them */

/* system.c: a command line's talk with a node over its UNIX socket. */
void system_say(struct host *host, const char *request);
/* The same; `fn` gets each piece of the answer. */
void system_ask(struct host *host, const char *request,
                void (*fn)(struct host *host, const char *text, size_t len));
void system_open(void);
void system_close(void);
/* engine.c: who is measured how fast; data sets and checkpoints on disk. */
void engine_put_data(struct host *host, const struct id *data);

#endif
