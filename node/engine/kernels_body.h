/*
 * kernels_body.h - the loops of kernels.h. A file that includes it defines
 *
 *     KERNELS   name of the table
 *     TARGET    function attribute of the instruction set, or nothing
 */
#include "node/engine/kernels.h"

#include <math.h>
#include <string.h>

/* Vectors are passed between inlined functions only. */
#pragma GCC diagnostic ignored "-Wpsabi"

enum { LANES = 16 };

#ifdef REAL_IS_DOUBLE
typedef uint64_t bits_element;
typedef int64_t mask_element;
enum { EXP_DEGREE = 13, MANTISSA_BITS = 52 };
#define EXP_LEAST (-708.0)
#define EXP_MOST 709.0
#define EXP_MAGIC 0x1.8p52
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10
#define ONE_BITS ((uint64_t)1023 << 52)
#else
typedef uint32_t bits_element;
typedef int32_t mask_element;
enum { EXP_DEGREE = 7, MANTISSA_BITS = 23 };
#define EXP_LEAST (-87.0F)
#define EXP_MOST 88.0F
#define EXP_MAGIC 0x1.8p23F
#define LN2_HIGH 0.693359375F
#define LN2_LOW (-2.12194440e-4F)
#define ONE_BITS ((uint32_t)127 << 23)
#endif

