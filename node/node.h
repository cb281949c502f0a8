/*
 * node.h - a running node: the cores (gossip, agree), the sockets (mesh, bulk, join), the
 * engine, and the glue that carries effects out. All of it on the control thread.
 *
 *     node.c     start, stop, the turn: timers in, effects out
 *     frames.c   frames in
 *     local.c    what is kept in the data folder
 *     enter.c    first contact: founding, joining, coming back
 *     seed.c     its other side: who is let in
 *     seeds.c    where it joined, for a start that knows nobody
 *     twins.c    two processes with one identity
 *     lead.c     what a leader does: reasons for a new epoch, freeze, collect reports,
 *                propose
 *     recovery.c a lost majority, by hand: a new generation
 *     admission.h  who may be here: what is asked for, what follows from it
 *     follow.c   what a member does: halt and report, judge, take in a new epoch
 *     worker.c   the engine's orders and reports
 *     paths.c    ways between nodes: addresses that others can dial, connections to keep
 *     measure.c  link estimates, probes, zones held against round trips
 *     control.c  the UNIX socket for commands; status.c the status document
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "gossip/agree.h"
#include "gossip/gossip.h"
#include "gossip/link.h"
#include "node/admission.h"
#include "node/config.h"
#include "node/events.h"
#include "node/excluded.h"
#include "node/reach.h"
#include "node/reached.h"
#include "node/severed.h"
#include "node/view.h"
#include "node/watch.h"
#include "transport/bulk.h"
#include "transport/join.h"
#include "transport/mesh.h"
#include "transport/twin.h"

enum {
    JOIN_VERSION = 2,
    LET_IN_MAX = 640, /* joins of half a minute, as fast as the door answers */
    NODE_TICK_MS = 50,
    NODE_LATE_MS = 200,
    NODE_FRESH_MS = 1500,
    NODE_SLEPT_MS = 1000
};

/* What a member tells others of another (FRAME_EVIDENCE). */
enum evidence_kind {
    EVIDENCE_GONE,   /* its connection closed and redials are refused */
    EVIDENCE_BROKEN, /* to the leader: a connection inside the plan broke, or a halted
                        epoch was not followed by another */
    EVIDENCE_FAILED, /* to the leader: the engine cannot go on with the run */
    EVIDENCE_SEVERED /* to the leader: the data connection to it closed or does not open */
};

/* A leader asked us to halt: what we owe it. */
struct freeze {
    bool active;
    struct id leader;
    uint64_t term;
    uint64_t epoch; /* the one that we halted */
    bool rests;     /* our device is to be left out */
    bool with_job;
    struct job job; /* what to report about */
    bool halted;    /* progress is known */
    struct progress progress;
    bool profiling;
    int64_t since_ms;
};

/* A leader's work towards the next epoch. */
enum lead_state { LEAD_IDLE, LEAD_FREEZING };
struct lead {
    enum lead_state state;
    enum decree_cause cause;
    struct view draft;
    struct id members[PLAN_NODES_MAX]; /* who is asked to report, ascending */
    size_t members_count;
    int64_t asked_ms, again_ms;
    int64_t rest_until_ms; /* a proposal failed: nothing new before this */
    int64_t
        links_until_ms; /* the draft's links are measured; 0: not yet, -1: they were */
    /* Reasons that wait for their turn. */
    bool submit;  /* a job was submitted */
    bool stop;    /* the job is to end after a checkpoint */
    bool done;    /* the run ended */
    bool written; /* somebody has the last step's checkpoint */
    bool finished
        [PLAN_NODES_MAX]; /* by member number: its part of the run's end is done */
    char ended[128];      /* how the run ended, for everybody */
    struct job job;       /* submitted */
    struct id submitter;
    struct severed *severed;
    int64_t link_at_ms;        /* a connection inside the plan broke, 0: none */
    int64_t slow_at_ms;        /* next look at measured speed */
    struct excluded *excluded; /* did not report in time: not asked again for a while */
    int64_t correction_ppm[PLAN_NODES_MAX]; /* learnt while running; 0: nothing new */
};

/* What this node knows of the run. */
struct run_progress {
    struct id job; /* the last one that we had a part in */
    int64_t step;
    double loss;
    double tokens_per_s;
    int64_t step_us;
    uint64_t samples_hash;
    int64_t checkpoint_step, copy_step;
    int64_t copied[STAGES_MAX];       /* newest step that a stage's keeper has whole */
    int64_t compute_us, predicted_us; /* smoothed, of this node, for the correction */
    int64_t told_ms;                  /* last word about it to those without a part */
    int64_t done_step;                /* the run's last step is done here; -1: not yet */
    int64_t written_step; /* newest checkpoint written in this epoch; -1: none */
};

struct control;
struct measure;
struct train;

