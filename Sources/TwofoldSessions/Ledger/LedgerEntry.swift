package import TwofoldCore
internal import FoundationEssentials
package import TwofoldProtocol
package import TwofoldService

extension SessionLedger {
    /// A session's entry in the ledger: the last executed request and the request in progress.
    ///
    ///     creating ──created──► idle ──start──► busy ──closed──► closed
    ///         │                  ▲               │
    ///         └► (gone)          └──── done ─────┘
    ///        refused                or refused
    package final class Entry {
        package let id: SessionID
        /// The key of the client that created the session; nil for a client without a key. For all other clients, the
        /// session does not exist.
        package let owner: String?
        /// The number of boards in the create request.
        package let boards: Int
        package let begin: Moment
        /// The time of the session's last request or reply, whichever is later.
        package private(set) var idleSince: Moment
        /// The number of requests executed since creation.
        package private(set) var requests = 0
        package private(set) var epoch: UInt32 = 1
        /// The environment's id; empty until the create request has succeeded. `bytes`, the session's memory, is 0
        /// until then. Both values are stored here for the statistics, because reading them from thousands of
        /// environments would take milliseconds.
        package private(set) var environmentID = ""
        package private(set) var bytes = 0
        /// The holders that have resumed the session, newest last; empty after the close, because the ledger keeps many
        /// closed sessions. A holder is identified by 16 random bytes. They are remembered so that a delayed copy of an
        /// earlier holder's resume request does not lock out the newest holder.
        private var holders: [Data] = []
        /// The maximum number of earlier holders to remember. In practice, a network never holds back delayed copies of
        /// more than this many resume requests.
        private static let maxFormerHolders = 64
        /// The last executed request and its reply; nil before the create request has been executed.
        private var last: Done?
        private var state: State

        private enum State {
            /// The create request has been admitted but not started.
            case new
            /// The create request is in progress.
            case creating(Work)
            /// The session is open, and no request is in progress.
            case idle(ServedEnvironment)
            case busy(ServedEnvironment, Work)
            /// The session is closed. It is remembered only so that a repeated close gets its reply.
            case closed
        }

        /// Creates the entry of a new session whose create request has been admitted.
        init(_ id: SessionID, of owner: String?, boards: Int, at now: Moment) {
            self.id = id
            self.owner = owner
            self.boards = boards
            begin = now
            idleSince = now
            state = .new
        }

        /// The maximum size of the header of a close request, in bytes. The ledger keeps the headers of many closed
        /// sessions, and no limit counts them.
        static let maxCloseBytes = 4096

        // MARK: its state

        package var isIdle: Bool {
            if case .idle = state { true } else { false }
        }

        /// Whether a request is in progress.
        package var isBusy: Bool { work != nil }

        /// The request in progress, if any.
        var work: Work? {
            switch state {
            case .creating(let work), .busy(_, let work): work
            case .new, .idle, .closed: nil
            }
        }

        package var isClosed: Bool {
            if case .closed = state { true } else { false }
        }

        /// The environment that executes the session's requests; nil until the create request has succeeded, and after
        /// the close.
        package var environment: ServedEnvironment? {
            switch state {
            case .idle(let environment), .busy(let environment, _): environment
            case .new, .creating, .closed: nil
            }
        }

        /// The seq of the last executed request; 0 before the first one.
        package var lastSeq: UInt64 { last?.seq ?? 0 }

        /// Returns the subject of a request's work: the new environment, or the operation and the environment that
        /// executes it.
        func subject(of op: Request.OneOf_Op) -> Work.Subject {
            if let environment { return .request(op, environment) }
            guard case .create(let create) = op else {
                preconditionFailure("an entry without an environment is new")
            }
            return .create(create)
        }

        // MARK: events

        /// Decides what to do with a request. Throws an error to refuse it.
        func admit(
            _ seq: UInt64, epoch: UInt32, _ op: Request.OneOf_Op, _ header: Frame, _ payload: Frame?,
            from route: Route
        ) throws(ServiceError) -> Verdict {
            guard owner == route.client else { throw .unknown(id) }
            idleSince = route.arrived
            guard epoch == self.epoch else { throw .wrongEpoch(epoch, of: self.epoch) }
            if let last, seq == last.seq { return try last.repeated(header, payload) }
            guard !isClosed else { throw .unknown(id) }
            guard seq == lastSeq + 1 else { throw .outOfSequence(seq, expected: lastSeq + 1) }
            switch state {
            case .creating(let work), .busy(_, let work):
                return try park(header, payload, from: route, for: work)
            case .idle:
                if case .create = op { throw .idIsTaken }
                if case .close = op, header.count > Self.maxCloseBytes { throw .longClose(header.count) }
                return .execute(self)
            case .new, .closed: preconditionFailure("no request can arrive in this state")
            }
        }

        /// Parks a repeat of the request in progress, so that the reply goes to `route`. Throws if the repeat has
        /// different bytes.
        private func park(
            _ header: Frame, _ payload: Frame?, from route: Route, for work: Work
        ) throws(ServiceError) -> Verdict {
            guard work.header == header, work.payload == payload else { throw .conflict(work.seq) }
            work.reroute(to: route)
            return .parked
        }

        /// Records that the admitted request is now in progress.
        func start(_ work: Work) {
            switch state {
            case .new: state = .creating(work)
            case .idle(let environment): state = .busy(environment, work)
            case .creating, .busy, .closed: preconditionFailure("the request was not admitted")
            }
        }

        /// Records that the request in progress has been executed.
        func complete(_ reply: StoredReply, at now: Moment) {
            requests += 1
            idleSince = now
            switch state {
            case .creating(let work):
                guard let environment = work.environment else {
                    preconditionFailure("an executed create request must have created an environment")
                }
                last = work.done(reply)
                state = .idle(environment)
                (environmentID, bytes) = (environment.id, environment.bytes)
            case .busy(_, let work) where work.kind == .close:
                last = work.done(reply).compact
                holders = []
                state = .closed
            case .busy(let environment, let work):
                last = work.done(reply)
                state = .idle(environment)
            case .new, .idle, .closed: preconditionFailure("no request was in progress")
            }
        }

        /// Records that the request in progress was refused and has changed nothing. After a refused create, the
        /// ledger removes the entry.
        func abandon(at now: Moment) {
            idleSince = now
            switch state {
            case .creating: state = .new
            case .busy(let environment, _): state = .idle(environment)
            case .new, .idle, .closed: preconditionFailure("no request was in progress")
            }
        }

        /// Transfers the session to a new holder, immediately or after the request in progress.
        func resume(
            _ request: Request, from route: Route, at now: Moment
        ) throws(ServiceError) -> Verdict {
            guard owner == route.client, !isClosed else { throw .unknown(id) }
            let holder = request.resume.holder
            guard holder.count == 16 else { throw .badHolder(holder.count) }
            idleSince = now
            switch state {
            case .creating(let work), .busy(_, let work):
                return work.wait(request, from: route) ? .parked : .waits
            case .idle(let environment): return .resumed(try transfer(request, environment))
            case .new, .closed: throw .unknown(id)
            }
        }

        /// Transfers the idle session to the sender of a resume request, and returns the answer. The epoch in the
        /// request is the epoch that the sender expects; 0 means any epoch.
        private func transfer(
            _ request: Request, _ environment: ServedEnvironment
        ) throws(ServiceError) -> StoredReply {
            guard let last else { preconditionFailure("an idle session has executed its create request") }
            let (holder, given) = (request.resume.holder, request.epoch)
            if holders.last != holder {
                guard given == 0 || given == epoch else { throw .wrongEpoch(given, of: epoch) }
                guard epoch < .max else { throw .noEpochLeft }
                guard !holders.contains(holder) else { throw .shutOut }
                holders = holders.suffix(Self.maxFormerHolders) + [holder]
                epoch += 1
            }
            var reply = ResumeReply()
            reply.epoch = epoch
            reply.lastSeq = last.seq
            reply.create = environment.create
            reply.created = environment.createReply
            reply.wasReset = environment.wasReset
            return last.reply.resumed(reply, seq: request.seq)
        }

        /// Subtracts a server pause from the session's idle time. The pause ended at `now`.
        func excuse(_ pause: Duration, until now: Moment) { idleSince = min(idleSince + pause, now) }

        // MARK: between two runs of a server

        /// The maximum seq, number of requests, and idle time and age in nanoseconds of a saved session. No real session
        /// reaches this maximum. It prevents counters from overflowing.
        private static let maxSavedCount: UInt64 = 1 << 62

        /// The approximate size of the saved session in bytes; 0 while a request is in progress.
        package var savedBytes: Int {
            guard case .idle(let environment) = state, let last else { return 0 }
            return last.bytes + environment.savedBytes
        }

        /// Returns the session as a protobuf message for saving; nil while a request is in progress.
        package func saved(at now: Moment) throws(EnvironmentError) -> SavedSession? {
            guard case .idle(let environment) = state, let last else { return nil }
            var saved = SavedSession()
            saved.id = id.bytes
            if let owner { saved.clientKey = owner }
            saved.epoch = epoch
            saved.holders = holders
            saved.lastSeq = last.seq
            saved.requests = UInt64(requests)
            saved.idleNanoseconds = UInt64(max(0, now.nanoseconds - idleSince.nanoseconds))
            saved.ageNanoseconds = UInt64(max(0, now.nanoseconds - begin.nanoseconds))
            saved.create = environment.create
            saved.lastRequest = SavedFrames(last.header.withBytes { Data($0) }, last.payload)
            saved.lastReply = SavedFrames(Data(last.reply.header), last.reply.payload)
            try environment.save(into: &saved)
            return saved
        }

        /// Creates an idle entry from a saved session. Returns nil if the saved session is inconsistent.
        init?(
            _ saved: SavedSession, _ environment: ServedEnvironment, last: Done, at now: Moment
        ) {
            guard let id = SessionID(saved.id), saved.epoch > 0, saved.requests <= Self.maxSavedCount,
                (1...Self.maxSavedCount).contains(saved.lastSeq), saved.idleNanoseconds <= Self.maxSavedCount,
                saved.ageNanoseconds <= Self.maxSavedCount
            else { return nil }
            self.id = id
            owner = saved.clientKey.isEmpty ? nil : saved.clientKey
            boards = environment.lanes
            (environmentID, bytes) = (environment.id, environment.bytes)
            // An earlier server may have saved no age.
            let age = max(saved.ageNanoseconds, saved.idleNanoseconds)
            begin = Moment(nanoseconds: now.nanoseconds - Int(age))
            idleSince = Moment(nanoseconds: now.nanoseconds - Int(saved.idleNanoseconds))
            requests = Int(saved.requests)
            epoch = saved.epoch
            holders = saved.holders.suffix(Self.maxFormerHolders + 1)
            self.last = last
            state = .idle(environment)
        }
    }

