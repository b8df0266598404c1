// C functions for Platform: a signal handler, an accept that can refuse connections, and others. They need only POSIX,
// except for accept4. The functions that need Linux are in CLinux.
#ifndef TWOFOLD_CPLATFORM_H
#define TWOFOLD_CPLATFORM_H

#include <stdbool.h>
#include <stddef.h>

// Returns true if this process can open one more descriptor.
bool twofold_can_open(void);

// Starts and ends `count` threads, and opens and closes six descriptors; returns false if any of this fails.
bool twofold_can_start_threads(size_t count);

// Returns true if the processor and the system support AVX2.
bool twofold_has_avx2(void);

// Returns true if the process ignores the signal.
bool twofold_ignores_signal(int number);

// From now on, writes a byte to a pipe whenever the signal arrives; returns -1 on failure. The pipe must not block. Also
// unblocks the signal in the calling thread, because a process may start with it blocked.
int twofold_report_signal(int number, int pipe);

// Asks the processor to load the cache line at an address, which the caller will soon use.
static inline void twofold_prefetch(const void *address) { __builtin_prefetch(address); }

// Connections.c defines accept and accept4. In an executable they replace libc's functions for all linked
// libraries, so libzmq calls them. Until the ceilings are set, they behave like libc's. (libtwofold.so
// contains them, too, but does not export them: see twofold.map.)
//
// They refuse connections before the last descriptors are used up, and report each failure as one that libzmq
// tolerates. On most other failures of accept, libzmq's listeners end the process, for example if no descriptor
// is free (ipc), or if a firewall refuses the connection (ipc and tcp).

// From now on, closes a connection at once if its descriptor is not below the ceiling of its kind. `local`
// applies to Unix sockets, `network` to all others.
void twofold_set_connection_ceilings(int local, int network);

// Returns the number of connections that were refused so far, or delayed because accept failed.
long twofold_refused_connections(void);

#endif
