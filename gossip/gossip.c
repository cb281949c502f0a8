#include "gossip/gossip.h"
#include "gossip/core.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gossip *
gossip_new(const struct gossip_options *options, int64_t now_ms)
{
    must(options->key && options->probe_interval_ms >= 0 && options->suspicion_ms >= 0);
    struct gossip *gossip = xcalloc(1, sizeof(*gossip));
    gossip->options = *options;
    if (gossip->options.probe_interval_ms == 0)
        gossip->options.probe_interval_ms = 1000;
    gossip->id = *key_id(options->key);
    gossip->now_ms = now_ms;
    gossip->prober.rng.seed = options->seed;
    gossip->prober.rng.stream = id_prefix(&gossip->id);
    int64_t interval_ms = gossip->options.probe_interval_ms;
    gossip->probe_at_ms =
        now_ms + (int64_t)rng_below(&gossip->prober.rng, (uint64_t)interval_ms);
    gossip->digest_at_ms =
        now_ms + (int64_t)rng_below(&gossip->prober.rng, 10 * (uint64_t)interval_ms);
    gossip->reconnect_at_ms = gossip->spread_at_ms = gossip->watch_at_ms = now_ms;
    return gossip;
}

void
gossip_free(struct gossip *gossip)
{
    if (!gossip)
        return;
    table_release(&gossip->table);
    prober_release(&gossip->prober);
    free(gossip->asks);
    free(gossip->held);
    free(gossip);
}

/* ---- what arrives ---- */

/* What was under way goes on from here: that we did not run is no evidence against
 * others. */
static void
shift(struct gossip *gossip, int64_t gap_ms)
{
    prober_shift(&gossip->prober, gap_ms);
    const struct set *suspects = &gossip->table.sets[SET_SUSPECT];
    for (size_t i = 0; i < suspects->count; i++) {
        struct entry *entry = suspects->list[i];
        entry->suspected_ms += gap_ms;
        if (entry->refused_ms)
            entry->refused_ms += gap_ms;
        if (entry->charges->confirmed_ms)
            entry->charges->confirmed_ms += gap_ms;
    }
    gossip->shifted_ms += gap_ms;
}

static void
advance(struct gossip *gossip, int64_t now_ms)
{
    int64_t gap_ms = now_ms - gossip->now_ms;
    if (gap_ms <= 0)
        return;
    gossip->now_ms = now_ms;
    if (gap_ms > SLEPT_MS)
        shift(gossip, gap_ms);
}

/* Where machines have too much to do all are late, and who is late waits for others
 * longer: by the time that it runs, down to a quarter of the clock's (Lifeguard's thought,
 * without the failed probes that it takes to notice). */
static void
allow_for_lateness(struct gossip *gossip)
{
    int64_t tick_ms = gossip->options.tick_ms;
    int64_t late_ms = gossip->now_ms - gossip->ticked_ms - tick_ms - gossip->shifted_ms;
    if (tick_ms > 0 && gossip->ticked_ms > 0 && late_ms > (LATE_TICKS - 1) * tick_ms)
        shift(gossip, late_ms * 3 / 4);
    gossip->ticked_ms = gossip->now_ms;
    gossip->shifted_ms = 0;
}

static void
heard(struct gossip *gossip, const struct id *peer)
{
    struct entry *entry = table_find(&gossip->table, peer);
    if (!entry || entry == gossip->self)
        return;
    entry->member.heard_ms = gossip->now_ms;
    entry->refused_ms = 0;
    if (entry_accused(entry))
        table_put(&gossip->table, entry, SET_TELL);
}

/* What the sender must learn: what is said of it, and our asking when it is ahead of
 * us. */
