/*
 * key.h - identities, signatures, hashes and the swarm's secret (libsodium's home).
 *
 * A node is its Ed25519 key pair; the public half is its id. Its CURVE key pair is
 * derived from the same seed, so that whoever knows the id knows the transport key
 * (crypto_sign_ed25519_pk_to_curve25519).
 *
 * A swarm has a 32-byte secret. Three things follow from it (BLAKE2b as a key derivation,
 * one context each): the join socket's CURVE key pair, the CURVE key pair that every
 * joiner uses there, and the Ed25519 pair whose signature over (swarm, node id) admits a
 * node. Whoever has the secret is let in; nobody else is.
 *
 * Secrets live in sodium_malloc() memory and are wiped.
 */
#ifndef TRANSPORT_KEY_H
#define TRANSPORT_KEY_H

#include "transport/base/err.h"
#include "transport/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_SIGNATURE_BYTES = 64, KEY_CURVE_BYTES = 32, SECRET_TEXT_SIZE = 65 };

/* Once per process, first. ERR_SYSTEM when the library cannot start. */
int key_setup(struct err *err);

/* ---- identity ---- */

struct key;

/* The key in the file, or a new one written there (0600). ERR_AUTH when others may read
 * the file, ERR_CORRUPT when it is no key. `*made` (may be NULL) tells which. */
struct key *key_open(const char *path, bool *made, struct err *err);
struct key *key_from_seed(const uint8_t seed[32]); /* tests, simulator */
void key_free(struct key *key);

const struct id *key_id(const struct key *key);
void key_sign(const struct key *key, const void *data, size_t bytes,
              uint8_t signature[KEY_SIGNATURE_BYTES]);
bool key_verify(const struct id *signer, const void *data, size_t bytes,
                const uint8_t signature[KEY_SIGNATURE_BYTES]);

const uint8_t *key_curve_public(const struct key *key); /* [32] */
const uint8_t *key_curve_secret(const struct key *key); /* [32], in locked memory */
bool key_curve_of(const struct id *id,
                  uint8_t curve_public[KEY_CURVE_BYTES]); /* false: no point */

/* ---- the swarm's secret ---- */

struct secret;

struct secret *secret_make(void);
/* Sixty-four hexadecimal digits, surrounding white space allowed. ERR_AUTH with a
 * sentence otherwise; never prints the secret. */
struct secret *secret_parse(const char *text, struct err *err);
struct secret *secret_read(const char *path, struct err *err);
int secret_write(const struct secret *secret, const char *path,
                 struct err *err); /* 0600 */
void secret_free(struct secret *secret);

const uint8_t *secret_join_public(const struct secret *secret);
const uint8_t *secret_join_secret(const struct secret *secret);
const uint8_t *secret_joiner_public(const struct secret *secret);
const uint8_t *secret_joiner_secret(const struct secret *secret);
/* The id that admits: the public half of the admission pair. */
const struct id *secret_admit_id(const struct secret *secret);
void secret_admit(const struct secret *secret, const struct id *swarm,
                  const struct id *node, uint8_t signature[KEY_SIGNATURE_BYTES]);
bool secret_admitted(const struct id *admit_id, const struct id *swarm,
                     const struct id *node, const uint8_t signature[KEY_SIGNATURE_BYTES]);

/* ---- hashes ---- */

/* BLAKE2b-256. */
void key_hash(const void *data, size_t bytes, struct id *out);

struct key_hash {
    _Alignas(64) uint8_t state[384];
};
void key_hash_init(struct key_hash *hash);
void key_hash_add(struct key_hash *hash, const void *data, size_t bytes);
void key_hash_done(struct key_hash *hash, struct id *out);

void key_random(void *out, size_t bytes);

#endif
