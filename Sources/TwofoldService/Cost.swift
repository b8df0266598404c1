/// The estimated time of a request on one thread. It counts boards, steps and bytes, because an estimate from only one
/// of them is wrong for some requests.
public struct Cost: Sendable {
    /// The minimum time of a step, in nanoseconds.
    private static let nanosecondsPerStep = 2000
    /// The time to read a table of optimal values when it is first used.
    static let nanosecondsPerTable = 1_000_000_000
    /// A number of steps that no request reaches.
    private static let maxSteps = 1 << 20

    /// The estimated time in nanoseconds.
    public let nanoseconds: Int

    /// Estimates `steps` steps of all lanes, plus a nanosecond for each of the payload's `bytes`, which are read even
    /// if the request is then refused.
    public init(
        lanes: Int, nanosecondsPerLane: Int, steps: Int = 1, bytes: Int = 0, opensTable: Bool = false
    ) {
        let step = max(Self.nanosecondsPerStep, lanes * nanosecondsPerLane)
        let table = opensTable ? Self.nanosecondsPerTable : 0
        nanoseconds = min(steps, Self.maxSteps) * step + bytes + table
    }
}
