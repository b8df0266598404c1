/// The estimated time of a request on one thread. The estimate counts boards, steps and bytes, because none of them
/// alone predicts the time of every request.
public struct Cost: Sendable {
    /// The minimum time of a step, in nanoseconds.
    private static let nanosecondsPerStep = 2000
    /// The time in nanoseconds to load a table of optimal values on first use.
    static let nanosecondsPerTable = 1_000_000_000
    /// The maximum number of steps in an estimate, to prevent an overflow. No request executes that many.
    private static let maxSteps = 1 << 20

    /// The estimated time in nanoseconds.
    public let nanoseconds: Int

    /// Estimates the time for `steps` steps of all lanes, plus one nanosecond for each of the payload's `bytes`: the
    /// payload is read even if the request is then refused.
    public init(
        lanes: Int, nanosecondsPerLane: Int, steps: Int = 1, bytes: Int = 0, opensTable: Bool = false
    ) {
        let step = max(Self.nanosecondsPerStep, lanes * nanosecondsPerLane)
        let table = opensTable ? Self.nanosecondsPerTable : 0
        nanoseconds = min(steps, Self.maxSteps) * step + bytes + table
    }
}
