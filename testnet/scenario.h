/*
 * scenario.h - what a testnet run is to do: nodes in zones, links between the zones, a
 * job, faults in time, and what has to come of it.
 *
 *     name: smoke                        # left out: the file's name
 *     nodes:                             # the first founds the swarm
 *       - {name: a1, zone: a, memory: 1GiB}
 *       - {name: b1, zone: b, join_s: 15}   # or join_step: 40; left out: from the start
 *       - {name: c, zone: c, count: 20, engine: off}     # c1 to c20, without engines
 *     links:                             # directed, one way; between zones without one
 *       - {from: a, to: b, mbit_per_s: 100, delay_ms: 20}      # traffic is not shaped
 *     job: {name: x, model: ...}         # as in job.yaml, or a file's name
 *     start_every_s: 0.5                 # between two first nodes; left out: all at once
 *     time_limit_s: 150                  # left out: 120; the run ends and has failed
 *     events:                            # each once: at_s seconds after all first nodes
 *       - {kill: leader, at_step: 60}    # were members of one epoch, or when at_step is
 *       - {cut: b, at_s: 20}             # applied somewhere
 *       - {heal: b, at_s: 40}
 *
 * An event is one of
 *   kill      SIGKILL                    continue  SIGCONT
 *   stop      SIGSTOP                    leave     SIGTERM: the node hands over and goes
 *   join      start a node that is not running, on the data folder that it has
 *   evict     another node is told to evict it; it may be started again with join, and
 *             has to end again
 *   cut       a zone: its connections to other zones are closed, new ones refused
 *   stall     a zone: bytes to and from other zones wait, connections stay open
 *   heal      a zone: ends cut and stall
 * and aims at a node's name, a zone's name (cut, stall, heal), or at
 *   leader    who leads at that moment
 *   worker    a node that has a part in the plan and does not lead
 * (of continue and join: the node that the last event with that word hit), or at
 *   voter     the last of the voters that does not lead
 *   last_voter   the last of the voters, whether it leads or not
 *   bystander    a node that neither votes nor leads
 *   killed    (join only) every node that was started and does not run
 * and with `count: 18` at so many of voter or bystander at once.
 *
 * What may be expected, all of it optional:
 *   loss_below           the last step's loss, unsmoothed nats per token
 *   steps                so many steps are applied, without a gap
 *   stages, replicas     of the first plan
 *   recovered_within_s   after each kill, stop and cut: until the first step of an epoch
 *                        that came after it
 *   steps_lost_max       of each fault: steps applied before it and done again
 *   new_leader           after each kill or stop of a leader, another one leads
 *   same_loss_as         another scenario, run first: the losses agree
 *   within               ... up to this difference (left out: 1e-3)
 *   exact                ... bit for bit instead
 *   steps_compared       ... of so many first steps (left out: 50)
 *   joined_within_s      each node that joined late or again: from its start to its first
 *                        forward pass
 *   pause_below_s        ... and meanwhile the others' longest gap between two steps,
 *                        beyond the median
 *   rejoined_within_s    each node that was stopped and continued: until it is a member
 *   fenced               ... it is told so, and applies nothing of the old epoch
 *   minority_paused      after each cut, one side goes on, the other says that it pauses
 *                        and applies nothing until it heals
 *   healed_within_s      after each heal: until all nodes are in the newest epoch
 *   links_within         every estimate of a link between two zones is within this share
 *                        of its rate (0.15), in three looks in a row of the first node's
 *                        status; and no node spent more on probes than an hour may see
 *   links_by_s           ... from so many seconds after the swarm was formed on (left out:
 *                        10); a machine under load has 20 s more
 *   links_passive        ... only those count that rest on the job's own traffic
 *   nobody_lost          no epoch is made because somebody is lost: a busy link is no
 *                        dead peer
 *   formed_within_s      from the start of the first node until all are members
 *   evicted_within_s     each node that was evicted: until it has ended (and so has no
 *                        connection) and an epoch without it is in force; none has it
 *                        after that, and each time that it is started again it ends again
 *   settled_within_s     after each event that starts or ends nodes (of several within a
 *                        second after the last): until those that run, and nobody else,
 *                        are members of one epoch that each of them knows
 *
 * Checked always: the job ended well and in time, all events took place, no two epochs
 * share a number, every step is applied once and in order, all nodes agree about it, and
 * no node died that was not killed.
 */
