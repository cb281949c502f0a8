/* A record from a stranger: opened or refused with a sentence, and signed again as it
 * was. */
#include "gossip/record.h"
#include "transport/base/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct key *key;
    static const struct id swarm = {{1}};
    struct record record;
    struct err err = {0};
    if (!key) {
        uint8_t seed[32] = {1};
        must(key_setup(&err) == 0);
        key = key_from_seed(seed);
    }
    if (record_open(data, size, &swarm, key_id(key), &record, &err))
        must((err.code == ERR_WIRE || err.code == ERR_AUTH) && strlen(err.msg) > 0);
    if (record_peek(data, size, &record, &err))
        return 0;
    /* What can be decoded has one encoding: with our key in it, it opens as what it
     * was. */
    struct record again;
    struct buf bytes = {0};
    record.id = *key_id(key);
    record_sign(&record, key, &swarm, &bytes);
    must(record_peek(bytes.data, bytes.len, &again, &err) == 0);
    must(record_verify(&again, bytes.data, bytes.len, &swarm, NULL, &err) == 0);
    must(record_compare(&record, &again) == 0 && !strcmp(record.zone, again.zone));
    buf_release(&bytes);
    return 0;
}
