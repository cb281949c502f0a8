/*
 * recovery.c - a lost majority, by hand: the view that a new generation begins with.
 */
#include "node/node.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
compare_members(const void *left, const void *right)
{
    const struct decree_member *a = left, *b = right;
    return id_compare(&a->id, &b->id);
}

/* Their boots, as they say themselves. */
static int
find_survivors(const struct node *node, const struct id *survivors, size_t count,
               struct decree_member *members, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct member *member = gossip_find(node->gossip, &survivors[i]);
        char text[ID_SHORT_SIZE];
        members[i].id = survivors[i];
        if (id_equal(&survivors[i], &node->id))
            members[i].incarnation = node->boot << 32;
        else if (member && member->state == MEMBER_ALIVE &&
                 mesh_connected(node->mesh, &survivors[i]))
            members[i].incarnation = member->record->incarnation;
        else
            return err_set(err, ERR_USAGE,
                           "cannot recover with node %s: it is not reachable from here; "
                           "leave it out, it joins again when it is back",
                           id_short(&survivors[i], text));
    }
    qsort(members, count, sizeof(*members), compare_members);
    for (size_t i = 1; i < count; i++)
        if (id_equal(&members[i - 1].id, &members[i].id))
            return err_set(err, ERR_USAGE, "cannot recover: a survivor is named twice");
    return 0;
}

/* The job goes on; its plan follows when the survivors have reported. */
static void
make_view(const struct node *node, const struct decree_member *members, size_t count,
          struct view *view)
{
    view_begin(view, node->view);
    if (view->state != JOB_NONE)
        snprintf(view->ended, sizeof(view->ended),
                 "the swarm was recovered by hand; a plan follows");
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct id *id = &node->decree.members[i].id;
        bool stays = false;
        for (size_t k = 0; k < count && !stays; k++)
            stays = id_equal(id, &members[k].id);
        if (!stays && view->former_count < VIEW_FORMER_MAX)
            view->former[view->former_count++] = *id;
    }
}

int
recovery_check(const struct node *node, const struct id *survivors, size_t count,
               struct err *err)
{
    if (!node->entered || !agree_decree(node->agree))
        return err_set(err, ERR_USAGE, "cannot recover: this node knows no epoch yet");
    if (count == 0 || count > PLAN_NODES_MAX)
        return err_set(err, ERR_USAGE, "cannot recover with %zu survivors", count);
    struct decree_member *members = xcalloc(count, sizeof(*members));
    int result = find_survivors(node, survivors, count, members, err);
    free(members);
    return result;
}

int
recovery_begin(struct node *node, const struct id *survivors, size_t count,
               agree_sign_fn *sign, void *arg, struct err *err)
{
    if (recovery_check(node, survivors, count, err))
        return -1;
    struct decree_member *members = xcalloc(count, sizeof(*members));
    struct view *view = xcalloc(1, sizeof(*view));
    struct buf body = {0};
    int result = find_survivors(node, survivors, count, members, err);
    if (result == 0) {
        make_view(node, members, count, view);
        view_encode(view, &body);
        result = agree_recover(node->agree, clock_ms(), members, (uint32_t)count,
                               body.data, body.len, sign, arg, &node->effects, err);
    }
    view_release(view);
    buf_release(&body);
    free(view);
    free(members);
    return result;
}
