// What Swift's Glibc module leaves out: descriptors that can be polled beside sockets (eventfd, signalfd), giving
// memory back to the system (malloc_trim), and what the processors are and can do.
//
// What glibc declares for _GNU_SOURCE only stands behind functions of CLinux.c. Defined here, that macro would
// change system headers that Glibc and Dispatch have without it (fd_set for one), and two modules that differ in
// one type do not compile together.
#ifndef TWOFOLD_CLINUX_H
#define TWOFOLD_CLINUX_H

#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

// Processors that the calling thread may run on; 0 when that can't be found out.
int twofold_processor_count(void);

// Whether the processor and the system can do AVX2.
bool twofold_has_avx2(void);

#endif
