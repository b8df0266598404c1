internal import CLinux

/// How many processors this process may use: the smaller of its affinity mask and its cgroup's limit, at least 1.
/// (Dispatch reads only the first.)
package func availableProcessors() -> Int {
    max(1, min(affinityCount(readMask: twofold_read_affinity), cgroupProcessorLimit() ?? .max))
}

/// Processors in the affinity mask of the calling thread; 0 if it can't be read. `readMask` fills a mask of so many
/// bytes, and returns false if the system's mask is larger.
func affinityCount(readMask: (UnsafeMutablePointer<UInt>, Int) -> Bool) -> Int {
    // 1,024 processors, then twice as many until the system's mask fits.
    var words = 16
    while words <= 1 << 14 {
        let count = withUnsafeTemporaryAllocation(of: UInt.self, capacity: words) { mask -> Int? in
            mask.initialize(repeating: 0)
            guard readMask(mask.baseAddress!, words * MemoryLayout<UInt>.size) else { return nil }
            return mask.reduce(0) { $0 + $1.nonzeroBitCount }
        }
        if let count { return count }
        words *= 2
    }
    return 0
}

/// The limit of this process's cgroup (version 2 or 1), below another root directory for tests; nil without a limit.
func cgroupProcessorLimit(root: String = "") -> Int? {
    [
        tightestCgroupLimit("cpu.max", root: root) { processorLimit(cpuMax: $0) },
        // Version 1 writes -1 for "unlimited".
        tightestCgroupLimit("cpu.cfs_quota_us", "cpu.cfs_period_us", controller: "cpu", root: root) {
            processorLimit(cpuMax: $0)
        },
    ].compactMap(\.self).min()
}

/// Reads "quota period", both in microseconds; nil for "max" and negative quotas, which mean unlimited.
func processorLimit(cpuMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace).map { Int($0) }
    guard numbers.count == 2, let quota = numbers[0], let period = numbers[1], quota > 0, period > 0 else {
        return nil
    }
    return (quota + period - 1) / period
}

/// Whether the processor and the system can do AVX2; false on processors of another kind.
package var hasAVX2: Bool { twofold_has_avx2() }
