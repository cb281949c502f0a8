/*
 * local.c - what a node keeps in its data folder about itself: boot count, settings,
 * swarm, the members it knew.
 */
#include "node/node.h"
#include "node/status.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/codec.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_FILE_BYTES_MAX = FRAME_BYTES_MAX - 16, STATE_FILE_BYTES_MAX = 32 << 20 };

int
local_write_boot(const struct node *node, struct err *err)
{
    char path[PATH_BYTES_MAX], text[32];
    int len = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)node->boot);
    return file_write(path_join(path, node->config.data, "boot"), text, (size_t)len, 0600,
                      err);
}

/* Counts starts: the upper half of our incarnation, so that a restart is newer than
 * anything said before it. */
int
local_count_boot(struct node *node, bool new_identity, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    path_join(path, node->config.data, "boot");
    if (file_exists(path)) {
        if (file_read(path, 32, &bytes, err))
            return err_wrap(err, "the count of starts cannot be read (write a number "
                                 "larger than the last one into it)");
        buf_add(&bytes, "", 1);
        char *end;
        node->boot = strtoull((char *)bytes.data, &end, 10);
        bool bad =
            end == (char *)bytes.data || node->boot == 0 || node->boot > UINT32_MAX - 1;
        buf_release(&bytes);
        if (bad)
            return err_set(
                err, ERR_CORRUPT,
                "\"%s\" is damaged; write a number larger than the last boot's into it",
                path);
    }
    /* A lost count beside an old identity: seconds since 1970 are above any count that
     * others remember. */
    if (node->boot == 0 && !new_identity)
        node->boot = (uint64_t)(clock_wall_ms() / 1000);
    node->boot++;
    return local_write_boot(node, err);
}

int
local_load_swarm(struct node *node, struct buf *saved, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct buf swarm = {0};
    path_join(path, node->config.data, "swarm.id");
    if (!file_exists(path))
        return 0;
    int result = file_read(path, ID_BYTES, &swarm, err);
    if (result == 0 && swarm.len != ID_BYTES)
        result =
            err_set(err, ERR_CORRUPT,
                    "\"%s\" is damaged; copy it from another member's data folder (it is "
                    "the same in all of a swarm), or join anew with an empty folder",
                    path);
    if (result == 0)
        memcpy(node->swarm.bytes, swarm.data, ID_BYTES);
    buf_release(&swarm);
    path_join(path, node->config.data, "agree.state");
    if (result == 0 && file_exists(path))
        result = file_read(path, STATE_FILE_BYTES_MAX, saved, err);
    return result;
}

void
local_save_members(struct node *node)
{
    struct buf out = {0};
    size_t count = 0, used = 0;
    while (count < INTRODUCED_MAX && count < gossip_count(node->gossip) &&
           used + gossip_at(node->gossip, count)->len + 8 <= MEMBERS_FILE_BYTES_MAX)
        used += gossip_at(node->gossip, count++)->len + 8;
    writer_array(&out, count);
    for (size_t i = 0; i < count; i++) {
        const struct member *member = gossip_at(node->gossip, i);
        writer_bytes(&out, member->bytes, member->len);
    }
    char path[PATH_BYTES_MAX];
    struct err err;
    if (file_write(path_join(path, node->config.data, "members.state"), out.data, out.len,
                   0600, &err))
        log_limited(LOG_WARN, "node", "members not saved reason=\"%s\"", err.msg);
    buf_release(&out);
    node->records_dirty = false;
    node->records_saved_ms = clock_ms();
}

/* Whom we knew before: their addresses are where a node that comes back begins. */
void
local_load_members(struct node *node)
{
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    struct err err;
    if (file_read(path_join(path, node->config.data, "members.state"),
                  MEMBERS_FILE_BYTES_MAX, &bytes, &err) == 0) {
        struct reader *reader = reader_open(bytes.data, bytes.len, &err);
        size_t count = reader ? reader_enter(reader, 0, INTRODUCED_MAX) : 0;
        for (size_t i = 0; i < count; i++) {
            size_t len;
            const uint8_t *record = reader_bytes(reader, RECORD_BYTES_MAX, &len);
            struct record known;
            if (reader_ok(reader) && record_peek(record, len, &known, &err) == 0 &&
                id_equal(&known.id, &node->id))
                twins_was_at(node, known.address);
            if (reader_ok(reader) &&
                gossip_merge(node->gossip, clock_ms(), record, len, &node->effects, &err))
                log_debug("node", "an old record is passed over reason=\"%s\"", err.msg);
        }
        if (reader && count > 0)
            reader_leave(reader);
        if (!reader || reader_close(&reader, &err))
            log_warn("node", "members.state is damaged and passed over reason=\"%s\"",
                     err.msg);
    }
    buf_release(&bytes);
}

static const char settings_file[] = "settings.state";

