#include "tests/suite.h"

#include <stddef.h>

Suite *suite_effect(void);
Suite *suite_record(void);
Suite *suite_gossip(void);
Suite *suite_last_mile(void);
Suite *suite_link(void);
Suite *suite_member(void);
Suite *suite_message(void);
Suite *suite_rumor(void);
Suite *suite_digest(void);
Suite *suite_self(void);
Suite *suite_absorb(void);
Suite *suite_suspect(void);
Suite *suite_survey(void);
Suite *suite_decree(void);
Suite *suite_agree(void);
Suite *suite_agree_chain(void);
Suite *suite_agree_recover(void);
Suite *suite_agree_sim(void);
Suite *suite_agree_figures(void);

int
main(void)
{
    static Suite *(*const suites[])(void) = {
        suite_effect,        suite_record,    suite_gossip,        suite_link,
        suite_last_mile,     suite_survey,    suite_member,        suite_message,
        suite_digest,        suite_rumor,     suite_absorb,        suite_self,
        suite_suspect,       suite_decree,    suite_agree,         suite_agree_chain,
        suite_agree_recover, suite_agree_sim, suite_agree_figures, NULL,
    };
    return suite_run(suites);
}