typedef real lanes __attribute__((vector_size(LANES * sizeof(real))));
typedef real loose
    __attribute__((vector_size(LANES * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef bits_element bits __attribute__((vector_size(LANES * sizeof(real))));
typedef mask_element mask __attribute__((vector_size(LANES * sizeof(real))));

#define INLINE TARGET static inline __attribute__((always_inline))

INLINE lanes
load(const real *from)
{
    return (lanes) * (const loose *)from;
}

INLINE void
store(real *to, lanes value)
{
    *(loose *)to = (loose)value;
}

/* The first `count` lanes from memory, zero in the others. */
INLINE lanes
load_part(const real *from, int64_t count)
{
    if (count >= LANES)
        return load(from);
    real part[LANES] = {0};
    memcpy(part, from, (size_t)count * sizeof(real));
    return load(part);
}

INLINE void
store_part(real *to, lanes value, int64_t count)
{
    if (count >= LANES) {
        store(to, value);
        return;
    }
    real part[LANES];
    store(part, value);
    memcpy(to, part, (size_t)count * sizeof(real));
}

INLINE lanes
all(real value)
{
    return (lanes){0} + value;
}

INLINE lanes
choose(mask which, lanes yes, lanes no)
{
    return (lanes)(((mask)yes & which) | ((mask)no & ~which));
}

/* Lanes below `count`. */
INLINE mask
mask_below(int64_t count)
{
    const mask number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    mask_element bound = (mask_element)(count < LANES ? count : LANES);
    return (mask)(number < bound);
}

INLINE real
sum_of(lanes value)
{
    real part[LANES];
    store(part, value);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            part[i] += part[i + width];
    return part[0];
}

INLINE real
largest_of(lanes value)
{
    real part[LANES];
    store(part, value);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            part[i] = part[i] > part[i + width] ? part[i] : part[i + width];
    return part[0];
}

/* e^x to the last bit or two: x = n ln 2 + r, a Taylor polynomial in r, n put into the
 * exponent. Clamped to the range of normal numbers; not a number stays one. */
INLINE lanes
exp_of(lanes x)
{
    static const real inverse_factorials[] = {(real)1.0,
                                              (real)(1.0 / 1),
                                              (real)(1.0 / 2),
                                              (real)(1.0 / 6),
                                              (real)(1.0 / 24),
                                              (real)(1.0 / 120),
                                              (real)(1.0 / 720),
                                              (real)(1.0 / 5040),
                                              (real)(1.0 / 40320),
                                              (real)(1.0 / 362880),
                                              (real)(1.0 / 3628800),
                                              (real)(1.0 / 39916800),
                                              (real)(1.0 / 479001600),
                                              (real)(1.0 / 6227020800.0)};
    x = choose(x > EXP_MOST, all(EXP_MOST), x);
    x = choose(x < EXP_LEAST, all(EXP_LEAST), x);
    lanes shifted = x * (real)1.4426950408889634 + EXP_MAGIC;
    lanes n = shifted - EXP_MAGIC;
    lanes r = (x - n * LN2_HIGH) - n * LN2_LOW;
    lanes sum = all(inverse_factorials[EXP_DEGREE]);
    for (int i = EXP_DEGREE - 1; i >= 0; i--)
        sum = sum * r + inverse_factorials[i];
    return sum * (lanes)(((bits)shifted << MANTISSA_BITS) + ONE_BITS);
}

/* ln x for x > 0, by the atanh series about the nearest power of two. */
static double
log_of(double x)
{
    int exponent;
    double mantissa = frexp(x, &exponent);
    if (mantissa < 0.70710678118654752) {
        mantissa *= 2;
        exponent--;
    }
    double z = (mantissa - 1) / (mantissa + 1), square = z * z, sum = 0;
    for (int k = 25; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return 2 * z * sum + exponent * 0.69314718055994531;
}

/* ---- LayerNorm ---- */

TARGET static void
norm_again(int64_t rows, int64_t columns, const real *x, const real *gain,
           const real *bias, real *out, const real *mean, const real *rdev)
{
    for (int64_t i = 0; i < rows; i++, x += columns, out += columns)
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t rest = columns - j;
            lanes unit = (load_part(x + j, rest) - mean[i]) * rdev[i];
            store_part(out + j,
                       unit * load_part(gain + j, rest) + load_part(bias + j, rest),
                       rest);
        }
}

TARGET static void
norm_forward(int64_t rows, int64_t columns, const real *x, const real *gain,
             const real *bias, real *out, real *mean, real *rdev)
{
    for (int64_t i = 0; i < rows; i++) {
        const real *row = x + i * columns;
        lanes sum = {0}, squares = {0};
        for (int64_t j = 0; j < columns; j += LANES)
            sum += load_part(row + j, columns - j);
        mean[i] = sum_of(sum) / (real)columns;
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t rest = columns - j;
            lanes off = load_part(row + j, rest) - mean[i];
            off = choose(mask_below(rest), off, (lanes){0});
            squares += off * off;
        }
        real variance = sum_of(squares) / (real)columns + (real)1e-5;
        rdev[i] = (real)(1 / sqrt((double)variance));
    }
    norm_again(rows, columns, x, gain, bias, out, mean, rdev);
}

TARGET static void
norm_backward(int64_t rows, int64_t columns, const real *x, const real *gain,
              const real *mean, const real *rdev, const real *dout, real *dx, bool add)
{
    for (int64_t i = 0; i < rows; i++, x += columns, dout += columns, dx += columns) {
        lanes sum = {0}, product = {0};
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t rest = columns - j;
            lanes unit = (load_part(x + j, rest) - mean[i]) * rdev[i];
            lanes d = load_part(dout + j, rest) * load_part(gain + j, rest);
            sum += d;
            product += d * unit;
        }
        real sum_mean = sum_of(sum) / (real)columns;
        real product_mean = sum_of(product) / (real)columns;
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t rest = columns - j;
            lanes unit = (load_part(x + j, rest) - mean[i]) * rdev[i];
            lanes d = load_part(dout + j, rest) * load_part(gain + j, rest);
            d = (d - sum_mean - unit * product_mean) * rdev[i];
            if (add)
                d += load_part(dx + j, rest);
            store_part(dx + j, d, rest);
        }
    }
}

TARGET static void
norm_parameters(int64_t first, int64_t end, int64_t rows, int64_t columns, const real *x,
                const real *mean, const real *rdev, const real *dout, real *dgain,
                real *dbias, bool add)
{
    for (int64_t j = first; j < end; j += LANES) {
        int64_t rest = end - j;
        lanes gain = {0}, bias = {0};
        for (int64_t i = 0; i < rows; i++) {
            lanes unit = (load_part(x + i * columns + j, rest) - mean[i]) * rdev[i];
            lanes d = load_part(dout + i * columns + j, rest);
            gain += d * unit;
            bias += d;
        }
        if (add) {
            gain += load_part(dgain + j, rest);
            bias += load_part(dbias + j, rest);
        }
        store_part(dgain + j, gain, rest);
        store_part(dbias + j, bias, rest);
    }
}

