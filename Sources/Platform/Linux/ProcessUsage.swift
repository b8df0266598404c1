internal import FoundationEssentials

/// What this process uses of the system.
package enum ProcessUsage {
    /// Bytes of memory that are resident; 0 where /proc can't be read.
    package static var residentBytes: Int {
        let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
        return (pages.flatMap { Int($0[1]) } ?? 0) * sysconf(Int32(_SC_PAGESIZE))
    }

    /// Open file descriptors; 0 where /proc can't be read.
    package static var descriptors: Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Without ".", ".." and the directory's own.
        return count - 3
    }
}
