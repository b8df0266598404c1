internal import CLinux

/// Returns the number of bytes that this process may still allocate: the smaller of two limits. The first is the
/// machine's memory, or the limit of the process's cgroup (version 2 or 1) if that is lower, minus the resident memory.
/// The second is the memory that the process's own limits still allow (see ``memoryLeft()``), minus the reserve
/// ``MemoryPromise/kept``.
package func availableMemory() -> Int {
    let machine = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
    let whole = min(machine, cgroupMemoryLimit() ?? machine)
    let own = memoryLeft().map { $0 - MemoryPromise.kept }
    return max(0, min(whole - ProcessUsage.residentBytes, own ?? whole))
}

/// Returns the number of bytes that the process's own limits on address space and data (`ulimit -v`, `ulimit -d`)
/// still allow; nil without limits. If /proc can't be read, for example because no descriptor is free, the result may be
/// as low as half of these bytes.
package func memoryLeft() -> Int? {
    func left(of limit: Int?, used: @autoclosure () -> Int?) -> Int? {
        limit.map { limit in used().map { limit - $0 } ?? mappableBytes() }
    }
    return [
        left(of: resourceLimit(RLIMIT_AS), used: ProcessUsage.addressSpaceBytes),
        left(of: resourceLimit(RLIMIT_DATA), used: ProcessUsage.dataBytes),
    ].compactMap(\.self).min()
}

/// Returns the largest power of two that this process can map now; 0 if it can map no page.
private func mappableBytes() -> Int {
    var bytes = 1 << 46
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    while bytes >= 4096 {
        let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, flags, -1, 0)
        if memory != MAP_FAILED {
            munmap(memory, bytes)
            return bytes
        }
        bytes /= 2
    }
    return 0
}

/// Prepares the process for its own memory limits, which still allow `left` bytes. Makes all threads share one
/// allocator arena, because glibc otherwise reserves 64 MiB of address space for most threads. Returns false if
/// `left` is below the reserve, ``MemoryPromise/kept``.
package func prepareForMemoryLimit(_ left: Int) -> Bool {
    mallopt(M_ARENA_MAX, 1)
    return left >= MemoryPromise.kept
}

/// Makes the allocator map each block of 128 KiB or more separately, so that a freed block no longer counts towards a
/// limit on address space or data. Otherwise, glibc soon puts blocks of up to 32 MiB into its arena, which also counts
/// the free memory between blocks.
package func mapLargeBlocks() { mallopt(M_MMAP_THRESHOLD, 128 << 10) }

/// Returns a soft limit of this process; nil for "unlimited".
private func resourceLimit(_ resource: __rlimit_resource) -> Int? {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(resource.rawValue), &limit) == 0 else { return nil }
    return Int(exactly: limit.rlim_cur)
}

/// Returns the memory limit of this process's cgroup; nil without a limit. Tests pass another root directory.
func cgroupMemoryLimit(root: String = "") -> Int? {
    [
        tightestCgroupLimit("memory.max", root: root) { Int($0) },
        // Version 1 writes "unlimited" as a number larger than any memory.
        tightestCgroupLimit("memory.limit_in_bytes", controller: "memory", root: root) { Int($0) },
    ].compactMap(\.self).min()
}

/// Returns the allocator's unused memory to the system, which takes milliseconds.
package func returnFreedMemory() { malloc_trim(0) }
