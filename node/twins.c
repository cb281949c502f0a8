/*
 * twins.c - two processes with one identity: a data folder that was copied, a machine that
 * was cloned. Found out by both; the one that is the member in force goes on, the other one
 * ends; where that cannot be told, both end.
 */
#include "node/node.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/log.h"
#include "transport/base/machine.h"

#include <stdio.h>
#include <string.h>

/* A member in force for so long is no newcomer; a copy is noticed sooner. */
enum { TWIN_SETTLED_MS = 10000, TWIN_HOLD_MS = 3000, TWIN_LOOK_AGAIN_MS = 2000 };

static const char machine_file[] = "machine.state";

/* ---- a cloned folder ---- */

/* What this folder knows of its machine: nothing that names it. False: nothing is known
 * of this machine. */
static bool
fingerprint(const struct id *self, char text[ID_TEXT_SIZE])
{
    struct buf marks = {0};
    struct id hash;
    machine_marks(&marks);
    bool known = marks.len > 0;
    buf_add(&marks, self->bytes, ID_BYTES);
    key_hash(marks.data, marks.len, &hash);
    id_text(&hash, text);
    buf_release(&marks);
    return known;
}

static int
write_machine(const char *path, const char *text, struct err *err)
{
    char line[ID_TEXT_SIZE + 1];
    int len = snprintf(line, sizeof(line), "%s\n", text);
    return file_write(path, line, (size_t)len, 0600, err);
}

int
twins_check_machine(struct node *node, bool made, struct err *err)
{
    char path[PATH_BYTES_MAX], now[ID_TEXT_SIZE];
    struct buf kept = {0};
    path_join(path, node->config.data, machine_file);
    if (!fingerprint(&node->id, now))
        return 0;
    if (made || node->config.moved || !file_exists(path))
        return write_machine(path, now, err);
    if (file_read(path, 1024, &kept, err))
        return -1;
    bool same = kept.len == ID_TEXT_SIZE && memcmp(kept.data, now, ID_TEXT_SIZE - 1) == 0;
    buf_release(&kept);
    if (same)
        return 0;
    return err_set(err, ERR_USAGE,
                   "the data folder \"%.100s\" was used on another machine: if it was "
                   "moved here, start once with --moved; if this is a copy or a cloned "
                   "machine, with --new-identity",
                   node->config.data);
}

/* A copy becomes another node: what makes it the old one goes; data sets, checkpoints and
 * the secret stay. */
int
twins_shed_identity(struct node *node, struct err *err)
{
    static const char *const names[] = {"identity.key", "boot",          "agree.state",
                                        "swarm.id",     "members.state", "invites.state",
                                        machine_file};
    char path[PATH_BYTES_MAX];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (file_remove_tree(path_join(path, node->config.data, names[i]), err))
            return -1;
    return 0;
}

/* ---- two that run ---- */

/* The member in force, and that for a while: whoever comes now is the copy. */
static bool
settled(const struct node *node, int64_t now)
{
    return node->member && node->member_since_ms > 0 &&
           now - node->member_since_ms >= TWIN_SETTLED_MS;
}

static void
found(struct node *node, const char *where)
{
    int64_t now = clock_ms();
    bool goes_on = settled(node, now);
    if (node->twin_said_ms && now - node->twin_said_ms < TWIN_HOLD_MS)
        return;
    node->twin_said_ms = now;
    snprintf(node->twin_at, sizeof(node->twin_at), "%.63s", where);
    struct json_writer *writer = events_begin(node->events, "twin");
    json_put_text(writer, "address", node->twin_at);
    json_put_bool(writer, "goes_on", goes_on);
    events_end(node->events);
    log_error("node", "another process has this node's identity address=%s %s",
              node->twin_at,
              goes_on ? "this one is the member in force and goes on"
                      : "this one is not, or not for long, and ends");
    if (goes_on)
        return;
    char why[ERR_MSG_SIZE];
    snprintf(why, sizeof(why),
             "another process has this node's identity, at %.60s; if this data folder is "
             "a copy, start it once with --new-identity; else stop the other one",
             node->twin_at);
    node_stop(node, 1, why);
}

/* The other record, of our boot or a later one, would be believed rather than ours, also
 * when the copy is gone, or when it was ours before this folder came back from a backup:
 * we speak in a later one still, and are the member in it from the next epoch on. */
