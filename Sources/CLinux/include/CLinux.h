// What Swift's Glibc module leaves out and the server needs: descriptors that can be polled beside
// sockets (eventfd, signalfd), many descriptors in one (epoll), the number of processors that this process may run
// on, what they can do, memory that others can see (memfd_create and its seals), cache lines fetched ahead,
// and giving memory back to the system (malloc_trim).
//
// What glibc declares for _GNU_SOURCE only stands behind functions of CLinux.c. Defined here, that macro would
// change system headers that Glibc and Dispatch have without it (fd_set for one), and two modules that differ in
// one type do not compile together.
#ifndef TWOFOLD_CLINUX_H
#define TWOFOLD_CLINUX_H

#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/types.h>

// A set of processors, as sched_getaffinity(2) tells it: its cpu_set_t.
typedef struct {
    unsigned long words[1024 / (8 * sizeof(unsigned long))];
} twofold_processors;

// The processors that a thread may run on; 0 is the calling thread. An empty set when that fails.
twofold_processors twofold_affinity(pid_t thread);

// Processors in a set.
int twofold_count(twofold_processors processors);

// The processor that the calling thread runs on, or -1 with errno.
int twofold_processor(void);

// Lets a thread run on one processor only; 0 is the calling thread. Returns 0, or -1 with errno.
int twofold_pin(pid_t thread, int processor);

// Lets a thread run on all of these processors; 0 is the calling thread. Returns 0, or -1 with errno.
int twofold_unpin(pid_t thread, twofold_processors processors);

// Lets the calling thread run on all of these processors but the one where it runs. Returns 0, or -1 where there is no
// other.
int twofold_leave_processor(twofold_processors processors);

// Whether the processor and the system can do AVX2.
bool twofold_has_avx2(void);

// Has the processor that the calling thread runs on take the cache lines of these bytes from all others, for writing
// that is to come; the bytes stay what they are.
void twofold_take_lines(void *bytes, size_t count);

// Anonymous memory of so many zeroes in a descriptor, which never shrinks and never grows (memfd_create(2)). -1 with
// errno where there is none to be had.
int twofold_sealed_memory(const char *name, off_t bytes);

// From now on nobody can map it for writing, and no seal can be added: mappings made before stay as they are.
// Returns 0, or -1 with errno.
int twofold_seal_writing(int descriptor);

#endif
