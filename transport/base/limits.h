/*
 * limits.h - every limit of the program, named in one place.
 *
 * A size that a peer, a file or a plan decides is held against one of these
 * before anything is allocated for it.
 */
#ifndef TRANSPORT_BASE_LIMITS_H
#define TRANSPORT_BASE_LIMITS_H

enum {
    /* The swarm. */
    MEMBERS_MAX = 10240,     /* records that a node keeps; an epoch: PLAN_NODES_MAX */
    INTRODUCED_MAX = 1024,   /* records in the answer to a join, and in members.state */
    VOTERS_MAX = 9,          /* voters of one epoch */
    ZONES_MAX = 64,          /* zones of one swarm */
    NAME_BYTES_MAX = 32,     /* a node's, zone's or job's name */
    ADDRESS_BYTES_MAX = 64,  /* "host:port" */
    RECORD_LINKS_MAX = 64,   /* link estimates in one record */
    RECORD_BYTES_MAX = 8192, /* one signed record */

    /* The control plane. */
    FRAME_BYTES_MAX = 4 << 20, /* one control frame */
    JOIN_BYTES_MAX = 4096,     /* a frame on the join socket, from a joiner */
    DECREE_BYTES_MAX = 2 << 20,
    CODEC_DEPTH_MAX = 12,    /* nesting of a message */
    CODEC_ITEMS_MAX = 65536, /* values in one message */
    CODEC_COUNT_MAX = 4096,  /* elements of one array */

    /* The data plane. */
    CHUNK_BYTES = 512 << 10,          /* payload of one bulk chunk, at most */
    BULK_WINDOW_BYTES = 8 << 20,      /* unacknowledged bytes per peer and channel */
    BULK_EARLY_BYTES_MAX = 256 << 20, /* waiting chunks of newer epochs, of all senders */
    BULK_OPS_MAX = 4096,              /* posted sends and receives per port */

    /* Jobs and plans. */
    LAYERS_MAX = 512, /* embedding and head included */
    STAGES_MAX = 64,
    REPLICAS_MAX = 256,
    PLAN_NODES_MAX = 1024, /* members of one epoch */
    TENSORS_MAX = 4096, /* tensors of one model */
    MICRO_BATCHES_MAX = 4096,
    JOB_BYTES_MAX = 64 << 10,
    PATH_BYTES_MAX = 4096
};

#endif
