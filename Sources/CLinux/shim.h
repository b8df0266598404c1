// What Swift's Glibc module leaves out and the server needs: descriptors that can be polled beside
// sockets (eventfd, signalfd), the number of processors that this process may run on, and what they can do.
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

// Whether the processor and the system can do AVX2.
static inline int twofold_has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return 0;
#endif
}
