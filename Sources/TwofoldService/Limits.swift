public import TwofoldProtocol

/// What the server accepts. Hello reports it, so that clients can check before they send; the service, the ledger and
/// the socket keep to it.
public struct Limits: Sendable {
    /// Bytes in one frame of a request.
    public var maxMessageBytes = 256 << 20
    /// Boards in one session.
    public var maxBoardsPerSession = 1 << 20
    /// Sessions at a time.
    public var maxSessions = 10_000
    /// Sessions at a time of one client key; clients without a key can't be distinguished and are not counted.
    public var maxSessionsPerClient = 1000
    /// Boards of all sessions together.
    public var maxBoards = 1 << 24
    /// Bytes of all sessions together: boards, the memory of replies, requests that are kept, policies.
    public var maxBytes = 4 << 30
    /// After how long without a request a session ends; nil means never.
    public var idleTimeout: Duration? = .seconds(24 * 3600)

    /// The defaults.
    public init() {}

    /// As they go over the wire.
    public var wire: Twofold_V1_Limits {
        var wire = Twofold_V1_Limits()
        wire.maxMessageBytes = UInt64(maxMessageBytes)
        wire.maxBoardsPerSession = UInt64(maxBoardsPerSession)
        wire.maxSessions = UInt64(maxSessions)
        wire.maxSessionsPerClient = UInt64(maxSessionsPerClient)
        wire.maxBoards = UInt64(maxBoards)
        wire.maxBytes = UInt64(maxBytes)
        wire.idleTimeout = UInt64(idleTimeout.map { max(1, $0.components.seconds) } ?? 0)
        return wire
    }
}