/* ---- sums and biases ---- */

TARGET static void
column_sums(int64_t first, int64_t end, int64_t rows, int64_t columns, const real *x,
            real *out, bool add)
{
    const int64_t wide = (int64_t)4 * LANES;
    int64_t j = first;
    for (; j + wide <= end; j += wide) {
        lanes sum[4] = {{0}, {0}, {0}, {0}};
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < 4; k++)
                sum[k] += load(x + i * columns + j + k * LANES);
        for (int64_t k = 0; k < 4; k++) {
            real *to = out + j + k * LANES;
            store(to, add ? sum[k] + load(to) : sum[k]);
        }
    }
    for (; j < end; j += LANES) {
        int64_t rest = end - j;
        lanes sum = {0};
        for (int64_t i = 0; i < rows; i++)
            sum += load_part(x + i * columns + j, rest);
        store_part(out + j, add ? sum + load_part(out + j, rest) : sum, rest);
    }
}

TARGET static void
bias_rows(int64_t rows, int64_t columns, const real *x, const real *bias, real *out)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t rest = columns - j;
            lanes value = load_part(bias + j, rest);
            if (x)
                value += load_part(x + i * columns + j, rest);
            store_part(out + i * columns + j, value, rest);
        }
}

TARGET static void
scale_rows(int64_t rows, int64_t columns, real *x, int64_t stride, const real *factors)
{
    for (int64_t i = 0; i < rows; i++, x += stride)
        for (int64_t j = 0; j < columns; j += LANES)
            store_part(x + j, load_part(x + j, columns - j) * factors[i], columns - j);
}

TARGET static void
row_dots(int64_t rows, int64_t columns, const real *x, const real *y, int64_t stride,
         real *dots)
{
    for (int64_t i = 0; i < rows; i++, x += stride, y += stride) {
        lanes sum = {0};
        for (int64_t j = 0; j < columns; j += LANES)
            sum += load_part(x + j, columns - j) * load_part(y + j, columns - j);
        dots[i] = sum_of(sum);
    }
}

TARGET static double
squares(int64_t count, const real *x)
{
    double sum[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++)
            sum[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i + j < count; j++)
        sum[j] += (double)x[i + j] * (double)x[i + j];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            sum[j] += sum[j + width];
    return sum[0];
}

/* ---- GELU: x times the logistic function of 2 sqrt(2/pi) (x + 0.044715 x^3) ---- */

#define GELU_SCALE ((real)(2 * 0.79788456080286536))
#define GELU_CUBE ((real)0.044715)

TARGET static void
gelu_forward(int64_t count, const real *x, real *out)
{
    for (int64_t i = 0; i < count; i += LANES) {
        lanes v = load_part(x + i, count - i);
        lanes gate = 1 / (1 + exp_of(-(v * GELU_SCALE * (1 + v * v * GELU_CUBE))));
        store_part(out + i, v * gate, count - i);
    }
}

TARGET static void
gelu_backward(int64_t count, const real *x, real *out, real *d)
{
    for (int64_t i = 0; i < count; i += LANES) {
        lanes v = load_part(x + i, count - i), square = v * v * GELU_CUBE;
        lanes gate = 1 / (1 + exp_of(-(v * GELU_SCALE * (1 + square))));
        lanes value = v * gate;
        lanes slope = gate + value * (1 - gate) * GELU_SCALE * (1 + 3 * square);
        store_part(out + i, value, count - i);
        store_part(d + i, load_part(d + i, count - i) * slope, count - i);
    }
}

/* ---- softmax ---- */

INLINE real
row_largest(const real *x, int64_t count)
{
    lanes largest = all(-INFINITY);
    for (int64_t j = 0; j < count; j += LANES) {
        lanes value = count - j >= LANES ? load(x + j)
                                         : choose(mask_below(count - j),
                                                  load_part(x + j, count - j), largest);
        largest = choose(value > largest, value, largest);
    }
    return largest_of(largest);
}

