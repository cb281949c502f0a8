#include "transport/key.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A key file holds the seed as 64 hexadecimal digits and a newline, so that a person can
 * look at it and copy it; surrounding white space is allowed. */
enum {
    SEED_BYTES = 32,
    SEED_DIGITS = 64,
    SECRET_FILE_BYTES_MAX = 256,
    CURVE_ROWS = 512,
    CURVES_A_ROW = 4,
    PROOF_ROWS = 1024,
    PROOFS_A_ROW = 4
};

/* The library's sizes are what the wire and the id are made of. */
_Static_assert(crypto_sign_SEEDBYTES == SEED_BYTES, "Ed25519 seed");
_Static_assert(crypto_sign_BYTES == KEY_SIGNATURE_BYTES, "Ed25519 signature");
_Static_assert(crypto_sign_PUBLICKEYBYTES == ID_BYTES, "an id is an Ed25519 public key");
_Static_assert(crypto_scalarmult_curve25519_BYTES == KEY_CURVE_BYTES, "CURVE key");
_Static_assert(crypto_box_NONCEBYTES == KEY_NONCE_BYTES, "nonce of a seal");
_Static_assert(crypto_box_MACBYTES == KEY_SEAL_BYTES, "what a seal adds");
_Static_assert(crypto_kdf_KEYBYTES == SEED_BYTES, "the secret is the master key");
_Static_assert(crypto_box_SEALBYTES + SEED_BYTES == SECRET_SEALED_BYTES, "sealed secret");
_Static_assert(sizeof(crypto_generichash_state) <= sizeof(struct key_hash), "hash state");

/* What sodium_malloc() holds: everything secret of a node. */
struct key_vault {
    uint8_t sign_secret[crypto_sign_SECRETKEYBYTES];
    uint8_t curve_secret[KEY_CURVE_BYTES];
};

struct key {
    struct id id;
    uint8_t curve_public[KEY_CURVE_BYTES];
    struct key_vault *vault;
};

/* What sodium_malloc() holds: everything secret of a swarm. */
struct secret_vault {
    uint8_t master[SEED_BYTES];
    uint8_t join_secret[KEY_CURVE_BYTES];
    uint8_t joiner_secret[KEY_CURVE_BYTES];
    uint8_t admit_secret[crypto_sign_SECRETKEYBYTES];
};

struct secret {
    uint8_t join_public[KEY_CURVE_BYTES];
    uint8_t joiner_public[KEY_CURVE_BYTES];
    struct id admit_id;
    struct secret_vault *vault;
};

/* The uses of the secret; a number is never given to another use. */
enum { DERIVE_JOIN = 1, DERIVE_JOINER = 2, DERIVE_ADMIT = 3 };
static const char derive_context[crypto_kdf_CONTEXTBYTES + 1] = "flotilla";

int
key_setup(struct err *err)
{
    if (sodium_init() < 0)
        return err_set(err, ERR_SYSTEM,
                       "cannot start libsodium: no source of random bytes");
    return 0;
}

void
key_guard(bool on)
{
    prctl(PR_SET_DUMPABLE, on ? 0 : 1, 0, 0, 0);
}

static _Atomic bool unlocked;

bool
key_locked(void)
{
    return !unlocked;
}

void
key_wipe(void *data, size_t bytes)
{
    if (bytes > 0)
        sodium_memzero(data, bytes);
}

/* Guarded memory, or the end: it is small and there is no going on without it. That it
 * is locked, too, depends on a limit; sodium_malloc() does not say. */
static void *
vault_new(size_t bytes)
{
    must(sodium_init() >= 0); /* cheap when it was done */
    void *vault = sodium_malloc(bytes);
    must(vault);
    if (sodium_mlock(vault, bytes))
        unlocked = true;
    sodium_memzero(vault, bytes);
    return vault;
}

/* ---- files of 64 hexadecimal digits ---- */

static bool
hex_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Exactly 64 digits with white space around them. */
static bool
hex_seed(const char *text, size_t len, uint8_t seed[SEED_BYTES])
{
    while (len > 0 && hex_space(text[len - 1]))
        len--;
    while (len > 0 && hex_space(*text)) {
        text++;
        len--;
    }
    size_t got = 0;
    return len == SEED_DIGITS &&
           sodium_hex2bin(seed, SEED_BYTES, text, len, NULL, &got, NULL) == 0 &&
           got == SEED_BYTES;
}

