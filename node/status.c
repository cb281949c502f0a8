#include "node/status.h"
#include "gossip/last_mile.h"
#include "node/engine/train.h"
#include "node/node.h"
#include "transport/base/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    MODEL_NODES_MAX = 16
}; /* of a larger swarm no link is shown that nobody measured */

/* What the job fixes of its plan. */
static void
put_fixed(const struct job *job, struct json_writer *writer)
{
    json_object_open(writer, "fixed");
    if (job->pipeline > 0)
        json_put_int(writer, "pipeline", job->pipeline);
    if (job->replicas > 0)
        json_put_int(writer, "replicas", job->replicas);
    if (job->micro_batch > 0)
        json_put_int(writer, "micro_batch", job->micro_batch);
    if (job->zones_count > 0) {
        json_array_open(writer, "zones");
        for (int i = 0; i < job->zones_count; i++)
            json_put_text(writer, NULL, job->zones[i]);
        json_array_close(writer);
    }
    json_object_close(writer);
}

static int
workers(const struct view *view)
{
    int count = 0;
    for (int i = 0; i < (int)view->reports_count; i++)
        count += view_worker(view, i);
    return count;
}

void
status_put_plan(const struct node *node, const struct view *view,
                struct json_writer *writer)
{
    char name[NAME_BYTES_MAX + 1];
    json_object_open(writer, "plan");
    json_put_int(writer, "micro_batch", view->planned ? view->plan.micro_batch : 0);
    json_put_int(writer, "pipelines", view->planned ? view->plan.pipelines_count : 0);
    json_put_int(writer, "nodes", workers(view));
    json_put_int(writer, "blocks", view->planned ? view->job.shape.blocks : 0);
    json_put_bool(writer, "loosened", view->planned && view->plan.loosened);
    if (view->planned)
        put_fixed(&view->job, writer);
    json_array_open(writer, "stages");
    for (int s = 0; view->planned && s < view->plan.stages_count; s++) {
        const struct plan_stage *stage = &view->plan.stages[s];
        json_object_open(writer, NULL);
        json_put_int(writer, "first_layer", stage->first_layer);
        json_put_int(writer, "layers", stage->layers);
        json_array_open(writer, "replicas");
        for (int r = 0; r < view->plan.pipelines_count; r++) {
            const struct report *report = &view->reports[stage->nodes[r]];
            json_object_open(writer, NULL);
            json_put_text(writer, "node", node_name_of(node, &report->id, name));
            json_put_text(writer, "zone", report->record.zone);
            json_put_text(writer, "device", report->record.device);
            json_put_int(writer, "tp", 1);
            json_put_int(writer, "micro_batches", view->plan.micro_batches[r]);
            json_object_close(writer);
        }
        json_array_close(writer);
        json_object_close(writer);
    }
    json_array_close(writer);
    json_object_close(writer);
}

/* How this node speaks to a member. */
static void
put_ways(const struct node *node, const struct id *id, struct json_writer *writer)
{
    static const char *const data_ways[] = {"none", "out", "back", "round"};
    struct id via = {{0}};
    char name[NAME_BYTES_MAX + 1];
    int number = -1;
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        if (id_equal(&node->decree.members[i].id, id))
            number = (int)i;
    json_put_text(writer, "way", mesh_way_name(mesh_way(node->mesh, id, &via)));
    json_put_text(writer, "via", id_empty(&via) ? "" : node_name_of(node, &via, name));
    json_put_text(writer, "data_way",
                  data_ways[number >= 0 ? node->data_ways[number] : BULK_NO_WAY]);
}

static void
put_member(const struct node *node, const struct member *member,
           struct json_writer *writer)
{
    char text[ID_SHORT_SIZE];
    const struct id *id = &member->record->id;
    json_object_open(writer, NULL);
    json_put_text(writer, "id", id_short(id, text));
    json_put_text(writer, "name", member->record->name);
    json_put_text(writer, "zone", member->record->zone);
    json_put_text(writer, "address", member->record->address);
    bool evicted = id_set_has(&node->view->policy.evicted, id);
    json_put_text(writer, "state",
                  evicted ? "evicted" : member_state_name(member->state));
    json_put_int(writer, "since_s", (clock_ms() - member->since_ms) / 1000);
    json_put_bool(writer, "member", decree_member(&node->decree, id));
    json_put_bool(writer, "voter", decree_voter(&node->decree, id));
    json_put_bool(writer, "worker", view_worker(node->view, view_node(node->view, id)));
    json_put_text(writer, "device", member->record->device);
    json_put_int(writer, "memory_bytes", (int64_t)member->record->memory_bytes);
    json_put_int(writer, "epoch", epoch_number(member->record->epoch));
    json_put_double(writer, "round_trip_ms", (double)member->round_trip_us / 1e3);
    json_put_bool(writer, "self", id_equal(id, &node->id));
    json_put_text(writer, "reach", reach_verdict_name(member->record->reach));
    put_ways(node, id, writer);
    json_object_close(writer);
}

