/// The minimum time of a step, in nanoseconds.
private let nanosecondsPerStep = 2000
/// The time in nanoseconds to load a table of optimal values on first use.
private let nanosecondsPerTable = 1_000_000_000
/// The maximum number of steps in an estimate, to prevent an overflow. No request executes that many.
private let maxSteps = 1 << 20

/// Estimates the time of a request on one thread, in nanoseconds: the time for `steps` steps of all lanes, plus one
/// nanosecond for each of the payload's `bytes`, because the payload is read even if the request is then refused.
/// Neither boards nor steps nor bytes alone predict the time of every request.
package func estimatedNanoseconds(
    lanes: Int, nanosecondsPerLane: Int, steps: Int = 1, bytes: Int = 0, opensTable: Bool = false
) -> Int {
    let step = max(nanosecondsPerStep, lanes * nanosecondsPerLane)
    return min(steps, maxSteps) * step + bytes + (opensTable ? nanosecondsPerTable : 0)
}