static void
outbid(struct node *node, uint64_t boot)
{
    struct err err;
    if (boot < node->boot || boot >= UINT32_MAX - 1)
        return;
    node->boot = boot + 1;
    if (local_write_boot(node, &err))
        log_warn("node", "the boot count is not saved reason=\"%s\"", err.msg);
    enter_record(node);
}

/* Its ZAP handler knew our key for its own. */
static void
looked(void *arg, const struct address *base, bool lives)
{
    struct node *node = arg;
    char text[ADDRESS_BYTES_MAX + 8];
    address_text(base, text);
    twin_close(node->twin);
    node->twin = NULL;
    if (lives)
        found(node, text);
    else
        outbid(node, node->twin_boot);
}

static void
came(void *arg, const char *from)
{
    found(arg, from);
}

static bool
own_address(const struct node *node, const struct address *address)
{
    return address->port == node->config.advertise.port &&
           strcmp(address->host, node->config.advertise.host) == 0;
}

static void
look(struct node *node, const char *address_is)
{
    struct address address;
    struct err err;
    int64_t now = clock_ms();
    if (node->twin || address_parse(address_is, &address, &err) ||
        own_address(node, &address) ||
        (node->twin_looked_ms && now - node->twin_looked_ms < TWIN_LOOK_AGAIN_MS))
        return;
    node->twin_looked_ms = now;
    node->twin =
        twin_look(node->loop, node->key, address_route(&node->config.routes, &address),
                  looked, node, &err);
    if (!node->twin)
        log_limited(LOG_WARN, "node", "could not look for a twin reason=\"%s\"", err.msg);
}

void
twins_conflict(struct node *node, const struct effect *effect)
{
    log_limited(LOG_WARN, "gossip", "this node's identity may be in use elsewhere: %s",
                effect->text);
    const char *where = effect->len > 0 && effect->bytes[effect->len - 1] == '\0'
                            ? (const char *)effect->bytes
                            : "";
    struct address address;
    struct err err;
    node->twin_boot = effect->term;
    /* From our own address it can only be an older life of this folder. */
    if (effect->term > 0 &&
        (settled(node, clock_ms()) ||
         (address_parse(where, &address, &err) == 0 && own_address(node, &address))))
        outbid(node, effect->term);
    look(node, where);
}

/* If somebody answers there with our key, this folder is a copy. Nobody would tell us: what
 * we say is older than what the other one says, and passed over. */
void
twins_was_at(struct node *node, const char *address)
{
    look(node, address);
}

void
twins_open(struct node *node)
{
    admit_self(node->admit, &node->id, came, node);
}

static bool
held(const struct node *node, const struct id *id, int64_t now)
{
    return id_equal(&node->twin_held, id) && now - node->twin_held_ms < TWIN_HOLD_MS;
}

bool
twins_holds(const struct node *node, const struct id *id)
{
    return held(node, id, clock_ms());
}

/* The record comes from another place than the member's own words do, in its boot or a
 * later one. */
static bool
elsewhere(const struct node *node, const struct record *record)
{
    int at = view_node(node->view, &record->id);
    if (at < 0)
        return false;
    const struct record *known = &node->view->reports[at].record;
    return record->incarnation >> 32 >= known->incarnation >> 32 &&
           strcmp(known->address, record->address) != 0;
}

bool
twins_hold(struct node *node, const struct member *member)
{
    const struct record *record = member->record;
    int64_t now = clock_ms();
    if (held(node, &record->id, now))
        return true;
    if (!elsewhere(node, record) || !watch_is_up(node->watch, &record->id) ||
        (id_equal(&node->twin_held, &record->id) &&
         strcmp(node->twin_held_at, record->address) == 0))
        return false; /* it had its moment */
    node->twin_held = record->id;
    node->twin_held_ms = now;
    node->twin_waits = true;
    snprintf(node->twin_held_at, sizeof(node->twin_held_at), "%s", record->address);
    log_warn(
        "node",
        "a member speaks from another place, and is still connected from its own: has "
        "its data folder been copied? name=%s address=%s",
        record->name, record->address);
    return true;
}

void
twins_tick(struct node *node, int64_t now)
{
    if (!node->twin_waits || held(node, &node->twin_held, now))
        return;
    node->twin_waits = false;
    const struct member *member = gossip_find(node->gossip, &node->twin_held);
    if (member)
        enter_meet(node, member);
}
