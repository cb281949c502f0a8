/*
 * word.h - words that people choose: names, and what a mistyped one may have meant.
 */
#ifndef TRANSPORT_BASE_WORD_H
#define TRANSPORT_BASE_WORD_H

#include "transport/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* May a node, a zone or a job be called that? 1 to NAME_BYTES_MAX letters, digits, '.', '_'
 * or '-', not beginning with '.'. */
bool word_names(const char *name);

/* The end of a message about a word that is none of those known: "; did you mean
 * "batch"?", or all that is known while there is room ("; known here: a, b"). Returns
 * `text`; empty when nothing is known. */
const char *word_hint(const char *word, const char *const *known, size_t count,
                      char text[ERR_MSG_SIZE]);

#endif
