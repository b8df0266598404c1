#define _GNU_SOURCE
#include "CLinux.h"

#include <pthread.h>
#include <sched.h>

bool twofold_read_affinity(unsigned long *mask, size_t size) {
    return sched_getaffinity(0, size, (cpu_set_t *)mask) == 0;
}

size_t twofold_thread_stack_bytes(void) {
    pthread_attr_t attributes;
    size_t bytes = 0;
    if (pthread_getattr_default_np(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return bytes;
}

bool twofold_has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}