static void
put_link(const struct node *node, const struct record *from, const struct record *to,
         const struct record_link *link, struct json_writer *writer)
{
    char name[NAME_BYTES_MAX + 1];
    json_object_open(writer, NULL);
    json_put_text(writer, "from",
                  from ? from->name : node_name_of(node, &link->peer, name));
    json_put_text(writer, "to", to->name);
    json_put_text(writer, "from_zone", from ? from->zone : "");
    json_put_text(writer, "to_zone", to->zone);
    json_put_double(writer, "mbit_per_s", (double)rate_decode(link->rate) * 8 / 1e6);
    json_put_double(writer, "low_mbit_per_s", (double)rate_decode(link->low) * 8 / 1e6);
    json_put_double(writer, "round_trip_ms", link->round_trip_us / 1e3);
    json_put_int(writer, "confidence", link->confidence);
    json_put_text(writer, "method", link_method_name(link->method));
    json_put_int(writer, "age_s", link->age_s);
    json_array_open(writer, "curve");
    for (int k = 0; k < LINK_CURVE_POINTS; k++) {
        if (link->curve[k] == 0)
            continue;
        json_object_open(writer, NULL);
        json_put_int(writer, "bytes", link_curve_bytes[k]);
        json_put_double(writer, "mbit_per_s",
                        (double)rate_decode(link->curve[k]) * 8 / 1e6);
        json_object_close(writer);
    }
    json_array_close(writer);
    json_object_close(writer);
}

/* What is measured at this node as it is now, of others as they told it. */
static void
put_measured(const struct node *node, const struct record *to, struct json_writer *writer)
{
    for (uint32_t k = 0; k < to->links_count; k++) {
        struct record_link link = to->links[k];
        const struct member *from = gossip_find(node->gossip, &link.peer);
        if (id_equal(&to->id, &node->id))
            links_find(node->links, clock_ms(), &to->links[k].peer, &link);
        put_link(node, from ? from->record : NULL, to, &link, writer);
    }
}

static bool
measured(const struct record *from, const struct record *to)
{
    for (uint32_t k = 0; k < to->links_count; k++)
        if (id_equal(&to->links[k].peer, &from->id))
            return to->links[k].rate > 0;
    return false;
}

/* In a swarm of a few, what nobody measured is shown as the model has it. */
static void
put_modelled(const struct record *const *records, size_t count, const struct node *node,
             struct json_writer *writer)
{
    struct last_mile *model = last_mile_new(records, count);
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++) {
            if (from == to || measured(records[from], records[to]))
                continue;
            struct record_link link = {.peer = records[from]->id,
                                       .rate = last_mile_rate(model, from, to),
                                       .confidence = LINK_MODEL_CONFIDENCE,
                                       .method = LINK_MODEL};
            link.low = link.rate;
            if (link.rate > 0)
                put_link(node, records[from], records[to], &link, writer);
        }
    last_mile_free(model);
}

static void
put_links(const struct node *node, struct json_writer *writer)
{
    const struct record *here[MODEL_NODES_MAX];
    size_t count = 0;
    json_array_open(writer, "links");
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct member *member = gossip_at(node->gossip, i);
        put_measured(node, member->record, writer);
        if (member->state != MEMBER_ALIVE)
            continue;
        if (count < MODEL_NODES_MAX)
            here[count] = member->record;
        count++;
    }
    if (count <= MODEL_NODES_MAX)
        put_modelled(here, count, node, writer);
    json_array_close(writer);
}

static void
put_job(const struct node *node, struct json_writer *writer)
{
    const struct view *view = node->view;
    char hash[17];
    if (view->state == JOB_NONE) {
        json_put_raw(writer, "job", "null", 4);
        return;
    }
    json_object_open(writer, "job");
    json_put_text(writer, "name", view->job.train.name);
    json_put_text(writer, "state",
                  view->state == JOB_STOPPING ? "stopping"
                  : view->planned             ? "running"
                                              : "waiting for members that can carry it");
    json_put_int(writer, "step", node->run.step);
    json_put_int(writer, "steps", view->job.train.steps);
    json_put_double(writer, "loss", node->run.loss);
    json_put_double(writer, "tokens_per_s", node->run.tokens_per_s);
    json_put_double(writer, "step_s", (double)node->run.step_us / 1e6);
    json_put_double(writer, "predicted_step_s",
                    view->planned ? (double)view->plan.predicted_step_ns / 1e9 : 0);
    json_put_int(writer, "checkpoint_step", node->run.checkpoint_step);
    json_put_int(writer, "copy_step", node->run.copy_step);
    json_put_int(writer, "participating", workers(view));
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)node->run.samples_hash);
    json_put_text(writer, "samples_hash", hash);
    json_object_close(writer);
}

/* The job that waits for its first plan, as far as this node was told; "": none. */
static const char *
submitted(const struct node *node)
{
    if (node->view->state != JOB_NONE)
        return "";
    if (node->lead.submit)
        return node->lead.job.train.name;
    return node->freeze.active && node->freeze.with_job ? node->freeze.job.train.name
                                                        : "";
}

