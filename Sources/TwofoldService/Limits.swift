public import TwofoldProtocol

/// The limits on requests and sessions. The service, the ledger and the socket enforce them. The hello reply contains
/// them, so that clients can check sizes before sending. It does not contain the limits on policies.
public struct Limits: Sendable {
    /// The maximum size of one request frame, in bytes.
    public var maxMessageBytes = 256 << 20
    /// The maximum number of boards in one session.
    public var maxBoardsPerSession = 1 << 20
    /// The maximum number of open sessions.
    public var maxSessions = 10_000
    /// The maximum number of open sessions per client key. Clients without a key can't be distinguished, so this
    /// limit does not apply to them.
    public var maxSessionsPerClient = 1000
    /// The maximum total number of boards in all sessions.
    public var maxBoards = 1 << 24
    /// The maximum memory of all sessions together, in bytes. It includes boards, reply buffers, stored requests
    /// and policies.
    public var maxBytes = 4 << 30
    /// The time without a request after which a session ends; nil means never.
    public var idleTimeout: Duration? = .seconds(24 * 3600)
    /// The maximum memory for a session's network and tables, in bytes.
    public var maxPolicyBytes = 512 << 20
    /// The maximum search time of a request.
    public var maxSearch = Duration.seconds(1)

    /// Creates the default limits.
    public init() {}

    /// The limits in the hello reply, as a protobuf message.
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
