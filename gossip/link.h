/*
 * link.h - what the directed links to this node carry: estimates from the arrival of what
 * is sent anyway and of probes, as their receiver sees it.
 *
 * Each link keeps its last eight samples (a probe counts as three of them). The estimate
 * is a high one of them, since what disturbs a transfer makes it slower, but never the
 * highest, which may be a clump that came late; `low` is the one that a fifth are below.
 * When two samples in a row are off by a factor of two the link has changed, and what was
 * before is forgotten. All in integers.
 */
#ifndef GOSSIP_LINK_H
#define GOSSIP_LINK_H

#include "gossip/record.h"

/* The sizes of messages that a curve's points are about. */
extern const int64_t link_curve_bytes[LINK_CURVE_POINTS];

struct links;

struct links *links_new(void);
void links_free(struct links *links);

struct link_sample {
    int64_t bytes, us; /* fewer than 4 KiB tell nothing */
    bool limited;      /* the sender, not the link, set the pace: a lower bound */
    bool probe;
    int64_t curve[LINK_CURVE_POINTS]; /* bytes a second; 0: nothing new */
};

/* Data of `peer` came. A lower bound counts while there is nothing better: no unlimited
 * sample of the last 10 minutes; one that comes near the estimate confirms it. */
void links_sample(struct links *links, int64_t now_ms, const struct id *peer,
                  const struct link_sample *sample);
void links_round_trip(struct links *links, int64_t now_ms, const struct id *peer,
                      int64_t us);
void links_forget(struct links *links, const struct id *peer);

/* Estimates for a record, ascending peer; at most RECORD_LINKS_MAX: those
 * whose rate is known, then the freshest.
 * Confidence halves every 30 minutes, where it rests on a probe every 6 hours. */
uint32_t links_fill(struct links *links, int64_t now_ms, struct record_link *out);

/* The same of one link, without telling it; false: nothing is known. */
bool links_find(const struct links *links, int64_t now_ms, const struct id *peer,
                struct record_link *out);

/* Is there something to tell since the last links_fill()? A rate that appeared or moved
 * by a quarter; one that moved by two steps of its code, if that was 5 s ago; a round trip
 * that moved by more than a quarter and a millisecond; also after those 5 s: a confidence
 * that crossed what a plan may rest on (LINK_CONFIDENT), another method, or an age of 10
 * minutes where it was below LINK_FRESH_S. */
bool links_changed(const struct links *links, int64_t now_ms);

enum {
    LINK_CONFIDENT = 50,
    LINK_MODEL_CONFIDENCE = 30,
    LINK_FRESH_S = 60,
    LINK_SURE = 80
};

const char *link_method_name(enum link_method method); /* "probe" */

#endif
