#include "gossip/agree_state.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

void
agree_authority(struct agree *agree, const struct id *admit_ids, size_t count)
{
    must(admit_ids != NULL || count == 0);
    agree->authority.count = count < AUTHORITY_KEYS_MAX ? count : AUTHORITY_KEYS_MAX;
    for (size_t i = 0; i < agree->authority.count; i++)
        agree->authority.keys[i] = admit_ids[i];
}

/* The decree that begins the next generation, with the given survivors. */
static struct decree
recovery_make(const struct agree *agree, const struct decree_member *members,
              uint32_t count, const void *body, size_t body_len)
{
    uint32_t generation = agree->decree.generation + 1;
    struct decree decree = {.swarm = agree->swarm,
                            .generation = generation,
                            .epoch = (uint64_t)generation << EPOCH_NUMBER_BITS |
                                     (epoch_number(agree->decree.epoch) + 1),
                            .previous = agree->hash,
                            .cause = CAUSE_RECOVERY,
                            .members_count = count,
                            .members = xmemdup(members, count * sizeof(*members)),
                            .body = xmemdup(body, body_len),
                            .body_len = body_len};
    key_hash(body, body_len, &decree.body_hash);
    decree.voters_count =
        decree_next_voters(&agree->decree, members, count, decree.voters);
    return decree;
}

int
agree_recover(struct agree *agree, int64_t now_ms, const struct decree_member *members,
              uint32_t count, const void *body, size_t body_len, agree_sign_fn *sign,
              void *arg, struct effects *effects, struct err *err)
{
    must(count >= 1 && count <= PLAN_NODES_MAX);
    for (uint32_t i = 1; i < count; i++)
        must(id_compare(&members[i - 1].id, &members[i].id) < 0);
    if (!agree->founded)
        return err_set(err, ERR_USAGE, "cannot recover: this node knows no epoch");
    if (body_len > DECREE_BYTES_MAX)
        return err_set(err, ERR_LIMIT,
                       "cannot recover: state of %zu bytes, the limit is %d", body_len,
                       DECREE_BYTES_MAX);
    struct decree decree = recovery_make(agree, members, count, body, body_len);
    if (!decree_member(&decree, &agree->self)) {
        decree_release(&decree);
        return err_set(err, ERR_USAGE,
                       "cannot recover: this node is not among the survivors");
    }
    struct certificate certificate = {.term = agree_term_next(agree), .mask = 1};
    struct id hash;
    struct buf words = {0}, link = {0};
    decree_hash(&decree, &hash);
    accept_encode(&decree, &hash, certificate.term, &words);
    sign(arg, words.data, words.len, certificate.signatures[0]);
    buf_release(&words);
    if (recovery_verify(&agree->authority, &agree->swarm, &decree, &hash, &certificate,
                        err)) {
        decree_release(&decree);
        return err_wrap(err, "cannot recover");
    }
    link_encode(&decree, &certificate, &link);
    root_set(&agree->root, &hash, link.data, link.len);
    buf_release(&link);
    struct decree before, header = agree->decree;
    header.body = NULL;
    decree_copy(&before, &header);
    decide_store(agree, &decree, &hash, &certificate, effects);
    decide_spread(agree, &before, effects);
    decree_release(&before);
    decide_settle(agree, now_ms, effects);
    return 0;
}

void
recover_rival(struct agree *agree, int64_t now_ms, const struct id *peer,
              const struct id *rival, const char *text, struct effects *effects)
{
    if (id_equal(&agree->rival, rival) && now_ms - agree->rival_at_ms < AGREE_RIVAL_MS)
        return;
    agree->rival = *rival;
    agree->rival_at_ms = now_ms;
    struct effect *effect = effects_add(effects, EFFECT_RIVAL, NULL, 0);
    effect->peer = *peer;
    effect->hash = *rival;
    effect->after = (int)agree->decree.generation;
    snprintf(effect->text, sizeof(effect->text), "%s", text);
    decide_tell(agree, now_ms, peer, 0, effects);
}
