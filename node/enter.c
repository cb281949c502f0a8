/*
 * enter.c - how a node gets into a swarm: it founds one in an empty folder, joins one by
 * a seed's address and the secret, or comes back as the member that it was.
 */
#include "node/node.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/mutant.h"
#include "transport/codec.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CATCH_UP_MS = 10000,
    DENIED_MS = 3000,
    UNFOUND_MS = 3000,
    JOIN_SAY_MS = 30000,
    NEXT_SEED_MS = 3000 /* an invite names several */
};

/* ---- our own record ---- */

void
enter_record(struct node *node)
{
    struct record record = {
        .id = node->id,
        .incarnation = node->boot << 32,
        .leaving = node->leaving_ms != 0,
        .threads = (uint32_t)node->config.threads,
        .memory_bytes = node->config.engine_off ? 0 : (uint64_t)node->config.memory_bytes,
        .epoch = node->decree.epoch,
        .reach = reach_verdict(node->reach)};
    if (node->view && node->view->state != JOB_NONE &&
        follow_measured(node, &node->view->job))
        record.job = id_prefix(&node->view->job.train.id);
    snprintf(record.name, sizeof(record.name), "%s", node->name);
    snprintf(record.zone, sizeof(record.zone), "%s", node->config.zone);
    snprintf(record.device, sizeof(record.device), "%s",
             node->config.engine_off ? "none" : "cpu");
    address_text(&node->config.advertise, record.address);
    secret_admit(node->secret, &node->swarm, &node->id, record.admission);
    record.links_count = links_fill(node->links, clock_ms(), record.links);
    gossip_self(node->gossip, &record, &node->effects);
}

void
enter_meet(struct node *node, const struct member *member)
{
    struct address address;
    struct err err;
    if (address_parse(member->record->address, &address, &err)) {
        log_limited(LOG_WARN, "node",
                    "a member's address is no address name=%s reason=\"%s\"",
                    member->record->name, err.msg);
        return;
    }
    if (!admission_lets(node, &member->record->id, member->record->admission))
        return;
    admit_allow(node->admit, &member->record->id);
    if (twins_hold(node, member))
        return;
    mesh_peer(node->mesh, &member->record->id, &address);
    paths_met(node, &member->record->id);
}

/* ---- the cores ---- */

static int
open_cores(struct node *node, const void *saved, size_t saved_len, struct err *err)
{
    uint64_t seed;
    key_random(&seed, sizeof(seed));
    struct agree_options agree = {
        .key = node->key, .seed = seed, .incarnation = node->boot << 32};
    node->agree = agree_new(&agree, clock_ms(), saved, saved_len, err);
    if (!node->agree)
        return -1;
    if (node->secret) /* else the seed's answer brings it */
        agree_authority(node->agree, secret_admit_id(node->secret), 1);
    node->view = xcalloc(1, sizeof(*node->view));
    return 0;
}

/* The swarm is known: everything else can open. */
static int
enter_swarm(struct node *node, struct err *err)
{
    uint64_t seed;
    key_random(&seed, sizeof(seed));
    struct gossip_options gossip = {.key = node->key,
                                    .tick_ms = NODE_TICK_MS,
                                    .swarm = node->swarm,
                                    .admit_id = *secret_admit_id(node->secret),
                                    .seed = seed};
    node->gossip = gossip_new(&gossip, clock_ms());
    if (node->config.join.host[0]) {
        char address[ADDRESS_BYTES_MAX + 8];
        address_text(&node->config.join, address);
        gossip_keep(node->gossip, address);
    }
    if (node_open_swarm(node, err))
        return -1;
    node_watch_swarm(node);
    enter_record(node);
    local_load_members(node);
    node_effects(node);
    return 0;
}

/* ---- the joiner's side ---- */

/* Who came by an invite has the swarm's secret from here on. The door's place was kept
 * with a key that nobody knows; secrets_tick() opens it. */
static int
take_secret(struct node *node, const uint8_t *sealed, size_t len, struct err *err)
{
    if (len != SECRET_SEALED_BYTES)
        return err_set(err, ERR_WIRE, "the seed's answer to an invite has no secret");
    struct secret *secret = secret_unseal(sealed, node->key, err);
    if (!secret)
        return -1;
    secret_free(node->secret);
    node->secret = secret;
    join_server_close(node->join_server);
    node->join_server = NULL;
    agree_authority(node->agree, secret_admit_id(secret), 1);
    return 0;
}

