/*
 * watch.h - is a member still there? Deadlines come from what was measured: the median
 * and spread of the intervals between its words, never from a constant that a user must
 * guess. A step machine.
 *
 * A member is gone when (1) our connection closed and redials were refused, twice and for
 * WATCH_REFUSED_MS, or (2) a member of its own zone says so and we heard nothing for
 * twice WATCH_REFUSED_MS, or (3) its deadline passed.
 */
#ifndef NODE_WATCH_H
#define NODE_WATCH_H

#include "transport/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WATCH_REFUSED_MS = 300,
    WATCH_DEADLINE_MIN_MS = 1500,
    WATCH_DEADLINE_MAX_MS = 10000
};

enum watch_reason { WATCH_HERE, WATCH_REFUSED, WATCH_TOLD, WATCH_SILENT };
const char *watch_reason_name(enum watch_reason reason); /* "refused" */

struct watch;

struct watch *watch_new(void);
void watch_free(struct watch *watch);

/* Watch exactly these; those that were watched before keep their history. */
void watch_set(struct watch *watch, int64_t now_ms, const struct id *members,
               size_t count);

void watch_heard(struct watch *watch, int64_t now_ms, const struct id *member);
void watch_up(struct watch *watch, int64_t now_ms, const struct id *member);
void watch_down(struct watch *watch, int64_t now_ms, const struct id *member);
void watch_refused(struct watch *watch, int64_t now_ms, const struct id *member);
/* A member of the same zone told us that it is refused there. */
void watch_told(struct watch *watch, int64_t now_ms, const struct id *member);

/* We ran too late, by so much: nobody is blamed for it. */
void watch_late(struct watch *watch, int64_t now_ms, int64_t gap_ms);
/* We were stopped for so long: and what others told us is forgotten. */
void watch_slept(struct watch *watch, int64_t now_ms, int64_t gap_ms);

enum watch_reason watch_gone(const struct watch *watch, int64_t now_ms,
                             const struct id *member);
int64_t watch_deadline_ms(const struct watch *watch, const struct id *member);
int64_t watch_heard_ms(const struct watch *watch, const struct id *member);
bool watch_is_up(const struct watch *watch, const struct id *member);

#endif
