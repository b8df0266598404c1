package import TwofoldCore
internal import FoundationEssentials
package import TwofoldProtocol
internal import TwofoldService

extension SessionLedger {
    /// One session's line in the ledger: what it has done, and what it is doing.
    ///
    ///     creating ──created──► idle ──admit──► busy ──closed──► closed
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
        /// Requests that were carried out since its begin.
        package private(set) var requests = 0
        package private(set) var epoch: UInt32 = 1
        /// The environment's id and the session's memory, kept here for statistics: with thousands of sessions, a look at
        /// each host takes milliseconds. Empty until create has succeeded.
        package private(set) var environmentID = ""
        package private(set) var bytes = 0
        private var state: State
        /// Copies of more resumes than these are not on their way at a time.
        private static var maxFormerHolders: Int { 64 }

        private enum State {
            /// Its create is in progress.
            case creating(CreateRequest, Pending)
            /// Nothing is in progress.
            case idle(Open)
            case busy(Open, Pending)
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
            /// The last request that was carried out.
            var last: Done

            init(_ host: EnvironmentHost, _ create: CreateRequest, holders: [Data] = [], last: Done) {
                self.host = host
                self.create = create
                self.holders = holders
                self.last = last
            }
        }

        /// A request that was carried out.
        private struct Done {
            let seq: UInt64
            let request: KeptRequest
            let reply: KeptReply

            /// What to do with a request of the same seq.
            func repeated(by other: KeptRequest) -> Verdict {
                request.isSame(as: other) ? .resend(reply) : .refuse(.conflict(seq))
            }
        }

        /// A request that is being carried out.
        private struct Pending {
            let request: KeptRequest
            /// The newest route that it came by.
            var route: Route
            /// At most one, the newest: an earlier one that gets no reply asks again.
            var resume: WaitingResume?

            /// What to do with a request of the same seq.
            mutating func repeated(by other: KeptRequest, seq: UInt64, from route: Route) -> Verdict {
                guard request.isSame(as: other) else { return .refuse(.conflict(seq)) }
                self.route = route
                return .parked
            }

            mutating func wait(_ resume: WaitingResume) -> Resumption {
                defer { self.resume = resume }
                return .waits(inPlaceOfAnother: self.resume != nil)
            }

            var delivery: Delivery { Delivery(route: route, resume: resume) }
        }

        /// A session whose create is to be carried out.
        init(
            _ id: SessionID, _ create: CreateRequest, boards: Int, _ request: KeptRequest, from route: Route,
            at now: Moment
        ) {
            self.id = id
            owner = route.client
            self.boards = boards
            begin = now
            idleSince = now
            state = .creating(create, Pending(request: request, route: route))
        }

        // MARK: what it is

        package var isIdle: Bool {
            if case .idle = state { true } else { false }
        }

        /// Whether a request is being carried out.
        package var isBusy: Bool { !isIdle && !isClosed }

        package var isClosed: Bool {
            if case .closed = state { true } else { false }
        }

        /// What its requests run on; nil before create has succeeded and after close.
        package var host: EnvironmentHost? {
            switch state {
            case .idle(let open), .busy(let open, _): open.host
            case .creating, .closed: nil
            }
        }

        /// The seq of the last request that was carried out; 0 while create is.
        package var lastSeq: UInt64 {
            switch state {
            case .creating: 0
            case .idle(let open), .busy(let open, _): open.last.seq
            case .closed(let last): last.seq
            }
        }

        // MARK: what happens to it

        /// Decides about a request; where it is to be carried out, the session is busy from now on.
        func admit(
            _ seq: UInt64, epoch: UInt32, isCreate: Bool, _ request: KeptRequest, from route: Route,
            at now: Moment
        ) -> Verdict {
            guard owner == route.client else { return .refuse(.unknown(id)) }
            idleSince = now
            guard epoch == self.epoch else { return .refuse(.wrongEpoch(epoch, of: self.epoch)) }
            switch state {
            case .creating(let create, var pending):
                guard seq == 1 else { return .refuse(.outOfSequence(seq, expected: 1)) }
                let verdict = pending.repeated(by: request, seq: seq, from: route)
                state = .creating(create, pending)
                return verdict
            case .idle(let open), .busy(let open, _):
                if seq == open.last.seq { return open.last.repeated(by: request) }
                guard seq == open.last.seq + 1 else {
                    return .refuse(.outOfSequence(seq, expected: open.last.seq + 1))
                }
                if case .busy(_, var pending) = state {
                    let verdict = pending.repeated(by: request, seq: seq, from: route)
                    state = .busy(open, pending)
                    return verdict
                }
                guard !isCreate else { return .refuse(.idIsTaken) }
                state = .busy(open, Pending(request: request, route: route))
                return .execute(self, open.host)
            case .closed(let last):
                return seq == last.seq ? last.repeated(by: request) : .refuse(.unknown(id))
            }
        }

