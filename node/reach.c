#include "node/reach.h"
#include "transport/base/alloc.h"
#include "transport/detour.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 2, OWN = 0, SEEN = 1, FORGET_MS = 15 * 60 * 1000 };

struct candidate {
    struct address base; /* host empty: none */
    int count;
    struct reach_answer answers[REACH_ANSWERS_MAX];
};

struct reach {
    bool fixed;
    struct candidate candidates[CANDIDATES];
    int used; /* the one that is advertised */
    int asked_about;
    struct id asked; /* empty: nobody is asked now */
    int64_t asked_ms, next_ms;
    uint64_t nonce;
    unsigned turn;
    char host[MESH_HOST_BYTES_MAX];
};

struct reach *
reach_new(const struct address *advertise, bool fixed)
{
    struct reach *reach = xcalloc(1, sizeof(*reach));
    reach->fixed = fixed;
    reach->candidates[OWN].base = *advertise;
    return reach;
}

void
reach_free(struct reach *reach)
{
    free(reach);
}

/* Control and data: the join port is of use to joiners alone. */
static bool
through(const struct reach_answer *answer)
{
    return answer->ports[ADDRESS_CONTROL] == MESH_PORT_OPEN &&
           answer->ports[ADDRESS_BULK] == MESH_PORT_OPEN;
}

static enum record_reach
verdict(const struct candidate *candidate)
{
    int good = 0;
    for (int i = 0; i < candidate->count; i++)
        good += through(&candidate->answers[i]);
    if (candidate->count == 0)
        return REACH_UNCHECKED;
    if (good == candidate->count)
        return REACH_ALL;
    return good > 0 ? REACH_SOME : REACH_NONE;
}

static const struct reach_answer *
answer_of(const struct candidate *candidate, const struct id *peer)
{
    for (int i = 0; i < candidate->count; i++)
        if (id_equal(&candidate->answers[i].peer, peer))
            return &candidate->answers[i];
    return NULL;
}

static void
forget_old(struct candidate *candidate, int64_t now_ms)
{
    int kept = 0;
    for (int i = 0; i < candidate->count; i++)
        if (now_ms - candidate->answers[i].at_ms < FORGET_MS)
            candidate->answers[kept++] = candidate->answers[i];
    candidate->count = kept;
}

/* Does the address that peers see deserve a try? */
static bool
seen_in_doubt(const struct reach *reach, size_t peers)
{
    const struct candidate *seen = &reach->candidates[SEEN];
    size_t enough = peers < REACH_ENOUGH ? peers : REACH_ENOUGH;
    return !reach->fixed && seen->base.host[0] &&
           verdict(&reach->candidates[OWN]) == REACH_NONE && (size_t)seen->count < enough;
}

/* Of the peers, the next in turn; rather one whose answer we do not have. */
static const struct id *
next_peer(struct reach *reach, const struct candidate *candidate, const struct id *peers,
          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct id *peer = &peers[(reach->turn + i) % count];
        if (!answer_of(candidate, peer)) {
            reach->turn += (unsigned)i + 1;
            return peer;
        }
    }
    return &peers[reach->turn++ % count];
}

bool
reach_ask(struct reach *reach, int64_t now_ms, const struct id *peers, size_t count,
          struct id *peer, struct address *base, uint64_t *nonce)
{
    if (!id_empty(&reach->asked) && now_ms - reach->asked_ms >= REACH_WAIT_MS) {
        reach->asked = (struct id){{0}};
        reach->next_ms = now_ms;
    }
    for (int i = 0; i < CANDIDATES; i++)
        forget_old(&reach->candidates[i], now_ms);
    if (count == 0 || !id_empty(&reach->asked) || now_ms < reach->next_ms)
        return false;
    reach->asked_about = seen_in_doubt(reach, count) ? SEEN : reach->used;
    const struct candidate *candidate = &reach->candidates[reach->asked_about];
    reach->asked = *next_peer(reach, candidate, peers, count);
    reach->asked_ms = now_ms;
    *peer = reach->asked;
    *base = candidate->base;
    *nonce = ++reach->nonce;
    return true;
}

