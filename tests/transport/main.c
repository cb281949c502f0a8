#include "tests/suite.h"

#include <stddef.h>

Suite *suite_base(void);
Suite *suite_file(void);
Suite *suite_codec(void);
Suite *suite_key(void);
Suite *suite_frame(void);
Suite *suite_address(void);
Suite *suite_json(void);
Suite *suite_yaml(void);
Suite *suite_loop(void);
Suite *suite_admit(void);
Suite *suite_bulk(void);
Suite *suite_bulk_chunk(void);
Suite *suite_group_ring(void);
Suite *suite_bulk_flow(void);
Suite *suite_join(void);
Suite *suite_mesh(void);
Suite *suite_bulk_ways(void);
Suite *suite_mesh_ways(void);
Suite *suite_score(void);
Suite *suite_detour(void);
Suite *suite_handshakes(void);
Suite *suite_bulk_rate(void);
Suite *suite_congestion(void);

int
main(void)
{
    Suite *(*const suites[])(void) = {
        suite_base,      suite_file,      suite_codec,      suite_key,
        suite_frame,     suite_address,   suite_json,       suite_loop,
        suite_admit,     suite_bulk,      suite_bulk_chunk, suite_group_ring,
        suite_bulk_flow, suite_yaml,      suite_join,       suite_mesh,
        suite_mesh_ways, suite_score,     suite_detour,     suite_handshakes,
        suite_bulk_rate, suite_bulk_ways, suite_congestion, NULL};
    return suite_run(suites);
}