TARGET static void
softmax_forward(int64_t rows, int64_t first, int64_t columns, real *x, int64_t stride,
                real *maximum, real *inverse)
{
    for (int64_t i = 0; i < rows; i++, x += stride) {
        int64_t seen = first + i + 1, j = 0;
        maximum[i] = row_largest(x, seen);
        lanes sum = {0};
        for (; j < seen; j += LANES) {
            lanes value = exp_of(load(x + j) - maximum[i]);
            value = choose(mask_below(seen - j), value, (lanes){0});
            sum += value;
            store(x + j, value);
        }
        for (; j < columns; j += LANES)
            store(x + j, (lanes){0});
        inverse[i] = 1 / sum_of(sum);
    }
}

TARGET static void
softmax_again(int64_t rows, int64_t first, int64_t columns, real *x, int64_t stride,
              const real *maximum, const real *inverse)
{
    for (int64_t i = 0; i < rows; i++, x += stride) {
        int64_t seen = first + i + 1, j = 0;
        for (; j < seen; j += LANES) {
            lanes value = exp_of(load(x + j) - maximum[i]) * inverse[i];
            store(x + j, choose(mask_below(seen - j), value, (lanes){0}));
        }
        for (; j < columns; j += LANES)
            store(x + j, (lanes){0});
    }
}

TARGET static void
softmax_backward(int64_t rows, int64_t columns, const real *p, real *d, int64_t stride,
                 const real *dots)
{
    for (int64_t i = 0; i < rows; i++, p += stride, d += stride)
        for (int64_t j = 0; j < columns; j += LANES)
            store(d + j, load(p + j) * (load(d + j) - dots[i]));
}

TARGET static void
cross_entropy(int64_t rows, int64_t columns, real *x, int64_t stride,
              const int32_t *targets, real *losses)
{
    for (int64_t i = 0; i < rows; i++, x += stride) {
        real largest = row_largest(x, columns), wanted = x[targets[i]];
        lanes sum = {0};
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t rest = columns - j;
            lanes value = exp_of(load_part(x + j, rest) - largest);
            sum += choose(mask_below(rest), value, (lanes){0});
            store_part(x + j, value, rest);
        }
        real total = sum_of(sum);
        losses[i] = (real)(log_of((double)total) + ((double)largest - (double)wanted));
        real inverse = 1 / total;
        for (int64_t j = 0; j < columns; j += LANES)
            store_part(x + j, load_part(x + j, columns - j) * inverse, columns - j);
        x[targets[i]] -= 1;
    }
}

/* ---- the update ---- */

TARGET static void
adamw(int64_t count, real *restrict weights, const real *restrict gradients,
      real *restrict moment1, real *restrict moment2, const struct adamw_factors *factors)
{
    const struct adamw_factors f = *factors;
    for (int64_t i = 0; i < count; i++) {
        real g = gradients[i] * f.gradient;
        real m = f.beta1 * moment1[i] + f.rest1 * g;
        real v = f.beta2 * moment2[i] + f.rest2 * (g * g);
        moment1[i] = m;
        moment2[i] = v;
#ifdef REAL_IS_DOUBLE
        real root = sqrt(v);
#else
        real root = sqrtf(v);
#endif
        weights[i] = f.keep * weights[i] - f.rate * m / (root * f.root + f.epsilon);
    }
}

extern const struct kernels KERNELS;
const struct kernels KERNELS = {
    .norm_forward = norm_forward,
    .norm_again = norm_again,
    .norm_backward = norm_backward,
    .norm_parameters = norm_parameters,
    .column_sums = column_sums,
    .bias_rows = bias_rows,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .softmax_forward = softmax_forward,
    .softmax_again = softmax_again,
    .softmax_backward = softmax_backward,
    .scale_rows = scale_rows,
    .row_dots = row_dots,
    .cross_entropy = cross_entropy,
    .squares = squares,
    .adamw = adamw,
};
