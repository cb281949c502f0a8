/*
 * bulk_parts.h - what the files of the data plane's thread share: bulk.c has the thread and
 * what others ask of it, bulk_link.c the connections and ways to the peers, bulk_wire.c
 * messages in and out of sockets, bulk_carry.c what goes by a third node.
 */
#ifndef TRANSPORT_BULK_PARTS_H
#define TRANSPORT_BULK_PARTS_H

#include "transport/base/mailbox.h"
#include "transport/bulk_flow.h"
#include "transport/bulk_port.h"
#include "transport/detour.h"
#include "transport/socket.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    BULK_FRAMES_PER_TURN =
        32, /* received or sent per socket before other work gets its turn */
    BULK_BYTES_PER_TURN = 1 << 20,
    CARRY_BYTES_MAX = 32 << 20,   /* waiting at a carrier, for all */
    CARRY_BYTES_PER_S = 32 << 20, /* that a carrier passes on, for all */
    CARRY_BURST_BYTES = 4 << 20
};

/* A message that waits at a carrier for its way on: whole, as it will be sent. */
struct carried {
    struct carried *next;
    size_t len;
    uint8_t bytes[];
};

/* A peer of the epoch, and how we reach it. */
struct conn {
    struct bulk *bulk;
    struct bulk_peer peer;
    int number;
    struct dial *dial;
    int fd;            /* where the dial's socket says that it wants to be looked at */
    bool up;           /* our dial is */
    enum bulk_way way; /* of this epoch's chunks to it; does not change within an epoch */
    bool lost;         /* there was a way, and it closed: not mended in this epoch */
    struct flow_route back; /* where way is BULK_BACK */
    int64_t dial_at_ms;
    int64_t began_ms;   /* dialling since */
    int64_t failed_ms;  /* a dial has failed, first at; 0: none has */
    bool vague;         /* ... and did not say that nobody is there */
    int64_t lost_at_ms; /* when to report that there is still no way */
    struct detour detour;
    uint8_t session[KEY_NONCE_BYTES - 8]; /* of what we seal for it */
    uint64_t sealed;
    uint8_t heard_session[KEY_NONCE_BYTES - 8];
    uint64_t heard;               /* newest number of that session */
    struct carried *first, *last; /* to be carried to it */
    bool credit_stuck;            /* a credit for it found no room */
};

/* The newest connection of a node to us that something came by. */
struct back {
    struct id id;
    int fd;
    struct flow_route route;
};

struct bulk {
    const struct key *key;
    const struct address_routes *routes;
    _Atomic uint64_t
        current; /* epoch in force for the ports; written by the control thread */
    _Atomic uint64_t carried, carried_bytes; /* for others */
    struct mailbox *control, *events;
    struct bulk_port *ports[BULK_PORTS];
    pthread_t thread;

    /* The bulk thread's own. */
    struct loop *loop;
    struct listener *listener;
    int router_fd;
    struct mailbox *again; /* to itself: another turn, there is more to do */
    struct flow *flow;
    struct chunk_header epoch; /* generation, epoch and plan tag in force */
    struct conn **conns;       /* by peer number; NULL for ourselves */
    int conns_count;
    struct back *backs;
    size_t backs_count, backs_capacity;
    int tick;                /* timer while something is to be looked after, or 0 */
    struct bulk_event *late; /* events that found their mailbox full */
    size_t late_count, late_capacity;
    size_t carry_bytes; /* waiting to be carried */
    int64_t carry_left, carry_at_ms;
    uint8_t *inner, *sealed; /* CHUNK_CARRY_BYTES_MAX each: what is being carried */
    bool closing;
};

/* ---- bulk_link.c ---- */
void link_renew(struct bulk *bulk, const struct bulk_epoch *epoch);
void link_close(struct bulk *bulk);
/* Something came from this node by this connection to us. */
void link_back(struct bulk *bulk, const struct id *id, const struct flow_route *route,
               int fd);
void link_back_closed(void *arg, int fd); /* arg: the bulk */
struct conn *link_find(const struct bulk *bulk, const struct id *id);
/* The way that was chosen for this epoch is closed. */
void link_lost(struct conn *conn);
/* Look after connections that are missing, ways round, what is stuck. */
void link_tick_on(struct bulk *bulk);

/* ---- bulk_wire.c ---- */
enum wire_result { WIRE_SENT, WIRE_FULL, WIRE_GONE };
/* One message of up to three parts put side by side, by a direct way. */
struct wire_part {
    const void *data; /* NULL: zeros */
    size_t len;
};
enum wire_result wire_send(struct conn *conn, enum bulk_way way,
                           const struct flow_route *route,
                           const struct wire_part parts[3]);
int wire_fd(void *socket);
int wire_events(void *socket);
/* A chunk that did not come in a message of its own is put into one. */
struct flow_chunk *wire_chunk(const uint8_t *frame, size_t len,
                              const struct chunk_header *header);
/* Look at every socket; true: there is more. */
bool wire_serve(struct bulk *bulk);
bool wire_idle(const struct bulk *bulk);
/* Chunks and credits that are due; true: there are more chunks. */
bool wire_send_chunks(struct bulk *bulk);
void wire_send_credits(struct bulk *bulk);
void wire_refuse(const struct id *from, const char *why);

/* ---- bulk_carry.c ---- */
/* Seal a chunk (its payload may be NULL: zeros) and give it to the carrier. */
enum wire_result carry_send(struct conn *conn, const struct id *via,
                            const struct chunk_header *header, const uint8_t *payload);
/* A message of one of the types CARRY to HERE; `payload` follows its header. */
void carry_take(struct bulk *bulk, const struct id *from,
                const struct chunk_header *header, const uint8_t *payload);
/* Pass on what waits. */
void carry_serve(struct bulk *bulk);
void carry_forget(struct conn *conn);

#endif
