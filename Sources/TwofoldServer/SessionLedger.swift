internal import FoundationEssentials
internal import TwofoldProtocol
internal import TwofoldService
internal import ZeroMQ

/// Who is where in their session: decides for each request whether it is carried out, answered from
/// memory, parked, or refused. Belongs to the socket thread.
///
///     seq == last       same bytes: the stored reply again       other bytes: CONFLICT
///     seq == last + 1   carry it out                             in progress, same bytes: park
///     anything else     OUT_OF_SEQUENCE, with the expected seq
///
/// So a client may repeat a request as often as it likes, over any connection, and it is applied once.
/// A refused request leaves no trace. Repeats are recognised by comparing all their bytes with the
/// request that is kept (libzmq's own memory, so keeping it costs no copy): unlike a digest that can't
/// be wrong, and it costs nothing while there are no repeats.
struct SessionLedger {
    /// One session's line in the ledger.
    final class Entry {
        let id: SessionID
        /// Whose session it is.
        let owner: Client
        /// Boards that create asked for.
        let boards: Int
        let begin = Moment.now
        /// When a request for it came last.
        fileprivate(set) var lastRequest = Moment.now
        /// Requests that were carried out since its begin.
        fileprivate(set) var requests = 0
        /// What it was created with.
        fileprivate var create: CreateRequest
        fileprivate(set) var epoch: UInt32 = 1
        /// Who resumed it last; nil before anybody has.
        fileprivate var holder: Data?
        /// Who resumes it as soon as the request in progress is done.
        fileprivate var successor: Successor?
        /// The last request that was carried out; 0 while create is.
        fileprivate(set) var lastSeq: UInt64 = 0
        fileprivate var last: (request: RequestFrames, reply: ReplyFrames)?
        fileprivate var inProgress: (request: RequestFrames, route: Route)?
        /// What the session's requests run on; nil before create has succeeded and after close.
        fileprivate(set) var session: ServerSession?

        fileprivate init(_ id: SessionID, owner: Client, boards: Int, create: CreateRequest) {
            self.id = id
            self.owner = owner
            self.boards = boards
            self.create = create
        }

        /// Whether a request is being carried out.
        var isBusy: Bool { inProgress != nil }

        fileprivate var isClosed: Bool { lastSeq > 0 && session == nil }

        /// The entry between two requests, to be written down; apart from what the session itself has.
        /// An open session has carried out its create, at least.
        var saved: SavedSession {
            var saved = SavedSession()
            saved.id = id.bytes
            if case .key(let key) = owner { saved.clientKey = "\(key)" }
            saved.epoch = epoch
            if let holder { saved.holder = holder }
            saved.lastSeq = lastSeq
            saved.lastRequest = last!.request.saved
            saved.lastReply = last!.reply.saved
            saved.requests = UInt64(requests)
            saved.create = create
            return saved
        }
    }

    /// What to do with a request.
    enum Verdict {
        /// Carry it out, then tell ``complete(_:reply:change:)`` or ``abandon(_:)``.
        case execute(Entry)
        /// Send this again.
        case resend(ReplyFrames)
        /// Nothing now: it is being carried out, and the reply will go to this newest route.
        case parked
        case refuse(ServiceError)
    }

    /// What to do with a resume.
    enum Resumption {
        case answer(ReplyFrames)
        /// Nothing now: a request is being carried out, and ``takeSuccessor(of:)`` tells when it is done.
        /// An earlier resume that waited gets no reply.
        case waits(inPlaceOfAnother: Bool)
        case refuse(ServiceError)
    }

    /// A resume that waits.
    struct Successor {
        let header: Request
        let route: Route
    }

    /// What a request that was carried out made of its session.
    enum Change {
        case none
        case created(ServerSession)
        case closed
    }

    /// Closed sessions that are remembered, so that a repeated close gets its reply.
    static let maxTombstones = 10_000

    private let limits: Limits
    /// Boards of all sessions that are open, those being created included.
    private(set) var openBoards = 0
    private var sessionsOfClient: [Client: Int] = [:]
    private var entries: [SessionID: Entry] = [:]
    private var tombstones: [SessionID] = []
    private var oldestTombstone = 0

    init(_ limits: Limits) { self.limits = limits }

    /// Sessions that are open, those being created included.
    var openCount: Int { entries.count - (tombstones.count - oldestTombstone) }

    /// Sessions that are open, in no order.
    var openEntries: [Entry] { entries.values.filter { !$0.isClosed } }

