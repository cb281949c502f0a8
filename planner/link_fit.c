#include "planner/link_fit.h"

/* The quadratic by least squares, in place of a plain rate. */
static void
fit(const struct cluster_link *link, struct fleet_curve *curve)
{
    double sums[5] = {0.0}; /* of powers of x */
    double by[3] = {0.0};   /* of powers of x times y */
    double low = 0.0, high = 0.0, least = 0.0, most = 0.0;
    int count = 0;
    for (int i = 0; i < CLUSTER_LINK_POINTS; i++) {
        double bytes = (double)link->message_bytes[i];
        double y = (double)link->message_bytes_per_s[i] / 1e9;
        if (link->message_bytes[i] < 1 || !(y > 0.0) || bytes <= high)
            continue;
        double x = fleet_log2(bytes / 1e6);
        double power = 1.0;
        for (int k = 0; k < 5; k++) {
            sums[k] += power;
            if (k < 3)
                by[k] += power * y;
            power *= x;
        }
        low = count == 0 ? bytes : low;
        high = bytes;
        least = count == 0 || y < least ? y : least;
        most = count == 0 || y > most ? y : most;
        count++;
    }
    if (count < 3 || !(curve->c0 > 0.0))
        return;
    /* The normal equations, by Cramer's rule. */
    double a = sums[0], b = sums[1], c = sums[2], d = sums[3], e = sums[4];
    double whole = a * (c * e - d * d) - b * (b * e - c * d) + c * (b * d - c * c);
    if (!(whole > 1e-9))
        return;
    struct fleet_curve fitted = *curve;
    fitted.c0 = (by[0] * (c * e - d * d) - b * (by[1] * e - by[2] * d) +
                 c * (by[1] * d - by[2] * c)) /
                whole;
    fitted.c1 = (a * (by[1] * e - by[2] * d) - by[0] * (b * e - c * d) +
                 c * (b * by[2] - c * by[1])) /
                whole;
    fitted.c2 = (a * (c * by[2] - d * by[1]) - b * (b * by[2] - c * by[1]) +
                 by[0] * (b * d - c * c)) /
                whole;
    fitted.low_bytes = low;
    fitted.high_bytes = high;
    for (double bytes = low; bytes <= high; bytes *= 2.0) {
        double x = fleet_log2(bytes / 1e6);
        double rate = (fitted.c2 * x + fitted.c1) * x + fitted.c0;
        if (!(rate >= least * 0.5 && rate <= most * 2.0))
            return;
    }
    *curve = fitted;
}

void
link_fit(const struct cluster_link *link, struct fleet_curve *out)
{
    double mbit_per_s = (double)link->bytes_per_s * 8.0 / 1e6;
    int64_t trip_us = link->round_trip_us > 0 ? link->round_trip_us : 0;
    fleet_curve_plain(out, mbit_per_s, (double)trip_us / 1e3);
    fit(link, out);
}
