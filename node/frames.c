/*
 * frames.c - control frames from members: a table from kind to handler.
 */
#include "node/node.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/codec.h"

#include <stdio.h>
#include <string.h>

static int
on_evidence(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    struct id about;
    char what[112];
    reader_enter(reader, 4, 4);
    reader_id(reader, &about);
    uint64_t kind = reader_uint(reader, EVIDENCE_SEVERED);
    uint64_t epoch = reader_uint(reader, UINT64_MAX);
    reader_text(reader, what, sizeof(what));
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (epoch != node->decree.epoch || !decree_member(&node->decree, &frame->from))
        return 0; /* what broke in an older epoch is mended by the newer */
    int64_t now = clock_ms();
    bool leads = agree_role(node->agree) == AGREE_LEADER;
    if (kind == EVIDENCE_GONE &&
        strcmp(node_zone_of(node, &frame->from), node_zone_of(node, &about)) == 0)
        watch_told(node->watch, now, &about);
    if (leads && kind == EVIDENCE_BROKEN && node->lead.link_at_ms == 0)
        node->lead.link_at_ms = now;
    if (leads && kind == EVIDENCE_SEVERED && decree_member(&node->decree, &about))
        lead_severed(node, &frame->from, &about);
    if (leads && kind == EVIDENCE_FAILED) {
        node->lead.done = true;
        snprintf(node->lead.ended, sizeof(node->lead.ended), "failed: %s", what);
    }
    return 0;
}

static int
on_freeze(struct node *node, const struct frame *frame, struct err *err)
{
    return follow_freeze(node, &frame->from, frame->body, frame->body_len, err);
}

static int
on_report(struct node *node, const struct frame *frame, struct err *err)
{
    return lead_report(node, frame->body, frame->body_len, err);
}

int
frames_submit(struct node *node, const struct id *from, const void *body, size_t body_len,
              struct err *err)
{
    struct reader *reader = reader_open(body, body_len, err);
    if (!reader)
        return -1;
    size_t len;
    reader_enter(reader, 2, 2);
    bool stop = reader_bool(reader);
    const uint8_t *bytes = reader_bytes(reader, JOB_BYTES_MAX, &len);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    /* Who asks says it again to whom it finds leading. */
    if (agree_role(node->agree) != AGREE_LEADER)
        return 0;
    struct err why = {0};
    int failed;
    if (stop) {
        failed = lead_stop_job(node, &why);
    } else {
        struct job job = {0};
        if (job_decode(bytes, len, &job, err))
            return -1;
        failed = lead_submit(node, &job, from, &why);
        job_release(&job);
        if (!failed)
            return 0; /* answered when the plan is found */
    }
    lead_answer(node, from, failed ? why.msg : "");
    return 0;
}

static int
on_submit(struct node *node, const struct frame *frame, struct err *err)
{
    return frames_submit(node, &frame->from, frame->body, frame->body_len, err);
}

static int
on_submit_reply(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    char text[ERR_MSG_SIZE];
    reader_text(reader, text, sizeof(text));
    if (reader_close(&reader, err))
        return -1;
    control_submitted(node, &frame->from, text);
    return 0;
}

static int
on_progress(struct node *node, const struct frame *frame, struct err *err)
{
    return worker_progress_receive(node, &frame->from, frame->body, frame->body_len, err);
}

/* A question of somebody who may have slept, and its answer: a nonce and an epoch. */
static int
read_awake(const struct frame *frame, uint64_t *nonce, uint64_t *epoch, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    reader_enter(reader, 2, 2);
    *nonce = reader_uint(reader, UINT64_MAX);
    *epoch = reader_uint(reader, UINT64_MAX);
    reader_leave(reader);
    return reader_close(&reader, err);
}

static int
on_awake_ask(struct node *node, const struct frame *frame, struct err *err)
{
    uint64_t nonce, epoch;
    if (read_awake(frame, &nonce, &epoch, err))
        return -1;
    struct buf body = {0};
    writer_array(&body, 2);
    writer_uint(&body, nonce);
    writer_uint(&body, node->decree.epoch);
    node_send(node, &frame->from, FRAME_EPOCH_REPLY, &body);
    buf_clear(&body);
    if (epoch < node->decree.epoch) {
        agree_export(node->agree, &body);
        node_send(node, &frame->from, FRAME_COMMIT, &body);
    }
    buf_release(&body);
    return 0;
}

