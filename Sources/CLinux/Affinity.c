#define _GNU_SOURCE
#include "CLinux.h"

#include <sched.h>

bool twofold_read_affinity(unsigned long *mask, size_t size) {
    return sched_getaffinity(0, size, (cpu_set_t *)mask) == 0;
}
