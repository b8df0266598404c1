public import TwofoldCore

/// The limits on a session's policies.
public struct PolicyBudget: Sendable {
    /// The maximum memory for a session's network and tables, in bytes.
    public var maxBytes = 512 << 20
    /// The maximum search time of a request.
    public var maxSearch = Duration.seconds(1)
    /// The threads that a search may use.
    public var workers = Workers(threads: 1)

    /// Creates the default limits.
    public init() {}
}
