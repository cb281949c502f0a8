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
 * An invite is a key of its own: its seed is the token that the bearer has, its id is what
 * the swarm knows of it.
 *
 * Secrets live in sodium_malloc() memory: locked, left out of core dumps, wiped. On the
 * way to another node a secret is sealed to that node's key (libsodium's crypto_box_seal),
 * so that it is readable neither on a relay nor in a queue.
 */
#ifndef TRANSPORT_KEY_H
#define TRANSPORT_KEY_H

#include "transport/base/err.h"
#include "transport/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEY_SIGNATURE_BYTES = 64,
    KEY_NONCE_BYTES = 24,
    KEY_SEAL_BYTES = 16, /* that a seal adds */
    KEY_CURVE_BYTES = 32,
    SECRET_TEXT_SIZE = 65,
    SECRET_SEALED_BYTES = 80
};

/* Once per process, first. ERR_SYSTEM when the library cannot start. */
int key_setup(struct err *err);

/* While this process holds secrets: no core dump, and no other process of its user looks
 * into it (prctl PR_SET_DUMPABLE). */
void key_guard(bool on);
/* Could all secrets so far be locked into memory? If not, they may reach the swap: raise
 * the limit of locked memory. */
bool key_locked(void);
/* Overwrites what was secret. */
void key_wipe(void *data, size_t bytes);

/* ---- identity ---- */

struct key;

/* The key in the file, or a new one written there (0600). ERR_AUTH when others may read
 * the file, ERR_CORRUPT when it is no key. `*made` (may be NULL) tells which. */
struct key *key_open(const char *path, bool *made, struct err *err);
struct key *key_from_seed(const uint8_t seed[32]); /* of an invite's token; tests */
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

/* Seal bytes for another node so that it alone can read them and knows that they are ours
 * and whole (libsodium's crypto_box between the two CURVE pairs: X25519, XSalsa20-Poly1305).
 * `out` takes bytes + KEY_SEAL_BYTES. A nonce is used once between two nodes, in either
 * direction. False: that id is no key. */
bool key_seal(const struct key *key, const struct id *to,
              const uint8_t nonce[KEY_NONCE_BYTES], const void *data, size_t bytes,
              uint8_t *out);
/* The other side of it: `bytes` of a seal become bytes - KEY_SEAL_BYTES. False: not
 * sealed by `from` for us, or altered. */
bool key_unseal(const struct key *key, const struct id *from,
                const uint8_t nonce[KEY_NONCE_BYTES], const uint8_t *sealed, size_t bytes,
                void *out);

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

/* For this node's eyes only; false: its id is no key. */
bool secret_seal(const struct secret *secret, const struct id *to,
                 uint8_t sealed[SECRET_SEALED_BYTES]);
/* ERR_AUTH: not sealed to us. */
struct secret *secret_unseal(const uint8_t sealed[SECRET_SEALED_BYTES],
                             const struct key *key, struct err *err);

const uint8_t *secret_join_public(const struct secret *secret);
const uint8_t *secret_join_secret(const struct secret *secret);
const uint8_t *secret_joiner_public(const struct secret *secret);
const uint8_t *secret_joiner_secret(const struct secret *secret);
/* The id that admits: the public half of the admission pair. */
const struct id *secret_admit_id(const struct secret *secret);
void secret_admit(const struct secret *secret, const struct id *swarm,
                  const struct id *node, uint8_t signature[KEY_SIGNATURE_BYTES]);
/* What else the admission key signs: words that say what they are for. */
void secret_sign(const struct secret *secret, const void *data, size_t bytes,
                 uint8_t signature[KEY_SIGNATURE_BYTES]);
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
