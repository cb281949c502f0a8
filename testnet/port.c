#include "testnet/port.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_FIRST = 10240, PORT_END = 32700, PORT_TRIES = 2000 };

uint32_t
port_host(void)
{
    static uint32_t host;
    struct rng rng = {.seed = (uint64_t)clock_us(), .stream = (uint64_t)getpid()};
    if (host ==
        0) /* 127.1.0.1 to 127.255.255.254, without the first and the last of 256 */
        host = htonl(UINT32_C(127) << 24 | (uint32_t)(1 + rng_below(&rng, 255)) << 16 |
                     (uint32_t)rng_below(&rng, 256) << 8 |
                     (uint32_t)(1 + rng_below(&rng, 254)));
    return host;
}

static int
bind_port(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = port_host()};
    /* SO_REUSEADDR would let us take a port that lingers; we would rather not. */
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int
port_triple(int fds[PORT_TRIPLE], struct address *base, struct err *err)
{
    struct rng rng = {.seed = (uint64_t)clock_us(), .stream = (uint64_t)getpid()};
    for (int i = 0; i < PORT_TRIES; i++) {
        uint16_t first = (uint16_t)(PORT_FIRST + rng_below(&rng, PORT_END - PORT_FIRST));
        int bound = 0;
        while (bound < PORT_TRIPLE &&
               (fds[bound] = bind_port((uint16_t)(first + bound))) >= 0)
            bound++;
        if (bound == PORT_TRIPLE) {
            struct in_addr host = {.s_addr = port_host()};
            inet_ntop(AF_INET, &host, base->host, sizeof(base->host));
            base->port = first;
            return 0;
        }
        while (bound > 0)
            close(fds[--bound]);
    }
    return err_set(err, ERR_SYSTEM,
                   "could not find three neighbouring free ports from %d to %d",
                   PORT_FIRST, PORT_END);
}