static void
compare_sender(struct gossip *gossip, const struct frame *frame,
               const struct message *message)
{
    struct entry *entry = table_find(&gossip->table, &frame->from);
    /* Rumors are what asks are answered with: to ask again then might never end. */
    bool may_ask = frame->kind != FRAME_RUMORS;
    if (!entry && may_ask)
        core_ask(gossip, id_prefix(&frame->from));
    if (!entry)
        return;
    const struct record *known = entry->member.record;
    struct record its = {.incarnation = message->incarnation,
                         .version = message->version};
    int order = record_compare(&its, known);
    if (order > 0 && may_ask)
        core_ask(gossip, id_prefix(&frame->from));
    bool due =
        frame->kind == FRAME_PING || gossip->now_ms - entry->told_ms >= TELL_AGAIN_MS;
    if ((order < 0 || entry_accused(entry)) && due)
        core_list(gossip, entry);
}

static void
relay(struct gossip *gossip, const struct frame *frame, const struct message *message,
      struct effects *effects)
{
    const struct id *target = &message->subject;
    if (id_equal(target, &gossip->id)) {
        core_send(gossip, FRAME_PING_REPLY, &frame->from, message->nonce, target, true,
                  effects);
        return;
    }
    struct entry *entry = table_find(&gossip->table, target);
    struct probe *probe = NULL;
    if (entry && !id_equal(target, &frame->from))
        probe = prober_start(&gossip->prober, PROBE_RELAYED, target, gossip->now_ms,
                             core_patience_ms(gossip, entry),
                             core_deadline_ms(gossip, entry));
    if (!probe) {
        core_send(gossip, FRAME_PING_REPLY, &frame->from, message->nonce, target, false,
                  effects);
        return;
    }
    probe->asker = frame->from;
    probe->asker_nonce = message->nonce;
    core_ping(gossip, probe, effects);
}

static bool
helper(const struct probe *probe, const struct id *id)
{
    for (unsigned i = 0; i < probe->helpers_count; i++)
        if (id_equal(&probe->helpers[i], id))
            return true;
    return false;
}

static void
replied(struct gossip *gossip, const struct frame *frame, const struct message *message,
        struct effects *effects)
{
    struct probe *probe = prober_find(&gossip->prober, message->nonce);
    if (!probe || !id_equal(&probe->target, &message->subject))
        return;
    bool direct = id_equal(&frame->from, &probe->target);
    if (!direct && !helper(probe, &frame->from))
        return;
    if (message->answered)
        probe_answered(gossip, probe, direct, effects);
    else if (!direct)
        probe_refused(gossip, probe, &frame->from, effects);
}

void
gossip_admissions(struct gossip *gossip, const struct id *admit_id,
                  const struct id *before_id, bool replaced)
{
    if (replaced || !id_equal(&gossip->options.admit_id, admit_id))
        gossip->replaced = true;
    gossip->readmit = gossip->readmit || !id_equal(&gossip->options.admit_id, admit_id) ||
                      !id_equal(&gossip->before_id, before_id);
    gossip->options.admit_id = *admit_id;
    gossip->before_id = *before_id;
}

static int
hold_up(struct gossip *gossip, struct statement *statement, struct err *err)
{
    struct err first, second;
    const struct id *swarm = &gossip->options.swarm;
    if (table_judge(&gossip->table, &gossip->id, statement, swarm,
                    &gossip->options.admit_id, &first) == 0)
        return 0;
    if (first.code == ERR_AUTH && !id_empty(&gossip->before_id) &&
        table_judge(&gossip->table, &gossip->id, statement, swarm, &gossip->before_id,
                    &second) == 0)
        return 0;
    *err = first;
    return -1;
}

/* Everything in the message holds up, or nothing of it is used. But where the secret was
 * replaced, what rests on an old one is nobody's fault: it is left out. */
static int
judge(struct gossip *gossip, struct message *message, struct err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < message->count; i++) {
        struct statement *statement = &message->statements[i];
        struct err why;
        if (hold_up(gossip, statement, &why) == 0) {
            struct statement held = *statement;
            statement->record = NULL;
            message->statements[kept++] = held;
        } else if (!gossip->replaced || why.code != ERR_AUTH) {
            *err = why;
            return -1;
        } else {
            statement_release(statement);
        }
    }
    message->count = kept;
    return 0;
}

