internal import CLinux
internal import FoundationEssentials

/// How many processors this process may use: the smaller of its affinity mask and its cgroup's
/// `cpu.max`, at least 1. (Dispatch reads only the first.)
public func availableProcessors() -> Int {
    max(1, min(Int(twofold_affinity_count()), cgroupProcessorLimit() ?? .max))
}

/// The processors that `cpu.max` grants, rounded up, the tightest of this cgroup and those above it.
private func cgroupProcessorLimit() -> Int? {
    guard
        let membership = try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8),
        let line = membership.split(separator: "\n").first(where: { $0.hasPrefix("0::") })
    else { return nil }
    var path = "/sys/fs/cgroup" + line.dropFirst(3)
    var tightest: Int?
    while path.hasPrefix("/sys/fs/cgroup") {
        if let text = try? String(contentsOfFile: path + "/cpu.max", encoding: .utf8),
            let limit = processorLimit(cpuMax: text)
        {
            tightest = min(tightest ?? limit, limit)
        }
        guard let slash = path.lastIndex(of: "/") else { break }
        path = String(path[..<slash])
    }
    return tightest
}

/// Reads "quota period", both in microseconds; nil for "max", which is no limit.
func processorLimit(cpuMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace).map { Int($0) }
    guard numbers.count == 2, let quota = numbers[0], let period = numbers[1], quota > 0, period > 0 else {
        return nil
    }
    return (quota + period - 1) / period
}
