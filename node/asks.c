#include "node/admission.h"
#include "node/node.h"
#include "transport/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a command waits for when it is asked; the answer when it failed at once. */
struct waiting {
    struct node *node;
    uint64_t ticket;
};

static void
fail(const struct waiting *waiting, const struct err *err)
{
    control_answer(waiting->node, waiting->ticket, err->msg, NULL, NULL);
}

/* ---- who is meant ---- */

static bool
means(const struct node *node, const struct id *id, const char *text)
{
    char name[NAME_BYTES_MAX + 1], shorter[ID_SHORT_SIZE], whole[ID_TEXT_SIZE];
    return strcmp(node_name_of(node, id, name), text) == 0 ||
           strcmp(id_short(id, shorter), text) == 0 ||
           strcmp(id_text(id, whole), text) == 0;
}

static void
consider(const struct node *node, const struct id *id, const char *text, struct id *found,
         int *count)
{
    if (!means(node, id, text) || (*count > 0 && id_equal(found, id)))
        return;
    *found = *id;
    ++*count;
}

/* A node by its name, its short id or its whole id. */
static int
find_node(const struct node *node, const char *text, struct id *out, struct err *err)
{
    int count = 0;
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        consider(node, &node->decree.members[i].id, text, out, &count);
    for (size_t i = 0; count == 0 && i < gossip_count(node->gossip); i++)
        consider(node, &gossip_at(node->gossip, i)->record->id, text, out, &count);
    for (uint32_t i = 0; count == 0 && i < node->view->former_count; i++)
        consider(node, &node->view->former[i], text, out, &count);
    if (count == 1 || (count == 0 && id_parse(out, text)))
        return 0;
    if (count > 1)
        return err_set(err, ERR_USAGE,
                       "%d nodes are called \"%.64s\"; give the id that \"flotilla "
                       "status\" shows",
                       count, text);
    return err_set(err, ERR_USAGE,
                   "no node \"%.64s\" is known here; \"flotilla status --all\" lists "
                   "names and ids",
                   text);
}

/* ---- requests ---- */

static void
do_evict(const struct waiting *waiting, const struct json *request)
{
    struct node *node = waiting->node;
    struct policy_request wanted = {.op = POLICY_EVICT};
    struct err err;
    if (find_node(node, json_text(json_get(request, "node"), ""), &wanted.subject,
                  &err)) {
        fail(waiting, &err);
        return;
    }
    const struct secret *again = secrets_made_for(node, &wanted.subject);
    struct secret *next = again ? NULL : secret_make();
    wanted.admit_id = *secret_admit_id(again ? again : next);
    if (admission_ask(node, &wanted, next, ASKER_COMMAND, waiting->ticket, NULL, &err))
        fail(waiting, &err);
    else if (again)
        secrets_hand_out(node, again, &wanted.subject);
}

static void
do_rotate(const struct waiting *waiting, const struct json *request)
{
    (void)request;
    struct err err;
    struct secret *next = secret_make();
    struct policy_request wanted = {.op = POLICY_ROTATE,
                                    .admit_id = *secret_admit_id(next)};
    if (admission_ask(waiting->node, &wanted, next, ASKER_COMMAND, waiting->ticket, NULL,
                      &err))
        fail(waiting, &err);
}

/* Ourselves and others who are here, for whoever finds one of us gone. */
static void
choose_seeds(const struct node *node, struct invite *invite)
{
    invite->seeds[invite->seeds_count++] = node->config.advertise;
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct member *member = gossip_at(node->gossip, i);
        struct err err;
        if (invite->seeds_count < INVITE_SEEDS_MAX && member->state == MEMBER_ALIVE &&
            !id_equal(&member->record->id, &node->id) &&
            decree_member(&node->decree, &member->record->id) &&
            address_parse(member->record->address, &invite->seeds[invite->seeds_count],
                          &err) == 0)
            invite->seeds_count++;
    }
}

static void
do_invite(const struct waiting *waiting, const struct json *request)
{
    struct node *node = waiting->node;
    struct invite invite = {.swarm = node->swarm};
    struct err err;
    struct ask *ask;
    int64_t uses = json_int(json_get(request, "uses"), 1);
    int64_t left_s = json_int(json_get(request, "seconds"), 24 * 3600);
    if (uses < 1 || uses > POLICY_USES_MAX || left_s < 1 || left_s > POLICY_LEFT_S_MAX) {
        err_set(&err, ERR_USAGE, "an invite has 1 to %d uses and lasts up to a year",
                POLICY_USES_MAX);
        fail(waiting, &err);
        return;
    }
    key_random(invite.token, sizeof(invite.token));
    struct key *key = key_from_seed(invite.token);
    struct policy_request wanted = {.op = POLICY_INVITE,
                                    .subject = *key_id(key),
                                    .uses = (uint32_t)uses,
                                    .left_s = left_s,
                                    .votes = json_bool(json_get(request, "votes"), true)};
    key_free(key);
    choose_seeds(node, &invite);
    memcpy(invite.door, secret_join_public(node->secret), sizeof(invite.door));
    if (admission_ask(node, &wanted, NULL, ASKER_COMMAND, waiting->ticket, &ask, &err))
        fail(waiting, &err);
    else
        invite_text(&invite, ask->text);
    key_wipe(&invite, sizeof(invite));
}