static int
take_answer(struct node *node, const void *body, size_t len, struct err *err)
{
    struct reader *reader = reader_open(body, len, err);
    if (!reader)
        return -1;
    char why[ERR_MSG_SIZE] = "";
    struct id swarm = {0};
    size_t decree_len = 0, records = 0;
    const uint8_t *decree = NULL;
    const uint8_t *sealed = NULL;
    size_t sealed_len = 0;
    const uint8_t *record[INTRODUCED_MAX];
    size_t record_len[INTRODUCED_MAX];
    reader_enter(reader, 2, 5);
    bool admitted = reader_bool(reader);
    if (admitted) {
        reader_id(reader, &swarm);
        decree = reader_bytes(reader, FRAME_BYTES_MAX, &decree_len);
        records = reader_enter(reader, 0, INTRODUCED_MAX);
        for (size_t i = 0; i < records; i++)
            record[i] = reader_bytes(reader, RECORD_BYTES_MAX, &record_len[i]);
        reader_leave(reader);
        sealed = reader_bytes(reader, SECRET_SEALED_BYTES, &sealed_len);
    } else {
        reader_text(reader, why, sizeof(why));
    }
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (!admitted)
        return err_set(err, ERR_AUTH, "the seed refuses us: %s", why);

    if (node->invite && !node->entered && take_secret(node, sealed, sealed_len, err))
        return -1;
    /* The decree first: nothing is written for a swarm that is not the one it speaks
     * of. */
    if (agree_import(node->agree, clock_ms(), decree, decree_len, &node->effects, err))
        return -1;
    const struct decree *newest = agree_decree(node->agree);
    const struct id *speaks_of =
        id_empty(&newest->swarm) ? agree_decree_hash(node->agree) : &newest->swarm;
    if (!id_equal(speaks_of, &swarm))
        return err_set(err, ERR_WIRE,
                       "the seed's answer names one swarm and its decree another");
    node->found = true;
    if (!node->asks_again)
        seeds_remember(node);
    char kept[PATH_BYTES_MAX];
    /* Who came back with another secret than its folder has: the seed knows it, too. */
    if (node->entered && !node->asks_again &&
        secret_write(node->secret, path_join(kept, node->config.data, STATUS_SECRET_FILE),
                     err))
        return -1;
    if (!node->entered) {
        node->swarm = swarm;
        char path[PATH_BYTES_MAX];
        if (secret_write(node->secret,
                         path_join(path, node->config.data, STATUS_SECRET_FILE), err) ||
            file_write(path_join(path, node->config.data, "swarm.id"), swarm.bytes,
                       ID_BYTES, 0600, err) ||
            enter_swarm(node, err))
            return -1;
    }
    struct err passed;
    for (size_t i = 0; i < records; i++)
        if (gossip_merge(node->gossip, clock_ms(), record[i], record_len[i],
                         &node->effects, &passed))
            log_warn("node", "a record from the seed is passed over reason=\"%s\"",
                     passed.msg);
    node_effects(node);
    return 0;
}

/* What a joiner waits for, said at once and every half a minute. */
static void
say_join_result(struct node *node, int64_t now)
{
    static const char *const texts[] = {
        [JOIN_NOBODY] =
            "nobody answers at the seed %s; is a node running there, and is the "
            "port open? trying again",
        [JOIN_HUNG_UP] =
            "the seed %s hangs up during the handshake; the secret is probably "
            "another swarm's: copy swarm.secret from the seed's data folder and "
            "give it with --secret-file; trying again",
        [JOIN_DENIED] =
            "the seed %s does not admit us: the invite is used up, over or revoked; ask "
            "for another one; trying again",
        [JOIN_SILENT] = "the seed %s is connected but does not answer; trying again"};
    char seed[ADDRESS_BYTES_MAX + 8], text[ERR_MSG_SIZE + 128];
    node->join_said_ms = now;
    if (node->join_result == JOIN_ANSWERED)
        return;
    address_text(&node->seed, seed);
    const char *fmt = texts[node->join_result];
    if (node->invite && node->join_result == JOIN_HUNG_UP)
        fmt = "the seed %s hangs up during the handshake; the invite is probably another "
              "swarm's, or ended when the swarm's secret was replaced: ask for another "
              "one; "
              "trying again";
    const char *mark = strstr(fmt, "%s");
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(mark - fmt), fmt, seed, mark + 2);
    log_warn("node", "%s", text);
}

