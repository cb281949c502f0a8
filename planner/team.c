#include "planner/team.h"

void
team_init(struct team *team, struct board *board, const struct parallel *parallel)
{
    *team = (struct team){.parallel = parallel, .board = board};
}

void
team_release(struct team *team)
{
    for (int w = 1; w < PARALLEL_WORKERS_MAX; w++)
        board_twin_free(team->twins[w]);
}

void
team_run(struct team *team, int count, parallel_fn fn, void *arg)
{
    int workers = count > 1 ? parallel_workers(team->parallel) : 1;
    for (int w = 1; w < workers; w++)
        if (!team->twins[w])
            team->twins[w] = board_twin(team->board);
    parallel_run(team->parallel, count, fn, arg);
}