static int
receive_message(struct gossip *gossip, const struct frame *frame, struct effects *effects,
                struct err *err)
{
    struct message message;
    if (message_decode(frame->body, frame->body_len, &message, err))
        return -1;
    if (judge(gossip, &message, err)) {
        message_release(&message);
        return -1;
    }
    heard(gossip, &frame->from);
    gossip->answered = frame->kind == FRAME_RUMORS && message.answered;
    for (size_t i = 0; i < message.count; i++)
        core_absorb(gossip, &frame->from, &message.statements[i], effects);
    gossip->answered = false;
    for (size_t i = 0; i < message.asks_count && core_room(gossip); i++) {
        struct entry *entry = table_find_prefix(&gossip->table, message.asks[i]);
        if (entry)
            core_list(gossip, entry);
    }
    compare_sender(gossip, frame, &message);
    if (frame->kind == FRAME_PING)
        core_send(gossip, FRAME_PING_REPLY, &frame->from, message.nonce, &gossip->id,
                  true, effects);
    else
        core_answer(gossip, &frame->from, effects);
    if (frame->kind == FRAME_PING_REPLY)
        replied(gossip, frame, &message, effects);
    if (frame->kind == FRAME_PING_RELAY)
        relay(gossip, frame, &message, effects);
    message_release(&message);
    return 0;
}

/* ---- digests ---- */

/* Which of two nodes that know the same record of a member knows worse of it? */
static bool
graver_state(enum member_state left, enum member_state right)
{
    return (left == MEMBER_SUSPECT || left == MEMBER_DEAD) && left > right;
}

static bool
gone(enum member_state state)
{
    return state == MEMBER_DEAD || state == MEMBER_LEFT;
}

/* What both list, what only they do, what only we do. */
static void
compare_entry(struct gossip *gossip, const struct digest_entry *theirs)
{
    struct entry *entry = table_find_prefix(&gossip->table, theirs->prefix);
    if (!entry) {
        if (!gone(theirs->state))
            core_ask(gossip, theirs->prefix);
        return;
    }
    struct record its = {.incarnation = theirs->incarnation, .version = theirs->version};
    const struct record *ours = entry->member.record;
    int order = record_compare(ours, &its);
    bool same = ours->incarnation == its.incarnation;
    if ((order > 0 || (same && graver_state(entry->member.state, theirs->state))) &&
        core_room(gossip))
        core_list(gossip, entry);
    if (order < 0 || (same && graver_state(theirs->state, entry->member.state)))
        core_ask(gossip, theirs->prefix);
}

static bool
listed(const struct digest *theirs, uint64_t prefix)
{
    size_t low = 0, high = theirs->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (theirs->entries[middle].prefix < prefix)
            low = middle + 1;
        else
            high = middle;
    }
    return low < theirs->count && theirs->entries[low].prefix == prefix;
}

