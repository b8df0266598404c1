public import TwofoldCore

/// The limits of a session's policies.
public struct PolicyBudget: Sendable {
    /// The maximum number of bytes for a session's network and tables.
    public var maxBytes = 512 << 20
    /// The maximum time that a request may search.
    public var maxSearch = Duration.seconds(1)
    /// The threads of a search.
    public var workers = Workers(threads: 1)

    /// Creates the default limits.
    public init() {}
}
