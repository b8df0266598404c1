#define _GNU_SOURCE
#include "CPlatform.h"

#include <sched.h>

bool twofold_read_affinity(unsigned long *mask, size_t size) {
    return sched_getaffinity(0, size, (cpu_set_t *)mask) == 0;
}

bool twofold_has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}