static bool
covered(const struct digest *theirs, uint64_t prefix)
{
    uint64_t bucket = theirs->bits == 0 ? 0 : prefix >> (64 - theirs->bits);
    size_t low = 0, high = theirs->words_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (theirs->words[middle] < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low < theirs->words_count && theirs->words[low] == bucket;
}

/* So much at a time; the next digest shows what is left. */
static void
compare_lists(struct gossip *gossip, const struct digest *theirs)
{
    for (size_t i = 0; i < theirs->count; i++)
        compare_entry(gossip, &theirs->entries[i]);
    for (size_t i = 0; i < gossip->table.count && core_room(gossip); i++) {
        struct entry *entry = gossip->table.list[i];
        uint64_t prefix = id_prefix(&entry->member.record->id);
        if (!gone(entry->member.state) && covered(theirs, prefix) &&
            !listed(theirs, prefix))
            core_list(gossip, entry);
    }
}

/* Hashes, or lists, twice a second from one peer. */
static bool
digest_due(struct gossip *gossip, const struct id *from, bool lists)
{
    struct entry *peer = table_find(&gossip->table, from);
    int64_t *at_ms = peer ? &peer->digested_ms[lists] : &gossip->listed_ms;
    if (*at_ms && gossip->now_ms - *at_ms < DIGEST_AGAIN_MS)
        return false;
    *at_ms = gossip->now_ms;
    return true;
}

static int
receive_digest(struct gossip *gossip, const struct frame *frame, struct effects *effects,
               struct err *err)
{
    struct digest theirs, answer;
    if (digest_decode(frame->body, frame->body_len, &theirs, err))
        return -1;
    heard(gossip, &frame->from);
    bool due = digest_due(gossip, &frame->from, theirs.lists);
    if (due && theirs.lists) {
        compare_lists(gossip, &theirs);
        core_answer(gossip, &frame->from, effects);
    } else if (due && digest_answer(&gossip->table, &theirs, &answer)) {
        struct buf body = {0};
        digest_encode(&answer, &body);
        effects_send(effects, &frame->from, FRAME_DIGEST, body.data, body.len);
        buf_release(&body);
        digest_release(&answer);
    }
    digest_release(&theirs);
    return 0;
}

/* After every event: spread what is new, tell those who were heard what is said of
 * them. */
static void
settle_all(struct gossip *gossip, const struct id *from, struct effects *effects)
{
    core_tell(gossip, effects);
    if (gossip->news >= CATCH_UP_NEWS &&
        gossip->digest_at_ms > gossip->now_ms + CATCH_UP_MS)
        gossip->digest_at_ms = gossip->now_ms + CATCH_UP_MS;
    gossip->news = 0;
    if (gossip->fresh && gossip->now_ms - gossip->spread_ms >= core_spread_ms(gossip))
        core_spread(gossip, from, effects);
}

int
gossip_receive(struct gossip *gossip, int64_t now_ms, const struct frame *frame,
               struct effects *effects, struct err *err)
{
    char name[ID_SHORT_SIZE];
    if (!id_equal(&frame->swarm, &gossip->options.swarm))
        return err_set(err, ERR_AUTH, "gossip from node %s is of another swarm",
                       id_short(&frame->from, name));
    if (!id_equal(&frame->to, &gossip->id))
        return err_set(err, ERR_WIRE, "gossip from node %s is for another node",
                       id_short(&frame->from, name));
    advance(gossip, now_ms);
    if (id_equal(&frame->from, &gossip->id)) {
        core_conflict(gossip, &frame->from, "a frame that we did not send", effects);
        return 0;
    }
    int result;
    switch (frame->kind) {
    case FRAME_PING:
    case FRAME_PING_REPLY:
    case FRAME_PING_RELAY:
    case FRAME_RUMORS:
        result = receive_message(gossip, frame, effects, err);
        break;
    case FRAME_DIGEST:
        result = receive_digest(gossip, frame, effects, err);
        break;
    default:
        return err_set(err, ERR_WIRE, "%s is no frame of gossip",
                       frame_kind_name(frame->kind));
    }
    if (result)
        return err_wrap(err, "%s from node %s", frame_kind_name(frame->kind),
                        id_short(&frame->from, name));
    settle_all(gossip, &frame->from, effects);
    return 0;
}

int
gossip_merge(struct gossip *gossip, int64_t now_ms, const void *record, size_t len,
             struct effects *effects, struct err *err)
{
    struct statement statement = {.bytes = record, .len = len};
    if (hold_up(gossip, &statement, err)) {
        statement_release(&statement);
        return -1;
    }
    struct id of = statement.record->id;
    advance(gossip, now_ms);
    gossip->answered = true;
    core_absorb(gossip, &of, &statement, effects);
    gossip->answered = false;
    statement_release(&statement);
    if (!id_equal(&of, &gossip->id))
        core_answer(gossip, &of, effects);
    settle_all(gossip, &of, effects);
    return 0;
}

void
gossip_met(struct gossip *gossip, int64_t now_ms, const struct id *peer,
           struct effects *effects)
{
    advance(gossip, now_ms);
    if (!gossip->self || id_equal(peer, &gossip->id))
        return;
    core_list(gossip, gossip->self);
    core_send(gossip, FRAME_RUMORS, peer, 0, NULL, false, effects);
    core_digest(gossip, peer, effects);
}

void
gossip_heard(struct gossip *gossip, int64_t now_ms, const struct id *peer)
{
    advance(gossip, now_ms);
    heard(gossip, peer);
}

void
gossip_refused(struct gossip *gossip, int64_t now_ms, const struct id *peer,
               struct effects *effects)
{
    advance(gossip, now_ms);
    struct entry *entry = table_find(&gossip->table, peer);
    if (!gossip->self || !entry || entry == gossip->self)
        return;
    if (entry->member.state == MEMBER_ALIVE || entry->member.state == MEMBER_SUSPECT)
        probe_after_refusal(gossip, entry, effects);
    settle_all(gossip, peer, effects);
}

void
gossip_keep(struct gossip *gossip, const char *address)
{
    if (gossip->kept_count < KEPT_MAX)
        snprintf(gossip->kept[gossip->kept_count++], sizeof(gossip->kept[0]), "%s",
                 address);
}

void
gossip_flush(struct gossip *gossip, struct effects *effects)
{
    core_issue_held(gossip, true, effects);
}

/* ---- time ---- */

/* Seeds that are dead are called on for ever: a partition may last for longer than a day
 * (serf #605). */
static bool
kept(const struct gossip *gossip, const struct entry *entry)
{
    for (size_t i = 0; i < gossip->kept_count; i++)
        if (entry->member.state == MEMBER_DEAD &&
            strcmp(gossip->kept[i], entry->member.record->address) == 0)
            return true;
    return false;
}

static void
forget(struct gossip *gossip, struct effects *effects)
{
    const struct set *all = &gossip->table.sets[SET_GONE];
    for (size_t i = all->count; i-- > 0;) {
        struct entry *entry = all->list[i];
        if (entry == gossip->self || kept(gossip, entry) ||
            gossip->now_ms - entry->member.since_ms < KEEP_MS)
            continue;
        struct effect *effect = effects_add(effects, EFFECT_MEMBER, NULL, 0);
        effect->peer = entry->member.record->id;
        effect->before = (int)entry->member.state;
        effect->after = MEMBER_UNKNOWN;
        table_remove(&gossip->table, entry);
    }
}

/* An accusation under a key that admits nobody any more is left out by all who get it, the
 * accused too: it could never be refuted. */
static void
readmit(struct gossip *gossip, struct effects *effects)
{
    const struct set *suspects = &gossip->table.sets[SET_SUSPECT];
    gossip->readmit = false;
    for (size_t i = suspects->count; i-- > 0;) {
        struct entry *entry = suspects->list[i];
        if (entry_readmit(entry, &gossip->options.swarm, &gossip->options.admit_id,
                          &gossip->before_id))
            core_settle(gossip, entry, false, "who accused it has an older secret",
                        effects);
    }
}

void
gossip_tick(struct gossip *gossip, int64_t now_ms, struct effects *effects)
{
    advance(gossip, now_ms);
    allow_for_lateness(gossip);
    if (!gossip->self)
        return;
    if (gossip->readmit)
        readmit(gossip, effects);
    probe_tick(gossip, effects);
    core_issue_held(gossip, false, effects);
    core_want_again(gossip, effects);
    if (now_ms >= gossip->digest_at_ms) {
        gossip->digest_at_ms = now_ms + core_digest_ms(gossip);
        core_digest_random(gossip, effects);
        forget(gossip, effects);
    }
    settle_all(gossip, NULL, effects);
    if (now_ms >= gossip->spread_at_ms)
        core_spread(gossip, NULL, effects);
}

/* ---- what is ---- */

size_t
gossip_count(const struct gossip *gossip)
{
    return gossip->table.count;
}

const struct member *
gossip_at(const struct gossip *gossip, size_t index)
{
    must(index < gossip->table.count);
    return &gossip->table.list[index]->member;
}

const struct member *
gossip_find(const struct gossip *gossip, const struct id *id)
{
    const struct entry *entry = table_find(&gossip->table, id);
    return entry ? &entry->member : NULL;
}

unsigned
gossip_health(const struct gossip *gossip)
{
    return gossip->prober.health;
}