static int
on_awake_reply(struct node *node, const struct frame *frame, struct err *err)
{
    uint64_t nonce, epoch;
    if (read_awake(frame, &nonce, &epoch, err))
        return -1;
    follow_awake_reply(node, &frame->from, nonce, epoch);
    return 0;
}

static int
on_leave(struct node *node, const struct frame *frame, struct err *err)
{
    (void)err;
    log_info("node", "a member says that it goes name=%s",
             node_name_of(node, &frame->from, (char[NAME_BYTES_MAX + 1]){0}));
    return 0; /* its record says so, too */
}

static int
on_gossip(struct node *node, const struct frame *frame, struct err *err)
{
    return gossip_receive(node->gossip, clock_ms(), frame, &node->effects, err);
}

static int
on_admission(struct node *node, const struct frame *frame, struct err *err)
{
    return admission_frame(node, frame, err);
}

static int
on_agree(struct node *node, const struct frame *frame, struct err *err)
{
    return agree_receive(node->agree, clock_ms(), frame, &node->effects, err);
}

static int
on_reach_ask(struct node *node, const struct frame *frame, struct err *err)
{
    return paths_ask(node, frame, err);
}

static int
on_reach_reply(struct node *node, const struct frame *frame, struct err *err)
{
    return paths_reply(node, frame, err);
}

/* Indexed by kind; a kind without a handler is a protocol error. */
static int (*const handlers[72])(struct node *, const struct frame *, struct err *) = {
    [FRAME_PING] = on_gossip,
    [FRAME_PING_REPLY] = on_gossip,
    [FRAME_PING_RELAY] = on_gossip,
    [FRAME_RUMORS] = on_gossip,
    [FRAME_DIGEST] = on_gossip,
    [FRAME_BEAT] = on_agree,
    [FRAME_BEAT_REPLY] = on_agree,
    [FRAME_PREVOTE] = on_agree,
    [FRAME_PREVOTE_REPLY] = on_agree,
    [FRAME_VOTE] = on_agree,
    [FRAME_VOTE_REPLY] = on_agree,
    [FRAME_PROPOSE] = on_agree,
    [FRAME_ACCEPT] = on_agree,
    [FRAME_REJECT] = on_agree,
    [FRAME_COMMIT] = on_agree,
    [FRAME_FETCH] = on_agree,
    [FRAME_FREEZE] = on_freeze,
    [FRAME_REPORT] = on_report,
    [FRAME_EVIDENCE] = on_evidence,
    [FRAME_SUBMIT] = on_submit,
    [FRAME_SUBMIT_REPLY] = on_submit_reply,
    [FRAME_PROGRESS] = on_progress,
    [FRAME_LEAVE] = on_leave,
    [FRAME_EPOCH_ASK] = on_awake_ask,
    [FRAME_EPOCH_REPLY] = on_awake_reply,
    [FRAME_PROBE_ASK] = measure_asked,
    [FRAME_PROBE_ANSWER] = measure_answered,
    [FRAME_PROBE_DONE] = measure_done,
    [FRAME_MEASURE] = measure_wanted,
    [FRAME_REACH_ASK] = on_reach_ask,
    [FRAME_REACH_REPLY] = on_reach_reply,
    [FRAME_POLICY] = on_admission,
    [FRAME_POLICY_REPLY] = on_admission,
    [FRAME_SECRET] = on_admission,
    [FRAME_SECRET_ASK] = on_admission,
};

void
frames_receive(void *arg, const struct frame *frame)
{
    struct node *node = arg;
    int64_t now = clock_ms();
    struct id from = frame->from;
    enum frame_kind kind = frame->kind;
    watch_heard(node->watch, now, &frame->from);
    gossip_heard(node->gossip, now, &frame->from);
    struct err err = {0};
    if ((size_t)frame->kind >= sizeof(handlers) / sizeof(handlers[0]) ||
        !handlers[frame->kind])
        err_set(&err, ERR_WIRE, "a kind that nobody handles");
    else
        handlers[frame->kind](node, frame, &err);
    /* What agreement refuses may be sound words of an older epoch or generation. */
    bool sound =
        kind < sizeof(handlers) / sizeof(handlers[0]) && handlers[kind] == on_agree;
    if (err.code == ERR_WIRE && !sound)
        mesh_blame(node->mesh, &from);
    if (err.code)
        log_limited(LOG_WARN, "node", "frame refused kind=%s from=%s reason=\"%s\"",
                    frame_kind_name(kind),
                    node_name_of(node, &from, (char[NAME_BYTES_MAX + 1]){0}), err.msg);
    node_effects(node);
}