static void
do_revoke(const struct waiting *waiting, const struct json *request)
{
    struct node *node = waiting->node;
    const char *text = json_text(json_get(request, "invite"), "");
    const struct policy *policy = &node->view->policy;
    struct policy_request wanted = {.op = POLICY_REVOKE};
    struct err err;
    struct invite invite;
    if (strncmp(text, INVITE_PREFIX, strlen(INVITE_PREFIX)) == 0 &&
        invite_parse(text, &invite, &err) == 0) {
        struct key *key = key_from_seed(invite.token);
        wanted.subject = *key_id(key);
        key_free(key);
        key_wipe(&invite, sizeof(invite));
    }
    for (uint32_t i = 0; i < policy->invites_count; i++) {
        char shorter[ID_SHORT_SIZE];
        if (strcmp(id_short(&policy->invites[i].id, shorter), text) == 0)
            wanted.subject = policy->invites[i].id;
    }
    if (id_empty(&wanted.subject)) {
        err_set(
            &err, ERR_USAGE,
            "no such invite is open; \"flotilla invite --list\" shows those that are");
        fail(waiting, &err);
    } else if (admission_ask(node, &wanted, NULL, ASKER_COMMAND, waiting->ticket, NULL,
                             &err)) {
        fail(waiting, &err);
    }
}

/* Ids of a request, ascending, each once. */
static int
read_ids(const struct node *node, const struct json *list, struct id_set *set,
         struct err *err)
{
    size_t count = json_count(list);
    if (count == 0 || count > POLICY_IDS_MAX)
        return err_set(err, ERR_USAGE, "name 1 to %d nodes", POLICY_IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct id id;
        if (find_node(node, json_text(json_at(list, i), ""), &id, err))
            return -1;
        id_set_add(set, &id);
    }
    return 0;
}

static void
do_list(const struct waiting *waiting, const struct json *request, enum policy_op op)
{
    struct policy_request wanted = {.op = op};
    struct err err;
    if (read_ids(waiting->node, json_get(request, "nodes"), &wanted.ids, &err)) {
        policy_request_release(&wanted);
        fail(waiting, &err);
    } else if (admission_ask(waiting->node, &wanted, NULL, ASKER_COMMAND, waiting->ticket,
                             NULL, &err)) {
        fail(waiting, &err);
    }
}

static void
do_allow(const struct waiting *waiting, const struct json *request)
{
    do_list(waiting, request, POLICY_ALLOW);
}

static void
do_disallow(const struct waiting *waiting, const struct json *request)
{
    do_list(waiting, request, POLICY_DISALLOW);
}

/* Who is a member now stays one: the list begins with them. */
static void
do_mode(const struct waiting *waiting, const struct json *request)
{
    struct node *node = waiting->node;
    const char *mode = json_text(json_get(request, "mode"), "");
    struct policy_request wanted = {.op = POLICY_SET_MODE};
    struct err err;
    if (strcmp(mode, "allow-list") == 0) {
        wanted.mode = POLICY_LIST;
        for (uint32_t i = 0; i < node->decree.members_count; i++)
            id_set_add(&wanted.ids, &node->decree.members[i].id);
    } else if (strcmp(mode, "secret") != 0) {
        err_set(&err, ERR_USAGE, "--mode is \"%.32s\"; use secret or allow-list", mode);
        fail(waiting, &err);
        return;
    }
    if (admission_ask(node, &wanted, NULL, ASKER_COMMAND, waiting->ticket, NULL, &err))
        fail(waiting, &err);
}

/* ---- recovery ---- */

static void
sign_recovery(void *arg, const void *bytes, size_t len,
              uint8_t signature[KEY_SIGNATURE_BYTES])
{
    const struct node *node = arg;
    secret_sign(node->secret, bytes, len, signature);
}

/* Voters that are reached from here. */
static bool
majority_here(const struct node *node)
{
    uint32_t mask = 0;
    for (uint32_t v = 0; v < node->decree.voters_count; v++) {
        const struct id *voter = &node->decree.voters[v];
        if (id_equal(voter, &node->id) ||
            (mesh_connected(node->mesh, voter) &&
             watch_gone(node->watch, clock_ms(), voter) == WATCH_HERE))
            mask |= 1u << v;
    }
    return decree_quorum(&node->decree, mask);
}