        /// The request in progress was carried out.
        func complete(reply: KeptReply, change: SessionChange, at now: Moment) -> Delivery {
            requests += 1
            idleSince = now
            switch state {
            case .creating(let create, let pending):
                guard case .created(let host) = change else { preconditionFailure("a create creates") }
                let last = Done(seq: 1, request: pending.request, reply: reply)
                state = .idle(Open(host, create, last: last))
                (environmentID, bytes) = (host.environment.id, host.bytes)
                return pending.delivery
            case .busy(let open, let pending):
                let seq = open.last.seq + 1
                if case .closed = change {
                    // A close has no payload.
                    state = .closed(Done(seq: seq, request: pending.request.compact, reply: reply))
                } else {
                    open.last = Done(seq: seq, request: pending.request, reply: reply)
                    state = .idle(open)
                }
                return pending.delivery
            case .idle, .closed: preconditionFailure("no request was in progress")
            }
        }

        /// The request in progress was refused: nothing has happened. A session whose create was refused is of no use
        /// any more.
        func abandon(at now: Moment) -> Delivery {
            idleSince = now
            switch state {
            case .creating(_, let pending): return pending.delivery
            case .busy(let open, let pending):
                state = .idle(open)
                return pending.delivery
            case .idle, .closed: preconditionFailure("no request was in progress")
            }
        }

        /// Hands the session over, now or when the request in progress is done.
        func resume(_ header: Request, from route: Route, at now: Moment) -> Resumption {
            guard owner == route.client, !isClosed else { return .refuse(.unknown(id)) }
            let holder = header.resume.holder
            guard holder.count == 16 else { return .refuse(.badHolder(holder.count)) }
            idleSince = now
            switch state {
            case .creating(let create, var pending):
                let resumption = pending.wait(WaitingResume(header: header, route: route))
                state = .creating(create, pending)
                return resumption
            case .busy(let open, var pending):
                let resumption = pending.wait(WaitingResume(header: header, route: route))
                state = .busy(open, pending)
                return resumption
            case .idle(let open):
                return resume(open, by: holder, only: header.epoch)
            case .closed:
                return .refuse(.unknown(id))
            }
        }

        /// `given` is the one epoch in which to hand it over; 0 for whichever it is.
        private func resume(_ open: Open, by holder: Data, only given: UInt32) -> Resumption {
            if open.holders.last != holder {
                guard given == 0 || given == epoch else { return .refuse(.wrongEpoch(given, of: epoch)) }
                guard epoch < .max else { return .refuse(.noEpochLeft) }
                guard !open.holders.contains(holder) else { return .refuse(.shutOut) }
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
        private static var maxSavedCount: UInt64 { 1 << 62 }

        /// An idle session, to be saved: all but what host, request and reply have is in `session`.
        package struct Saved {
            package var session: SavedSession
            package let host: EnvironmentHost
            package let request: KeptRequest
            package let reply: KeptReply
        }

        /// What is to be saved; nil while a request is in progress.
        package var saved: Saved? {
            guard case .idle(let open) = state else { return nil }
            var saved = SavedSession()
            saved.id = id.bytes
            if case .key(let key) = owner { saved.clientKey = key }
            saved.epoch = epoch
            saved.holders = open.holders
            saved.lastSeq = open.last.seq
            saved.requests = UInt64(requests)
            saved.create = open.create
            return Saved(session: saved, host: open.host, request: open.last.request, reply: open.last.reply)
        }

        /// A session that was saved, idle; nil when what was saved makes no sense.
        init?(
            _ saved: SavedSession, _ host: EnvironmentHost, last: (request: KeptRequest, reply: KeptReply),
            at now: Moment
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
                    host, saved.create, holders: saved.holders.suffix(Self.maxFormerHolders + 1),
                    last: Done(seq: saved.lastSeq, request: last.request, reply: last.reply)))
        }
    }
}
