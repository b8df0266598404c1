internal import FoundationEssentials
package import TwofoldProtocol
package import TwofoldService

/// A request as the ledger keeps it, to recognise repeats.
package protocol KeptRequest {
    /// Whether the other request is this one again, byte for byte.
    func isSame(as other: Self) -> Bool
    /// The same without a payload, in as little memory as it takes: for a closed session that is only remembered.
    var compact: Self { get }
}

/// Where a reply goes.
package protocol ReplyRoute {
    /// Who asked.
    var client: Client { get }
}

/// Who is where in their session: decides for each request whether it is carried out, answered from
/// memory, parked, or refused. It has no clock, and knows nothing of how requests come and replies go: a carrier
/// brings the types of what it keeps. One thread at a time.
///
///     seq == last       same bytes: the stored reply again       other bytes: CONFLICT
///     seq == last + 1   carry it out                             in progress, same bytes: park
///     anything else     OUT_OF_SEQUENCE, with the expected seq
///
/// So a client may repeat a request as often as it likes, over any connection, and it is applied once.
/// A refused request leaves no trace. Repeats are recognised by comparing all their bytes with the
/// request that is kept: unlike a digest that can't be wrong, and it costs nothing while there are no repeats.
package struct SessionLedger<KeptRequest: TwofoldSessions.KeptRequest, KeptReply, Route: ReplyRoute> {
    /// One session's line in the ledger.
    package final class Entry {
        package let id: SessionID
        /// Whose session it is.
        package let owner: Client
        /// Boards that create asked for.
        package let boards: Int
        package let begin: Moment
        /// When a request for it came last.
        package fileprivate(set) var lastRequest: Moment
        /// Requests that were carried out since its begin.
        package fileprivate(set) var requests = 0
        /// What it was created with.
        fileprivate var create: CreateRequest
        package fileprivate(set) var epoch: UInt32 = 1
        /// Who resumed it last; nil before anybody has.
        fileprivate var holder: Data?
        /// Who resumes it as soon as the request in progress is done.
        fileprivate var successor: Successor?
        /// The last request that was carried out; 0 while create is.
        package fileprivate(set) var lastSeq: UInt64 = 0
        /// That request and its reply. An open session that is not busy has carried out its create, at least.
        package fileprivate(set) var last: (request: KeptRequest, reply: KeptReply)?
        fileprivate var inProgress: (request: KeptRequest, route: Route)?
        /// What the session's requests run on; nil before create has succeeded and after close.
        package fileprivate(set) var session: EnvironmentHost?

        fileprivate init(_ id: SessionID, owner: Client, boards: Int, create: CreateRequest, at now: Moment) {
            self.id = id
            self.owner = owner
            self.boards = boards
            self.create = create
            begin = now
            lastRequest = now
        }

        /// Whether a request is being carried out.
        package var isBusy: Bool { inProgress != nil }

        fileprivate var isClosed: Bool { lastSeq > 0 && session == nil }

        /// The entry between two requests, to be written down; apart from what the session itself and the carrier
        /// have.
        package var saved: SavedSession {
            var saved = SavedSession()
            saved.id = id.bytes
            if case .key(let key) = owner { saved.clientKey = key }
            saved.epoch = epoch
            if let holder { saved.holder = holder }
            saved.lastSeq = lastSeq
            saved.requests = UInt64(requests)
            saved.create = create
            return saved
        }
    }

    /// What to do with a request.
    package enum Verdict {
        /// Carry it out, then tell ``complete(_:reply:change:)`` or ``abandon(_:)``.
        case execute(Entry)
        /// Send this again.
        case resend(KeptReply)
        /// Nothing now: it is being carried out, and the reply will go to this newest route.
        case parked
        case refuse(ServiceError)
    }

    /// What to do with a resume.
    package enum Resumption {
        /// Answer this, with the session's last reply inside.
        case answer(ResumeReply, last: KeptReply)
        /// Nothing now: a request is being carried out, and ``takeSuccessor(of:)`` tells when it is done.
        /// An earlier resume that waited gets no reply.
        case waits(inPlaceOfAnother: Bool)
        case refuse(ServiceError)
    }

    /// A resume that waits.
    package struct Successor {
        package let header: Request
        package let route: Route
    }

    /// What a request that was carried out made of its session.
    package enum Change {
        case none
        case created(EnvironmentHost)
        case closed
    }

    /// Closed sessions that are remembered, so that a repeated close gets its reply.
    package static var maxTombstones: Int { 10_000 }

    /// The most requests, and the last seq, that a session to be restored may have: far from where a count would
    /// overflow, and farther than any session gets.
    package static var maxSavedCount: UInt64 { 1 << 62 }

    private let limits: Limits
    /// Boards of all sessions that are open, those being created included.
    package private(set) var openBoards = 0
    private var sessionsOfClient: [Client: Int] = [:]
    private var entries: [SessionID: Entry] = [:]
    private var tombstones: [SessionID] = []
    private var oldestTombstone = 0

    package init(_ limits: Limits) { self.limits = limits }

    /// Sessions that are open, those being created included.
    package var openCount: Int { entries.count - (tombstones.count - oldestTombstone) }

    /// Sessions that are open, in no order.
    package var openEntries: [Entry] { entries.values.filter { !$0.isClosed } }

    /// Decides about a request that names a session; an entry to execute is busy from now on.
    package mutating func admit(
        _ header: Request, _ request: KeptRequest, from route: Route, at now: Moment
    ) -> Verdict {
        guard let id = SessionID(header.session) else { return .refuse(Self.noID(header)) }
        guard case .create(let create) = header.op else {
            return admit(id, epoch: header.epoch, seq: header.seq, request, from: route, at: now)
        }
        guard let entry = entries[id] else {
            return admitCreate(id, header, create, request, from: route, at: now)
        }
        return admit(
            header.seq, epoch: header.epoch, isCreate: true, request, from: route, to: entry, at: now)
    }

    /// The same of a request that is no create.
    package func admit(
        _ id: SessionID, epoch: UInt32, seq: UInt64, _ request: KeptRequest, from route: Route, at now: Moment
    ) -> Verdict {
        guard let entry = entries[id] else { return .refuse(Self.unknown(id)) }
        return admit(seq, epoch: epoch, isCreate: false, request, from: route, to: entry, at: now)
    }

    private func admit(
        _ seq: UInt64, epoch: UInt32, isCreate: Bool, _ request: KeptRequest, from route: Route,
        to entry: Entry, at now: Moment
    ) -> Verdict {
        // To anybody but its owner a session is not there.
        guard entry.owner == route.client else { return .refuse(Self.unknown(entry.id)) }
        entry.lastRequest = now
        guard epoch == entry.epoch else {
            return .refuse(
                epoch < entry.epoch
                    ? ServiceError(.staleEpoch, field: "epoch", "the session was resumed by somebody else")
                    : ServiceError(
                        .invalidArgument, field: "epoch",
                        "epoch \(epoch) was never given; the session's is \(entry.epoch)"))
        }
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
        _ id: SessionID, _ header: Request, _ create: CreateRequest, _ request: KeptRequest,
        from route: Route, at now: Moment
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
        var boards = Int(clamping: create.numEnvs)
        if let refusal = exceededLimit(boards: boards, of: route.client) { return .refuse(refusal) }
        // A create that goes beyond a session's limit will be refused by that.
        if boards > limits.maxBoardsPerSession { boards = 0 }
        let entry = Entry(id, owner: route.client, boards: boards, create: create, at: now)
        openBoards += boards
        sessionsOfClient[route.client, default: 0] += 1
        entry.inProgress = (request, route)
        entries[id] = entry
        return .execute(entry)
    }

    /// Takes a session up again that was written down; nil when what was written makes no sense.
    package mutating func restore(
        _ saved: SavedSession, _ session: EnvironmentHost, last: (request: KeptRequest, reply: KeptReply),
        at now: Moment
    ) -> Entry? {
        guard let id = SessionID(saved.id), entries[id] == nil, saved.epoch > 0,
            (1...Self.maxSavedCount).contains(saved.lastSeq), saved.requests <= Self.maxSavedCount
        else { return nil }
        let owner = saved.clientKey.isEmpty ? Client.anonymous : .key(saved.clientKey)
        let entry = Entry(
            id, owner: owner, boards: session.environment.lanes, create: saved.create, at: now)
        entry.epoch = saved.epoch
        entry.holder = saved.holder.isEmpty ? nil : saved.holder
        entry.lastSeq = saved.lastSeq
        entry.last = last
        entry.requests = Int(saved.requests)
        entry.session = session
        entries[id] = entry
        openBoards += entry.boards
        sessionsOfClient[owner, default: 0] += 1
        return entry
    }

    // MARK: resume

    /// Hands a session over: raises its epoch, unless this holder has it already.
    package func resume(_ header: Request, from route: Route, at now: Moment) -> Resumption {
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
        entry.lastRequest = now
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
        return .answer(reply, last: entry.last!.reply)
    }

    /// Who waits to resume a session whose request is done, if anybody does.
    package func takeSuccessor(of entry: Entry) -> Successor? {
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
    @discardableResult
    package mutating func complete(_ entry: Entry, reply: KeptReply, change: Change) -> Route {
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
            entry.last?.request = request.compact
            giveBack(entry)
            bury(entry.id)
        }
        return route
    }

    /// Ends the sessions that nobody has asked anything of for so long, and that nothing is in progress
    /// for; these.
    package mutating func endIdle(for time: Duration, at now: Moment) -> [Entry] {
        let idle = entries.values.filter {
            now - $0.lastRequest > time && !$0.isBusy && !$0.isClosed
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
    @discardableResult
    package mutating func abandon(_ entry: Entry) -> Route {
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
