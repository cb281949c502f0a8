#include "gossip/agree_state.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"

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
root_set(struct root *root, const struct id *hash, const void *bytes, size_t len)
{
    uint8_t *copy = len > 0 ? xmemdup(bytes, len) : NULL;
    free(root->bytes);
    *root = (struct root){.bytes = copy, .len = len};
    if (len > 0)
        root->hash = *hash;
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
                             .body_len = agree->decree.body_len,
                             .root = agree->root.bytes,
                             .root_len = agree->root.len};
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
    root_set(&walk->root, NULL, NULL, 0);
}

/* A recovery to the generation where we are, but not the one that began it. */
static int
walk_rival(struct walk *walk, const struct decree *rival, const struct id *hash,
           const struct certificate *certificate, struct err *err)
{
    char ours[ID_SHORT_SIZE], theirs[ID_SHORT_SIZE];
    if (recovery_verify(walk->authority, &walk->at.swarm, rival, hash, certificate, err))
        return -1;
    walk->rival = *hash;
    return err_set(err, ERR_AUTH,
                   "generation %u was recovered twice, as %s and %s; they never merge; "
                   "recover again on the side that is to live",
                   rival->generation, id_short(&walk->root.hash, ours),
                   id_short(hash, theirs));
}

/* May we step on it from where we are? */
static int
walk_check(struct walk *walk, const struct decree *next, const struct id *hash,
           const struct certificate *certificate, bool trusted, struct err *err)
{
    if (next->cause == CAUSE_RECOVERY)
        return recovery_verify(walk->authority,
                               walk->started && walk->at.epoch > 1 ? &walk->at.swarm
                               : walk->started                     ? &walk->hash
                                                                   : &next->swarm,
                               next, hash, certificate, err);
    if (walk->started && next->epoch > walk->at.epoch + 1)
        return err_set(err, ERR_PEER,
                       "cannot follow from epoch %u to epoch %u: the decrees between are "
                       "missing",
                       epoch_number(walk->at.epoch), epoch_number(next->epoch));
    if (!walk->started && next->epoch > 1 && trusted)
        return 0;
    return certificate_verify(walk->started ? &walk->at : NULL, &walk->hash, next, hash,
                              certificate, err);
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
    bool root = next.cause == CAUSE_RECOVERY;
    bool known = walk->started && (root ? next.generation <= walk->at.generation
                                        : next.epoch <= walk->at.epoch);
    if (known && root && next.generation == walk->at.generation &&
        !id_equal(&hash, &walk->root.hash))
        result = walk_rival(walk, &next, &hash, &certificate, err);
    else if (!known)
        result = walk_check(walk, &next, &hash, &certificate, trusted, err);
    if (result || known) {
        decree_release(&next);
        return result;
    }
    decree_release(&walk->at);
    walk->started = true;
    walk->at = next;
    walk->hash = hash;
    walk->certificate = certificate;
    walk->steps++;
    chain_push(&walk->chain, next.epoch, bytes, len);
    if (root)
        root_set(&walk->root, &hash, bytes, len);
    return 0;
}

/* The generation's root as the sender has it: another one than ours is a rival; who
 * begins with nothing needs it. */
static int
walk_root(struct walk *walk, const struct commit *message, struct err *err)
{
    struct decree root;
    struct id hash;
    struct certificate certificate;
    if (message->root_len == 0)
        return 0;
    if (link_decode(message->root, message->root_len, &root, &hash, &certificate, err))
        return -1;
    int result = 0;
    bool ours = walk->started && root.generation == walk->at.generation;
    if (ours && !id_equal(&hash, &walk->root.hash))
        result = walk_rival(walk, &root, &hash, &certificate, err);
    else if (!walk->started)
        result = recovery_verify(walk->authority, &root.swarm, &root, &hash, &certificate,
                                 err);
    if (result == 0 && !walk->started)
        root_set(&walk->root, &hash, message->root, message->root_len);
    decree_release(&root);
    return result;
}

