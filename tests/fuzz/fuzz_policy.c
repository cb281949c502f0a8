/* The policy in a decree, a member's request and an invite's string: what is taken comes
 * back as it was. */
#include "node/invite.h"
#include "node/policy.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct id swarm = {{1}};

static void
try_policy(const uint8_t *data, size_t size)
{
    struct err err;
    struct policy policy = {0};
    struct reader *reader = reader_open(data, size, &err);
    if (!reader)
        return;
    policy_read(reader, &policy);
    if (reader_close(&reader, &err) == 0) {
        struct buf again = {0};
        policy_write(&policy, &again);
        must(again.len == size && memcmp(again.data, data, size) == 0);
        buf_release(&again);
        struct policy next;
        policy_copy(&next, &policy);
        policy_judge(&next, &policy, NULL, 0, false, &swarm, &err);
        policy_release(&next);
    }
    policy_release(&policy);
}

static void
try_request(const uint8_t *data, size_t size)
{
    struct err err;
    struct policy_request request;
    if (policy_request_open(data, size, &swarm, &request, &err) == 0)
        policy_request_release(&request);
}

static void
try_invite(const uint8_t *data, size_t size)
{
    char *text = xcalloc(size + sizeof(INVITE_PREFIX), 1);
    struct invite invite;
    struct err err;
    memcpy(text, INVITE_PREFIX, strlen(INVITE_PREFIX));
    memcpy(text + strlen(INVITE_PREFIX), data, size);
    invite_parse(text, &invite, &err);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    void (*const tries[])(const uint8_t *, size_t) = {try_policy, try_request,
                                                      try_invite};
    tries[data[0] % 3](data + 1, size - 1);
    return 0;
}