struct node {
    struct node_config config;
    struct key *key;
    struct secret *secret;
    bool secret_given; /* at the start; until a decree comes that we did not know, it may
                           be newer than what we know */
    struct secret *handed; /* that who is asked as a seed handed us; NULL: ours does */
    struct key *invite;    /* that it comes by; NULL: by the secret */
    struct id id;
    char name[NAME_BYTES_MAX + 1];
    struct id swarm;
    uint64_t boot; /* boot counter, upper half of our incarnation */
    bool founded;
    bool entered; /* swarm known, sockets open */
    int lock_fd;

    struct loop *loop;
    struct admit *admit;
    struct admission *admission;
    /* Another process with our identity, and a member that may have one (twins.c). */
    struct twin *twin;
    int64_t twin_looked_ms, twin_said_ms, twin_held_ms;
    uint64_t twin_boot; /* of the other record, 0: not known */
    char twin_at[ADDRESS_BYTES_MAX + 8], twin_held_at[ADDRESS_BYTES_MAX + 8];
    struct id twin_held;
    bool twin_waits;
    struct join_server *join_server;
    struct join_client *join_client;
    enum join_result join_result; /* the last one */
    int64_t join_said_ms;
    struct {
        struct id id;
        int64_t since_ms;
    } let_in[LET_IN_MAX]; /* joiners whose record is still to come */
    int let_in_count;
    int seed_at;                            /* of an invite's, or of those remembered */
    struct address seeds[INVITE_SEEDS_MAX]; /* where it joined (seeds.c) */
    int seeds_count;
    bool found; /* it founded, joined, or met a member of the decree that it knew */
    int64_t seed_ms;
    struct address
        seed; /* whom it asks: the configured one, or a member to catch up by */
    struct mesh *mesh;
    struct reach *reach;
    uint8_t data_ways[PLAN_NODES_MAX]; /* enum bulk_way, by member number */
    struct {                           /* of others' addresses, made here */
        struct id last;
        uint64_t nonce;
        int64_t at_ms, kept_ms;
    } checks;
    struct bulk *bulk;
    struct train *train; /* NULL: engine off */
    struct gossip *gossip;
    struct agree *agree;
    struct links *links;
    struct measure *measure;
    struct watch *watch;
    struct events *events;
    struct control *control;
    struct effects effects;

    struct view *view;    /* of the newest epoch; never NULL once entered */
    struct decree decree; /* the same epoch's */
    bool member;          /* we are one, with this boot */
    bool was_member;      /* of an earlier epoch, in this process */
    int64_t entered_ms;   /* the sockets opened */
    int64_t entered_epoch_ms;
    int64_t member_since_ms; /* when `member` became true */

    struct freeze freeze;
    struct lead lead;
    struct run_progress run;
    struct reached reached; /* across restarts */
    struct profile profile; /* of this machine on profile_shape */
    struct {
        struct model_shape shape;
        int sequences; /* 0: nothing is being measured */
    } profiling;
    struct id cannot; /* a job that this device cannot take part in; empty: none */
    struct model_shape profile_shape;
    int profile_sequences;

    _Atomic int64_t fresh_at_ms;
    int64_t ticked_ms;
    int64_t led_ms; /* a leader was known last; before the first one, the start */
    bool woken;     /* we may have slept: ask before anything is applied */
    uint64_t wake_nonce;
    uint32_t wake_mask; /* voters that confirmed our epoch */
    int64_t asked_awake_ms;
    char paused[256]; /* why training does not advance; empty: it does */
    int64_t measured_ms, records_saved_ms, evidence_ms, progress_ms;
    bool records_dirty;
    int signals; /* SIGTERM or SIGINT so far */
    int signal_fd;
    int64_t leaving_ms; /* when leave began; 0: not leaving */
    int exit_code;
    char stop_reason[ERR_MSG_SIZE];
    bool broken; /* a promise could not be made durable: nothing more leaves */
    int halts_asked, halts_answered;
    int64_t caught_up_ms;    /* last try to catch up by a seed */
    size_t caught_up_by;     /* which member is tried next, of those that gossip has */
    bool asked_ahead;        /* the last try was at one of them */
    int64_t asked_others_ms; /* who was asked for its decree, nobody leading */
    size_t asked_others_by;
    uint32_t rival_generation; /* another recovery made it, too; 0: none did */
    /* A member that does not admit us, and since when: it has forgotten us, or never
     * heard of us. 0: nobody. */
    struct id denied_by;
    bool asks_again; /* what it asks a seed for is not what it was started for */
    int64_t denied_ms;
};

/* ---- node.c ---- */
/* A node on its loop, entering its swarm; NULL: it cannot start. */
struct node *node_open(const struct node_config *config, struct err *err);
void node_close(struct node *node);
/* Both, with the loop's run between them. */
int node_run(const struct node_config *config, struct err *err);
int node_open_swarm(struct node *node,
                    struct err *err); /* mesh, bulk, engine: once the swarm is known */
