#include "gossip/agree_state.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* ---- the chain ---- */

static void
chain_drop_first(struct chain *chain)
{
    chain->bytes -= chain->links[0].len;
    free(chain->links[0].bytes);
    chain->count--;
    memmove(&chain->links[0], &chain->links[1], chain->count * sizeof(chain->links[0]));
}

void
chain_push(struct chain *chain, uint64_t epoch, const void *bytes, size_t len)
{
    if (chain->count > 0 && chain->links[chain->count - 1].epoch + 1 != epoch)
        chain_clear(chain);
    while (chain->count > 0 && (chain->count == AGREE_LINKS_MAX ||
                                chain->bytes + len > AGREE_LINKS_BYTES_MAX))
        chain_drop_first(chain);
    size_t last = chain->count++;
    chain->links[last].epoch = epoch;
    chain->links[last].bytes = xmemdup(bytes, len);
    chain->links[last].len = len;
    chain->bytes += len;
}

void
chain_add(struct chain *chain, const struct decree *decree,
          const struct certificate *certificate)
{
    struct buf link = {0};
    link_encode(decree, certificate, &link);
    chain_push(chain, decree->epoch, link.data, link.len);
    buf_release(&link);
}

void
chain_clear(struct chain *chain)
{
    for (size_t i = 0; i < chain->count; i++)
        free(chain->links[i].bytes);
    *chain = (struct chain){0};
}

void
agree_commit_encode(const struct agree *agree, uint64_t epoch, struct buf *out)
{
    const struct chain *chain = &agree->chain;
    must(chain->count > 0);
    size_t first = 0;
    while (first + 1 < chain->count && chain->links[first].epoch <= epoch)
        first++;
    struct commit message = {.all = first == 0 && chain->links[0].epoch > epoch,
                             .count = chain->count - first,
                             .body = agree->decree.body,
                             .body_len = agree->decree.body_len};
    for (size_t i = 0; i < message.count; i++) {
        message.links[i].bytes = chain->links[first + i].bytes;
        message.links[i].len = chain->links[first + i].len;
    }
    commit_encode(&message, out);
}

/* ---- following a chain ---- */

void
walk_release(struct walk *walk)
{
    decree_release(&walk->at);
    chain_clear(&walk->chain);
}

/* One link: skipped when it is not newer than where we are. */
static int
walk_step(struct walk *walk, const uint8_t *bytes, size_t len, bool trusted,
          struct err *err)
{
    struct decree next;
    struct id hash;
    struct certificate certificate;
    if (link_decode(bytes, len, &next, &hash, &certificate, err))
        return -1;
    int result = 0;
    bool known = walk->started && next.epoch <= walk->at.epoch;
    if (!known && walk->started && next.epoch > walk->at.epoch + 1)
        result =
            err_set(err, ERR_PEER,
                    "cannot follow from epoch %llu to epoch %llu: the decrees between "
                    "are missing",
                    (unsigned long long)walk->at.epoch, (unsigned long long)next.epoch);
    else if (!known && (walk->started || next.epoch == 1 || !trusted))
        result = certificate_verify(walk->started ? &walk->at : NULL, &walk->hash, &next,
                                    &hash, &certificate, err);
    if (result == 0 && !known) {
        decree_release(&walk->at);
        walk->started = true;
        walk->at = next;
        walk->hash = hash;
        walk->certificate = certificate;
        walk->steps++;
        chain_push(&walk->chain, next.epoch, bytes, len);
        return 0;
    }
    decree_release(&next);
    return result;
}

int
walk_along(struct walk *walk, const struct commit *message, bool trusted, struct err *err)
{
    for (size_t i = 0; i < message->count; i++)
        if (walk_step(walk, message->links[i].bytes, message->links[i].len, trusted, err))
            return -1;
    if (walk->steps == 0)
        return 0;
    struct id hash;
    key_hash(message->body, message->body_len, &hash);
    if (!id_equal(&hash, &walk->at.body_hash))
        return err_set(err, ERR_WIRE, "decree's body does not have the header's hash");
    walk->at.body = xmemdup(message->body, message->body_len);
    walk->at.body_len = message->body_len;
    return 0;
}

void
walk_start(struct walk *walk, const struct decree *decree, const struct id *hash)
{
    struct decree header = *decree;
    header.body = NULL; /* copied without its body */
    *walk = (struct walk){.started = true, .hash = *hash};
    decree_copy(&walk->at, &header);
}

void
walk_take(struct walk *walk, struct agree *agree, struct effects *effects)
{
    for (size_t i = 0; i + 1 < walk->chain.count; i++)
        chain_push(&agree->chain, walk->chain.links[i].epoch, walk->chain.links[i].bytes,
                   walk->chain.links[i].len);
    decide_store(agree, &walk->at, &walk->hash, &walk->certificate, effects);
}

/* ---- export, import, verify ---- */

void
agree_export(const struct agree *agree, struct buf *out)
{
    must(agree->founded);
    uint64_t epoch = agree->decree.epoch;
    agree_commit_encode(agree, epoch < 2 ? 0 : epoch - 2, out);
}

/* Whoever comes without a state may have voted in an earlier life: it votes again when a
 * decree lists the life it has now. */
static uint64_t
amnesia_of(const struct agree *agree, const struct decree *decree)
{
    uint64_t listed = 0;
    for (uint32_t i = 0; i < decree->members_count; i++)
        if (id_equal(&decree->members[i].id, &agree->self))
            listed = decree->members[i].incarnation;
    if (agree->options.incarnation > 0)
        return listed >= agree->options.incarnation ? 0 : agree->options.incarnation;
    return decree_member(decree, &agree->self) ? listed + 1 : 0;
}

int
agree_import(struct agree *agree, int64_t now_ms, const void *bytes, size_t len,
             struct effects *effects, struct err *err)
{
    struct commit message;
    if (commit_decode(bytes, len, &message, err))
        return err_wrap(err, "cannot use the swarm's decree");
    struct walk walk = {0};
    if (walk_along(&walk, &message, true, err)) {
        walk_release(&walk);
        return err_wrap(err, "cannot use the swarm's decree");
    }
    const struct id *swarm = walk.at.epoch == 1 ? &walk.hash : &walk.at.swarm;
    if (agree->founded && !id_equal(swarm, &agree->swarm)) {
        walk_release(&walk);
        return err_set(err, ERR_AUTH, "the decree is of another swarm");
    }
    if (!agree->founded || walk.at.epoch > agree->decree.epoch) {
        if (!agree->founded)
            agree->amnesia = amnesia_of(agree, &walk.at);
        agree->swarm = *swarm;
        walk_take(&walk, agree, effects);
        decide_settle(agree, now_ms, effects);
    }
    walk_release(&walk);
    return 0;
}

int
agree_verify(const struct decree *previous, const void *certified, size_t len,
             struct err *err)
{
    struct commit message;
    if (commit_decode(certified, len, &message, err))
        return -1;
    struct walk walk = {0};
    if (previous) {
        struct id hash;
        decree_hash(previous, &hash);
        walk_start(&walk, previous, &hash);
    }
    int result = walk_along(&walk, &message, false, err);
    if (result == 0 && walk.steps == 0)
        result = err_set(err, ERR_WIRE, "decree is not newer than epoch %llu",
                         (unsigned long long)walk.at.epoch);
    walk_release(&walk);
    return result;
}
