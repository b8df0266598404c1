internal import CLinux

/// Returns the bytes of memory that this process may still allocate. The limits are the machine's memory, the
/// process's cgroup (version 2 or 1) and the process's own limits. Memory in use and the reserve are
/// subtracted.
package func availableMemory() -> Int {
    let machine = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
    let whole = min(machine, cgroupMemoryLimit() ?? machine)
    let own = memoryLeft().map { $0 - MemoryPromise.kept }
    return max(0, min(whole - ProcessUsage.residentBytes, own ?? whole))
}

/// Returns the bytes that the process's own limits on address space and data (`ulimit -v`, `ulimit -d`)
/// leave; nil without limits.
package func memoryLeft() -> Int? {
    let (space, data) = (resourceLimit(RLIMIT_AS), resourceLimit(RLIMIT_DATA))
    guard space != nil || data != nil else { return nil }
    let (usedSpace, usedData) = (ProcessUsage.addressSpaceBytes, ProcessUsage.dataBytes)
    return [space.map { $0 - usedSpace }, data.map { $0 - usedData }].compactMap(\.self).min()
}

/// Prepares a process whose own limits leave `left` bytes. Makes all threads allocate from the same memory,
/// because glibc otherwise takes 64 MiB of address space for most threads. Returns false if less is left than
/// the reserve.
package func prepareForMemoryLimit(_ left: Int) -> Bool {
    mallopt(M_ARENA_MAX, 1)
    return left >= MemoryPromise.kept
}

/// Returns the bytes of address space that a new thread's stack takes.
func threadStackBytes() -> Int { twofold_thread_stack_bytes() }

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

/// Returns the allocator's unused memory to the system. Takes milliseconds.
///
/// The corresponding C function is `malloc_trim`.
package func returnFreedMemory() { malloc_trim(0) }
