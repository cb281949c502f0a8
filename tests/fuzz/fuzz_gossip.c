/*
 * A core that is spoken to. The first byte chooses: raw bytes as a frame's body, or a
 * script of well-signed statements, accusations, refusals and time, which gets past the
 * signatures.
 */
#include "gossip/gossip.h"
#include "gossip/message.h"
#include "transport/base/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PEOPLE = 5 };

static struct key *keys[PEOPLE];
static struct secret *secret;
static const struct id swarm = {{1}};

static void
setup(void)
{
    struct err err;
    char text[SECRET_TEXT_SIZE];
    must(key_setup(&err) == 0);
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    secret = secret_parse(text, &err);
    must(secret);
    for (int i = 0; i < PEOPLE; i++) {
        uint8_t seed[32] = {(uint8_t)i};
        keys[i] = key_from_seed(seed);
    }
}

static struct record
record_of(int who, uint64_t incarnation, uint64_t version, bool leaving)
{
    struct record record = {.id = *key_id(keys[who]),
                            .incarnation = incarnation,
                            .version = version,
                            .leaving = leaving};
    secret_admit(secret, &swarm, &record.id, record.admission);
    return record;
}

/* One after the other, zeros when there are no more. */
struct script {
    const uint8_t *data;
    size_t size;
};

static uint8_t
next(struct script *script)
{
    if (script->size == 0)
        return 0;
    script->size--;
    return *script->data++;
}

static void
state(struct draft *draft, struct script *script)
{
    int who = next(script) % PEOPLE;
    uint8_t choice = next(script), accusers = next(script);
    struct record record =
        record_of(who, ((uint64_t)(choice & 3) << 32) + (choice >> 2 & 3),
                  choice >> 4 & 3, choice >> 6 == 3);
    if (accusers == 0x7f)
        record.twin = (uint64_t)(1 + (choice & 3)) << 32;
    struct buf bytes = {0};
    struct accusation list[PEOPLE];
    uint32_t count = 0;
    record_sign(&record, keys[who], &swarm, &bytes);
    for (int i = 0; i < PEOPLE; i++) {
        if (i == who || !(accusers >> i & 1))
            continue;
        struct accusation word = {.accuser = *key_id(keys[i]),
                                  .kind = accusers & 0x80 ? ACCUSE_DEAD : ACCUSE_SUSPECT};
        secret_admit(secret, &swarm, &word.accuser, word.admission);
        accusation_sign(&word, keys[i], &swarm, &record.id, record.incarnation);
        uint32_t at = count++;
        for (; at > 0 && id_compare(&list[at - 1].accuser, &word.accuser) > 0; at--)
            list[at] = list[at - 1];
        list[at] = word;
    }
    if (choice & 0x20)
        draft_announce(draft, &record, list, count);
    else
        draft_state(draft, bytes.data, bytes.len, list, count);
    buf_release(&bytes);
}

static void
speak(struct gossip *gossip, struct script *script, int64_t now_ms,
      struct effects *effects)
{
    static const enum frame_kind kinds[] = {FRAME_PING, FRAME_PING_REPLY,
                                            FRAME_PING_RELAY, FRAME_RUMORS};
    int from = 1 + next(script) % (PEOPLE - 1);
    struct draft draft = {.nonce = next(script),
                          .subject = *key_id(keys[next(script) % PEOPLE]),
                          .incarnation = (uint64_t)next(script) << 30,
                          .version = next(script)};
    struct buf body = {0};
    struct err err;
    uint8_t choice = next(script);
    for (int i = 0; i < (choice >> 4 & 3); i++)
        state(&draft, script);
    if (choice & 0x40)
        draft_ask(&draft, id_prefix(key_id(keys[next(script) % PEOPLE])));
    draft_encode(&draft, &body);
    struct frame frame = {.kind = kinds[choice & 3],
                          .swarm = swarm,
                          .from = *key_id(keys[from]),
                          .to = *key_id(keys[0]),
                          .body = body.data,
                          .body_len = body.len};
    must(gossip_receive(gossip, now_ms, &frame, effects, &err) == 0);
    draft_release(&draft);
    buf_release(&body);
}

static void
play(struct gossip *gossip, struct script *script)
{
    struct effects effects = {0};
    int64_t now_ms = 1000;
    for (int turn = 0; turn < 24 && script->size > 0; turn++) {
        uint8_t choice = next(script);
        uint64_t before = gossip_member_self(gossip)->record->incarnation;
        now_ms += 1LL << (choice >> 2 & 15);
        if ((choice & 63) == 0)
            gossip_watch(gossip, key_id(keys[1 + (choice >> 6)]), 1);
        else if ((choice & 3) == 0)
            gossip_refused(gossip, now_ms, key_id(keys[choice >> 6]), &effects);
        else if ((choice & 3) == 1)
            gossip_tick(gossip, now_ms, &effects);
        else
            speak(gossip, script, now_ms, &effects);
        must(gossip_member_self(gossip)->record->incarnation >= before);
        must(gossip_member_self(gossip)->state == MEMBER_ALIVE);
        effects_clear(&effects);
    }
    effects_release(&effects);
}

static void
raw(struct gossip *gossip, const uint8_t *data, size_t size)
{
    static const enum frame_kind kinds[] = {FRAME_PING, FRAME_PING_REPLY,
                                            FRAME_PING_RELAY, FRAME_RUMORS, FRAME_DIGEST};
    struct effects effects = {0};
    struct err err = {0};
    struct frame frame = {.kind = kinds[data[0] % 5],
                          .swarm = swarm,
                          .from = *key_id(keys[1]),
                          .to = *key_id(keys[0]),
                          .body = data + 1,
                          .body_len = size - 1};
    if (gossip_receive(gossip, 1000, &frame, &effects, &err))
        must(strlen(err.msg) > 0 && effects.count == 0);
    gossip_tick(gossip, 1100, &effects);
    effects_release(&effects);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct effects effects = {0};
    if (!secret)
        setup();
    if (size < 2)
        return 0;
    struct gossip *gossip = gossip_new(
        &(struct gossip_options){
            .key = keys[0], .swarm = swarm, .admit_id = *secret_admit_id(secret)},
        900);
    struct record record = record_of(0, 1ULL << 32, 0, false);
    gossip_self(gossip, &record, &effects);
    effects_release(&effects);
    struct script script = {.data = data + 1, .size = size - 1};
    if (data[0] & 1)
        play(gossip, &script);
    else
        raw(gossip, data + 1, size - 1);
    gossip_free(gossip);
    return 0;
}