void node_watch_swarm(struct node *node); /* and their events, once the cores are there */
void node_effects(struct node *node);     /* carry out everything in node->effects */
void node_send(struct node *node, const struct id *to, enum frame_kind kind,
               const struct buf *body);
void node_broadcast(struct node *node, enum frame_kind kind,
                    const struct buf *body); /* members but us */
/* To one member, or with NULL to all. */
void node_evidence(struct node *node, const struct id *to, const struct id *about,
                   enum evidence_kind kind, const char *what);
const char *node_name_of(const struct node *node, const struct id *id,
                         char text[NAME_BYTES_MAX + 1]);
const char *node_zone_of(const struct node *node, const struct id *id);
void node_leave(struct node *node, const char *why);
void node_stop(struct node *node, int exit_code, const char *why);
void node_set_paused(struct node *node, const char *why); /* empty: goes on */
/* No leader for longer than an election takes: who asks for one is told. */
bool node_leaderless(const struct node *node, int64_t now_ms);

/* ---- frames.c ---- */
void frames_receive(void *arg, const struct frame *frame); /* arg: the node */
/* A node, maybe this one, asks for a job or for its end: the body of FRAME_SUBMIT. */
int frames_submit(struct node *node, const struct id *from, const void *body,
                  size_t body_len, struct err *err);

/* ---- enter.c ---- */
int enter_start(struct node *node, struct err *err);
void enter_record(struct node *node); /* our record to gossip, as things are now */
/* Repeats what a joiner waits for; forgets who was let in and never spoke. */
void enter_tick(struct node *node, int64_t now);
/* Far behind everybody: take the newest decree from a member as a joiner would. */
void enter_catch_up(struct node *node, int64_t now);
/* The member that was asked hands us the secret in force: asked as a joiner by it. Takes the secret. */
void enter_handed(struct node *node, const struct id *from, struct secret *secret);
void enter_meet(struct node *node, const struct member *member);

/* ---- seed.c ---- */
/* The join socket, with our secret's key. */
int seed_open(struct node *node, struct err *err);
/* The use of an invite was decided on, or why not. */
void seed_invited(struct node *node, const struct ask *ask, const char *error);
void seed_tick(struct node *node, int64_t now); /* who was let in and never spoke */
/* What a joiner signs: nobody asks in another's name. */
void seed_join_words(const struct id *swarm, const struct id *id, const char *address,
                     struct buf *out);

/* ---- seeds.c ---- */
/* The seeds of this start, if it has any, into the folder; those of an earlier start. */
void seeds_remember(struct node *node);
void seeds_recall(struct node *node);
/* Has it found its swarm, or is it the whole of it by decree? Else it lets nobody in. */
bool seeds_found(const struct node *node);
const struct address *seeds_next(struct node *node); /* in turn; NULL: none is known */

/* ---- twins.c ---- */
/* Is this the machine that the folder was used on? `made`: the identity is new. */
int twins_check_machine(struct node *node, bool made, struct err *err);
int twins_shed_identity(struct node *node, struct err *err); /* --new-identity */
void twins_open(struct node *node);
/* This folder's node was at this address before. */
void twins_was_at(struct node *node, const char *address);
void twins_tick(struct node *node, int64_t now);
/* Gossip has a record of ours that we did not make. */
void twins_conflict(struct node *node, const struct effect *effect);
/* May this be the copy of a member that is connected still? Then its record is not followed
 * for a moment, in which the member finds out and the copy ends. */
bool twins_hold(struct node *node, const struct member *member);
bool twins_holds(const struct node *node, const struct id *id);

/* ---- local.c ---- */
/* May a node live in this data folder? Before anything is written there. ERR_USAGE. */
int local_look(const struct node *node, struct err *err);
int local_count_boot(struct node *node, bool new_identity, struct err *err);
int local_write_boot(const struct node *node, struct err *err);
int local_load_swarm(struct node *node, struct buf *saved, struct err *err);
void local_save_members(struct node *node);
void local_load_members(struct node *node);
/* Name, zone, listening and advertised address of the last start, where this start left
 * them out. */
void local_recall(struct node *node);
/* Where the node of this data folder listened last; false: none did, `listen` is as it
 * was. */
bool local_listen(const char *data, struct address *listen);
void local_remember(const struct node *node); /* before the advertised address is found */

/* ---- lead.c ---- */
void lead_tick(struct node *node, int64_t now_ms);
int lead_report(struct node *node, const void *bytes, size_t len, struct err *err);
int lead_submit(struct node *node, const struct job *job, const struct id *submitter,
                struct err *err);
