internal import CLinux

/// Returns the number of processors that this process may use, at least 1. This is the smaller of the affinity
/// mask's processor count and the cgroup's limit. (Dispatch reads only the affinity mask.)
package func availableProcessors() -> Int {
    max(1, min(Int(twofold_affinity_count()), cgroupProcessorLimit() ?? .max))
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
