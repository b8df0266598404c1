internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService

/// The record of all sessions. For each request, the ledger decides whether to execute it, resend the stored reply,
/// park the request, or refuse it.
///
/// In this module, a *session* is a client's numbered sequence of requests, from create to close. An ``Entry``
/// represents the session in the ledger, and a `ServedEnvironment` executes its requests. The ledger has no clock
/// and no sockets. Only one thread at a time may use it.
///
///     seq == last       same bytes: resend the stored reply      other bytes: CONFLICT
///     seq == last + 1   execute the request                      already in progress, same bytes: park
///     anything else     OUT_OF_SEQUENCE, with the expected seq
///
/// Therefore, a client may repeat a request any number of times, over any connection, and the request is executed
/// only once. A refused request changes nothing. The ledger recognises a repeat by comparing all its bytes with the
/// stored request. Unlike a comparison of hashes, this comparison is never wrong. It costs nothing while there are
/// no repeats.
package struct SessionLedger {
    /// The ledger's decision about a request.
    enum Verdict {
        /// Start the request. Call `complete` or `abandon` when it ends.
        case execute(Entry)
        /// Send the stored reply.
        case resend(StoredReply)
        /// Send the answer to a resume request, which includes the session's last reply.
        case resumed(StoredReply)
        /// Do nothing. The resume request waits until the request in progress ends.
        case waits
        /// Do nothing. The reply to an earlier request will go to this request's route instead. This request is a copy
        /// of the one in progress, or it replaces a resume request that waits.
        case parked
    }

    /// The maximum number of closed sessions to remember.
    static let maxClosed = 10_000

    private let limits: Limits
    private var entries: [SessionID: Entry] = [:]
    /// The number of open sessions, including those being created.
    package private(set) var openCount = 0
    /// The total number of boards in all open sessions, including those being created.
    package private(set) var openBoards = 0
    /// The number of open sessions of each client with a key.
    private var openCounts: [String: Int] = [:]
    /// The most recently closed sessions, which are remembered so that a repeated close gets its reply. Once there are
    /// ``maxClosed``, each new one replaces the oldest.
    private var closed: [SessionID] = []
    private var oldest = 0

    init(_ limits: Limits) { self.limits = limits }

    /// The open sessions, including those being created, in no particular order.
    package var openEntries: some Sequence<Entry> { entries.values.lazy.filter { !$0.isClosed } }

    /// Returns a session's epoch and the number of its last executed request; nil for an unknown id.
    package func position(of id: SessionID) -> (epoch: UInt32, seq: UInt64)? {
        entries[id].map { ($0.epoch, $0.lastSeq) }
    }

    // MARK: requests

    /// Decides what to do with a session's request. Throws an error to refuse it. After the verdict `execute`, the
    /// caller must start the request immediately.
    mutating func admit(
        _ request: Request, _ op: Request.OneOf_Op, _ header: Frame, _ payload: Frame?, from route: Route
    ) throws(ServiceError) -> Verdict {
        guard let id = SessionID(request.session) else { throw .badID(request) }
        if case .create(let create) = op, entries[id] == nil {
            return try admitCreate(id, request, create, from: route)
        }
        return try admit(id, epoch: request.epoch, seq: request.seq, op, header, payload, from: route)
    }

    /// Decides what to do with a request for an existing session. Throws an error to refuse the request, or if the
    /// session is unknown. The function is mutating only because Swift would copy the ledger otherwise.
    mutating func admit(
        _ id: SessionID, epoch: UInt32, seq: UInt64, _ op: Request.OneOf_Op, _ header: Frame,
        _ payload: Frame?, from route: Route
    ) throws(ServiceError) -> Verdict {
        guard let entry = entries[id] else { throw .unknown(id) }
        return try entry.admit(seq, epoch: epoch, op, header, payload, from: route)
    }

    private mutating func admitCreate(
        _ id: SessionID, _ request: Request, _ create: CreateRequest, from route: Route
    ) throws(ServiceError) -> Verdict {
        if let refusal = ServiceError.badBegin(request) { throw refusal }
        let asked = Int(clamping: create.numEnvs)
        try checkRoom(boards: asked, of: route.client)
        // The service refuses a create that exceeds a session's limit, so its boards do not count here.
        let boards = asked > limits.maxBoardsPerSession ? 0 : asked
        let entry = Entry(id, of: route.client, boards: boards, at: route.arrived)
        add(entry)
        return .execute(entry)
    }

    /// Transfers a session to a new holder and raises the session's epoch. The epoch stays the same if this holder
    /// already has the session. Throws an error to refuse the request.
    func resume(
        _ request: Request, from route: Route, at now: Moment
    ) throws(ServiceError) -> Verdict {
        guard let id = SessionID(request.session) else { throw .badID(request) }
        guard let entry = entries[id] else { throw .unknown(id) }
        return try entry.resume(request, from: route, at: now)
    }

    // MARK: outcomes

    /// Records that the session's request in progress has been executed.
    mutating func complete(_ entry: Entry, _ reply: StoredReply, at now: Moment) {
        entry.complete(reply, at: now)
        guard entry.isClosed else { return }
        count(entry, by: -1)
        guard closed.count == Self.maxClosed else { return closed.append(entry.id) }
        entries[closed[oldest]] = nil
        closed[oldest] = entry.id
        oldest = (oldest + 1) % Self.maxClosed
    }

    /// Records that the session's request in progress was refused and has changed nothing.
    mutating func abandon(_ entry: Entry, at now: Moment) {
        if entry.lastSeq == 0 { remove(entry) }
        entry.abandon(at: now)
    }

    /// Ends and returns the sessions that have been idle since before `moment`.
    mutating func endIdle(since moment: Moment) -> [Entry] {
        let idle = entries.values.filter { $0.isIdle && $0.idleSince < moment }
        for entry in idle { remove(entry) }
        return idle
    }

    /// Subtracts a server pause from the idle time of all sessions. The pause ended at `now`.
    func excuse(_ pause: Duration, until now: Moment) {
        for entry in entries.values { entry.excuse(pause, until: now) }
    }

    private mutating func remove(_ entry: Entry) {
        entries[entry.id] = nil
        count(entry, by: -1)
    }

    /// Removes a session, if it exists. None of its requests may be in progress.
    mutating func forget(_ id: SessionID) {
        if let entry = entries[id] { remove(entry) }
    }

    /// Restores a saved session. Returns nil if the saved session is inconsistent. Throws an error if there are too
    /// many sessions or boards.
    mutating func restore(
        _ saved: SavedSession, _ environment: ServedEnvironment, last: Done, at now: Moment
    ) throws(ServiceError) -> Entry? {
        guard let entry = Entry(saved, environment, last: last, at: now) else { return nil }
        try checkRoom(boards: entry.boards, of: entry.owner)
        add(entry)
        return entry
    }

    // MARK: limits

    /// Throws if a limit prevents the client from creating a session with this many boards.
    private func checkRoom(boards: Int, of client: String?) throws(ServiceError) {
        guard openCount < limits.maxSessions else {
            throw ServiceError(
                .resourceExhausted, field: "session",
                "this server allows max_sessions = \(limits.maxSessions) at a time, and that many are open")
        }
        if let client, openCounts[client, default: 0] >= limits.maxSessionsPerClient {
            throw ServiceError(
                .resourceExhausted, field: "session",
                "this server allows max_sessions_per_client = \(limits.maxSessionsPerClient) at a time, and "
                    + "this client has that many open")
        }
        if boards <= limits.maxBoardsPerSession, boards > limits.maxBoards - openBoards {
            throw ServiceError(
                .resourceExhausted, field: "num_envs",
                "num_envs is \(boards); this server allows max_boards = \(limits.maxBoards) in all sessions "
                    + "together, of which \(openBoards) are in use")
        }
    }

    private mutating func add(_ entry: Entry) {
        entries[entry.id] = entry
        count(entry, by: 1)
    }

    /// Counts an entry's session and boards towards the limits, or no longer counts them if `change` is -1.
    private mutating func count(_ entry: Entry, by change: Int) {
        openCount += change
        openBoards += change * entry.boards
        guard let owner = entry.owner else { return }
        let ofOwner = openCounts[owner, default: 0] + change
        openCounts[owner] = ofOwner == 0 ? nil : ofOwner
    }
}