    /// An executed request and its reply. The ledger keeps them until the session's next request, so that it can
    /// recognise repeats.
    struct Done {
        let seq: UInt64
        let header: Frame
        let payload: Frame?
        let reservation: MemoryBudget.Reservation?
        let reply: StoredReply

        /// Decides what to do with another request that has the same seq. Throws an error to refuse it.
        func repeated(_ header: Frame, _ payload: Frame?) throws(ServiceError) -> Verdict {
            guard self.header == header, self.payload == payload else { throw .conflict(seq) }
            return .resend(reply)
        }

        /// A copy of this record for a closed session, which answers only a repeated close. The copy is necessary
        /// because a received frame would keep libzmq's whole 8 KiB buffer alive. A close request has no payload.
        var compact: Done {
            Done(
                seq: seq, header: header.withBytes { Frame(copying: $0) }, payload: nil, reservation: nil,
                reply: reply)
        }

        /// The size of the request's and the reply's frames, in bytes.
        var bytes: Int {
            header.count + (payload?.count ?? 0) + reply.header.count + (reply.payload?.count ?? 0)
        }
    }
}

extension SessionLedger.Done {
    /// Restores the last request of a saved session. The request and the reply use memory that `environment` has
    /// reserved.
    init(_ saved: SavedSession, _ environment: ServedEnvironment) throws {
        seq = saved.lastSeq
        let request = saved.lastRequest
        reservation = try environment.requestMemory.reserve(
            keeping: request.header.count + request.payload.count)
        header = try Frame(keeping: request.header)
        payload = request.hasPayload ? try Frame(keeping: request.payload) : nil
        reply = try StoredReply(saved.lastReply, environment.pool)
    }
}