/* Those that are named, or all members that are reached. */
static int
choose_survivors(const struct node *node, const struct json *names, struct id_set *set,
                 struct err *err)
{
    for (size_t i = 0; i < json_count(names); i++) {
        struct id id;
        if (find_node(node, json_text(json_at(names, i), ""), &id, err))
            return -1;
        id_set_add(set, &id);
    }
    if (set->count > 0)
        return 0;
    id_set_add(set, &node->id);
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct id *id = &node->decree.members[i].id;
        const struct member *member = gossip_find(node->gossip, id);
        if (mesh_connected(node->mesh, id) && member && member->state == MEMBER_ALIVE)
            id_set_add(set, id);
    }
    return 0;
}

/* What is, or would be, for people. */
static void
describe_recovery(const struct node *node, const struct id_set *survivors, bool done,
                  struct buf *out)
{
    char name[NAME_BYTES_MAX + 1];
    buf_printf(out, "generation %u %s ", node->decree.generation + 1,
               done ? "begins with" : "would begin with");
    for (uint32_t i = 0; i < survivors->count; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "",
                   node_name_of(node, &survivors->list[i], name));
    buf_printf(out, "%s",
               done ? ""
                    : "; all others would be left out, and what they alone know "
                      "given up; --yes does it");
}

static void
do_recover(const struct waiting *waiting, const struct json *request)
{
    struct node *node = waiting->node;
    struct id_set survivors = {0};
    struct buf text = {0};
    struct err err;
    bool yes = json_bool(json_get(request, "yes"), false);
    int failed;
    bool rival =
        node->rival_generation > 0 && node->rival_generation == node->decree.generation;
    if (majority_here(node) && !rival)
        failed = err_set(&err, ERR_USAGE,
                         "a majority of the voters is reached from here: the swarm needs "
                         "no recovery, it leaves out who is lost by itself");
    else if (!id_empty(&node->view->policy.admit_id) &&
             !id_equal(&node->view->policy.admit_id, secret_admit_id(node->secret)))
        failed = err_set(&err, ERR_USAGE,
                         "this node has not got the swarm's newest secret; recover at "
                         "one that has");
    else
        failed = choose_survivors(node, json_get(request, "survivors"), &survivors, &err);
    if (!failed)
        failed = recovery_check(node, survivors.list, survivors.count, &err);
    if (!failed)
        describe_recovery(node, &survivors, yes, &text);
    if (!failed && yes)
        failed = recovery_begin(node, survivors.list, survivors.count, sign_recovery,
                                node, &err);
    if (failed)
        fail(waiting, &err);
    else
        control_answer(node, waiting->ticket, NULL, "text", (char *)text.data);
    buf_release(&text);
    id_set_release(&survivors);
}

/* ---- what is ---- */

static void
put_ids(const struct node *node, const char *name, const struct id_set *set,
        struct json_writer *writer)
{
    char text[ID_TEXT_SIZE], called[NAME_BYTES_MAX + 1];
    json_array_open(writer, name);
    for (uint32_t i = 0; i < set->count; i++) {
        json_object_open(writer, NULL);
        json_put_text(writer, "id", id_text(&set->list[i], text));
        json_put_text(writer, "name", node_name_of(node, &set->list[i], called));
        json_object_close(writer);
    }
    json_array_close(writer);
}

void
asks_put_policy(const struct node *node, struct json_writer *writer)
{
    const struct policy *policy = &node->view->policy;
    char text[ID_SHORT_SIZE];
    json_put_int(writer, "version", (int64_t)policy->version);
    json_put_text(writer, "mode", policy->mode == POLICY_LIST ? "allow-list" : "secret");
    json_put_text(writer, "secret", id_short(&policy->admit_id, text));
    json_put_bool(writer, "changing_over", !id_empty(&policy->before_id));
    json_put_bool(writer, "secret_here",
                  id_equal(&policy->admit_id, secret_admit_id(node->secret)));
    put_ids(node, "allowed", &policy->allowed, writer);
    put_ids(node, "evicted", &policy->evicted, writer);
    put_ids(node, "never_voters", &policy->silent, writer);
    json_array_open(writer, "invites");
    for (uint32_t i = 0; i < policy->invites_count; i++) {
        const struct policy_invite *invite = &policy->invites[i];
        json_object_open(writer, NULL);
        json_put_text(writer, "id", id_short(&invite->id, text));
        json_put_int(writer, "uses", invite->uses);
        json_put_int(writer, "uses_left", (int64_t)(invite->uses - invite->users.count));
        json_put_int(writer, "seconds_left",
                     admission_invite_left_ms(node, &invite->id) / 1000);
        json_put_bool(writer, "votes", invite->votes);
        json_object_close(writer);
    }
    json_array_close(writer);
}

static const struct {
    const char *name;
    void (*run)(const struct waiting *, const struct json *);
} commands[] = {
    {"invite", do_invite}, {"revoke", do_revoke},   {"evict", do_evict},
    {"rotate", do_rotate}, {"allow", do_allow},     {"disallow", do_disallow},
    {"mode", do_mode},     {"recover", do_recover},
};

void
asks_command(struct node *node, const char *name, const struct json *request,
             uint64_t ticket)
{
    struct waiting waiting = {.node = node, .ticket = ticket};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0)
            commands[i].run(&waiting, request);
}