/* Reads a seed from a file that is the owner's alone. ERR_AUTH: others may read it. */
static int
seed_read(const char *what, const char *path, enum err_code damaged,
          uint8_t seed[SEED_BYTES], struct err *err)
{
    char text[SECRET_FILE_BYTES_MAX + 1];
    size_t len = 0;
    ssize_t got = 1;
    struct stat status;
    int result = -1;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, "could not open the %s \"%s\"", what, path);
    if (fstat(fd, &status)) {
        err_set_errno(err, "could not look at the %s \"%s\"", what, path);
        goto out;
    }
    if (!S_ISREG(status.st_mode)) {
        err_set(err, damaged, "the %s \"%s\" is not a file", what, path);
        goto out;
    }
    if (status.st_mode & 077) {
        err_set(err, ERR_AUTH,
                "the %s \"%s\" is open to others (mode %04o); run chmod 600 on it", what,
                path, (unsigned)(status.st_mode & 07777));
        goto out;
    }
    while (got > 0 && len < sizeof(text)) {
        got = read(fd, text + len, sizeof(text) - len);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            len += (size_t)got;
    }
    if (got < 0)
        err_set_errno(err, "could not read the %s \"%s\"", what, path);
    else if (len > SECRET_FILE_BYTES_MAX || !hex_seed(text, len, seed))
        err_set(err, damaged,
                "the %s \"%s\" is damaged: it must hold 64 hexadecimal digits", what,
                path);
    else
        result = 0;
out:
    sodium_memzero(text, sizeof(text));
    close(fd);
    return result;
}

static int
seed_write(const uint8_t seed[SEED_BYTES], const char *path, struct err *err)
{
    char text[SEED_DIGITS + 2];
    sodium_bin2hex(text, SEED_DIGITS + 1, seed, SEED_BYTES);
    text[SEED_DIGITS] = '\n';
    int failed = file_write(path, text, SEED_DIGITS + 1, 0600, err);
    sodium_memzero(text, sizeof(text));
    return failed;
}

/* ---- identity ---- */

struct key *
key_from_seed(const uint8_t seed[32])
{
    struct key *key = xcalloc(1, sizeof(*key));
    key->vault = vault_new(sizeof(*key->vault));
    must(crypto_sign_seed_keypair(key->id.bytes, key->vault->sign_secret, seed) == 0);
    must(crypto_sign_ed25519_sk_to_curve25519(key->vault->curve_secret,
                                              key->vault->sign_secret) == 0);
    must(crypto_sign_ed25519_pk_to_curve25519(key->curve_public, key->id.bytes) == 0);
    return key;
}

struct key *
key_open(const char *path, bool *made, struct err *err)
{
    uint8_t seed[SEED_BYTES];
    struct key *key = NULL;
    struct stat status;
    bool fresh = lstat(path, &status) != 0 && errno == ENOENT;
    if (fresh) {
        key_random(seed, sizeof(seed));
        if (seed_write(seed, path, err)) {
            err_wrap(err, "could not save this node's new key");
            goto out;
        }
    } else if (seed_read("key file", path, ERR_CORRUPT, seed, err)) {
        goto out;
    }
    key = key_from_seed(seed);
    if (made)
        *made = fresh;
out:
    sodium_memzero(seed, sizeof(seed));
    return key;
}

void
key_free(struct key *key)
{
    if (!key)
        return;
    sodium_free(key->vault); /* wipes it */
    free(key);
}

const struct id *
key_id(const struct key *key)
{
    return &key->id;
}

void
key_sign(const struct key *key, const void *data, size_t bytes,
         uint8_t signature[KEY_SIGNATURE_BYTES])
{
    must(crypto_sign_detached(signature, NULL, data, bytes, key->vault->sign_secret) ==
         0);
}

bool
key_verify(const struct id *signer, const void *data, size_t bytes,
           const uint8_t signature[KEY_SIGNATURE_BYTES])
{
    /* A record, a report or an acceptance comes by many ways, and to prove it takes fifty
     * times as long as to hash it: what proved right lately is known by the hash of
     * signer, signature and data. */
    static _Thread_local struct {
        struct id proof[PROOFS_A_ROW];
        unsigned next;
    } rows[PROOF_ROWS];
    struct id proof;
    struct key_hash hash;
    key_hash_init(&hash);
    key_hash_add(&hash, signer->bytes, ID_BYTES);
    key_hash_add(&hash, signature, KEY_SIGNATURE_BYTES);
    key_hash_add(&hash, data, bytes);
    key_hash_done(&hash, &proof);
    size_t row = (size_t)(id_prefix(&proof) % PROOF_ROWS);
    for (unsigned i = 0; i < PROOFS_A_ROW; i++)
        if (id_equal(&rows[row].proof[i], &proof))
            return true;
    if (crypto_sign_verify_detached(signature, data, bytes, signer->bytes) != 0)
        return false;
    rows[row].proof[rows[row].next] = proof;
    rows[row].next = (rows[row].next + 1) % PROOFS_A_ROW;
    return true;
}