static void
on_join_result(void *arg, enum join_result result, const void *body, size_t len)
{
    struct node *node = arg;
    char seed[ADDRESS_BYTES_MAX + 8];
    address_text(&node->seed, seed);
    struct err err = {0};
    node->join_result = result;
    say_join_result(node, clock_ms());
    if (result != JOIN_ANSWERED)
        return;
    if (take_answer(node, body, len, &err)) {
        log_error("node", "could not join by %s reason=\"%s\"", seed, err.msg);
        if (node->asks_again)
            return; /* it only tried to catch up: another member is asked next */
        node_stop(node, 1, err.msg);
        return;
    }
    char text[ID_SHORT_SIZE];
    if (node->invite) {
        join_client_close(node->join_client); /* it lives by the invite's key */
        node->join_client = NULL;
        key_free(node->invite);
        node->invite = NULL;
    }
    log_info("node", "joined swarm=%s seed=%s", id_short(&node->swarm, text), seed);
    struct json_writer *writer = events_begin(node->events, "joined");
    json_put_text(writer, "swarm", text);
    json_put_text(writer, "seed", seed);
    events_end(node->events);
}

static int
start_joining(struct node *node, struct err *err)
{
    struct buf request = {0};
    char address[ADDRESS_BYTES_MAX + 8];
    address_text(&node->config.advertise, address);
    struct buf words = {0};
    uint8_t signature[KEY_SIGNATURE_BYTES], proof[KEY_SIGNATURE_BYTES];
    const struct id *swarm = node->invite ? &node->config.invite.swarm : &node->swarm;
    seed_join_words(swarm, &node->id, address, &words);
    key_sign(node->key, words.data, words.len, signature);
    buf_release(&words);
    writer_array(&request, node->invite ? 7 : 5);
    writer_uint(&request, JOIN_VERSION);
    writer_id(&request, swarm);
    writer_id(&request, &node->id);
    writer_text(&request, address);
    writer_bytes(&request, signature, sizeof(signature));
    if (node->invite) {
        policy_proof(node->invite, swarm, &node->id, proof);
        writer_id(&request, key_id(node->invite));
        writer_bytes(&request, proof, sizeof(proof));
    }
    const struct address *seed = address_route(&node->config.routes, &node->seed);
    const struct secret *secret = node->handed ? node->handed : node->secret;
    struct join_keys keys = {.client_public = secret_joiner_public(secret),
                             .client_secret = secret_joiner_secret(secret),
                             .server_public = secret_join_public(secret)};
    if (node->invite)
        keys = (struct join_keys){.client_public = key_curve_public(node->invite),
                                  .client_secret = key_curve_secret(node->invite),
                                  .server_public = node->config.invite.door};
    node->join_client = join_dial(node->loop, &keys, seed, request.data, request.len,
                                  on_join_result, node, err);
    buf_release(&request);
    if (node->join_client) {
        address_text(&node->seed, address);
        log_info("node", "joining seed=%s", address);
    }
    return node->join_client ? 0 : -1;
}

static void
ask_next_seed(struct node *node, int64_t now)
{
    const struct invite *invite = &node->config.invite;
    struct err err;
    node->seed_ms = now;
    node->seed = invite->seeds[++node->seed_at % invite->seeds_count];
    join_client_close(node->join_client);
    node->join_client = NULL;
    if (start_joining(node, &err))
        log_limited(LOG_WARN, "node", "could not ask a seed reason=\"%s\"", err.msg);
}

void
enter_tick(struct node *node, int64_t now)
{
    if (node->entered)
        seed_tick(node, now);
    else if (node->invite && node->config.invite.seeds_count > 1 &&
             node->join_result != JOIN_ANSWERED && now - node->seed_ms >= NEXT_SEED_MS)
        ask_next_seed(node, now);
    else if (node->join_client && node->join_said_ms &&
             now - node->join_said_ms >= JOIN_SAY_MS)
        say_join_result(node, now);
}

/* Ask there as a joiner would: it lets us in, and tells us the newest decree. `handed`
 * (taken; or NULL): by this secret instead of ours. */
static void
ask_again(struct node *node, const struct address *at, const char *name, const char *why,
          struct secret *handed)
{
    struct err err;
    node->seed = *at;
    join_client_close(node->join_client);
    node->join_client = NULL;
    secret_free(node->handed);
    node->handed = handed;
    node->asks_again = true;
    log_warn("node", "%s; asking %s as a joiner", why, name);
    if (start_joining(node, &err))
        log_warn("node", "could not ask reason=\"%s\"", err.msg);
}

