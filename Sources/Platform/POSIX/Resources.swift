// The memory and processors that POSIX reports. If TWOFOLD_POSIX is set, Package.swift builds this folder instead of
// the folder Linux. On Linux, this build tests the code that another system would need.

/// Returns the machine's memory minus the resident memory of this process.
package func availableMemory() -> Int {
    max(0, sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE)) - ProcessUsage.residentBytes)
}

/// Returns nil, because POSIX does not report how much memory counts towards a process's limits. An allocation beyond
/// them fails.
package func memoryLeft() -> Int? { nil }

/// Does nothing and returns true, because ``memoryLeft()`` finds no limit.
package func prepareForMemoryLimit(_ left: Int) -> Bool { true }

/// Does nothing, because POSIX has no function that configures an allocator.
package func mapLargeBlocks() {}

/// Does nothing, because POSIX has no function that returns an allocator's memory.
package func returnFreedMemory() {}

/// Returns the number of processors that are online, at least 1.
package func availableProcessors() -> Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

/// The system resources that this process uses.
package enum ProcessUsage {
    /// The largest resident memory so far in bytes; 0 if it can't be determined.
    package static var residentBytes: Int {
        var usage = rusage()
        return getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 ? usage.ru_maxrss << 10 : 0
    }

    /// The number of open file descriptors below 2^20.
    package static var descriptors: Int {
        let limit = min(sysconf(Int32(_SC_OPEN_MAX)), 1 << 20)
        var count = 0
        for first in stride(from: 0, to: limit, by: 512) {
            var items = (first..<min(first + 512, limit)).map { pollfd(fd: Int32($0), events: 0, revents: 0) }
            poll(&items, nfds_t(items.count), 0)
            count += items.count { $0.revents & Int16(POLLNVAL) == 0 }
        }
        return count
    }
}