const uint8_t *
key_curve_public(const struct key *key)
{
    return key->curve_public;
}

const uint8_t *
key_curve_secret(const struct key *key)
{
    return key->vault->curve_secret;
}

bool
key_curve_of(const struct id *id, uint8_t curve_public[KEY_CURVE_BYTES])
{
    /* Every frame asks whose sender is admitted, and the way from one curve to the other
     * costs as much as a signature: the last ones are remembered. */
    static _Thread_local struct {
        struct id id[CURVES_A_ROW];
        uint8_t curve[CURVES_A_ROW][KEY_CURVE_BYTES];
        unsigned count; /* so far; the next one replaces the oldest */
    } rows[CURVE_ROWS];
    size_t row = (size_t)(id_prefix(id) % CURVE_ROWS);
    unsigned known = rows[row].count < CURVES_A_ROW ? rows[row].count : CURVES_A_ROW;
    for (unsigned i = 0; i < known; i++)
        if (id_equal(&rows[row].id[i], id)) {
            memcpy(curve_public, rows[row].curve[i], KEY_CURVE_BYTES);
            return true;
        }
    uint8_t curve[KEY_CURVE_BYTES];
    if (crypto_sign_ed25519_pk_to_curve25519(curve, id->bytes) != 0)
        return false;
    unsigned at = rows[row].count++ % CURVES_A_ROW;
    if (rows[row].count == 2 * CURVES_A_ROW)
        rows[row].count = CURVES_A_ROW;
    rows[row].id[at] = *id;
    memcpy(rows[row].curve[at], curve, KEY_CURVE_BYTES);
    memcpy(curve_public, curve, KEY_CURVE_BYTES);
    return true;
}

bool
key_seal(const struct key *key, const struct id *to, const uint8_t nonce[KEY_NONCE_BYTES],
         const void *data, size_t bytes, uint8_t *out)
{
    uint8_t theirs[KEY_CURVE_BYTES];
    return key_curve_of(to, theirs) && crypto_box_easy(out, data, bytes, nonce, theirs,
                                                       key->vault->curve_secret) == 0;
}

bool
key_unseal(const struct key *key, const struct id *from,
           const uint8_t nonce[KEY_NONCE_BYTES], const uint8_t *sealed, size_t bytes,
           void *out)
{
    uint8_t theirs[KEY_CURVE_BYTES];
    return bytes >= KEY_SEAL_BYTES && key_curve_of(from, theirs) &&
           crypto_box_open_easy(out, sealed, bytes, nonce, theirs,
                                key->vault->curve_secret) == 0;
}

/* ---- the swarm's secret ---- */

static struct secret *
secret_from(const uint8_t master[SEED_BYTES])
{
    struct secret *secret = xcalloc(1, sizeof(*secret));
    struct secret_vault *vault = vault_new(sizeof(*vault));
    secret->vault = vault;
    memcpy(vault->master, master, SEED_BYTES);
    /* Any 32 bytes are a CURVE secret key: the multiplication clamps them. */
    crypto_kdf_derive_from_key(vault->join_secret, KEY_CURVE_BYTES, DERIVE_JOIN,
                               derive_context, vault->master);
    crypto_kdf_derive_from_key(vault->joiner_secret, KEY_CURVE_BYTES, DERIVE_JOINER,
                               derive_context, vault->master);
    must(crypto_scalarmult_base(secret->join_public, vault->join_secret) == 0);
    must(crypto_scalarmult_base(secret->joiner_public, vault->joiner_secret) == 0);

    uint8_t seed[SEED_BYTES];
    crypto_kdf_derive_from_key(seed, sizeof(seed), DERIVE_ADMIT, derive_context,
                               vault->master);
    must(crypto_sign_seed_keypair(secret->admit_id.bytes, vault->admit_secret, seed) ==
         0);
    sodium_memzero(seed, sizeof(seed));
    return secret;
}

struct secret *
secret_make(void)
{
    uint8_t master[SEED_BYTES];
    key_random(master, sizeof(master));
    struct secret *secret = secret_from(master);
    sodium_memzero(master, sizeof(master));
    return secret;
}