#ifndef TESTNET_SCENARIO_H
#define TESTNET_SCENARIO_H

#include "transport/base/err.h"
#include "transport/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

enum { TESTNET_NODES_MAX = 64, TESTNET_ZONES_MAX = 16, TESTNET_EVENTS_MAX = 64 };

enum action {
    ACTION_KILL,
    ACTION_STOP,
    ACTION_CONTINUE,
    ACTION_CUT,
    ACTION_STALL,
    ACTION_HEAL,
    ACTION_JOIN,
    ACTION_LEAVE,
    ACTION_EVICT
};
enum { ACTIONS = ACTION_EVICT + 1 };

enum target {
    TARGET_NODE,
    TARGET_ZONE,
    TARGET_LEADER,
    TARGET_WORKER,
    TARGET_VOTER,
    TARGET_LAST_VOTER,
    TARGET_BYSTANDER,
    TARGET_KILLED
};

struct scenario_node {
    char name[NAME_BYTES_MAX + 1];
    int zone;        /* an index */
    char memory[32]; /* as written; empty: not given */
    bool engine_off;
    bool late;         /* starts at join_s or join_step */
    double join_s;     /* below 0: not given */
    int64_t join_step; /* below 0: not given */
};

struct scenario_link {
    double mbit_per_s; /* 0: not shaped */
    double delay_ms;
};

struct scenario_event {
    enum action action;
    enum target target;
    int index;       /* of the node or the zone */
    int count;       /* how many at once; 1 but for voter and bystander */
    double at_s;     /* below 0: at_step counts */
    int64_t at_step; /* below 0: at_s counts */
};

/* What is below 0, empty or false is not expected. */
struct expectations {
    double loss_below;
    int64_t steps, stages, replicas, steps_lost_max, steps_compared;
    double recovered_within_s, within, joined_within_s, pause_below_s, rejoined_within_s,
        healed_within_s, links_within, links_by_s, formed_within_s, settled_within_s,
        evicted_within_s;
    bool new_leader, exact, fenced, minority_paused, links_passive, nobody_lost;
    char same_loss_as[PATH_BYTES_MAX]; /* a path that can be opened */
};

struct scenario {
    char name[NAME_BYTES_MAX + 1];
    int zones_count, nodes_count, events_count;
    char zones[TESTNET_ZONES_MAX][NAME_BYTES_MAX + 1];
    struct scenario_node nodes[TESTNET_NODES_MAX];
    struct scenario_link links[TESTNET_ZONES_MAX][TESTNET_ZONES_MAX]; /* [from][to] */
    struct scenario_event events[TESTNET_EVENTS_MAX]; /* the late joins at the end */
    struct expectations expect;
    double time_limit_s, start_every_s;
    char *job; /* the job's YAML, its paths absolute, its lines those of the file; or NULL
                  without a job */
};

/* ERR_USAGE with the line. Free with scenario_free(). */
struct scenario *scenario_read(const char *path, struct err *err);
void scenario_free(struct scenario *scenario);

/* Does what goes between two zones go by the relay? Only where that does something to it:
 * their link is shaped in either direction, or zones are cut off or stall. */
bool scenario_relayed(const struct scenario *scenario, int from, int to);

/* "kill", "cut"; "kill leader", "cut b" (returns `text`). */
const char *action_name(enum action action);
const char *event_text(const struct scenario *scenario,
                       const struct scenario_event *event, char text[64]);

#endif
