package import TwofoldCore
internal import FoundationEssentials
package import TwofoldProtocol
package import TwofoldService

extension SessionLedger {
    /// One session's line in the ledger: what it has done, and what it is doing.
    ///
    ///     creating ──created──► idle ──start──► busy ──closed──► closed
    ///         │                  ▲               │
    ///         └► (gone)          └──── done ─────┘
    ///        refused                or refused
    package final class Entry {
        package let id: SessionID
        /// The client whose session it is: to all others it is not there.
        package let owner: Client
        /// Boards that create asked for.
        package let boards: Int
        package let begin: Moment
        /// The moment of its last request or reply, whichever came later.
        package private(set) var idleSince: Moment
        /// Requests that were executed since its begin.
        package private(set) var requests = 0
        package private(set) var epoch: UInt32 = 1
        /// The environment's id and the session's memory, kept here for statistics: with thousands of sessions, a look at
        /// each host takes milliseconds. Empty until create has succeeded.
        package private(set) var environmentID = ""
        package private(set) var bytes = 0
        private var state: State
        /// Copies of more resumes than these are not on their way at a time.
        private static let maxFormerHolders = 64

        private enum State {
            /// Its create is admitted.
            case new
            /// Its create is in progress.
            case creating(Work)
            /// Nothing is in progress.
            case idle(Open)
            case busy(Open, Work)
            /// Only remembered, so that a repeated close gets its reply.
            indirect case closed(Done)
        }

        /// What an open session has.
        private final class Open {
            /// What its requests run on.
            let host: EnvironmentHost
            /// What it was created with.
            let create: CreateRequest
            /// Those that have resumed it, each as its 16 random bytes, the newest last. A copy of an older one's resume
            /// may still come, and must not shut out the newest.
            var holders: [Data]
            /// The last request that was executed.
            var last: Done

            init(_ host: EnvironmentHost, _ create: CreateRequest, holders: [Data] = [], last: Done) {
                self.host = host
                self.create = create
                self.holders = holders
                self.last = last
            }
        }

        /// A session whose create is admitted.
        init(_ id: SessionID, of owner: Client, boards: Int, at now: Moment) {
            self.id = id
            self.owner = owner
            self.boards = boards
            begin = now
            idleSince = now
            state = .new
        }

        // MARK: what it is

        package var isIdle: Bool {
            if case .idle = state { true } else { false }
        }

        /// Whether a request is in progress.
        package var isBusy: Bool { work != nil }

        /// The request in progress; nil without one.
        var work: Work? {
            switch state {
            case .creating(let work), .busy(_, let work): work
            case .new, .idle, .closed: nil
            }
        }

        package var isClosed: Bool {
            if case .closed = state { true } else { false }
        }

        /// What its requests run on; nil before create has succeeded and after close.
        package var host: EnvironmentHost? {
            switch state {
            case .idle(let open), .busy(let open, _): open.host
            case .new, .creating, .closed: nil
            }
        }

        /// The seq of the last request that was executed; 0 before that.
        package var lastSeq: UInt64 {
            switch state {
            case .new, .creating: 0
            case .idle(let open), .busy(let open, _): open.last.seq
            case .closed(let last): last.seq
            }
        }

        // MARK: what happens to it

        /// Decides about a request; throws to refuse it.
        func admit(
            _ seq: UInt64, epoch: UInt32, isCreate: Bool, _ header: Frame, _ payload: Frame?,
            from route: Route
        ) throws(ServiceError) -> Verdict {
            guard owner == route.client else { throw .unknown(id) }
            idleSince = route.arrived
            guard epoch == self.epoch else { throw .wrongEpoch(epoch, of: self.epoch) }
            switch state {
            case .new: preconditionFailure("a create begins at once")
            case .creating(let work):
                guard seq == 1 else { throw .outOfSequence(seq, expected: 1) }
                return try park(header, payload, from: route, for: work)
            case .idle(let open), .busy(let open, _):
                if seq == open.last.seq { return try open.last.repeated(header, payload) }
                guard seq == open.last.seq + 1 else {
                    throw .outOfSequence(seq, expected: open.last.seq + 1)
                }
                if case .busy(_, let work) = state {
                    return try park(header, payload, from: route, for: work)
                }
                guard !isCreate else { throw .idIsTaken }
                return .execute(self, open.host)
            case .closed(let last):
                guard seq == last.seq else { throw .unknown(id) }
                return try last.repeated(header, payload)
            }
        }

        /// Has a request of the same seq wait for the one in progress.
        private func park(
            _ header: Frame, _ payload: Frame?, from route: Route, for work: Work
        ) throws(ServiceError) -> Verdict {
            guard work.header.isSame(as: header), Frame.areSame(work.payload, payload) else {
                throw .conflict(work.seq)
            }
            work.reroute(to: route)
            return .parked
        }

        /// The request that was admitted is in progress.
        func start(_ work: Work) {
            switch state {
            case .new: state = .creating(work)
            case .idle(let open): state = .busy(open, work)
            case .creating, .busy, .closed: preconditionFailure("it was not admitted")
            }
        }

        /// The request in progress was executed.
        func complete(_ reply: StoredReply, at now: Moment) {
            requests += 1
            idleSince = now
            switch state {
            case .creating(let work):
                guard case .create(let create) = work.subject, let host = work.host else {
                    preconditionFailure("a create creates")
                }
                state = .idle(Open(host, create, last: work.done(reply)))
                (environmentID, bytes) = (host.environment.id, host.bytes)
            case .busy(_, let work) where work.kind == .close:
                state = .closed(work.done(reply).compact)
            case .busy(let open, let work):
                open.last = work.done(reply)
                state = .idle(open)
            case .new, .idle, .closed: preconditionFailure("no request was in progress")
            }
        }

        /// The request in progress was refused: nothing has happened. A session whose create was refused is of no use
        /// any more.
        func abandon(at now: Moment) {
            idleSince = now
            switch state {
            case .creating: state = .new
            case .busy(let open, _): state = .idle(open)
            case .new, .idle, .closed: preconditionFailure("no request was in progress")
            }
        }

        /// Hands the session over, now or when the request in progress is done.
        func resume(
            _ request: Request, from route: Route, at now: Moment
        ) throws(ServiceError) -> Resumption {
            guard owner == route.client, !isClosed else { throw .unknown(id) }
            let holder = request.resume.holder
            guard holder.count == 16 else { throw .badHolder(holder.count) }
            idleSince = now
            switch state {
            case .creating(let work), .busy(_, let work):
                return .waits(inPlaceOfAnother: work.wait(request, from: route))
            case .idle(let open): return try resume(open, by: holder, only: request.epoch)
            case .new, .closed: throw .unknown(id)
            }
        }

        /// `given` is the one epoch in which to hand it over; 0 for whichever it is.
        private func resume(
            _ open: Open, by holder: Data, only given: UInt32
        ) throws(ServiceError) -> Resumption {
            if open.holders.last != holder {
                guard given == 0 || given == epoch else { throw .wrongEpoch(given, of: epoch) }
                guard epoch < .max else { throw .noEpochLeft }
                guard !open.holders.contains(holder) else { throw .shutOut }
                open.holders = open.holders.suffix(Self.maxFormerHolders) + [holder]
                epoch += 1
            }
            var reply = ResumeReply()
            reply.epoch = epoch
            reply.lastSeq = open.last.seq
            reply.create = open.create
            reply.created = open.host.environment.createReply
            reply.wasReset = open.host.environment.wasReset
            return .answer(reply, last: open.last.reply)
        }

        /// Starts its idle time later, because the server did nothing for so long until `now`.
        func excuse(_ pause: Duration, until now: Moment) { idleSince = min(idleSince + pause, now) }

        // MARK: between two runs of a server

        /// The most requests, and the last seq, that a session to be restored may have: far from where a count would
        /// overflow, and farther than any session gets.
        private static let maxSavedCount: UInt64 = 1 << 62

        /// Returns what is to be saved; nil while a request is in progress.
        package func saved() throws(ServiceError) -> SavedSession? {
            guard case .idle(let open) = state else { return nil }
            var saved = SavedSession()
            saved.id = id.bytes
            if case .key(let key) = owner { saved.clientKey = key }
            saved.epoch = epoch
            saved.holders = open.holders
            saved.lastSeq = open.last.seq
            saved.requests = UInt64(requests)
            saved.create = open.create
            saved.lastRequest = open.last.request
            saved.lastReply = open.last.reply.saved
            try open.host.environment.save(into: &saved)
            return saved
        }

        /// A session that was saved, idle; nil when what was saved makes no sense.
        init?(
            _ saved: SavedSession, _ host: EnvironmentHost, last: Done, at now: Moment
        ) {
            guard let id = SessionID(saved.id), saved.epoch > 0, saved.requests <= Self.maxSavedCount,
                (1...Self.maxSavedCount).contains(saved.lastSeq)
            else { return nil }
            self.id = id
            owner = saved.clientKey.isEmpty ? .anonymous : .key(saved.clientKey)
            boards = host.environment.lanes
            (environmentID, bytes) = (host.environment.id, host.bytes)
            begin = now
            idleSince = now
            requests = Int(saved.requests)
            epoch = saved.epoch
            state = .idle(
                Open(
                    host, saved.create, holders: saved.holders.suffix(Self.maxFormerHolders + 1), last: last))
        }
    }

