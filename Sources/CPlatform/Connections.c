#define _GNU_SOURCE
#include "CPlatform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
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
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &size);
    return atomic_load(address.ss_family == AF_UNIX ? &local_ceiling : &network_ceiling);
}

// An aborted connection is a normal event for libzmq's listeners of both kinds.
static int refuse(void) {
    atomic_fetch_add(&refused_connections, 1);
    errno = ECONNABORTED;
    return -1;
}

int accept(int listener, struct sockaddr *restrict address, socklen_t *restrict size) {
    typedef int accept_function(int, struct sockaddr *restrict, socklen_t *restrict);
    static _Atomic(accept_function *) libc_accept;
    accept_function *next = atomic_load(&libc_accept);
    if (!next) {
        next = (accept_function *)dlsym(RTLD_NEXT, "accept");
        atomic_store(&libc_accept, next);
    }
    const int connection = next(listener, address, size);
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
        // A lack of descriptors or memory, a firewall (EPERM), or a network error (accept(2)). The connection
        // may stay in the queue, and then the listener stays readable. Without a pause, libzmq's thread would spin. The
        // pause is short, because all clients wait meanwhile.
        poll(NULL, 0, 1);
        return refuse();
    }
}

int accept4(int listener, struct sockaddr *restrict address, socklen_t *restrict size, int flags) {
    const int connection = accept(listener, address, size);
    if (connection >= 0 && flags & SOCK_CLOEXEC) fcntl(connection, F_SETFD, FD_CLOEXEC);
    if (connection >= 0 && flags & SOCK_NONBLOCK) fcntl(connection, F_SETFL, O_NONBLOCK);
    return connection;
}