struct secret *
secret_parse(const char *text, struct err *err)
{
    uint8_t master[SEED_BYTES];
    if (!hex_seed(text, strlen(text), master)) {
        err_set(err, ERR_AUTH,
                "the swarm's secret is not valid: it must be 64 hexadecimal digits, as "
                "in the "
                "first node's swarm.secret");
        sodium_memzero(master, sizeof(master));
        return NULL;
    }
    struct secret *secret = secret_from(master);
    sodium_memzero(master, sizeof(master));
    return secret;
}

struct secret *
secret_read(const char *path, struct err *err)
{
    uint8_t master[SEED_BYTES];
    struct secret *secret = NULL;
    if (seed_read("secret file", path, ERR_AUTH, master, err) == 0)
        secret = secret_from(master);
    sodium_memzero(master, sizeof(master));
    return secret;
}

int
secret_write(const struct secret *secret, const char *path, struct err *err)
{
    return seed_write(secret->vault->master, path, err);
}

void
secret_free(struct secret *secret)
{
    if (!secret)
        return;
    sodium_free(secret->vault);
    free(secret);
}

bool
secret_seal(const struct secret *secret, const struct id *to,
            uint8_t sealed[SECRET_SEALED_BYTES])
{
    uint8_t curve[KEY_CURVE_BYTES];
    return key_curve_of(to, curve) &&
           crypto_box_seal(sealed, secret->vault->master, SEED_BYTES, curve) == 0;
}

struct secret *
secret_unseal(const uint8_t sealed[SECRET_SEALED_BYTES], const struct key *key,
              struct err *err)
{
    uint8_t master[SEED_BYTES];
    struct secret *secret = NULL;
    if (crypto_box_seal_open(master, sealed, SECRET_SEALED_BYTES, key->curve_public,
                             key->vault->curve_secret))
        err_set(err, ERR_AUTH, "a secret that came is not sealed to this node");
    else
        secret = secret_from(master);
    sodium_memzero(master, sizeof(master));
    return secret;
}

const uint8_t *
secret_join_public(const struct secret *secret)
{
    return secret->join_public;
}

const uint8_t *
secret_join_secret(const struct secret *secret)
{
    return secret->vault->join_secret;
}

const uint8_t *
secret_joiner_public(const struct secret *secret)
{
    return secret->joiner_public;
}

const uint8_t *
secret_joiner_secret(const struct secret *secret)
{
    return secret->vault->joiner_secret;
}

const struct id *
secret_admit_id(const struct secret *secret)
{
    return &secret->admit_id;
}

/* What an admission signs: a name for this use, the swarm, the node. */
struct admission {
    char name[8];
    struct id swarm;
    struct id node;
};
_Static_assert(sizeof(struct admission) == 8 + 2 * ID_BYTES, "no padding is signed");

static struct admission
admission_of(const struct id *swarm, const struct id *node)
{
    struct admission admission = {.swarm = *swarm, .node = *node};
    memcpy(admission.name, "admit-1\0", sizeof(admission.name));
    return admission;
}

void
secret_admit(const struct secret *secret, const struct id *swarm, const struct id *node,
             uint8_t signature[KEY_SIGNATURE_BYTES])
{
    struct admission admission = admission_of(swarm, node);
    must(crypto_sign_detached(signature, NULL, (const uint8_t *)&admission,
                              sizeof(admission), secret->vault->admit_secret) == 0);
}

void
secret_sign(const struct secret *secret, const void *data, size_t bytes,
            uint8_t signature[KEY_SIGNATURE_BYTES])
{
    must(crypto_sign_detached(signature, NULL, data, bytes,
                              secret->vault->admit_secret) == 0);
}

bool
secret_admitted(const struct id *admit_id, const struct id *swarm, const struct id *node,
                const uint8_t signature[KEY_SIGNATURE_BYTES])
{
    struct admission admission = admission_of(swarm, node);
    return key_verify(admit_id, &admission, sizeof(admission), signature);
}

/* ---- hashes ---- */

void
key_hash(const void *data, size_t bytes, struct id *out)
{
    must(crypto_generichash(out->bytes, ID_BYTES, data, bytes, NULL, 0) == 0);
}

void
key_hash_init(struct key_hash *hash)
{
    must(crypto_generichash_init((void *)hash->state, NULL, 0, ID_BYTES) == 0);
}

void
key_hash_add(struct key_hash *hash, const void *data, size_t bytes)
{
    must(crypto_generichash_update((void *)hash->state, data, bytes) == 0);
}

void
key_hash_done(struct key_hash *hash, struct id *out)
{
    must(crypto_generichash_final((void *)hash->state, out->bytes, ID_BYTES) == 0);
}

void
key_random(void *out, size_t bytes)
{
    must(sodium_init() >= 0);
    randombytes_buf(out, bytes);
}