    /// Decides about a request that names a session; an entry to execute is busy from now on.
    mutating func admit(_ header: Request, _ request: RequestFrames, from route: Route) -> Verdict {
        guard let id = SessionID(header.session) else {
            return .refuse(Self.noID(header))
        }
        var isCreate = false
        if case .create = header.op { isCreate = true }
        guard let entry = entries[id] else {
            return isCreate ? admitCreate(id, header, request, from: route) : .refuse(Self.unknown(id))
        }
        // To anybody but its owner a session is not there.
        guard entry.owner == route.client else { return .refuse(Self.unknown(id)) }
        entry.lastRequest = route.arrived
        guard header.epoch == entry.epoch else {
            return .refuse(
                header.epoch < entry.epoch
                    ? ServiceError(.staleEpoch, field: "epoch", "the session was resumed by somebody else")
                    : ServiceError(
                        .invalidArgument, field: "epoch",
                        "epoch \(header.epoch) was never given; the session's is \(entry.epoch)"))
        }
        return admit(header.seq, isCreate: isCreate, request, from: route, to: entry)
    }

    private func admit(
        _ seq: UInt64, isCreate: Bool, _ request: RequestFrames, from route: Route, to entry: Entry
    ) -> Verdict {
        if seq == entry.lastSeq, let last = entry.last {
            return last.request.isSame(as: request) ? .resend(last.reply) : .refuse(Self.conflict(seq))
        }
        if entry.isClosed { return .refuse(Self.unknown(entry.id)) }
        guard seq == entry.lastSeq + 1 else {
            return .refuse(
                ServiceError(
                    .outOfSequence, field: "seq", expectedSeq: entry.lastSeq + 1,
                    "seq \(seq) does not follow; the session expects \(entry.lastSeq + 1)"))
        }
        if let busy = entry.inProgress {
            guard busy.request.isSame(as: request) else { return .refuse(Self.conflict(seq)) }
            entry.inProgress = (busy.request, route)
            return .parked
        }
        guard !isCreate else {
            return .refuse(ServiceError(.conflict, field: "session", "this session id is taken"))
        }
        entry.inProgress = (request, route)
        return .execute(entry)
    }

    private mutating func admitCreate(
        _ id: SessionID, _ header: Request, _ request: RequestFrames, from route: Route
    ) -> Verdict {
        guard header.seq == 1 else {
            return .refuse(
                ServiceError(
                    .outOfSequence, field: "seq", expectedSeq: 1,
                    "create has seq \(header.seq); a session begins with seq 1"))
        }
        guard header.epoch == 1 else {
            return .refuse(
                ServiceError(
                    .invalidArgument, field: "epoch",
                    "create has epoch \(header.epoch); a session begins with epoch 1"))
        }
        var boards = Int(clamping: header.create.numEnvs)
        if let refusal = exceededLimit(boards: boards, of: route.client) { return .refuse(refusal) }
        // A create that goes beyond a session's limit will be refused by that.
        if boards > limits.maxBoardsPerSession { boards = 0 }
        let entry = Entry(id, owner: route.client, boards: boards, create: header.create)
        openBoards += boards
        sessionsOfClient[route.client, default: 0] += 1
        entry.inProgress = (request, route)
        entries[id] = entry
        return .execute(entry)
    }

    /// Takes a session up again that was written down; nil when what was written makes no sense.
    mutating func takeUp(
        _ saved: SavedSession, _ session: ServerSession, _ budget: MemoryBudget
    ) throws -> Entry? {
        var owner = Client.anonymous
        if !saved.clientKey.isEmpty {
            guard let key = CurvePublicKey(saved.clientKey) else { return nil }
            owner = .key(key)
        }
        guard let id = SessionID(saved.id), entries[id] == nil, saved.epoch > 0,
            (1..<UInt64.max).contains(saved.lastSeq), saved.requests < UInt64(Int.max)
        else { return nil }
        let entry = Entry(
            id, owner: owner, boards: session.environment.lanes, create: saved.create)
        entry.epoch = saved.epoch
        entry.holder = saved.holder.isEmpty ? nil : saved.holder
        entry.lastSeq = saved.lastSeq
        let request = try RequestFrames(saved.lastRequest)
        try request.reserve(in: budget)
        entry.last = (request, try ReplyFrames(saved.lastReply, session.pool))
        entry.requests = Int(saved.requests)
        entry.session = session
        entries[id] = entry
        openBoards += entry.boards
        sessionsOfClient[owner, default: 0] += 1
        return entry
    }

    // MARK: resume