/* Where we arrived is of the generation that the root began. */
static int
walk_rooted(const struct walk *walk, struct err *err)
{
    uint32_t generation = walk->at.generation;
    if (generation == 0 && walk->root.len == 0)
        return 0;
    struct decree root;
    struct id hash;
    struct certificate certificate;
    if (walk->root.len == 0)
        return err_set(err, ERR_AUTH,
                       "decree of generation %u without the recovery to it", generation);
    if (link_decode(walk->root.bytes, walk->root.len, &root, &hash, &certificate, err))
        return -1;
    bool fits = root.generation == generation && root.epoch <= walk->at.epoch &&
                id_equal(&root.swarm, &walk->at.swarm);
    decree_release(&root);
    return fits ? 0
                : err_set(err, ERR_AUTH,
                          "decree of generation %u with the recovery to another",
                          generation);
}

int
walk_along(struct walk *walk, const struct commit *message, bool trusted, struct err *err)
{
    if (walk_root(walk, message, err))
        return -1;
    for (size_t i = 0; i < message->count; i++)
        if (walk_step(walk, message->links[i].bytes, message->links[i].len, trusted, err))
            return -1;
    if (walk->steps == 0)
        return 0;
    if (walk_rooted(walk, err))
        return -1;
    struct id hash;
    key_hash(message->body, message->body_len, &hash);
    if (!id_equal(&hash, &walk->at.body_hash))
        return err_set(err, ERR_WIRE, "decree's body does not have the header's hash");
    walk->at.body = xmemdup(message->body, message->body_len);
    walk->at.body_len = message->body_len;
    return 0;
}

/* A header where a walk begins. */
static void
walk_from(struct walk *walk, const struct decree *decree, const struct id *hash)
{
    struct decree header = *decree;
    header.body = NULL; /* copied without its body */
    walk->started = true;
    walk->hash = *hash;
    decree_copy(&walk->at, &header);
}

void
walk_start(struct walk *walk, const struct agree *agree)
{
    *walk = (struct walk){.authority = &agree->authority};
    walk_from(walk, &agree->decree, &agree->hash);
    root_set(&walk->root, &agree->root.hash, agree->root.bytes, agree->root.len);
}

void
walk_take(struct walk *walk, struct agree *agree, struct effects *effects)
{
    for (size_t i = 0; i + 1 < walk->chain.count; i++)
        chain_push(&agree->chain, walk->chain.links[i].epoch, walk->chain.links[i].bytes,
                   walk->chain.links[i].len);
    root_set(&agree->root, &walk->root.hash, walk->root.bytes, walk->root.len);
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
    if (MUTANT(amnesia))
        return 0;
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
    struct walk walk = {.authority = &agree->authority};
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

/* Who begins at a decree without the state around it believes the message's root. */
static int
verify_root(struct walk *walk, const struct commit *message, struct err *err)
{
    struct decree root;
    struct id hash;
    struct certificate certificate;
    if (message->root_len == 0)
        return 0;
    if (link_decode(message->root, message->root_len, &root, &hash, &certificate, err))
        return -1;
    bool ours = root.generation == walk->at.generation;
    int result = ours ? recovery_verify(walk->authority, &walk->at.swarm, &root, &hash,
                                        &certificate, err)
                      : 0;
    if (ours && result == 0)
        root_set(&walk->root, &hash, message->root, message->root_len);
    decree_release(&root);
    return result;
}

int
agree_verify(const struct decree *previous, const struct id *admit_id,
             const void *certified, size_t len, struct err *err)
{
    struct commit message;
    struct authority authority = {0};
    struct walk walk = {.authority = &authority};
    if (admit_id)
        authority.keys[authority.count++] = *admit_id;
    if (commit_decode(certified, len, &message, err))
        return -1;
    int result = 0;
    if (previous) {
        struct id hash;
        decree_hash(previous, &hash);
        walk_from(&walk, previous, &hash);
        result = verify_root(&walk, &message, err);
    }
    if (result == 0)
        result = walk_along(&walk, &message, false, err);
    if (result == 0 && walk.steps == 0)
        result = err_set(err, ERR_WIRE, "decree is not newer than epoch %llu",
                         (unsigned long long)walk.at.epoch);
    walk_release(&walk);
    return result;
}
