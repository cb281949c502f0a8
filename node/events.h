/*
 * events.h - the node's event log, DIR/events.jsonl (status.h lists what is in it), and
 * those who follow it.
 *
 *     struct json_writer *w = events_begin(events, "leader");
 *     json_put_int(w, "term", term);
 *     events_end(events);
 */
#ifndef NODE_EVENTS_H
#define NODE_EVENTS_H

#include "transport/json.h"

struct events;

/* Opens the log for appending. A log above 64 MiB is renamed to events.jsonl.1 first. */
struct events *events_open(const char *folder, struct err *err);
void events_close(struct events *events);

struct json_writer *events_begin(struct events *events, const char *event);
/* Writes the line; a disk that is full costs the line, is logged and nothing else.
 * Followers get it too. */
void events_end(struct events *events);

/* Called with each finished line (with its newline). One follower: control fans out. */
void events_follow(struct events *events,
                   void (*line)(void *arg, const char *text, size_t len), void *arg);

#endif
