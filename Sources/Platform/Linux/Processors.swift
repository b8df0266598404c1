internal import CLinux

/// How many processors this process may use: the smaller of its affinity mask and its cgroup's
/// `cpu.max`, at least 1. (Dispatch reads only the first.)
package func availableProcessors() -> Int {
    max(
        1,
        min(
            Int(twofold_processor_count()),
            tightestCgroupLimit("cpu.max") { processorLimit(cpuMax: $0) } ?? .max))
}

/// Reads "quota period", both in microseconds; nil for "max", which means unlimited.
func processorLimit(cpuMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace).map { Int($0) }
    guard numbers.count == 2, let quota = numbers[0], let period = numbers[1], quota > 0, period > 0 else {
        return nil
    }
    return (quota + period - 1) / period
}

/// Whether the processor and the system can do AVX2; false on processors of another kind.
package var hasAVX2: Bool { twofold_has_avx2() }
