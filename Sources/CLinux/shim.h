// What Swift's Glibc module leaves out and the server needs: descriptors that can be polled beside
// sockets (eventfd, signalfd), and the number of processors that this process may run on.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

// Processors in the affinity mask; CPU_COUNT is a macro, which Swift cannot call.
static inline int twofold_affinity_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}
