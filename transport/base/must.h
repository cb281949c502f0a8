/*
 * must.h - what has to be true of our own code, in release builds too.
 *
 * `must(cond)` prints the condition and its place, and aborts. It is for our
 * own mistakes only: bytes from a peer or a file are answered with an error.
 */
#ifndef TRANSPORT_BASE_MUST_H
#define TRANSPORT_BASE_MUST_H

#define must(cond) ((cond) ? (void)0 : must_fail(#cond, __FILE__, __LINE__))

_Noreturn void must_fail(const char *cond, const char *file, int line);

#endif
