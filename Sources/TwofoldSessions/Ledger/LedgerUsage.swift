internal import TwofoldProtocol
internal import TwofoldService

/// The numbers of sessions and boards that count towards the limits. They include sessions that are still being
/// created.
struct LedgerUsage {
    let limits: Limits
    private(set) var sessions = 0
    private(set) var boards = 0
    private var sessionsOfClient: [Client: Int] = [:]

    init(_ limits: Limits) { self.limits = limits }

    /// Returns an error if a limit prevents the client from creating a session with this many boards.
    func refusal(boards: Int, of client: Client) -> ServiceError? {
        guard sessions < limits.maxSessions else {
            return ServiceError(
                .resourceExhausted, field: "session",
                "this server allows max_sessions = \(limits.maxSessions) at a time, and that many are open")
        }
        if client != .anonymous, sessionsOfClient[client, default: 0] >= limits.maxSessionsPerClient {
            return ServiceError(
                .resourceExhausted, field: "session",
                "this server allows max_sessions_per_client = \(limits.maxSessionsPerClient) at a time, and "
                    + "this client has that many open")
        }
        if boards <= limits.maxBoardsPerSession, boards > limits.maxBoards - self.boards {
            return ServiceError(
                .resourceExhausted, field: "num_envs",
                "num_envs is \(boards); this server allows max_boards = \(limits.maxBoards) in all sessions "
                    + "together, of which \(self.boards) are in use")
        }
        return nil
    }

    mutating func add(boards: Int, of client: Client) {
        sessions += 1
        self.boards += boards
        sessionsOfClient[client, default: 0] += 1
    }

    mutating func remove(boards: Int, of client: Client) {
        sessions -= 1
        self.boards -= boards
        let others = sessionsOfClient[client, default: 1] - 1
        sessionsOfClient[client] = others == 0 ? nil : others
    }
}

/// The ids of the most recently closed sessions. They are remembered so that a repeated close gets its reply.
struct Tombstones {
    static let limit = 10_000

    private var ids: [SessionID] = []
    private var oldest = 0

    /// Adds an id. If there are now too many ids, removes the oldest one and returns it.
    mutating func add(_ id: SessionID) -> SessionID? {
        ids.append(id)
        guard ids.count - oldest > Self.limit else { return nil }
        let forgotten = ids[oldest]
        oldest += 1
        if oldest > Self.limit {
            ids.removeFirst(oldest)
            oldest = 0
        }
        return forgotten
    }
}