void
status_put_run(const struct node *node, struct json_writer *writer)
{
    const struct view *view = node->view;
    char name[NAME_BYTES_MAX + 1];
    json_put_int(writer, "epoch", epoch_number(node->decree.epoch));
    json_put_text(writer, "cause", decree_cause_name(node->decree.cause));
    json_put_text(writer, "leader_name",
                  node_name_of(node, agree_leader(node->agree), name));
    json_put_int(writer, "nodes", node->decree.members_count);
    json_put_text(writer, "job", view->state == JOB_NONE ? "" : view->job.train.name);
    json_put_int(writer, "step", node->run.step);
    json_put_int(writer, "steps", view->state == JOB_NONE ? 0 : view->job.train.steps);
    status_put_plan(node, view, writer);
}

/* What others found who dialled this node back. */
static void
put_reach(const struct node *node, struct json_writer *writer)
{
    static const char *const ports[] = {"open", "shut", "of another", "untried"};
    char address[ADDRESS_BYTES_MAX + 8], name[NAME_BYTES_MAX + 1];
    const struct reach_answer *answers;
    int count = reach_answers(node->reach, &answers);
    int64_t now = clock_ms();
    address_text(reach_address(node->reach), address);
    json_object_open(writer, "reach");
    json_put_text(writer, "address", address);
    json_put_text(writer, "verdict", reach_verdict_name(reach_verdict(node->reach)));
    json_put_text(writer, "seen", reach_host(node->reach));
    json_array_open(writer, "answers");
    for (int i = 0; i < count; i++) {
        json_object_open(writer, NULL);
        json_put_text(writer, "peer", node_name_of(node, &answers[i].peer, name));
        json_put_int(writer, "age_ms", now - answers[i].at_ms);
        json_put_text(writer, "join", ports[answers[i].ports[ADDRESS_JOIN]]);
        json_put_text(writer, "control", ports[answers[i].ports[ADDRESS_CONTROL]]);
        json_put_text(writer, "data", ports[answers[i].ports[ADDRESS_BULK]]);
        json_object_close(writer);
    }
    json_array_close(writer);
    json_object_close(writer);
}

void
status_write(const struct node *node, struct json_writer *writer)
{
    char text[ID_TEXT_SIZE], name[NAME_BYTES_MAX + 1], address[ADDRESS_BYTES_MAX + 8];
    json_put_text(writer, "id", id_short(&node->id, text));
    json_put_text(writer, "name", node->name);
    json_put_text(writer, "zone", node->config.zone);
    address_text(&node->config.advertise, address);
    json_put_text(writer, "address", address);
    json_put_text(writer, "version", FLOTILLA_VERSION);
    json_put_bool(writer, "entered", node->entered);
    if (!node->entered)
        return;
    const struct id *leader = agree_leader(node->agree);
    json_put_text(writer, "swarm", id_short(&node->swarm, text));
    json_put_int(writer, "generation", node->decree.generation);
    json_put_int(writer, "epoch", epoch_number(node->decree.epoch));
    json_put_int(writer, "term", (int64_t)agree_term(node->agree));
    json_put_text(writer, "role", agree_role_name(agree_role(node->agree)));
    json_put_text(writer, "leader", id_empty(leader) ? "" : id_short(leader, text));
    json_put_text(writer, "leader_name", node_name_of(node, leader, name));
    json_put_bool(writer, "quorum", agree_quorum(node->agree));
    json_put_bool(writer, "member", node->member);
    json_put_text(writer, "paused", node->paused);
    json_put_int(
        writer, "rival_generation",
        node->rival_generation == node->decree.generation ? node->rival_generation : 0);
    json_put_text(writer, "ended", node->view->ended);
    json_put_text(writer, "submitted", submitted(node));
    json_array_open(writer, "members");
    for (size_t i = 0; i < gossip_count(node->gossip); i++)
        put_member(node, gossip_at(node->gossip, i), writer);
    json_array_close(writer);
    put_links(node, writer);
    measure_put_probes(node, writer);
    measure_put_warnings(node, writer);
    put_job(node, writer);
    status_put_plan(node, node->view, writer);
    json_put_text(writer, "twin", node->twin_at);
    json_object_open(writer, "policy");
    asks_put_policy(node, writer);
    json_object_close(writer);
    json_put_int(writer, "refused", (int64_t)admit_refused(node->admit));
    struct mesh_totals totals;
    uint64_t chunks, bytes;
    mesh_total(node->mesh, &totals);
    bulk_carried(node->bulk, &chunks, &bytes);
    put_reach(node, writer);
    json_object_open(writer, "connections");
    json_put_int(writer, "known", totals.peers);
    json_put_int(writer, "kept", totals.kept);
    json_put_int(writer, "out", totals.out);
    json_put_int(writer, "back", totals.back);
    json_put_int(writer, "round", totals.round);
    json_object_close(writer);
    json_object_open(writer, "carried");
    json_put_int(writer, "frames", (int64_t)totals.carried);
    json_put_int(writer, "chunks", (int64_t)chunks);
    json_put_int(writer, "bytes", (int64_t)(totals.carried_bytes + bytes));
    json_object_close(writer);
}
