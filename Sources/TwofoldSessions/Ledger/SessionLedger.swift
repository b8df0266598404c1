internal import TwofoldCore
package import TwofoldProtocol
internal import TwofoldService

/// All sessions, and how far each has come: decides for each request whether it is executed, answered from
/// memory, parked, or refused.
///
/// In this module a *session* is a client's numbered sequence of requests, from its create to its close; an ``Entry`` is
/// its line here, an ``EnvironmentHost`` is what its requests run on. The ledger has no clock, and knows nothing of how
/// requests come and replies go. One thread at a time.
///
///     seq == last       same bytes: the stored reply again       other bytes: CONFLICT
///     seq == last + 1   execute it                               in progress, same bytes: park
///     anything else     OUT_OF_SEQUENCE, with the expected seq
///
/// So a client may repeat a request as often as it likes, over any connection, and it is applied once.
/// A refused request leaves no trace. Repeats are recognised by comparing all their bytes with the
/// request that is kept: unlike a digest that can't be wrong, and it costs nothing while there are no repeats.
package struct SessionLedger {
    /// What to do with a request.
    package enum Verdict {
        /// Start it, to make the session's environment; then complete or abandon it.
        case create(Entry)
        /// Start it, to be executed there; then complete or abandon it.
        case execute(Entry, EnvironmentHost)
        /// Send this again.
        case resend(StoredReply)
        /// Nothing now: it is in progress, and the reply will go to this newest route.
        case parked
    }

    /// What to do with a resume.
    package enum Resumption {
        /// Answer this, with the session's last reply inside.
        case answer(ResumeReply, last: StoredReply)
        /// Nothing now: it waits for the request in progress. An earlier resume that waited gets no reply.
        case waits(inPlaceOfAnother: Bool)
    }

    private var entries: [SessionID: Entry] = [:]
    private var usage: LedgerUsage
    private var tombstones = Tombstones()

    init(_ limits: Limits) { usage = LedgerUsage(limits) }

    /// Sessions that are open, those being created included.
    package var openCount: Int { usage.sessions }

    /// Boards of all sessions that are open, those being created included.
    package var openBoards: Int { usage.boards }

    /// Sessions that are open, those being created included, in no order.
    package var openEntries: some Sequence<Entry> { entries.values.lazy.filter { !$0.isClosed } }

    /// The boards of an open session, or of one that is being created; nil without one.
    package func boards(of id: SessionID) -> Int? { entries[id].flatMap { $0.isClosed ? nil : $0.boards } }

    // MARK: requests

    /// Decides about a request that names a session; throws to refuse it. One to create or to execute has to be
    /// started at once.
    mutating func admit(
        _ request: Request, _ header: Frame, _ payload: Frame?, from route: Route
    ) throws(ServiceError) -> Verdict {
        guard let id = SessionID(request.session) else { throw .badID(request) }
        guard case .create(let create) = request.op else {
            return try admit(
                id, epoch: request.epoch, seq: request.seq, isCreate: false, header, payload, from: route)
        }
        guard entries[id] == nil else {
            return try admit(
                id, epoch: request.epoch, seq: request.seq, isCreate: true, header, payload, from: route)
        }
        return try admitCreate(id, request, create, from: route)
    }

    /// The same for a request other than the create of a new session.
    func admit(
        _ id: SessionID, epoch: UInt32, seq: UInt64, isCreate: Bool, _ header: Frame, _ payload: Frame?,
        from route: Route
    ) throws(ServiceError) -> Verdict {
        guard let entry = entries[id] else { throw .unknown(id) }
        return try entry.admit(seq, epoch: epoch, isCreate: isCreate, header, payload, from: route)
    }

    private mutating func admitCreate(
        _ id: SessionID, _ request: Request, _ create: CreateRequest, from route: Route
    ) throws(ServiceError) -> Verdict {
        if let refusal = ServiceError.badBegin(request) { throw refusal }
        let asked = Int(clamping: create.numEnvs)
        if let refusal = usage.refusal(boards: asked, of: route.client) { throw refusal }
        // A create that goes beyond a session's limit will be refused by that.
        let boards = asked > usage.limits.maxBoardsPerSession ? 0 : asked
        let entry = Entry(id, of: route.client, boards: boards, at: route.arrived)
        entries[id] = entry
        usage.add(boards: boards, of: route.client)
        return .create(entry)
    }

    /// Hands a session over: raises its epoch, unless this holder has it already. Throws to refuse it.
    func resume(
        _ request: Request, from route: Route, at now: Moment
    ) throws(ServiceError) -> Resumption {
        guard let id = SessionID(request.session) else { throw .badID(request) }
        guard let entry = entries[id] else { throw .unknown(id) }
        return try entry.resume(request, from: route, at: now)
    }

    // MARK: outcomes

    /// The request in progress was executed.
    mutating func complete(_ entry: Entry, _ reply: StoredReply, at now: Moment) {
        entry.complete(reply, at: now)
        guard entry.isClosed else { return }
        usage.remove(boards: entry.boards, of: entry.owner)
        if let forgotten = tombstones.add(entry.id) { entries[forgotten] = nil }
    }

    /// The request in progress was refused: nothing has happened.
    mutating func abandon(_ entry: Entry, at now: Moment) {
        if entry.lastSeq == 0 { remove(entry) }
        entry.abandon(at: now)
    }

    /// Ends the sessions that have been idle since before this moment; returns them.
    mutating func endIdle(since moment: Moment) -> [Entry] {
        let idle = entries.values.filter { $0.isIdle && $0.idleSince < moment }
        for entry in idle { remove(entry) }
        return idle
    }

    /// Does not count a pause of the server, which ended at `now`, as idle time of its sessions.
    func excuse(_ pause: Duration, until now: Moment) {
        for entry in entries.values { entry.excuse(pause, until: now) }
    }

    private mutating func remove(_ entry: Entry) {
        entries[entry.id] = nil
        usage.remove(boards: entry.boards, of: entry.owner)
    }

    /// Restores a session that was saved; nil when what was saved makes no sense.
    mutating func restore(
        _ saved: SavedSession, _ host: EnvironmentHost, last: Done, at now: Moment
    ) -> Entry? {
        guard let entry = Entry(saved, host, last: last, at: now), entries[entry.id] == nil else {
            return nil
        }
        entries[entry.id] = entry
        usage.add(boards: entry.boards, of: entry.owner)
        return entry
    }
}
