#include "gossip/logarithm.h"
#include "transport/base/must.h"

int32_t
logarithm_of(uint64_t value)
{
    must(value > 0);
    int whole = 63 - __builtin_clzll(value);
    uint64_t x = value << (63 - whole) >> 32; /* [1, 2) in units of 2^-31 */
    int32_t result = whole;
    for (int bit = 0; bit < 16; bit++) {
        x = x * x >> 31;
        result *= 2;
        if (x >> 32) {
            x >>= 1;
            result++;
        }
    }
    return result;
}

/* 2^(1/2), 2^(1/4), ... in units of 2^-31. */
static const uint32_t roots[16] = {
    0xb504f334, 0x9837f052, 0x8b95c1e4, 0x85aac368, 0x82cd8699, 0x8164d1f4,
    0x80b1ed50, 0x8058d7d3, 0x802c6437, 0x8016302f, 0x800b179d, 0x80058baf,
    0x8002c5d0, 0x800162e6, 0x8000b173, 0x800058b9,
};

int64_t
logarithm_power(int64_t exponent)
{
    int64_t whole = exponent >> 16;
    if (whole >= 63)
        return INT64_MAX;
    if (whole < -1)
        return 0;
    uint64_t y = (uint64_t)1 << 31;
    for (int bit = 0; bit < 16; bit++)
        if (exponent >> (15 - bit) & 1)
            y = y * roots[bit] >> 31;
    if (whole >= 31)
        return (int64_t)(y << (whole - 31));
    unsigned shift = (unsigned)(31 - whole);
    return (int64_t)((y + ((uint64_t)1 << (shift - 1))) >> shift);
}
