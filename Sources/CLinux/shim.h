// What Swift's Glibc module leaves out and the server needs: descriptors that can be polled beside
// sockets (eventfd, signalfd), the number of processors that this process may run on, what they can do, and
// giving memory back to the system (malloc_trim), memory that others can see (memfd_create and its seals), and
// many descriptors in one (epoll).
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>

// Processors in a set; CPU_COUNT is a macro, which Swift cannot call.
static inline int twofold_count(cpu_set_t set) { return CPU_COUNT(&set); }

// Processors in the affinity mask.
static inline int twofold_affinity_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Lets a thread run on one processor only; 0 is the calling thread. Returns 0, or -1 with errno.
static inline int twofold_pin(pid_t thread, int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(thread, sizeof set, &set);
}

// The processors that a thread may run on; 0 is the calling thread. An empty set when that fails.
static inline cpu_set_t twofold_affinity(pid_t thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(thread, sizeof set, &set);
    return set;
}

// Lets a thread run on all of these processors again; 0 is the calling thread.
static inline int twofold_unpin(pid_t thread, cpu_set_t processors) {
    return sched_setaffinity(thread, sizeof processors, &processors);
}

// Lets the calling thread run on all of these processors but the one where it runs. Returns 0, or -1 where there is no
// other.
static inline int twofold_leave_processor(cpu_set_t processors) {
    int processor = sched_getcpu();
    if (processor < 0) return -1;
    CPU_CLR(processor, &processors);
    return CPU_COUNT(&processors) > 0 ? sched_setaffinity(0, sizeof processors, &processors) : -1;
}

// Whether the processor and the system can do AVX2.
static inline int twofold_has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return 0;
#endif
}
