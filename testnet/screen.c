#include "testnet/screen.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { REDRAW_MS = 200, PLAIN_MS = 2000 };

void
screen_init(struct screen *screen, FILE *out, int64_t now_ms)
{
    *screen =
        (struct screen){.out = out, .live = isatty(fileno(out)) == 1, .start_ms = now_ms};
}

static void
clear_table(struct screen *screen)
{
    if (screen->lines > 0)
        fprintf(screen->out, "\033[%dA\033[J", screen->lines);
    screen->lines = 0;
}

void
screen_say(struct screen *screen, int64_t now_ms, const char *fmt, ...)
{
    clear_table(screen);
    fprintf(screen->out, "%7.2f s  ", (double)(now_ms - screen->start_ms) / 1e3);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(screen->out, fmt, ap);
    va_end(ap);
    fputc('\n', screen->out);
    fflush(screen->out);
    screen->next_ms = 0;
}

static const char *
node_state(const struct screen *screen, const struct history *history, int node)
{
    const struct past_node *past = &history->nodes[node];
    if (screen->state[node] && strcmp(screen->state[node], "running") != 0)
        return screen->state[node];
    return past->paused ? "paused" : past->member ? "member" : "starting";
}

static void
draw_table(struct screen *screen, const struct history *history)
{
    const struct scenario *scenario = history->scenario;
    clear_table(screen);
    fprintf(screen->out, "  %-10s %-8s %-9s %6s %7s %9s %10s\n", "node", "zone", "state",
            "epoch", "step", "loss", "tokens/s");
    for (int i = 0; i < scenario->nodes_count; i++) {
        const struct past_node *past = &history->nodes[i];
        fprintf(screen->out, "%c %-10.10s %-8.8s %-9s %6lld %7lld %9.4f %10.0f\n",
                history->leader == i ? '*' : ' ', scenario->nodes[i].name,
                scenario->zones[scenario->nodes[i].zone], node_state(screen, history, i),
                (long long)past->epoch, (long long)past->step, past->loss,
                past->tokens_per_s);
    }
    screen->lines = scenario->nodes_count + 1;
    fflush(screen->out);
}

static void
say_epochs(struct screen *screen, const struct history *history, int64_t now_ms)
{
    for (; screen->said_epochs < history->epochs_count; screen->said_epochs++) {
        const struct past_epoch *epoch = &history->epochs[screen->said_epochs];
        int members = 0;
        for (int i = 0; i < history->scenario->nodes_count; i++)
            members += epoch->members >> i & 1 ? 1 : 0;
        screen_say(screen, now_ms,
                   "epoch %lld (%s): %d members, leader %s, %lld stages x %lld replicas",
                   (long long)epoch->epoch, epoch->cause, members,
                   epoch->leader < 0 ? "not known yet"
                                     : history->scenario->nodes[epoch->leader].name,
                   (long long)epoch->stages, (long long)epoch->pipelines);
    }
}

void
screen_tick(struct screen *screen, const struct history *history, int64_t now_ms)
{
    say_epochs(screen, history, now_ms);
    if (now_ms < screen->next_ms)
        return;
    if (screen->live) {
        draw_table(screen, history);
        screen->next_ms = now_ms + REDRAW_MS;
        return;
    }
    for (int i = 0; i < history->scenario->nodes_count; i++) {
        const struct past_node *past = &history->nodes[i];
        if (past->step != history->applied || past->step == screen->said_step)
            continue;
        screen_say(screen, now_ms, "step %lld  loss %.4f  %.0f tokens/s",
                   (long long)past->step, past->loss, past->tokens_per_s);
        screen->said_step = past->step;
    }
    screen->next_ms = now_ms + PLAIN_MS;
}

void
screen_end(struct screen *screen)
{
    screen->lines = 0;
    fflush(screen->out);
}