    /// Hands a session over: raises its epoch, unless this holder has it already.
    func resume(_ header: Request, from route: Route) throws(ZeroMQError) -> Resumption {
        guard let id = SessionID(header.session) else { return .refuse(Self.noID(header)) }
        guard let entry = entries[id], entry.owner == route.client, !entry.isClosed else {
            return .refuse(Self.unknown(id))
        }
        let holder = header.resume.holder
        guard holder.count == 16 else {
            return .refuse(
                ServiceError(
                    .invalidArgument, field: "holder",
                    "holder has \(holder.count) bytes; it has to be 16 random ones"))
        }
        entry.lastRequest = route.arrived
        // At most one, the newest; the other asks again.
        if entry.isBusy {
            let replacesAnother = entry.successor != nil
            entry.successor = Successor(header: header, route: route)
            return .waits(inPlaceOfAnother: replacesAnother)
        }
        if entry.holder != holder {
            guard entry.epoch < .max else {
                return .refuse(
                    ServiceError(.resourceExhausted, field: "session", "resumed too often; no epoch is left"))
            }
            entry.holder = holder
            entry.epoch += 1
        }
        var reply = ResumeReply()
        reply.epoch = entry.epoch
        reply.lastSeq = entry.lastSeq
        reply.create = entry.create
        reply.created = entry.session!.environment.createReply
        reply.wasReset = entry.session!.environment.wasReset
        // An open session that is not busy has carried out its create, at least.
        return .answer(try entry.last!.reply.resumed(reply, seq: header.seq))
    }

    /// Who waits to resume a session whose request is done, if anybody does.
    func takeSuccessor(of entry: Entry) -> Successor? {
        defer { entry.successor = nil }
        return entry.successor
    }

    private func exceededLimit(boards: Int, of client: Client) -> ServiceError? {
        guard openCount < limits.maxSessions else {
            return ServiceError(
                .resourceExhausted, field: "session",
                "this server allows max_sessions = \(limits.maxSessions) at a time, and that many are open")
        }
        if client != .anonymous, sessionsOfClient[client, default: 0] >= limits.maxSessionsPerClient {
            return ServiceError(
                .resourceExhausted, field: "session",
                "this server allows max_sessions_per_client = \(limits.maxSessionsPerClient) at a time, and "
                    + "that many of this client's are open")
        }
        if boards <= limits.maxBoardsPerSession, boards > limits.maxBoards - openBoards {
            return ServiceError(
                .resourceExhausted, field: "num_envs",
                "num_envs is \(boards); this server allows max_boards = \(limits.maxBoards) in all sessions "
                    + "together, and \(openBoards) are in use")
        }
        return nil
    }

    /// The request in progress was carried out; returns where the reply goes.
    mutating func complete(_ entry: Entry, reply: ReplyFrames, change: Change) -> Route {
        let (request, route) = entry.inProgress!
        entry.inProgress = nil
        entry.lastSeq += 1
        entry.requests += 1
        entry.last = (request, reply)
        switch change {
        case .none: break
        case .created(let session): entry.session = session
        case .closed:
            entry.session = nil
            entry.create = CreateRequest()
            // A close has no payload.
            entry.last?.request = request.compactHeader
            giveBack(entry)
            bury(entry.id)
        }
        return route
    }

    /// Ends the sessions that nobody has asked anything of for so long, and that nothing is in progress
    /// for; these.
    mutating func endIdle(for time: Duration) -> [Entry] {
        let now = Moment.now
        let limit = Int(time / .nanoseconds(1))
        let idle = entries.values.filter {
            now - $0.lastRequest > limit && !$0.isBusy && !$0.isClosed
        }
        for entry in idle {
            entries[entry.id] = nil
            giveBack(entry)
        }
        return idle
    }

    private mutating func giveBack(_ entry: Entry) {
        openBoards -= entry.boards
        let others = sessionsOfClient[entry.owner, default: 1] - 1
        sessionsOfClient[entry.owner] = others == 0 ? nil : others
    }

    /// The request in progress was refused: nothing has happened; returns where the error goes.
    mutating func abandon(_ entry: Entry) -> Route {
        let route = entry.inProgress!.route
        entry.inProgress = nil
        if entry.lastSeq == 0 {
            entries[entry.id] = nil
            giveBack(entry)
        }
        return route
    }

    private mutating func bury(_ id: SessionID) {
        tombstones.append(id)
        guard tombstones.count - oldestTombstone > Self.maxTombstones else { return }
        entries[tombstones[oldestTombstone]] = nil
        oldestTombstone += 1
        if oldestTombstone > Self.maxTombstones {
            tombstones.removeFirst(oldestTombstone)
            oldestTombstone = 0
        }
    }

    private static func noID(_ header: Request) -> ServiceError {
        ServiceError(
            .invalidArgument, field: "session",
            "session has \(header.session.count) bytes; it has to be 16 random ones")
    }

    private static func unknown(_ id: SessionID) -> ServiceError {
        ServiceError(
            .notFound, field: "session",
            "no open session \(id) here; it was never created, is closed, "
                + "or was idle for too long")
    }

    private static func conflict(_ seq: UInt64) -> ServiceError {
        ServiceError(.conflict, field: "seq", "seq \(seq) was used already, for another request")
    }
}