/* What a submission is answered that is stopped before it began. */
#define LEAD_WITHDRAWN "withdrawn by \"flotilla stop\" before it began"
int lead_stop_job(struct node *node, struct err *err);
/* This member finished the run; `written`: the last step's checkpoint is whole there. */
void lead_done(struct node *node, int member, bool written);
void lead_committed(
    struct node *node); /* a new epoch is in force: what waited for it is done */
/* The data connection between these two broke or does not open. */
void lead_severed(struct node *node, const struct id *a, const struct id *b);
/* We did not run for so long: nobody is blamed for what waits in our sockets. */
void lead_slept(struct node *node, int64_t gap_ms);
void lead_lost(struct node *node); /* somebody else leads, or nobody */
void lead_reset(struct node *node);
/* To who asked for a job or its end; empty: it is taken. */
void lead_answer(struct node *node, const struct id *to, const char *error);

/* ---- recovery.c ---- */
/* May these survivors begin a generation here? ERR_USAGE with the reason. */
int recovery_check(const struct node *node, const struct id *survivors, size_t count,
                   struct err *err);
/* Found the next generation with these survivors, this node among them, all of them
 * reachable from here; `sign` signs with the swarm's admission key (agree_recover()). The
 * run goes on when they have reported. node_effects() carries it out. */
int recovery_begin(struct node *node, const struct id *survivors, size_t count,
                   agree_sign_fn *sign, void *arg, struct err *err);

/* ---- follow.c ---- */
int follow_freeze(struct node *node, const struct id *from, const void *body, size_t len,
                  struct err *err);
void follow_halted(struct node *node, const struct progress *progress);
bool follow_measured(const struct node *node, const struct job *job);
/* This node has no part in the run at hand: it could not be measured, or could not carry
 * out the epoch. The next plan is made without its device. */
void follow_cannot(struct node *node, bool profiling);
void follow_profiled(struct node *node, const struct profile *profile);
void follow_judge(struct node *node, const struct effect *effect);
void follow_committed(struct node *node, const struct effect *effect);
void follow_fresh(struct node *node, int64_t now_ms);
void follow_awake_reply(struct node *node, const struct id *from, uint64_t nonce,
                        uint64_t epoch);

/* ---- worker.c ---- */
void worker_enter(struct node *node);
void worker_reports(struct node *node);
void worker_bulk_events(struct node *node);
void worker_link_broken(struct node *node, int peer, enum evidence_kind kind,
                        const char *why);
void worker_copied(struct node *node, int stage, int64_t step);
void worker_progress_tick(struct node *node, int64_t now_ms);
int worker_progress_receive(struct node *node, const struct id *from, const void *body,
                            size_t len, struct err *err);

/* ---- paths.c ---- */
void paths_tick(struct node *node, int64_t now_ms);
int paths_ask(struct node *node, const struct frame *frame, struct err *err);
int paths_reply(struct node *node, const struct frame *frame, struct err *err);
/* Its record says that nobody can dial it. */
bool paths_hidden(const struct node *node, const struct id *id);
void paths_met(struct node *node, const struct id *id); /* its record is news */

/* ---- measure.c ---- */
struct measure *measure_new(void);
void measure_free(struct measure *measure);
void measure_tick(struct node *node, int64_t now_ms);
int measure_asked(struct node *node, const struct frame *frame, struct err *err);
int measure_answered(struct node *node, const struct frame *frame, struct err *err);
int measure_done(struct node *node, const struct frame *frame, struct err *err);
int measure_wanted(struct node *node, const struct frame *frame, struct err *err);
/* BULK_RATE, BULK_PROBED. */
void measure_bulk_event(struct node *node, const struct bulk_event *event);
/* Asks the ends of links that the view's plan rests on, and of which too little is known,
 * to measure them. False: there are none. */
bool measure_plan(struct node *node, const struct view *view);
const struct record_link *measure_link(const struct node *node, const struct id *from,
                                       const struct id *to);
void measure_put_warnings(const struct node *node, struct json_writer *writer);
void measure_put_probes(const struct node *node, struct json_writer *writer);

/* ---- control.c, status.c ---- */
int control_open(struct node *node, struct err *err);
void control_close(struct node *node);
/* The leader's answer to our submission; empty: it is taken. */
void control_submitted(struct node *node, const struct id *from, const char *error);
void control_committed(struct node *node); /* a new epoch: is what was asked for done? */
/* The end of a talk that waits: an error, or done, with a text under a key or without. */
void control_answer(struct node *node, uint64_t ticket, const char *error,
                    const char *key, const char *text);
void status_write(const struct node *node, struct json_writer *writer);
void status_put_run(const struct node *node, struct json_writer *writer);
void status_put_plan(const struct node *node, const struct view *view,
                     struct json_writer *writer);

#endif
