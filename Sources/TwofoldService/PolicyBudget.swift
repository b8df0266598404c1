public import TwofoldCore

/// The limits of a session's policies.
public struct PolicyBudget: Sendable {
    /// Bytes of networks and tables per session.
    public var maxBytes = 512 << 20
    /// Time for a request's search.
    public var maxSearch = Duration.seconds(1)
    /// The threads of a search.
    public var workers = Workers(threads: 1)

    /// The defaults.
    public init() {}
}
