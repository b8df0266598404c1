// What Swift's Glibc module leaves out: descriptors that can be polled beside sockets (eventfd, signalfd), giving
// memory back to the system (malloc_trim), what the processors are and can do, and an accept that refuses connections.
//
// What glibc declares for _GNU_SOURCE only stands behind functions of Processors.c. Defined here, that macro would
// change system headers that Glibc and Dispatch have without it (fd_set for one), and two modules that differ in
// one type do not compile together.
#ifndef TWOFOLD_CLINUX_H
#define TWOFOLD_CLINUX_H

#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

// Reads the affinity mask of the calling thread, a bit for each processor, into `size` bytes; false when it does not fit.
bool twofold_read_affinity(unsigned long *mask, size_t size);

// Bytes of address space that a new thread takes for its stack; 0 when that can't be found out.
size_t twofold_thread_stack_bytes(void);

// Whether the processor and the system can do AVX2.
bool twofold_has_avx2(void);

// Connections.c defines accept and accept4. In an executable they take the place of libc's for all that is linked
// to it, so libzmq calls these. Until ceilings are set they do what libc's do. (libtwofold.so has them, too, but does
// not show them: twofold.map.)
//
// They refuse connections before those take the last descriptors, and report each failure as one that libzmq tolerates.
// Its listeners end the process when accept fails for most other reasons: for want of a descriptor (ipc), or because a
// firewall refuses the connection (both).

// From now on a connection whose descriptor would not be below the ceiling of its kind is closed at once:
// `local` is for those of Unix sockets, `network` for all others.
void twofold_set_connection_ceilings(int local, int network);

// Connections refused so far, or delayed because accept failed.
long twofold_refused_connections(void);

#endif