static bool
ask_as_joiner(struct node *node, const struct record *of, const char *why)
{
    struct address at;
    struct err err;
    if (id_equal(&of->id, &node->id) || address_parse(of->address, &at, &err))
        return false;
    ask_again(node, &at, of->name, why, NULL);
    return true;
}

void
enter_handed(struct node *node, const struct id *from, struct secret *secret)
{
    const struct member *member = gossip_find(node->gossip, from);
    struct address at;
    struct err err;
    if (!member || address_parse(member->record->address, &at, &err)) {
        secret_free(secret);
        return;
    }
    node->caught_up_ms = clock_ms();
    ask_again(node, &at, member->record->name,
              "the swarm's secret was replaced while this node was away", secret);
}

/* Outside, and connected with nobody that answers: the seed may have gone right after it
 * let us in, and what it told us of may be out of date; or they speak to a copy of us. */
static bool
alone(const struct node *node)
{
    bool heard = false;
    for (size_t i = 0; i < gossip_count(node->gossip) && !heard; i++) {
        const struct member *member = gossip_at(node->gossip, i);
        const struct id *id = &member->record->id;
        heard = !id_equal(id, &node->id) && member->state == MEMBER_ALIVE &&
                mesh_connected(node->mesh, id);
    }
    return !node->member && !node->leaving_ms && !heard;
}

/* It came back and met nobody of its swarm: where it joined they may know more. */
static bool
ask_where_joined(struct node *node, int64_t now)
{
    const struct address *at = NULL;
    char text[ADDRESS_BYTES_MAX + 8];
    if ((!seeds_found(node) || alone(node)) && now - node->entered_ms >= UNFOUND_MS)
        at = seeds_next(node);
    if (!at)
        return false;
    node->caught_up_ms = now;
    address_text(at, text);
    ask_again(node, at, text, "this node has not found its swarm again", NULL);
    return true;
}

/* A member has forgotten us, or never heard of us: the one that let us in stopped before
 * our record had spread, or two sides of a swarm have lost those who knew both. */
static bool
ask_who_denies(struct node *node, int64_t now)
{
    if (!node->denied_ms || now - node->denied_ms < DENIED_MS || MUTANT(denied))
        return false;
    node->denied_ms = 0; /* the next one that denies us is another case */
    node->caught_up_ms = now;
    const struct member *member = gossip_find(node->gossip, &node->denied_by);
    int reported = view_node(node->view, &node->denied_by);
    if (member)
        return ask_as_joiner(node, member->record, "a member does not know this node");
    return reported >= 0 && ask_as_joiner(node, &node->view->reports[reported].record,
                                          "a member does not know this node");
}

/* Any member that is alive will do for a seed: another one each time. If the secret was
 * replaced meanwhile its door is shut to ours: it is asked for the one in force. */
static bool
ask_who_is_ahead(struct node *node)
{
    size_t count = gossip_count(node->gossip);
    for (size_t i = 0; i < count; i++) {
        const struct member *member =
            gossip_at(node->gossip, node->caught_up_by++ % count);
        if (member->state == MEMBER_ALIVE &&
            ask_as_joiner(node, member->record,
                          "too far behind for the others' certificates")) {
            secrets_ask(node, &member->record->id);
            return true;
        }
    }
    return false;
}

/* Nobody leads: all that our decree names may be gone, or refuse us. Whoever is connected
 * with us may know of a newer one; gossip does not tell of it if the secret was replaced. */
static void
ask_whoever_hears(struct node *node, int64_t now)
{
    if (!id_empty(agree_leader(node->agree)))
        node->asked_others_ms = now;
    if (now - node->asked_others_ms < CATCH_UP_MS)
        return;
    node->asked_others_ms = now;
    size_t count = gossip_count(node->gossip);
    for (size_t i = 0; i < count; i++) {
        const struct member *member =
            gossip_at(node->gossip, node->asked_others_by++ % count);
        const struct id *id = &member->record->id;
        if (id_equal(id, &node->id) || !mesh_connected(node->mesh, id))
            continue;
        agree_ask(node->agree, now, id, &node->effects);
        return;
    }
}

void
enter_catch_up(struct node *node, int64_t now)
{
    ask_whoever_hears(node, now);
    if (now - node->caught_up_ms < CATCH_UP_MS)
        return;
    bool behind = agree_behind(node->agree, now);
    /* Who denies us is there; where we joined there may be nobody any more. */
    if (!behind && ask_who_denies(node, now))
        return;
    /* Who is ahead and where we joined, in turn: each may be the only one that helps. */
    if (behind) {
        node->caught_up_ms = now;
        node->asked_ahead = !node->asked_ahead;
        if (node->asked_ahead && ask_who_is_ahead(node))
            return;
    }
    if (!ask_where_joined(node, now) && behind)
        ask_who_is_ahead(node);
}

