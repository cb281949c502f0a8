/*
 * verdict.h - what came of a run: JSON for a machine, a page for a person.
 */
#ifndef TESTNET_VERDICT_H
#define TESTNET_VERDICT_H

#include "testnet/expect.h"
#include "transport/base/buf.h"

/* {name, passed, checks[] {name, passed, detail}, steps, tokens, loss[] {step, value},
 * tokens_per_s, samples_hash, epochs[] {epoch, term, leader, cause, plan {micro_batch,
 * stages[]}}, recoveries[] {cause, at_step, steps_lost, seconds}, joins[] {id, seconds,
 * pause_s}, nodes[] {id, zone, peak_rss_bytes, predicted_bytes}}; every field, no nulls.
 * `peak_rss_bytes` is of each node. */
void verdict_json(const struct history *history, const struct verdict *verdict,
                  const int64_t *peak_rss_bytes, struct buf *out);

/* The last page: loss curve, speed, epochs, faults and what they cost, checks. */
void verdict_page(const struct history *history, const struct verdict *verdict,
                  double seconds, struct buf *out);

#endif
