/*
 * seeds.c - where this node joined, kept in its folder. A node that comes back may know no
 * member's address: it was let in and ended before it had saved one, with a decree that
 * lists the founder alone. It asks there again; and until it has found its swarm it lets
 * nobody into an island of its own.
 */
#include "node/node.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/codec.h"

#include <stdio.h>
#include <string.h>

static const char seeds_file[] = "seeds.state";

void
seeds_remember(struct node *node)
{
    const struct node_config *config = &node->config;
    char path[PATH_BYTES_MAX], text[ADDRESS_BYTES_MAX + 8];
    struct buf bytes = {0};
    struct err err;
    if (!config->join.host[0])
        return;
    node->seeds_count = config->invited ? config->invite.seeds_count : 1;
    for (int i = 0; i < node->seeds_count; i++)
        node->seeds[i] = config->invited ? config->invite.seeds[i] : config->join;
    writer_array(&bytes, (size_t)node->seeds_count);
    for (int i = 0; i < node->seeds_count; i++) {
        address_text(&node->seeds[i], text);
        writer_text(&bytes, text);
    }
    if (file_write(path_join(path, config->data, seeds_file), bytes.data, bytes.len, 0600,
                   &err))
        log_warn("node", "where this node joined is not saved reason=\"%s\"", err.msg);
    buf_release(&bytes);
}

void
seeds_recall(struct node *node)
{
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    struct err err = {0};
    struct reader *reader = NULL;
    path_join(path, node->config.data, seeds_file);
    if (!file_exists(path) || file_read(path, 4096, &bytes, &err) ||
        !(reader = reader_open(bytes.data, bytes.len, &err)))
        goto out;
    size_t count = reader_enter(reader, 1, INVITE_SEEDS_MAX);
    int kept = 0;
    for (size_t i = 0; i < count; i++) {
        char text[ADDRESS_BYTES_MAX + 8] = "";
        reader_text(reader, text, sizeof(text));
        if (reader_ok(reader) && address_parse(text, &node->seeds[kept], &err) == 0)
            kept++;
    }
    reader_leave(reader);
    if (reader_close(&reader, &err) == 0)
        node->seeds_count = kept;
out:
    if (err.code)
        log_warn("node", "where this node joined is passed over reason=\"%s\"", err.msg);
    buf_release(&bytes);
}

bool
seeds_found(const struct node *node)
{
    const struct decree *decree = &node->decree;
    return node->found || node->member ||
           (decree->members_count == 1 && id_equal(&decree->members[0].id, &node->id));
}

const struct address *
seeds_next(struct node *node)
{
    return node->seeds_count > 0 ? &node->seeds[node->seed_at++ % node->seeds_count]
                                 : NULL;
}