/* A node's own files, and those that people put beside them. */
static bool
ours(const char *name)
{
    static const char *const names[] = {".",
                                        "..",
                                        "identity.key",
                                        "boot",
                                        STATUS_LOCK_FILE,
                                        "swarm.id",
                                        "data",
                                        STATUS_SECRET_FILE,
                                        "lost+found",
                                        "agree.state",
                                        "members.state",
                                        "machine.state",
                                        "seeds.state",
                                        "invites.state",
                                        "run.state",
                                        settings_file,
                                        (STATUS_SECRET_FILE ".next"),
                                        STATUS_EVENTS_FILE,
                                        (STATUS_EVENTS_FILE ".1"),
                                        "checkpoints",
                                        STATUS_SOCKET_FILE,
                                        "node.yaml",
                                        "node.log"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

int
local_look(const struct node *node, struct err *err)
{
    char path[PATH_BYTES_MAX];
    if (node->config.join.host[0] ||
        file_exists(path_join(path, node->config.data, "identity.key")))
        return 0;
    DIR *dir = opendir(node->config.data);
    if (!dir)
        return err_set_errno(err, "could not read the data folder \"%s\"",
                             node->config.data);
    const struct dirent *entry;
    int result = 0;
    while (result == 0 && (entry = readdir(dir)))
        if (!ours(entry->d_name))
            result = err_set(err, ERR_USAGE,
                             "the data folder \"%s\" is not empty (it has \"%.64s\") and "
                             "belongs to no node; a swarm is founded only in an empty "
                             "folder, name one with --data",
                             node->config.data, entry->d_name);
    closedir(dir);
    return result;
}

/* ---- settings ---- */

/* One remembered text takes the place of a setting that was left at its default. */
static void
recall(const char *what, const char *kept, const char *given, const char *otherwise,
       char *out, size_t size)
{
    if (strcmp(given, otherwise) != 0 || strcmp(kept, otherwise) == 0)
        return;
    snprintf(out, size, "%s", kept);
    log_info("node", "as before %s=%s", what, kept);
}

struct settings {
    char name[NAME_BYTES_MAX + 1], zone[NAME_BYTES_MAX + 1];
    char listen[ADDRESS_BYTES_MAX + 8], advertise[ADDRESS_BYTES_MAX + 8];
};

/* False without `err`: there are none. */
static bool
settings_read(const char *data, struct settings *settings, struct err *err)
{
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    struct reader *reader = NULL;
    err->code = ERR_NONE;
    path_join(path, data, settings_file);
    bool read = file_exists(path) && file_read(path, 4096, &bytes, err) == 0 &&
                (reader = reader_open(bytes.data, bytes.len, err)) != NULL;
    if (!read && !err->code && file_exists(path))
        err_set(err, ERR_CORRUPT, "\"%s\" is empty", path);
    if (read) {
        reader_enter(reader, 4, 4);
        reader_text(reader, settings->name, sizeof(settings->name));
        reader_text(reader, settings->zone, sizeof(settings->zone));
        reader_text(reader, settings->listen, sizeof(settings->listen));
        reader_text(reader, settings->advertise, sizeof(settings->advertise));
        reader_leave(reader);
        read = reader_close(&reader, err) == 0;
    }
    buf_release(&bytes);
    return read;
}

bool
local_listen(const char *data, struct address *listen)
{
    struct settings settings;
    struct address kept;
    struct err err;
    bool found = settings_read(data, &settings, &err) &&
                 address_parse(settings.listen, &kept, &err) == 0;
    if (found)
        *listen = kept;
    return found;
}

void
local_recall(struct node *node)
{
    struct settings kept;
    struct node_config fresh, *config = &node->config;
    char now[ADDRESS_BYTES_MAX + 8], otherwise[ADDRESS_BYTES_MAX + 8];
    struct err err;
    if (settings_read(config->data, &kept, &err)) {
        config_init(&fresh);
        recall("name", kept.name, config->name, "", config->name, sizeof(config->name));
        recall("zone", kept.zone, config->zone, fresh.zone, config->zone,
               sizeof(config->zone));
        address_text(&config->listen, now);
        address_text(&fresh.listen, otherwise);
        recall("listen", kept.listen, now, otherwise, now, sizeof(now));
        config_release(&fresh);
        if (address_parse(now, &config->listen, &err) == 0 &&
            !config->advertise.host[0] && kept.advertise[0])
            address_parse(kept.advertise, &config->advertise, &err);
    }
    if (err.code)
        log_warn("node", "the settings of the last start are passed over reason=\"%s\"",
                 err.msg);
}

void
local_remember(const struct node *node)
{
    char path[PATH_BYTES_MAX], listen[ADDRESS_BYTES_MAX + 8];
    char advertise[ADDRESS_BYTES_MAX + 8] = "";
    struct buf bytes = {0};
    struct err err;
    address_text(&node->config.listen, listen);
    if (node->config.advertise.host[0])
        address_text(&node->config.advertise, advertise);
    writer_array(&bytes, 4);
    writer_text(&bytes, node->config.name);
    writer_text(&bytes, node->config.zone);
    writer_text(&bytes, listen);
    writer_text(&bytes, advertise);
    if (file_write(path_join(path, node->config.data, settings_file), bytes.data,
                   bytes.len, 0600, &err))
        log_warn("node", "settings not kept reason=\"%s\"", err.msg);
    buf_release(&bytes);
}
