internal import CLinux

/// Returns the number of processors that this process may use, at least 1: the smaller of its affinity mask
/// and its cgroup's `cpu.max`. (Dispatch reads only the affinity mask.)
package func availableProcessors() -> Int {
    max(
        1,
        min(
            Int(twofold_processor_count()),
            tightestCgroupLimit("cpu.max") { processorLimit(cpuMax: $0) } ?? .max))
}

/// Parses "quota period", both in microseconds; returns nil for "max", which means unlimited.
func processorLimit(cpuMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace).map { Int($0) }
    guard numbers.count == 2, let quota = numbers[0], let period = numbers[1], quota > 0, period > 0 else {
        return nil
    }
    return (quota + period - 1) / period
}

/// Whether the processor and the system support AVX2; false on other architectures.
package var hasAVX2: Bool { twofold_has_avx2() }
