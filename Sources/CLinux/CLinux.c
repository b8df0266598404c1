#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(twofold_processors) == sizeof(cpu_set_t), "twofold_processors holds a cpu_set_t");

static cpu_set_t glibc_set(twofold_processors processors) {
    cpu_set_t set;
    memcpy(&set, &processors, sizeof set);
    return set;
}

twofold_processors twofold_affinity(pid_t thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(thread, sizeof set, &set);
    twofold_processors processors;
    memcpy(&processors, &set, sizeof set);
    return processors;
}

int twofold_count(twofold_processors processors) {
    cpu_set_t set = glibc_set(processors);
    return CPU_COUNT(&set);
}

int twofold_processor(void) { return sched_getcpu(); }

int twofold_pin(pid_t thread, int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(thread, sizeof set, &set);
}

int twofold_unpin(pid_t thread, twofold_processors processors) {
    cpu_set_t set = glibc_set(processors);
    return sched_setaffinity(thread, sizeof set, &set);
}

int twofold_leave_processor(twofold_processors processors) {
    cpu_set_t set = glibc_set(processors);
    int processor = sched_getcpu();
    if (processor < 0) return -1;
    CPU_CLR(processor, &set);
    return CPU_COUNT(&set) > 0 ? sched_setaffinity(0, sizeof set, &set) : -1;
}

bool twofold_has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

void twofold_take_lines(void *bytes, size_t count) {
    // Stores: a prefetch for writing may be dropped, and of many in a row most are.
    for (size_t offset = 0; offset < count; offset += 64) {
        volatile char *byte = (volatile char *)bytes + offset;
        *byte = *byte;
    }
}

int twofold_sealed_memory(const char *name, off_t bytes) {
    int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return -1;
    if (ftruncate(descriptor, bytes) == 0 && fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

int twofold_seal_writing(int descriptor) {
    return fcntl(descriptor, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}
