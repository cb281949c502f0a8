/*
 * utf8.h - is this text UTF-8 (RFC 3629)? What goes into JSON must be; what peers send
 * may not be.
 */
#ifndef TRANSPORT_BASE_UTF8_H
#define TRANSPORT_BASE_UTF8_H

#include <stddef.h>

/* How many bytes at `at` (before a final NUL) are one character; 0 when they are none. */
size_t utf8_bytes(const char *at);

#endif
