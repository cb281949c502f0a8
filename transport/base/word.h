/*
 * word.h - what a mistyped word may have meant.
 */
#ifndef TRANSPORT_BASE_WORD_H
#define TRANSPORT_BASE_WORD_H

#include "transport/base/err.h"

#include <stddef.h>

/* The end of a message about a word that is none of those known: "; did you mean
 * "batch"?", or all that is known while there is room ("; known here: a, b"). Returns
 * `text`; empty when nothing is known. */
const char *word_hint(const char *word, const char *const *known, size_t count,
                      char text[ERR_MSG_SIZE]);

#endif
