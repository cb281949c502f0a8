/*
 * id.h - 32-byte names: a node's (its Ed25519 public key), a swarm's, a plan's,
 * a data set's (BLAKE2b-256). Values, compared bytewise; all zero means none.
 */
#ifndef TRANSPORT_BASE_ID_H
#define TRANSPORT_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ID_BYTES = 32, ID_SHORT_SIZE = 9, ID_TEXT_SIZE = 65 };

struct id {
    uint8_t bytes[ID_BYTES];
};

/* Order by bytes, as memcmp; id_compare fits qsort over `struct id`. */
int id_compare(const void *left, const void *right);
bool id_equal(const struct id *left, const struct id *right);
bool id_empty(const struct id *id);

/* Eight characters of base32 (RFC 4648, lower case) for people; returns `text`. */
const char *id_short(const struct id *id, char text[ID_SHORT_SIZE]);

/* Sixty-four hexadecimal digits, both ways. id_parse returns false on anything else. */
const char *id_text(const struct id *id, char text[ID_TEXT_SIZE]);
bool id_parse(struct id *id, const char *text);

/* A 64-bit value from the first bytes, for hashes of hashes and short tags. */
uint64_t id_prefix(const struct id *id);

#endif