/* ---- founding ---- */

static void
print_join_line(const struct node *node)
{
    char address[ADDRESS_BYTES_MAX + 8];
    address_text(&node->config.advertise, address);
    printf("founded a swarm; its secret is in %s/" STATUS_SECRET_FILE "\n"
           "copy that file to another machine and join with:\n"
           "    flotilla node --zone ZONE --join %s --secret-file " STATUS_SECRET_FILE
           "\n",
           node->config.data, address);
    fflush(stdout);
}

static int
found(struct node *node, struct err *err)
{
    char path[PATH_BYTES_MAX];
    node->secret = secret_make();
    if (open_cores(node, NULL, 0, err))
        return -1;
    struct view empty = {0};
    struct buf body = {0};
    policy_found(&empty.policy, secret_admit_id(node->secret));
    view_encode(&empty, &body);
    uint8_t nonce[ID_BYTES];
    key_random(nonce, sizeof(nonce));
    struct effects effects = {0};
    agree_found(node->agree, clock_ms(), node->boot << 32, nonce, body.data, body.len,
                &effects);
    buf_release(&body);
    node->swarm = *agree_decree_hash(node->agree);
    node->founded = true;
    /* The sockets first: what cannot be founded leaves nothing of a swarm behind. */
    if (seed_open(node, err) || enter_swarm(node, err)) {
        effects_release(&effects);
        return -1;
    }
    effects_release(&node->effects);
    node->effects = effects;
    node_effects(node);
    if (secret_write(node->secret, path_join(path, node->config.data, STATUS_SECRET_FILE),
                     err) ||
        file_write(path_join(path, node->config.data, "swarm.id"), node->swarm.bytes,
                   ID_BYTES, 0600, err))
        return -1;
    enter_record(node);
    print_join_line(node);
    return 0;
}

/* Whoever was in the newest epoch that we know: members.state may be lost. */
static void
dial_members(struct node *node)
{
    for (uint32_t i = 0; i < node->view->reports_count; i++) {
        const struct record *record = &node->view->reports[i].record;
        struct address address;
        struct err err;
        if (id_equal(&record->id, &node->id) || gossip_find(node->gossip, &record->id) ||
            address_parse(record->address, &address, &err))
            continue;
        admit_allow(node->admit, &record->id);
        mesh_peer(node->mesh, &record->id, &address);
    }
}

static int
come_back(struct node *node, struct buf *saved, struct err *err)
{
    if (open_cores(node, saved->data, saved->len, err))
        return err_wrap(
            err,
            "the agreement's state in \"%s\" cannot be used; move agree.state away and "
            "join again with --join",
            node->config.data);
    seeds_recall(node);
    if (seed_open(node, err) || enter_swarm(node, err))
        return -1;
    const struct decree *decree = agree_decree(node->agree);
    if (decree) {
        /* Take in the epoch that we knew: its plan was another boot's, so no work follows
         * from it. */
        struct effect known = {.kind = EFFECT_COMMITTED,
                               .hash = *agree_decree_hash(node->agree),
                               .term = agree_term(node->agree),
                               .before = 1}; /* recalled, not new */
        struct buf bytes = {0};
        decree_encode(decree, &bytes);
        known.bytes = bytes.data;
        known.len = bytes.len;
        follow_committed(node, &known);
        buf_release(&bytes);
        /* members.state may be older: who is evicted is not even dialled. */
        const struct id_set *evicted = &node->view->policy.evicted;
        for (uint32_t i = 0; i < evicted->count; i++)
            mesh_forget(node->mesh, &evicted->list[i]);
        dial_members(node);
        node_effects(node);
    }
    return 0;
}

/* ---- start ---- */

static bool
listens_everywhere(const struct node *node)
{
    const char *host = node->config.listen.host;
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* The address that others dial when none was given: the listening one, or the machine's
 * first that is up. */
static void
find_advertise(struct node *node)
{
    struct address *advertise = &node->config.advertise;
    if (advertise->host[0])
        return;
    *advertise = node->config.listen;
    if (!listens_everywhere(node))
        return;
    snprintf(advertise->host, sizeof(advertise->host), "127.0.0.1");
    struct ifaddrs *list, *at;
    if (getifaddrs(&list))
        return;
    for (at = list; at; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET ||
            at->ifa_flags & IFF_LOOPBACK || !(at->ifa_flags & IFF_UP))
            continue;
        const struct sockaddr_in *in = (const void *)at->ifa_addr;
        inet_ntop(AF_INET, &in->sin_addr, advertise->host, sizeof(advertise->host));
        break;
    }
    freeifaddrs(list);
}

