#include "testnet/port.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_FIRST = 10240, PORT_END = 32700, PORT_TRIES = 2000 };

static int
bind_port(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    /* SO_REUSEADDR would let us take a port that lingers; we would rather not. */
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int
port_triple(int fds[PORT_TRIPLE], uint16_t *base, struct err *err)
{
    struct rng rng = {.seed = (uint64_t)clock_us(), .stream = (uint64_t)getpid()};
    for (int i = 0; i < PORT_TRIES; i++) {
        uint16_t first = (uint16_t)(PORT_FIRST + rng_below(&rng, PORT_END - PORT_FIRST));
        int bound = 0;
        while (bound < PORT_TRIPLE &&
               (fds[bound] = bind_port((uint16_t)(first + bound))) >= 0)
            bound++;
        if (bound == PORT_TRIPLE) {
            *base = first;
            return 0;
        }
        while (bound > 0)
            close(fds[--bound]);
    }
    return err_set(err, ERR_SYSTEM,
                   "could not find three neighbouring free ports from %d to %d",
                   PORT_FIRST, PORT_END);
}
