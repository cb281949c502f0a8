#include "transport/base/rng.h"
#include "transport/base/must.h"

#include <math.h>

void
rng_block(uint64_t seed, uint64_t stream, uint64_t n, uint32_t out[4])
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t x0 = (uint32_t)n, x1 = (uint32_t)(n >> 32);
    uint32_t x2 = (uint32_t)stream, x3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ key0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ key1;
        x3 = (uint32_t)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

uint64_t
rng_next(struct rng *rng)
{
    uint32_t words[4];
    rng_block(rng->seed, rng->stream, rng->n++, words);
    return (uint64_t)words[0] << 32 | words[1];
}

uint64_t
rng_below(struct rng *rng, uint64_t bound)
{
    must(bound > 0);
    uint64_t reject = (UINT64_MAX - bound + 1) % bound;
    uint64_t value;
    do
        value = rng_next(rng);
    while (value < reject);
    return value % bound;
}

double
rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* ln(x) for 0 < x <= 1, by the atanh series about the nearest power of two. */
static double
log_unit(double x)
{
    int exponent;
    double mantissa = frexp(x, &exponent);
    if (mantissa < 0.70710678118654752) {
        mantissa *= 2;
        exponent--;
    }
    double z = (mantissa - 1) / (mantissa + 1);
    double square = z * z;
    double sum = 0;
    for (int k = 25; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return 2 * z * sum + exponent * 0.69314718055994531;
}

/* cos(2 pi t) for 0 <= t < 1, by its Taylor series on an eighth of a turn. */
static double
cos_turn(double t)
{
    double sign = 1;
    if (t >= 0.5)
        t = 1 - t;
    if (t > 0.25) {
        t = 0.5 - t;
        sign = -1;
    }
    int sine = t > 0.125;
    double x = (sine ? 0.25 - t : t) * 6.283185307179586477;
    double square = x * x;
    double sum = 0;
    for (int k = sine ? 17 : 18; k >= 2; k -= 2)
        sum = (1 + sum) * -square / (k * (k - 1));
    return sign * (sine ? x * (1 + sum) : 1 + sum);
}

double
rng_normal(uint64_t seed, uint64_t stream, uint64_t n)
{
    uint32_t words[4];
    rng_block(seed, stream, n, words);
    double u = ((double)words[0] * 0x1p-32 + (double)words[1] * 0x1p-64) + 0x1p-65;
    if (u > 1)
        u = 1;
    double t = ((double)words[2] + (double)words[3] * 0x1p-32) * 0x1p-32;
    if (t >= 1)
        t = 0;
    return sqrt(-2 * log_unit(u)) * cos_turn(t);
}

uint64_t
rng_permute(uint64_t seed, uint64_t stream, uint64_t count, uint64_t index)
{
    must(count > 0 && index < count);
    unsigned half = 1;
    while (half < 32 && (uint64_t)1 << (2 * half) < count)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t value = index;
    do {
        uint64_t left = value >> half, right = value & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint32_t words[4];
            rng_block(seed, stream ^ (round << 56), right, words);
            uint64_t next = (left ^ words[0]) & mask;
            left = right;
            right = next;
        }
        value = left << half | right;
    } while (value >= count);
    return value;
}

uint64_t
rng_mix(uint64_t hash, uint64_t value)
{
    uint64_t z = hash + 0x9E3779B97F4A7C15u + value * 0xD6E8FEB86659FD93u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
