package import TwofoldCore
package import TwofoldProtocol
package import TwofoldService

/// A request as the ledger keeps it, to recognise repeats.
package protocol KeptRequest: AnyObject {
    /// Whether the other request is this one again, byte for byte.
    func isSame(as other: Self) -> Bool
    /// The same without a payload, in as little memory as it takes: for a closed session that is only remembered.
    var compact: Self { get }
}

/// Where a reply goes.
package protocol ReplyRoute: AnyObject {
    /// The client that asked.
    var client: Client { get }
}

/// All sessions, and how far each has come: decides for each request whether it is carried out, answered from
/// memory, parked, or refused.
///
/// In this module a *session* is a client's numbered sequence of requests, from its create to its close; an ``Entry`` is
/// its line here, an ``EnvironmentHost`` is what its requests run on. The ledger has no clock, and knows nothing of how
/// requests come and replies go: a carrier brings the types of what it keeps. One thread at a time.
///
///     seq == last       same bytes: the stored reply again       other bytes: CONFLICT
///     seq == last + 1   carry it out                             in progress, same bytes: park
///     anything else     OUT_OF_SEQUENCE, with the expected seq
///
/// So a client may repeat a request as often as it likes, over any connection, and it is applied once.
/// A refused request leaves no trace. Repeats are recognised by comparing all their bytes with the
/// request that is kept: unlike a digest that can't be wrong, and it costs nothing while there are no repeats.
///
/// Requests and routes are objects, so that an entry's state has one layout for all carriers: generic code of another
/// module is not specialised, and would look the layout up for each request.
package struct SessionLedger<
    KeptRequest: TwofoldSessions.KeptRequest, KeptReply, Route: ReplyRoute
> {
    /// What to do with a request.
    package enum Verdict {
        /// Make the session's environment, then call ``complete(_:reply:change:at:)`` or ``abandon(_:at:)``.
        case create(Entry, CreateRequest)
        /// Carry it out there, then call ``complete(_:reply:change:at:)`` or ``abandon(_:at:)``.
        case execute(Entry, EnvironmentHost)
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
        /// Nothing now: a request is being carried out, and the resume comes with its ``Delivery``.
        /// An earlier resume that waited gets no reply.
        case waits(inPlaceOfAnother: Bool)
        case refuse(ServiceError)
    }

    /// A resume that waits.
    package struct WaitingResume {
        package let header: Request
        package let route: Route
    }

    /// What to do once a request is no longer in progress: first send its reply there, then resume the session for the
    /// client that waits for that.
    package struct Delivery {
        package let route: Route
        package let resume: WaitingResume?
    }

    private var entries: [SessionID: Entry] = [:]
    private var usage: LedgerUsage
    private var tombstones = Tombstones()

    package init(_ limits: Limits) { usage = LedgerUsage(limits) }

    /// Sessions that are open, those being created included.
    package var openCount: Int { usage.sessions }

    /// Boards of all sessions that are open, those being created included.
    package var openBoards: Int { usage.boards }

    /// Sessions that are open, those being created included, in no order.
    package var openEntries: some Sequence<Entry> { entries.values.lazy.filter { !$0.isClosed } }

    /// The boards of an open session, or of one that is being created; nil without one.
    package func boards(of id: SessionID) -> Int? { entries[id].flatMap { $0.isClosed ? nil : $0.boards } }

    // MARK: requests

    /// Decides about a request that names a session; an entry to execute is busy from now on.
    package mutating func admit(
        _ header: Request, _ request: KeptRequest, from route: Route, at now: Moment
    ) -> Verdict {
        guard let id = SessionID(header.session) else { return .refuse(.badID(header)) }
        guard case .create(let create) = header.op else {
            return admit(id, epoch: header.epoch, seq: header.seq, request, from: route, at: now)
        }
        guard let entry = entries[id] else {
            return admitCreate(id, header, create, request, from: route, at: now)
        }
        return entry.admit(
            header.seq, epoch: header.epoch, isCreate: true, request, from: route, at: now)
    }

    /// The same for a request other than create.
    package func admit(
        _ id: SessionID, epoch: UInt32, seq: UInt64, _ request: KeptRequest, from route: Route, at now: Moment
    ) -> Verdict {
        guard let entry = entries[id] else { return .refuse(.unknown(id)) }
        return entry.admit(seq, epoch: epoch, isCreate: false, request, from: route, at: now)
    }

    private mutating func admitCreate(
        _ id: SessionID, _ header: Request, _ create: CreateRequest, _ request: KeptRequest,
        from route: Route, at now: Moment
    ) -> Verdict {
        if let refusal = ServiceError.badBegin(header) { return .refuse(refusal) }
        let asked = Int(clamping: create.numEnvs)
        if let refusal = usage.refusal(boards: asked, of: route.client) { return .refuse(refusal) }
        // A create that goes beyond a session's limit will be refused by that.
        let boards = asked > usage.limits.maxBoardsPerSession ? 0 : asked
        let entry = Entry(id, create, boards: boards, request, from: route, at: now)
        entries[id] = entry
        usage.add(boards: boards, of: route.client)
        return .create(entry, create)
    }

    /// Hands a session over: raises its epoch, unless this holder has it already.
    package func resume(_ header: Request, from route: Route, at now: Moment) -> Resumption {
        guard let id = SessionID(header.session) else { return .refuse(.badID(header)) }
        guard let entry = entries[id] else { return .refuse(.unknown(id)) }
        return entry.resume(header, from: route, at: now)
    }

    // MARK: outcomes

    /// The request in progress was carried out.
    @discardableResult
    package mutating func complete(
        _ entry: Entry, reply: KeptReply, change: SessionChange, at now: Moment
    ) -> Delivery {
        let delivery = entry.complete(reply: reply, change: change, at: now)
        if case .closed = change {
            usage.remove(boards: entry.boards, of: entry.owner)
            if let forgotten = tombstones.add(entry.id) { entries[forgotten] = nil }
        }
        return delivery
    }

    /// The request in progress was refused: nothing has happened.
    @discardableResult
    package mutating func abandon(_ entry: Entry, at now: Moment) -> Delivery {
        if entry.lastSeq == 0 { remove(entry) }
        return entry.abandon(at: now)
    }

    /// Ends the sessions that have been idle since before this moment; returns them.
    package mutating func endIdle(since moment: Moment) -> [Entry] {
        let idle = entries.values.filter { $0.isIdle && $0.idleSince < moment }
        for entry in idle { remove(entry) }
        return idle
    }

    /// Does not count a pause of the server, which ended at `now`, as idle time of its sessions.
    package func excuse(_ pause: Duration, until now: Moment) {
        for entry in entries.values { entry.excuse(pause, until: now) }
    }

    private mutating func remove(_ entry: Entry) {
        entries[entry.id] = nil
        usage.remove(boards: entry.boards, of: entry.owner)
    }

    /// Restores a session that was saved; nil when what was saved makes no sense.
    package mutating func restore(
        _ saved: SavedSession, _ host: EnvironmentHost, last: (request: KeptRequest, reply: KeptReply),
        at now: Moment
    ) -> Entry? {
        guard let entry = Entry(saved, host, last: last, at: now), entries[entry.id] == nil else {
            return nil
        }
        entries[entry.id] = entry
        usage.add(boards: entry.boards, of: entry.owner)
        return entry
    }
}
