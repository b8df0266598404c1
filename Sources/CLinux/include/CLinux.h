// C functions of Linux and glibc that Swift's Glibc module lacks: malloc_trim, mallopt and the affinity mask.
#ifndef TWOFOLD_CLINUX_H
#define TWOFOLD_CLINUX_H

#include <malloc.h>

// Returns the number of processors in the affinity mask of the calling thread; 0 if it can't be read.
//
// It wraps a function that glibc declares only for _GNU_SOURCE. If this header defined that macro, it would change
// system headers (fd_set, for example) that Glibc and Dispatch include without it. Modules that define the same type
// differently do not compile together.
int twofold_affinity_count(void);

#endif
