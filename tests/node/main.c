#include "tests/suite.h"

Suite *suite_gradients(void);
Suite *suite_fixture(void);
Suite *suite_matmul(void);
Suite *suite_stage(void);
Suite *suite_data(void);
Suite *suite_recover(void);
Suite *suite_train(void);
Suite *suite_last_write(void);
Suite *suite_train_hostile(void);
Suite *suite_report(void);
Suite *suite_view(void);
Suite *suite_neighbour(void);
Suite *suite_watch(void);
Suite *suite_job(void);
Suite *suite_config(void);
Suite *suite_safetensors(void);
Suite *suite_checkpoint(void);
Suite *suite_show(void);
Suite *suite_talk(void);
Suite *suite_commands(void);
Suite *suite_runs(void);
Suite *suite_join_swarm(void);
Suite *suite_severed(void);
Suite *suite_excluded(void);
Suite *suite_reach(void);
Suite *suite_ways(void);
Suite *suite_hostile(void);
Suite *suite_doctor(void);
Suite *suite_voters(void);
Suite *suite_reached(void);
Suite *suite_chaos(void);
Suite *suite_policy(void);
Suite *suite_vectors(void);
Suite *suite_admission(void);
Suite *suite_plan_profile(void);
Suite *suite_plan_cluster(void);
Suite *suite_plan_job(void);
Suite *suite_plan_document(void);
Suite *suite_plan_live(void);
Suite *suite_zones(void);
Suite *suite_measure(void);

int
main(void)
{
    static Suite *(*const suites[])(void) = {
        suite_gradients,
        suite_fixture,
        suite_matmul,
        suite_stage,
        suite_data,
        suite_recover,
        suite_train,
        suite_report,
        suite_view,
        suite_neighbour,
        suite_watch,
        suite_job,
        suite_config,
        suite_safetensors,
        suite_checkpoint,
        suite_show,
        suite_talk,
        suite_commands,
        suite_runs,
        suite_join_swarm,
        suite_severed,
        suite_excluded,
        suite_voters,
        suite_reached,
        suite_chaos,
        suite_policy,
        suite_admission,
        suite_plan_profile,
        suite_plan_cluster,
        suite_plan_job,
        suite_plan_document,
        suite_plan_live,
        suite_vectors,
        suite_reach,
        suite_zones,
        suite_measure,
        suite_ways,
        suite_doctor,
        suite_hostile,
        suite_last_write,
        suite_train_hostile,
        NULL,
    };
    return suite_run(suites);
}