    /// A request that was executed, and its reply: kept until the session's next request, to recognise repeats.
    struct Done {
        let seq: UInt64
        private let header: Frame
        private let payload: Frame?
        private let reservation: MemoryBudget.Reservation?
        let reply: StoredReply

        init(
            seq: UInt64, header: Frame, payload: Frame?, _ reservation: MemoryBudget.Reservation?,
            reply: StoredReply
        ) {
            self.seq = seq
            self.header = header
            self.payload = payload
            self.reservation = reservation
            self.reply = reply
        }

        /// Decides about a request of the same seq; throws to refuse it.
        func repeated(_ header: Frame, _ payload: Frame?) throws(ServiceError) -> Verdict {
            guard self.header.isSame(as: header), Frame.areSame(self.payload, payload) else {
                throw .conflict(seq)
            }
            return .resend(reply)
        }

        /// The same without the payload, which a close does not have, for a session that is only remembered: what libzmq
        /// received lies in a buffer of 8 KiB that a frame keeps alive as a whole.
        var compact: Done {
            Done(
                seq: seq, header: header.withBytes { Frame(copying: $0) }, payload: nil, nil, reply: reply)
        }

        /// The request's frames, to be saved.
        var request: SavedFrames {
            var saved = SavedFrames()
            saved.header = header.withBytes { Data($0) }
            if let payload { saved.payload = payload.withBytes { Data($0) } }
            return saved
        }

        /// The last request of a session that was saved; the reply's payload is copied to `pool`.
        init(_ saved: SavedSession, _ pool: PayloadPool, _ budget: MemoryBudget) throws {
            seq = saved.lastSeq
            let request = saved.lastRequest
            reservation = try budget.reserve(keeping: request.header.count + request.payload.count)
            header = try Frame(keeping: request.header)
            payload = request.hasPayload ? try Frame(keeping: request.payload) : nil
            reply = try StoredReply(saved.lastReply, pool)
        }
    }
}
