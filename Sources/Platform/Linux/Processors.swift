internal import CLinux

/// Returns the number of processors that this process may use, at least 1. This is the smaller of the affinity
/// mask's processor count and the cgroup's limit. (Dispatch reads only the affinity mask.)
package func availableProcessors() -> Int {
    max(1, min(affinityCount(readMask: twofold_read_affinity), cgroupProcessorLimit() ?? .max))
}

/// Returns the number of processors in the calling thread's affinity mask; 0 if the mask can't be read. `readMask`
/// fills a buffer of the given size in bytes, and returns false if the system's mask does not fit.
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

/// Returns the number of processors that this process's cgroup (version 2 or 1) allows; nil without a limit. Tests
/// pass another root directory.
func cgroupProcessorLimit(root: String = "") -> Int? {
    [
        tightestCgroupLimit("cpu.max", root: root) { processorLimit(cpuMax: $0) },
        // Version 1 writes -1 for "unlimited".
        tightestCgroupLimit("cpu.cfs_quota_us", "cpu.cfs_period_us", controller: "cpu", root: root) {
            processorLimit(cpuMax: $0)
        },
    ].compactMap(\.self).min()
}

/// Converts a cgroup's limit, "quota period" in microseconds, to a number of processors, rounded up. Returns nil
/// for "max" and for negative quotas, which mean unlimited.
func processorLimit(cpuMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace).map { Int($0) }
    guard numbers.count == 2, let quota = numbers[0], let period = numbers[1], quota > 0, period > 0 else {
        return nil
    }
    return (quota + period - 1) / period
}