static int
find_secret(struct node *node, struct err *err)
{
    char path[PATH_BYTES_MAX];
    path_join(path, node->config.data, STATUS_SECRET_FILE);
    if (node->invite) {
        node->secret = secret_make(); /* nobody's: it only keeps our ports */
        return 0;
    }
    const char *environment = getenv("FLOTILLA_SECRET");
    node->secret_given = node->config.secret_file[0] || (environment && environment[0]);
    if (node->config.secret_file[0])
        node->secret = secret_read(node->config.secret_file, err);
    else if (environment && environment[0])
        node->secret = secret_parse(environment, err);
    else if (file_exists(path))
        node->secret = secret_read(path, err);
    else
        return err_set(
            err, ERR_USAGE,
            "joining needs the swarm's secret; copy swarm.secret from the seed's data "
            "folder and give it with --secret-file, or set FLOTILLA_SECRET");
    return node->secret ? 0 : -1;
}

int
enter_start(struct node *node, struct err *err)
{
    char path[PATH_BYTES_MAX], text[ID_SHORT_SIZE];
    bool made;
    if (node->config.new_identity && twins_shed_identity(node, err))
        return -1;
    node->key = key_open(path_join(path, node->config.data, "identity.key"), &made, err);
    if (!node->key)
        return -1;
    node->id = *key_id(node->key);
    if (twins_check_machine(node, made, err) || local_count_boot(node, made, err))
        return -1;
    twins_open(node);
    local_recall(node);
    local_remember(node);
    snprintf(node->name, sizeof(node->name), "%s",
             node->config.name[0] ? node->config.name : id_short(&node->id, text));
    bool given = node->config.advertise.host[0] != '\0';
    find_advertise(node);
    node->reach = reach_new(&node->config.advertise, given || !listens_everywhere(node));
    node->seed = node->config.join;

    struct buf saved = {0};
    if (local_load_swarm(node, &saved, err)) {
        buf_release(&saved);
        return -1;
    }
    bool known = saved.len > 0, joining = node->config.join.host[0] != '\0';
    int result;
    if (node->config.invited && known) {
        log_info("node", "this node is a member already and needs no invite");
        joining = false;
    } else if (node->config.invited) {
        node->invite = key_from_seed(node->config.invite.token);
    }
    key_wipe(node->config.invite.token, sizeof(node->config.invite.token));
    bool lost = !known && id_empty(&node->swarm) && !made &&
                file_exists(path_join(path, node->config.data, STATUS_SECRET_FILE));
    if (lost && !joining)
        result =
            err_set(err, ERR_USAGE,
                    "the data folder \"%s\" has a swarm's secret and an identity, but "
                    "has lost the swarm's state; join again with --join, or found a "
                    "swarm in an empty folder",
                    node->config.data);
    else if (!known && !joining && id_empty(&node->swarm))
        result = found(node, err);
    else if (find_secret(node, err))
        result = -1;
    else if (known)
        result = come_back(node, &saved, err);
    else if (joining)
        result = open_cores(node, NULL, 0, err) || seed_open(node, err) ? -1 : 0;
    else
        result = err_set(
            err, ERR_USAGE,
            "the data folder \"%s\" belongs to a swarm but has no agreement state; join "
            "again with --join",
            node->config.data);
    buf_release(&saved);
    if (result == 0 && joining)
        result = start_joining(node, err);
    if (result)
        return -1;
    char address[ADDRESS_BYTES_MAX + 8];
    address_text(&node->config.advertise, address);
    log_info("node", "started name=%s zone=%s address=%s id=%s boot=%llu", node->name,
             node->config.zone, address, id_short(&node->id, text),
             (unsigned long long)node->boot);
    struct json_writer *writer = events_begin(node->events, "start");
    json_put_text(writer, "id", text);
    json_put_text(writer, "name", node->name);
    json_put_text(writer, "zone", node->config.zone);
    json_put_text(writer, "address", address);
    json_put_int(writer, "incarnation", (int64_t)node->boot);
    json_put_bool(writer, "founded", node->founded);
    events_end(node->events);
    return 0;
}
