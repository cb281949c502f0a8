/*
 * rng.h - counter-based random numbers: the n-th number of a stream is a
 * function of (seed, stream, n) and of nothing else, so that it is the same on
 * every node and under every plan.
 *
 * Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11. Not for keys: those come from libsodium.
 */
#ifndef TRANSPORT_BASE_RNG_H
#define TRANSPORT_BASE_RNG_H

#include <stdint.h>

/* Four random words for counter `n` of `stream` under `seed`. */
void rng_block(uint64_t seed, uint64_t stream, uint64_t n, uint32_t out[4]);

/* A sequence for simulators and tests: a value, seeded, that steps. */
struct rng {
    uint64_t seed;
    uint64_t stream;
    uint64_t n;
};

uint64_t rng_next(struct rng *rng); /* 64 random bits */
uint64_t rng_below(struct rng *rng,
                   uint64_t bound); /* uniform in [0, bound), bound > 0 */
double rng_unit(struct rng *rng);   /* uniform in [0, 1) */

/* A normal variate (mean 0, deviation 1) for element `n`, by Box-Muller over polynomials
 * of our own, so that it has the same bits under every libm. */
double rng_normal(uint64_t seed, uint64_t stream, uint64_t n);

/* The `index`-th element of a pseudo-random permutation of [0, count): a Feistel network
 * with cycle walking; O(1) memory. count > 0, index < count. */
uint64_t rng_permute(uint64_t seed, uint64_t stream, uint64_t count, uint64_t index);

/* Mix two words into one (splitmix64's finaliser), for running hashes. */
uint64_t rng_mix(uint64_t hash, uint64_t value);

#endif
