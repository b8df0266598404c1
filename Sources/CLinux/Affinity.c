#define _GNU_SOURCE
#include "CLinux.h"

#include <sched.h>

int twofold_affinity_count(void) {
    // Linux supports at most 8,192 processors.
    unsigned long mask[8192 / 8 / sizeof(unsigned long)];
    cpu_set_t *set = (cpu_set_t *)mask;
    return sched_getaffinity(0, sizeof mask, set) == 0 ? CPU_COUNT_S(sizeof mask, set) : 0;
}
