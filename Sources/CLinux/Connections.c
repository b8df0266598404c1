#include "CLinux.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int local_ceiling = INT_MAX;
static atomic_int network_ceiling = INT_MAX;
static atomic_long refused_connections;

void twofold_set_connection_ceilings(int local, int network) {
    atomic_store(&local_ceiling, local);
    atomic_store(&network_ceiling, network);
}

long twofold_refused_connections(void) {
    return atomic_load(&refused_connections);
}

static int ceiling_of(int listener) {
    int domain = AF_UNSPEC;
    socklen_t size = sizeof domain;
    getsockopt(listener, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    return atomic_load(domain == AF_UNIX ? &local_ceiling : &network_ceiling);
}

// An aborted connection is a normal event for libzmq's listeners of both kinds.
static int refuse(void) {
    atomic_fetch_add(&refused_connections, 1);
    errno = ECONNABORTED;
    return -1;
}

int accept4(int listener, struct sockaddr *restrict address, socklen_t *restrict size, int flags) {
    const int connection = (int)syscall(SYS_accept4, listener, address, size, flags);
    if (connection >= 0) {
        // The system gives out the lowest free number, so at least that many are in use.
        if (connection < ceiling_of(listener)) return connection;
        close(connection);
        return refuse();
    }
    switch (errno) {
    case EAGAIN: case EINTR: case ECONNABORTED: case EPROTO:
        return -1;
    default:
        // A lack of descriptors or memory, a firewall (EPERM), or an error of the network (accept(2)). The connection
        // may stay in the queue, and then the listener stays readable. Without a pause, libzmq's thread would spin. The
        // pause is short, because all clients wait meanwhile.
        poll(NULL, 0, 1);
        return refuse();
    }
}

int accept(int listener, struct sockaddr *restrict address, socklen_t *restrict size) {
    return accept4(listener, address, size, 0);
}
