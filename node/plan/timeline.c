#include "node/plan/timeline.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

static const char letters[] = "FBURs.";
enum { LETTERS = 6, FORWARD = 0, BACKWARD, UPDATE, REDUCE, SEND, IDLE };

struct drawing {
    struct plan_timeline *timeline;
    double iteration_s;
    double *shares; /* [stages x columns x LETTERS] seconds */
};

static void
draw(struct drawing *drawing, int stage, int letter, double start_s, double end_s)
{
    double width_s = drawing->iteration_s / TIMELINE_COLUMNS;
    int first = (int)(start_s / width_s), last = (int)(end_s / width_s);
    first = first < 0 ? 0 : first;
    for (int c = first; c <= last && c < TIMELINE_COLUMNS; c++) {
        double from = c * width_s, to = from + width_s;
        from = start_s > from ? start_s : from;
        to = end_s < to ? end_s : to;
        if (to > from)
            drawing->shares[(stage * TIMELINE_COLUMNS + c) * LETTERS + letter] +=
                to - from;
    }
}

static void
on_event(void *context, const struct step_event *event)
{
    struct drawing *drawing = context;
    double seconds = event->end_s - event->start_s;
    if (event->pipeline != drawing->timeline->pipeline || !(seconds > 0))
        return;
    struct plan_stage_time *times = &drawing->timeline->stages[event->stage];
    int letter = IDLE;
    switch (event->kind) {
    case STEP_FORWARD:
        times->forward_s += seconds;
        letter = FORWARD;
        break;
    case STEP_BACKWARD:
        times->backward_s += seconds;
        letter = BACKWARD;
        break;
    case STEP_SEND:
        times->send_s += seconds;
        letter = SEND;
        break;
    case STEP_REDUCE:
        times->reduce_s += seconds;
        letter = REDUCE;
        break;
    case STEP_UPDATE:
        times->update_s += seconds;
        letter = UPDATE;
        break;
    }
    draw(drawing, event->stage, letter, event->start_s, event->end_s);
}

/* The letter of a column: computing hides what goes on behind it. */
static char
letter_of(const double shares[LETTERS], double width_s)
{
    double busy = shares[FORWARD] + shares[BACKWARD] + shares[UPDATE];
    double left = width_s - busy;
    double seen[LETTERS] = {shares[FORWARD], shares[BACKWARD], shares[UPDATE]};
    seen[REDUCE] = shares[REDUCE] < left ? shares[REDUCE] : left;
    left -= seen[REDUCE];
    seen[SEND] = shares[SEND] < left ? shares[SEND] : left;
    seen[IDLE] = left - seen[SEND];
    int most = FORWARD;
    for (int k = 1; k < LETTERS; k++)
        if (seen[k] > seen[most])
            most = k;
    return letters[most];
}

int
plan_timeline_make(const struct fleet_plan *plan, const struct fleet_request *request,
                   const struct fleet *fleet, const struct estimate *estimate,
                   struct plan_timeline *out, struct err *err)
{
    int cells = estimate->stages_count * TIMELINE_COLUMNS;
    struct estimate again;
    *out = (struct plan_timeline){.pipeline = estimate->bound.pipeline};
    struct drawing drawing = {
        .timeline = out,
        .iteration_s = estimate->iteration_s,
        .shares = xcalloc((size_t)cells * LETTERS, sizeof(*drawing.shares))};
    int result = evaluate(plan, request, fleet, on_event, &drawing, &again, err);
    if (result == 0) {
        out->columns = xcalloc((size_t)cells, 1);
        for (int i = 0; i < cells; i++)
            out->columns[i] = letter_of(&drawing.shares[i * LETTERS],
                                        drawing.iteration_s / TIMELINE_COLUMNS);
    }
    free(drawing.shares);
    for (int s = 0; s < estimate->stages_count; s++) {
        struct plan_stage_time *times = &out->stages[s];
        double busy = times->forward_s + times->backward_s + times->update_s;
        times->idle_s = estimate->iteration_s > busy ? estimate->iteration_s - busy : 0;
    }
    return result;
}

void
plan_timeline_release(struct plan_timeline *timeline)
{
    free(timeline->columns);
    timeline->columns = NULL;
}

void
plan_timeline_text(const struct plan_timeline *timeline, int stage, int count, char *text)
{
    must(count > 0 && TIMELINE_COLUMNS % count == 0);
    int each = TIMELINE_COLUMNS / count;
    const char *columns = timeline->columns + (int64_t)stage * TIMELINE_COLUMNS;
    for (int i = 0; i < count; i++)
        text[i] = columns[i * each + each / 2];
    text[count] = '\0';
}