static void
note(struct candidate *candidate, const struct reach_answer *answer)
{
    struct reach_answer *place = NULL;
    for (int i = 0; i < candidate->count; i++)
        if (id_equal(&candidate->answers[i].peer, &answer->peer))
            place = &candidate->answers[i];
    if (!place && candidate->count < REACH_ANSWERS_MAX)
        place = &candidate->answers[candidate->count++];
    for (int i = 0; !place && i < REACH_ANSWERS_MAX; i++)
        if (!place || candidate->answers[i].at_ms < place->at_ms)
            place = &candidate->answers[i];
    *place = *answer;
}

/* The host that a peer sees: another than before is another candidate. */
static void
note_host(struct reach *reach, const char *host)
{
    struct candidate *own = &reach->candidates[OWN], *seen = &reach->candidates[SEEN];
    struct address address = {.port = own->base.port};
    struct err err;
    if (!host[0] || strlen(host) >= sizeof(reach->host))
        return;
    snprintf(reach->host, sizeof(reach->host), "%s", host);
    char text[sizeof(reach->host) + 16];
    snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
             (unsigned)own->base.port);
    if (address_parse(text, &address, &err) ||
        strcmp(address.host, own->base.host) == 0 ||
        strcmp(address.host, seen->base.host) == 0 || reach->used == SEEN)
        return;
    *seen = (struct candidate){.base = address};
}

bool
reach_answered(struct reach *reach, int64_t now_ms, const struct id *peer, uint64_t nonce,
               const char *host, const enum mesh_port ports[3])
{
    if (id_empty(&reach->asked) || !id_equal(&reach->asked, peer) ||
        nonce != reach->nonce)
        return false;
    struct candidate *candidate = &reach->candidates[reach->asked_about];
    enum record_reach before = reach_verdict(reach);
    int used = reach->used;
    reach->asked = (struct id){{0}};
    note_host(reach, host);
    reach->next_ms = now_ms + REACH_NEXT_MS;
    if (ports[ADDRESS_CONTROL] == MESH_PORT_UNTRIED)
        return false;
    struct reach_answer answer = {.peer = *peer, .at_ms = now_ms};
    memcpy(answer.ports, ports, sizeof(answer.ports));
    note(candidate, &answer);

    if (!reach->fixed && reach->asked_about == SEEN && through(&answer) &&
        verdict(&reach->candidates[OWN]) == REACH_NONE)
        reach->used = SEEN;
    if (candidate->count >= REACH_ENOUGH && !seen_in_doubt(reach, REACH_ENOUGH))
        reach->next_ms = now_ms + (reach_verdict(reach) == REACH_ALL ? REACH_AGAIN_MS
                                                                     : REACH_DOUBT_MS);
    return reach_verdict(reach) != before || reach->used != used;
}

void
reach_again(struct reach *reach)
{
    reach->next_ms = 0;
}

const struct address *
reach_address(const struct reach *reach)
{
    return &reach->candidates[reach->used].base;
}

enum record_reach
reach_verdict(const struct reach *reach)
{
    return verdict(&reach->candidates[reach->used]);
}

const char *
reach_verdict_name(enum record_reach reach)
{
    static const char *const names[] = {"unchecked", "reachable", "reachable by some",
                                        "unreachable"};
    return names[reach];
}

const char *
reach_host(const struct reach *reach)
{
    return reach->host;
}

int
reach_answers(const struct reach *reach, const struct reach_answer **answers)
{
    *answers = reach->candidates[reach->used].answers;
    return reach->candidates[reach->used].count;
}

size_t
reach_neighbours(const struct id *self, const struct id *others, size_t count,
                 struct id *out, size_t most)
{
    /* Insertion into a short list, heaviest first. */
    uint64_t weights[REACH_NEIGHBOURS * 4];
    size_t used = 0;
    if (most > sizeof(weights) / sizeof(weights[0]))
        most = sizeof(weights) / sizeof(weights[0]);
    static const struct id purpose = {{'n', 'e', 'a', 'r'}};
    for (size_t i = 0; i < count; i++) {
        uint64_t weight = detour_weight(self, &others[i], &purpose);
        size_t at = used;
        while (at > 0 && weights[at - 1] < weight)
            at--;
        if (at >= most)
            continue;
        size_t moved = (used < most ? used : most - 1) - at;
        memmove(&weights[at + 1], &weights[at], moved * sizeof(weights[0]));
        memmove(&out[at + 1], &out[at], moved * sizeof(out[0]));
        weights[at] = weight;
        out[at] = others[i];
        used += used < most;
    }
    return used;
}
