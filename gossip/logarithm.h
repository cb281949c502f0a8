/*
 * logarithm.h - powers and logarithms of two in integers, so that every machine computes
 * the same bits from the same numbers (no libm).
 */
#ifndef GOSSIP_LOGARITHM_H
#define GOSSIP_LOGARITHM_H

#include <stdint.h>

enum { LOGARITHM_ONE = 1 << 16 }; /* one doubling */

/* log2(value) in units of 1/65536; value > 0. Off by less than 4 units. */
int32_t logarithm_of(uint64_t value);

/* 2^(exponent / 65536), rounded; at most INT64_MAX, 0 when below one half. */
int64_t logarithm_power(int64_t exponent);

#endif
