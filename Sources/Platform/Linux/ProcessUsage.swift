/// The system resources that this process uses now.
package enum ProcessUsage {
    /// The resident memory in bytes; 0 if /proc cannot be read.
    package static var residentBytes: Int { statm(1) ?? 0 }

    /// The address space in bytes, as `ulimit -v` counts it; nil if /proc cannot be read.
    package static var addressSpaceBytes: Int? { statm(0) }

    /// The private memory in bytes, as `ulimit -d` counts it; nil if /proc cannot be read.
    static var dataBytes: Int? { statm(5) }

    /// Returns a field of /proc/self/statm, converted from pages to bytes; nil if the file cannot be read. Allocates
    /// no memory, because callers need the value when memory is short.
    private static func statm(_ index: Int) -> Int? {
        let file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        return withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { text in
            let count = read(file, text.baseAddress!, text.count)
            guard count > 0 else { return nil }
            var (field, pages) = (0, 0)
            for byte in text[..<count] {
                if byte == UInt8(ascii: " ") {
                    field += 1
                } else if field == index, byte >= UInt8(ascii: "0") {
                    pages = pages * 10 + Int(byte - UInt8(ascii: "0"))
                }
            }
            return pages * sysconf(Int32(_SC_PAGESIZE))
        }
    }

    /// The number of open file descriptors; 0 if /proc cannot be read.
    package static var descriptors: Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Without ".", ".." and the descriptor of the directory.
        return count - 3
    }
}
