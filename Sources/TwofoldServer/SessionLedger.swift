internal import TwofoldProtocol
internal import TwofoldService

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
        fileprivate(set) var epoch: UInt32 = 1
        /// The last request that was carried out; 0 while create is.
        fileprivate(set) var lastSeq: UInt64 = 0
        fileprivate var last: (request: RequestFrames, reply: ReplyFrames)?
        fileprivate var inProgress: (request: RequestFrames, route: Route)?
        /// What the session's requests run on; nil before create has succeeded and after close.
        fileprivate(set) var session: ServerSession?

        fileprivate init(_ id: SessionID) { self.id = id }

        fileprivate var isClosed: Bool { lastSeq > 0 && session == nil }
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

    /// What a request that was carried out made of its session.
    enum Change {
        case none
        case created(ServerSession)
        case closed
    }

    /// Closed sessions that are remembered, so that a repeated close gets its reply.
    static let maxTombstones = 10_000

    private let maxSessions: Int
    private var entries: [SessionID: Entry] = [:]
    private var tombstones: [SessionID] = []
    private var oldestTombstone = 0

    init(maxSessions: Int) { self.maxSessions = maxSessions }

    /// Sessions that are open, those being created included.
    var openCount: Int { entries.count - (tombstones.count - oldestTombstone) }

    /// Decides about a request that names a session; an entry to execute is busy from now on.
    mutating func admit(_ header: Request, _ request: RequestFrames, from route: Route) -> Verdict {
        guard let id = SessionID(header.session) else {
            return .refuse(
                ServiceError(
                    .invalidArgument, field: "session",
                    "session has \(header.session.count) bytes; it has to be 16 random ones"))
        }
        var isCreate = false
        if case .create = header.op { isCreate = true }
        guard let entry = entries[id] else {
            return isCreate ? admitCreate(id, header, request, from: route) : .refuse(Self.unknown(id))
        }
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
            return last.request.hasSameBytes(as: request) ? .resend(last.reply) : .refuse(Self.conflict(seq))
        }
        if entry.isClosed { return .refuse(Self.unknown(entry.id)) }
        guard seq == entry.lastSeq + 1 else {
            return .refuse(
                ServiceError(
                    .outOfSequence, field: "seq", expectedSeq: entry.lastSeq + 1,
                    "seq \(seq) does not follow; the session expects \(entry.lastSeq + 1)"))
        }
        if let busy = entry.inProgress {
            guard busy.request.hasSameBytes(as: request) else { return .refuse(Self.conflict(seq)) }
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
        guard openCount < maxSessions else {
            return .refuse(
                ServiceError(
                    .resourceExhausted, field: "session",
                    "this server allows \(maxSessions) sessions at a time, and that many are open"))
        }
        let entry = Entry(id)
        entry.inProgress = (request, route)
        entries[id] = entry
        return .execute(entry)
    }

    /// The request in progress was carried out; returns where the reply goes.
    mutating func complete(_ entry: Entry, reply: ReplyFrames, change: Change) -> Route {
        let (request, route) = entry.inProgress!
        entry.inProgress = nil
        entry.lastSeq += 1
        entry.last = (request, reply)
        switch change {
        case .none: break
        case .created(let session): entry.session = session
        case .closed:
            entry.session = nil
            // A close has no payload.
            entry.last?.request = request.compactHeader
            bury(entry.id)
        }
        return route
    }

    /// The request in progress was refused: nothing has happened; returns where the error goes.
    mutating func abandon(_ entry: Entry) -> Route {
        let route = entry.inProgress!.route
        entry.inProgress = nil
        if entry.lastSeq == 0 { entries[entry.id] = nil }
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

    private static func unknown(_ id: SessionID) -> ServiceError {
        ServiceError(
            .notFound, field: "session", "no open session \(id) here; it was never created, or is closed")
    }

    private static func conflict(_ seq: UInt64) -> ServiceError {
        ServiceError(.conflict, field: "seq", "seq \(seq) was used already, for another request")
    }
}
