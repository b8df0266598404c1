/// About what a request costs on one thread: from its boards, its steps and its bytes together, since each of them alone
/// is wrong for some request.
public struct Cost: Sendable {
    /// A step takes this many nanoseconds by itself, however few its boards.
    private static let nanosecondsPerStep = 2000
    /// What it may take to read a whole table of an optimum, which is checked when it is first used.
    static let nanosecondsPerTable = 1_000_000_000
    /// More steps than any request gets to.
    private static let maxSteps = 1 << 20

    /// The whole, in nanoseconds.
    public let nanoseconds: Int

    /// `steps` times all lanes; `bytes` of a payload that is read before it can be refused, at a nanosecond each; and
    /// maybe a table to open.
    public init(
        lanes: Int, nanosecondsPerLane: Int, steps: Int = 1, bytes: Int = 0, opensTable: Bool = false
    ) {
        let step = max(Self.nanosecondsPerStep, lanes * nanosecondsPerLane)
        let table = opensTable ? Self.nanosecondsPerTable : 0
        nanoseconds = min(steps, Self.maxSteps) * step + bytes + table
    }
}
