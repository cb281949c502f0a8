#include "node/engine/train_parts.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_VARIABLE "FLOTILLA_CHECKPOINT_PATIENCE"

enum {
    PATIENCE_S = 3600,
    PATIENCE_S_MAX = 7 * 24 * 3600,
    PAUSE_MS_FIRST = 5000,
    PAUSE_MS_MAX = 60000,
    SAY_EVERY_MS = 10 * 60000,
    MINUTES_FROM_MS = 2 * 60000
};

int
last_write_setup(struct last_write *last, struct err *err)
{
    const char *text = getenv(PATIENCE_VARIABLE);
    long seconds = PATIENCE_S;
    if (text && text[0]) {
        char *end;
        seconds = strtol(text, &end, 10);
        if (*end || seconds < 0 || seconds > PATIENCE_S_MAX)
            return err_set(err, ERR_USAGE,
                           PATIENCE_VARIABLE " is \"%.40s\", but must be seconds from 0 "
                                             "to %d",
                           text, PATIENCE_S_MAX);
    }
    *last = (struct last_write){.patience_ms = seconds * 1000};
    return 0;
}

void
last_write_forget(struct train *train)
{
    struct last_write *last = &train->last_write;
    last->step = 0;
    memset(&last->job, 0, sizeof(last->job));
}

void
last_write_close(struct train *train)
{
    struct last_write *last = &train->last_write;
    memset(last->told, 0, sizeof(last->told));
    last->asked = last->elsewhere = false;
    last->said[0] = '\0';
}

/* A message without bytes, of no step's tag. */
static uint64_t
written_tag(void)
{
    return UINT64_MAX;
}

/* Another gatherer says so when it has written the checkpoint. All that it sends us else
 * has come, since nothing of ours is missing. */
static void
ask_others(struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    struct last_write *last = &train->last_write;
    for (int i = 0; !last->asked && i < epoch->duties.gatherers_count; i++)
        if (epoch->duties.gatherers[i] != epoch->self)
            last->told[i] =
                bulk_receive(train_port(train, BULK_COPY), epoch->duties.gatherers[i],
                             BULK_COPY, written_tag(), NULL, 0);
    last->asked = true;
}

static void
time_text(int64_t ms, char *text, size_t size)
{
    if (ms >= MINUTES_FROM_MS)
        snprintf(text, size, "%lld min", (long long)(ms / 60000));
    else
        snprintf(text, size, "%lld s", (long long)((ms + 999) / 1000));
}

/* The reason as it is, then what is done about it, and can be. */
static void
say(struct train *train, const struct write_job *job, int64_t now, int64_t left_ms)
{
    struct last_write *last = &train->last_write;
    if (strcmp(last->said, job->err.msg) == 0 && now - last->said_ms < SAY_EVERY_MS)
        return;
    snprintf(last->said, sizeof(last->said), "%s", job->err.msg);
    last->said_ms = now;
    train_fail(train, "checkpoint", &job->err);
    char left[32];
    time_text(left_ms, left, sizeof(left));
    struct err err;
    err_set(
        &err, job->err.code,
        "step %lld, the run's last, stays in memory and its checkpoint is tried again "
        "for %s; make room for it or mend what is in the way, or %s",
        (long long)job->info.step, left,
        train->epoch->cluster.nodes_count > 1
            ? "let this node leave: another one writes it then"
            : "stop the node: it goes on from the run's newest checkpoint when it is "
              "started again");
    train_fail(train, "checkpoint", &err);
}

bool
last_write_failed(struct train *train, const struct write_job *job)
{
    struct last_write *last = &train->last_write;
    if (!train->epoch || job != train->gather.job || last->patience_ms == 0 ||
        job->info.step != train->epoch->job.steps || atomic_load(&train->stopping))
        return false;
    int64_t now = clock_ms();
    if (last->step != job->info.step || !id_equal(&last->job, &job->info.job)) {
        last->job = job->info.job;
        last->step = job->info.step;
        last->since_ms = now;
        last->pause_ms = PAUSE_MS_FIRST;
        last->said[0] = '\0';
    }
    int64_t left_ms = last->since_ms + last->patience_ms - now;
    if (left_ms <= 0) {
        char patience[32];
        time_text(last->patience_ms, patience, sizeof(patience));
        log_error("engine",
                  "the checkpoint of the run's last step is given up after=\"%s\"",
                  patience);
        last_write_forget(train);
        return false;
    }
    say(train, job, now, left_ms);
    last->next_ms = now + (last->pause_ms < left_ms ? last->pause_ms : left_ms);
    last->pause_ms *= 2;
    if (last->pause_ms > PAUSE_MS_MAX)
        last->pause_ms = PAUSE_MS_MAX;
    ask_others(train);
    return true;
}

void
last_write_done(struct train *train, const struct write_job *job)
{
    const struct train_epoch *epoch = train->epoch;
    if (!epoch || job != train->gather.job || job->info.step != epoch->job.steps)
        return;
    last_write_forget(train);
    for (int i = 0; i < epoch->duties.gatherers_count; i++)
        if (epoch->duties.gatherers[i] != epoch->self)
            (void)bulk_send(train_port(train, BULK_COPY), epoch->duties.gatherers[i],
                            BULK_COPY, written_tag(), NULL, 0);
}

static void
hear_others(struct train *train)
{
    struct last_write *last = &train->last_write;
    struct bulk_port *port = train_port(train, BULK_COPY);
    struct err err;
    for (int i = 0; i < GATHERERS_MAX; i++) {
        if (!last->told[i] || !bulk_test(port, last->told[i]))
            continue;
        last->elsewhere |= bulk_wait(port, last->told[i], 0, &err) == 0;
        last->told[i] = 0;
    }
}

void
last_write_pump(struct train *train)
{
    struct last_write *last = &train->last_write;
    struct gather *gather = &train->gather;
    if (gather->state != GATHER_LATE)
        return;
    hear_others(train);
    if (last->elsewhere) {
        log_warn("engine",
                 "another node has written the checkpoint of the run's last step, "
                 "this one has not");
        last_write_forget(train);
        gather->state = GATHER_FREE;
    } else if (clock_ms() >= last->next_ms) {
        gather->state = GATHER_WRITING;
        must(mailbox_put(train->to_writer, &gather->job));
    }
}
