#include "transport/address.h"
#include "transport/base/must.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The base port and the two after it. */
enum { BASE_PORT_MAX = UINT16_MAX - ADDRESS_BULK, LABEL_BYTES_MAX = 63 };

/* One to five digits, no leading zero. */
static int
port_parse(const char *text, const char *whole, uint16_t *port, struct err *err)
{
    unsigned value = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits] != '\0' || text[0] == '0')
        return err_set(err, ERR_USAGE,
                       "address \"%.80s\": the port must be a number from 1 to %d", whole,
                       BASE_PORT_MAX);
    for (size_t i = 0; i < digits; i++)
        value = 10 * value + (unsigned)(text[i] - '0');
    if (value > BASE_PORT_MAX)
        return err_set(
            err, ERR_USAGE,
            "address \"%.80s\": port %u is above %d; a node uses the two ports after it, "
            "too",
            whole, value, BASE_PORT_MAX);
    *port = (uint16_t)value;
    return 0;
}

/* Labels of letters, digits, "-" and "_" between single dots. */
static bool
name_valid(const char *host)
{
    size_t label = 0;
    for (const char *at = host;; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '.' || c == '\0') {
            if (label == 0 || label > LABEL_BYTES_MAX || at[-1] == '-')
                return false;
            if (c == '\0')
                return true;
            label = 0;
        } else if (c < 0x80 && (isalnum(c) || c == '_' || (c == '-' && label > 0))) {
            label++;
        } else {
            return false;
        }
    }
}

/* A host name or an IPv4 address: what looks like one must be one. */
static bool
host_valid(char *host)
{
    struct in_addr v4;
    if (strspn(host, "0123456789.") == strlen(host))
        return inet_pton(AF_INET, host, &v4) == 1;
    for (char *at = host; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return name_valid(host);
}

/* An IPv6 address, put into its one canonical form. */
static bool
host_v6_valid(char host[ADDRESS_BYTES_MAX])
{
    struct in6_addr v6;
    return inet_pton(AF_INET6, host, &v6) == 1 &&
           inet_ntop(AF_INET6, &v6, host, ADDRESS_BYTES_MAX) != NULL;
}

int
address_parse(const char *text, struct address *out, struct err *err)
{
    struct address address = {.port = ADDRESS_DEFAULT_PORT};
    bool v6 = text[0] == '[';
    const char *host = text + v6;
    size_t len = strcspn(host, v6 ? "]" : ":");
    const char *rest = host + len;
    if (v6) {
        if (*rest != ']')
            return err_set(err, ERR_USAGE, "address \"%.80s\": the bracket is not closed",
                           text);
        rest++;
    } else if (*rest == ':' && strchr(rest + 1, ':')) {
        return err_set(
            err, ERR_USAGE,
            "address \"%.80s\" has more than one colon; write an IPv6 address as "
            "[::1]:%d",
            text, ADDRESS_DEFAULT_PORT);
    }
    if (len == 0)
        return err_set(err, ERR_USAGE, "address \"%.80s\" has no host; write host:port",
                       text);
    if (len >= sizeof(address.host))
        return err_set(err, ERR_USAGE,
                       "address \"%.80s\": the host is longer than %d characters", text,
                       ADDRESS_BYTES_MAX - 1);
    memcpy(address.host, host, len);
    if (!(v6 ? host_v6_valid(address.host) : host_valid(address.host)))
        return err_set(err, ERR_USAGE,
                       "address \"%.80s\": \"%s\" is not a host name or IP address", text,
                       address.host);
    if (*rest == ':') {
        if (port_parse(rest + 1, text, &address.port, err))
            return -1;
    } else if (*rest != '\0') {
        return err_set(err, ERR_USAGE,
                       "address \"%.80s\": \":\" and a port must follow the bracket",
                       text);
    }
    char whole[ADDRESS_BYTES_MAX + 8];
    address_text(&address, whole);
    if (strlen(whole) >= ADDRESS_BYTES_MAX)
        return err_set(err, ERR_USAGE, "address \"%.80s\" is longer than %d characters",
                       text, ADDRESS_BYTES_MAX - 1);
    *out = address;
    return 0;
}

void
address_text(const struct address *address, char out[ADDRESS_BYTES_MAX + 8])
{
    bool v6 = strchr(address->host, ':') != NULL;
    int len = snprintf(out, ADDRESS_BYTES_MAX + 8, "%s%s%s:%u", v6 ? "[" : "",
                       address->host, v6 ? "]" : "", address->port);
    must(len > 0 && len < ADDRESS_BYTES_MAX + 8);
}

void
address_endpoint(const struct address *base, int which, char out[ADDRESS_BYTES_MAX + 16])
{
    must(which >= ADDRESS_JOIN && which <= ADDRESS_BULK && base->port <= BASE_PORT_MAX);
    struct address address = *base;
    address.port = (uint16_t)(base->port + which);
    char text[ADDRESS_BYTES_MAX + 8];
    address_text(&address, text);
    snprintf(out, ADDRESS_BYTES_MAX + 16, "tcp://%s", text);
}

const struct address *
address_route(const struct address_routes *routes, const struct address *to)
{
    for (int i = 0; i < routes->count; i++) {
        const struct address_route *route = &routes->list[i];
        if (route->to.port == to->port && strcmp(route->to.host, to->host) == 0)
            return &route->via;
    }
    return to;
}
