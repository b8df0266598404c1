internal import CLinux

/// How many bytes of memory this process may use: the smallest of the machine's, its cgroup's limit (of version 2 or
/// 1), and its own limits of address space and data (`ulimit -v`, `ulimit -d`).
package func availableMemory() -> Int {
    let machine = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
    let limits = [cgroupMemoryLimit(), resourceLimit(RLIMIT_AS), resourceLimit(RLIMIT_DATA)]
    return limits.compactMap(\.self).reduce(machine, min)
}

/// A soft limit of this process; nil for "unlimited".
private func resourceLimit(_ resource: __rlimit_resource) -> Int? {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(resource.rawValue), &limit) == 0 else { return nil }
    return Int(exactly: limit.rlim_cur)
}

/// The memory limit of this process's cgroup, below another root directory for tests; nil without a limit.
func cgroupMemoryLimit(root: String = "") -> Int? {
    [
        tightestCgroupLimit("memory.max", root: root) { Int($0) },
        // Version 1 writes "unlimited" as a number beyond all memory.
        tightestCgroupLimit("memory.limit_in_bytes", controller: "memory", root: root) { Int($0) },
    ].compactMap(\.self).min()
}

/// Gives memory that was freed, and that the allocator keeps for the next allocation, back to the system. Takes
/// milliseconds.
///
/// The corresponding C function is `malloc_trim`.
package func returnFreedMemory() { malloc_trim(0) }
