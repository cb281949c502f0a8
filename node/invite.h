/*
 * invite.h - an invite as one string: "swarm1:" and base32 (RFC 4648, lower case) of
 * where to go, the door's key, the swarm, the token, and four bytes of their hash, so
 * that a slip of the pen is told from a lost invite.
 *
 * The token is the seed of the invite's key (key.h): whoever has the string has it.
 */
#ifndef NODE_INVITE_H
#define NODE_INVITE_H

#include "transport/address.h"
#include "transport/base/err.h"
#include "transport/key.h"

enum { INVITE_SEEDS_MAX = 4, INVITE_TOKEN_BYTES = 32, INVITE_TEXT_SIZE = 1024 };
#define INVITE_PREFIX "swarm1:"

struct invite {
    int seeds_count;
    struct address seeds[INVITE_SEEDS_MAX]; /* members, one after the other */
    uint8_t door[KEY_CURVE_BYTES];          /* public CURVE key of every join socket */
    struct id swarm;
    uint8_t token[INVITE_TOKEN_BYTES];
};

void invite_text(const struct invite *invite, char text[INVITE_TEXT_SIZE]);
/* ERR_USAGE with what is wrong with the string, which is not repeated. */
int invite_parse(const char *text, struct invite *out, struct err *err);

#endif
