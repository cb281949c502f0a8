/*
 * config.h - how a node is told to run: options, a node.yaml, the environment. Options
 * win over the file.
 *
 *     node.yaml: name, zone, data, listen, advertise, join, secret_file, threads, memory,
 *                voter_age (seconds, 600), engine (on or off),
 *                log: {level, format}, routes: [{to: HOST:PORT, via: HOST:PORT}]
 */
#ifndef NODE_CONFIG_H
#define NODE_CONFIG_H

#include "node/invite.h"
#include "transport/address.h"
#include "transport/base/log.h"

/* What paths below the data folder may take of PATH_BYTES_MAX; the least memory that a
 * node may be given for training. */
enum { CONFIG_PATH_ROOM = 512, CONFIG_MEMORY_MIN = 64 << 20, CONFIG_VOTER_AGE_S = 600 };

struct node_config {
    char data[PATH_BYTES_MAX];     /* folder; default: config_data_default() */
    char name[NAME_BYTES_MAX + 1]; /* empty: the id's short form */
    char zone[NAME_BYTES_MAX + 1]; /* default "default" */
    struct address listen;         /* default 0.0.0.0:7700 */
    /* Host empty: from listen, or the machine's first address. */
    struct address advertise;
    /* Host empty: found a swarm, or come back as the member that we were. */
    struct address join;
    /* By an invite, whose first seed `join` is. */
    bool invited;
    struct invite invite;
    bool moved;                       /* the data folder came here from another machine */
    bool new_identity;                /* it is a copy, and is to be another node */
    char secret_file[PATH_BYTES_MAX]; /* empty: FLOTILLA_SECRET, else DIR/swarm.secret */
    int threads;                      /* 0: one per core */
    /* What a plan may fill; 0: 80 % of what is available at the start. */
    int64_t memory_bytes;
    /* It votes and keeps the swarm together, but takes no part in plans. */
    bool engine_off;
    int voter_age_s; /* above nine members, who has been one for so long may vote */
    struct address_routes routes; /* owned */
    enum log_level log_level;
    bool log_json;
};

void config_init(struct node_config *config);
void config_release(struct node_config *config);

/* Read a node.yaml over `config`. Paths in it are relative to its folder. ERR_USAGE. */
int config_read(const char *path, struct node_config *config, struct err *err);

/* Names and zones: 1 to NAME_BYTES_MAX of letters, digits, '.', '_', '-'. ERR_USAGE says
 * which `what` is wrong. */
int config_name_check(const char *what, const char *name, struct err *err);

/* The value of --join: an address, or an invite. ERR_USAGE. */
int config_join_take(const char *given, struct node_config *config, struct err *err);

/* The value of --advertise: an address that can be dialled. ERR_USAGE. */
int config_advertise(const char *given, struct node_config *config, struct err *err);

/* The value of --data; ERR_USAGE when it is empty or leaves no room for what lies in
 * it. */
int config_data_take(const char *given, char path[PATH_BYTES_MAX], struct err *err);

/* A size for memory_bytes, at least CONFIG_MEMORY_MIN; ERR_USAGE calls it `what`. */
int config_memory_take(const char *what, const char *given, int64_t *bytes,
                       struct err *err);

/* on or off, for engine_off; ERR_USAGE calls it `what`. */
int config_engine_take(const char *what, const char *given, struct node_config *config,
                       struct err *err);

/* The default data folder: $XDG_DATA_HOME/flotilla or ~/.local/share/flotilla. */
void config_data_default(char path[PATH_BYTES_MAX]);

#endif
