internal import FoundationEssentials
internal import Glibc

/// How many bytes of memory this process may use: the smaller of the machine's and its cgroup's
/// `memory.max`.
package func availableMemory() -> Int {
    let machine = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
    return min(machine, tightestCgroupLimit("memory.max") { Int($0) } ?? .max)
}

/// The tightest limit that a file says of this process's cgroup (version 2) and those above it; nil where
/// none says any. `read` gets the file's text without white space around it, nil for "no limit".
package func tightestCgroupLimit(_ file: String, read: (String) -> Int?) -> Int? {
    guard
        let membership = try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8),
        let line = membership.split(separator: "\n").first(where: { $0.hasPrefix("0::") })
    else { return nil }
    var path = "/sys/fs/cgroup" + line.dropFirst(3)
    var tightest: Int?
    while path.hasPrefix("/sys/fs/cgroup") {
        if let text = try? String(contentsOfFile: path + "/" + file, encoding: .utf8),
            let limit = read(String(text.drop(while: \.isWhitespace).prefix { $0 != "\n" }))
        {
            tightest = min(tightest ?? limit, limit)
        }
        guard let slash = path.lastIndex(of: "/") else { break }
        path = String(path[..<slash])
    }
    return tightest
}
