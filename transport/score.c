#include "transport/score.h"

const struct score_limits score_words = {.frames_burst = 600,
                                         .frames_per_s = 200,
                                         .bytes_burst = 32 << 20,
                                         .bytes_per_s = 2 << 20};
const struct score_limits score_carried = {.frames_burst = 300,
                                           .frames_per_s = 100,
                                           .bytes_burst = 16 << 20,
                                           .bytes_per_s = 1 << 20};

void
score_init(struct score *score, const struct score_limits *limits, int64_t now_ms)
{
    *score = (struct score){.limits = limits,
                            .frames = limits->frames_burst * 1000,
                            .bytes = limits->bytes_burst * 1000,
                            .at_ms = now_ms,
                            .faded_ms = now_ms};
}

static int64_t
filled(int64_t left, int64_t per_s, int64_t burst, int64_t gap_ms)
{
    /* A gap that fills any bucket, before it can overflow. */
    if (gap_ms > 1000 * 1000 || left + per_s * gap_ms > burst * 1000)
        return burst * 1000;
    return left + per_s * gap_ms;
}

static void
look(struct score *score, int64_t now_ms)
{
    const struct score_limits *limits = score->limits;
    int64_t gap_ms = now_ms - score->at_ms;
    if (gap_ms > 0) {
        score->frames =
            filled(score->frames, limits->frames_per_s, limits->frames_burst, gap_ms);
        score->bytes =
            filled(score->bytes, limits->bytes_per_s, limits->bytes_burst, gap_ms);
        score->at_ms = now_ms;
    }
    int64_t faded = (now_ms - score->faded_ms) / SCORE_FADE_MS;
    if (faded > 0) {
        score->points = score->points > faded ? score->points - faded : 0;
        score->faded_ms += faded * SCORE_FADE_MS;
    }
}

bool
score_take(struct score *score, int64_t now_ms, size_t bytes)
{
    look(score, now_ms);
    /* One that is in debt waits; one that is not may go into it, so that a frame that is
     * larger than what is left passes. */
    if (score->frames < 1000 || score->bytes <= 0) {
        score->over++;
        score->points++;
        return false;
    }
    score->frames -= 1000;
    score->bytes -= (int64_t)bytes * 1000;
    return true;
}

void
score_blame(struct score *score, int64_t now_ms, int64_t points)
{
    look(score, now_ms);
    score->nonsense++;
    score->points += points;
}

bool
score_prune(struct score *score, int64_t now_ms)
{
    if (score->points < SCORE_POINTS_MAX || score_pruned(score, now_ms))
        return false;
    score->points = 0;
    score->pruned_until_ms = now_ms + SCORE_PRUNED_MS;
    return true;
}

bool
score_pruned(const struct score *score, int64_t now_ms)
{
    return score->pruned_until_ms != 0 && now_ms < score->pruned_until_ms;
}
