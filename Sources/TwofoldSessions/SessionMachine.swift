package import TwofoldCore
package import TwofoldProtocol
package import TwofoldService

/// The state machine that handles requests. It decodes each request, asks the ledger for a decision, hands out the
/// work, and answers.
///
///     header, payload, route ──► take ──► perform ──► finish ──► send
///
/// The machine receives bytes, and each event appends effects for its carrier to perform. It has no socket, thread
/// or lock. The server's loop adds sockets and a clock. The embedded library adds a lock, and performs the work
/// outside it. The simulation runs the machine on simulated disks and networks.
///
/// Nothing that a client sends can crash the machine. Each request gets one reply, which goes to the newest copy of
/// the request. In this module, *session* means a session in the ledger. Only one thread at a time may use the
/// machine.
package final class SessionMachine {
    /// The maximum numbers of expand and stats requests in progress. These requests have no session, so no other
    /// limit applies.
    private static let maxExpansions = 256
    private static let maxStats = 16

    /// An action that the machine's carrier (the server or the embedded library) must perform. The carrier performs
    /// the actions in order.
    package enum Effect {
        case send(StoredReply, to: Route)
        /// Perform the work, and pass the result to ``finish(_:_:at:into:)``.
        case perform(Work)
        /// A client with this name has said hello.
        case greeted(String)
        case began(SessionLedger.Entry)
        /// A session has ended. The text is the reason. The session's memory is freed now or very soon.
        case ended(SessionLedger.Entry, String)
    }

    /// A function that returns the authorised clients' names by public key, and the number of refused handshakes.
    package typealias Keys = () -> (names: [String: String], refused: Int)

    let settings: ServiceSettings
    /// The function that returns the authorised clients. Nil in the embedded library, where all callers count as one
    /// client, and each waits for its own reply.
    let keys: Keys?
    let begin: Moment
    private let clock: Clock
    package let service: EnvironmentService
    package private(set) var ledger: SessionLedger
    package var statistics = ServerStatistics()
    /// The number of unfinished pieces of work. The next two properties count the expand and stats requests among
    /// them.
    package private(set) var inProgress = 0
    private var expansionsInProgress = 0
    private var statsInProgress = 0

    /// Creates a machine that starts at `now`. It reads `clock` only for hello and resume requests, and for the time
    /// limits of long requests. Everything else gets the current moment as an argument.
    package init(_ settings: ServiceSettings, keys: Keys?, clock: Clock = .system, at now: Moment) {
        self.settings = settings
        self.keys = keys
        self.clock = clock
        begin = now
        service = settings.service(clock: clock)
        ledger = SessionLedger(settings.limits)
    }

    /// The phase of the service, which decides which requests may still start.
    package var phase: Phase { service.phase.value }

    // MARK: a request

    /// Handles a request that has arrived.
    package func take(header: Frame, payload: Frame?, from route: Route, into effects: inout [Effect]) {
        statistics.counters.received += 1
        let request: Request
        do throws(ServiceError) { request = try Request.decode(header) } catch {
            return refuse(error, seq: 0, to: route, into: &effects)
        }
        guard let op = request.op else {
            return refuse(.unknownOp, seq: request.seq, to: route, into: &effects)
        }
        do throws(ServiceError) {
            try dispatch(request, op, header, payload, from: route, into: &effects)
        } catch {
            refuse(error, RequestKind(op), seq: request.seq, to: route, into: &effects)
        }
    }

    private func dispatch(
        _ request: Request, _ op: Request.OneOf_Op, _ header: Frame, _ payload: Frame?, from route: Route,
        into effects: inout [Effect]
    ) throws(ServiceError) {
        if let payload, payload.count > service.limits.maxMessageBytes {
            throw .tooLong(payload, service.limits)
        }
        switch op {
        case .hello(let hello):
            guard payload == nil else { throw ServiceError(.noPayload) }
            let reply = StoredReply(.hello(try service.hello(hello)), seq: request.seq)
            countExecuted(.hello, arrived: route.arrived, at: clock.now())
            effects.append(.greeted(hello.client))
            effects.append(.send(reply, to: route))
        case .expand(let expand):
            guard phase < .refusing else { throw .stopping }
            guard expansionsInProgress < Self.maxExpansions else { throw .tooMany(Self.maxExpansions) }
            let expansion: Expansion
            do throws(EnvironmentError) { expansion = try service.expansion(expand) } catch {
                throw ServiceError(error)
            }
            let work = Work(
                .expand(expansion), of: nil, .expand, seq: request.seq, header: header, payload: payload,
                from: route)
            if payload?.owner != nil { try work.reserve(in: service.budget) }
            expansionsInProgress += 1
            begin(work, &effects)
        case .stats where keys == nil, .resume where keys == nil: throw .oneClient
        case .stats:
            guard payload == nil else { throw ServiceError(.noPayload) }
            guard statsInProgress < Self.maxStats else { throw .tooMany(Self.maxStats) }
            let stats = stats(for: route.client, at: route.arrived)
            statsInProgress += 1
            begin(
                Work(
                    .stats(stats), of: nil, .stats, seq: request.seq, header: header, payload: nil,
                    from: route),
                &effects)
        case .resume:
            guard payload == nil else { throw ServiceError(.noPayload) }
            try resume(request, from: route, at: route.arrived, into: &effects)
        default:
            let verdict = try ledger.admit(request, op, header, payload, from: route)
            settle(verdict, op, seq: request.seq, header, payload, from: route, into: &effects)
        }
    }

    /// Handles a step that arrived without an encoded header.
    package func takeStep(
        _ session: SessionID, epoch: UInt32, seq: UInt64, actions: Frame, from route: Route,
        into effects: inout [Effect]
    ) {
        let op = Request.OneOf_Op.step(.init())
        do throws(ServiceError) {
            let verdict = try ledger.admit(session, epoch: epoch, seq: seq, op, Frame(), actions, from: route)
            settle(verdict, op, seq: seq, Frame(), actions, from: route, into: &effects)
        } catch {
            refuse(error, .step, seq: seq, to: route, into: &effects)
        }
    }

    /// Acts on the ledger's verdict: sends a reply, starts the request, or does nothing for now.
    private func settle(
        _ verdict: SessionLedger.Verdict, _ op: Request.OneOf_Op, seq: UInt64, _ header: Frame,
        _ payload: Frame?, from route: Route, into effects: inout [Effect]
    ) {
        switch verdict {
        case .execute(let entry):
            let work = Work(
                entry.subject(of: op), of: entry, RequestKind(op), seq: seq, header: header,
                payload: payload, from: route)
            start(work, of: entry, &effects)
        case .resend(let reply):
            statistics.counters.resent += 1
            effects.append(.send(reply, to: route))
        case .resumed(let answer):
            effects.append(.send(answer, to: route))
            countExecuted(.resume, arrived: route.arrived, at: clock.now())
        case .waits: break
        case .parked where keys == nil: refuse(.busy, RequestKind(op), seq: seq, to: route, into: &effects)
        case .parked: statistics.counters.parked += 1
        }
    }

    private func start(_ work: Work, of entry: SessionLedger.Entry, _ effects: inout [Effect]) {
        entry.start(work)
        do throws(ServiceError) {
            guard phase < .refusing else { throw .stopping }
            try checkActions(of: work, boards: entry.boards)
            try work.reserve(in: service.budget)
        } catch {
            return answer(work, .failure(error), at: work.arrived, into: &effects)
        }
        begin(work, &effects)
    }

    /// Throws if a caller in this process has passed the wrong number of actions for the session's boards.
    private func checkActions(of work: Work, boards: Int) throws(ServiceError) {
        guard work.kind == .step, let actions = work.payload, actions.owner == nil, actions.count != boards
        else { return }
        throw ServiceError(
            .invalidArgument, field: "actions",
            "the step has \(actions.count) actions; the session has \(boards) boards")
    }

    private func begin(_ work: Work, _ effects: inout [Effect]) {
        inProgress += 1
        effects.append(.perform(work))
    }

    /// Returns the thread or queue on which a server should perform the work.
    package func place(of work: Work) -> Work.Place { work.place(isAlone: ledger.openCount == 1) }

    // MARK: results

    /// Handles the result of performed work. Answers the request, then a client that has been waiting to resume the
    /// session.
    package func finish(
        _ work: Work, _ result: Result<StoredReply, ServiceError>, at now: Moment,
        into effects: inout [Effect]
    ) {
        inProgress -= 1
        switch work.subject {
        case .create, .request: break
        case .expand: expansionsInProgress -= 1
        case .stats: statsInProgress -= 1
        }
        answer(work, result, at: now, into: &effects)
    }

    private func answer(
        _ work: Work, _ result: Result<StoredReply, ServiceError>, at now: Moment,
        into effects: inout [Effect]
    ) {
        switch result {
        case .success(let reply):
            if let entry = work.entry { complete(work, of: entry, reply, at: now, into: &effects) }
            countExecuted(work.kind, arrived: work.arrived, at: now, steps: work.steps)
            effects.append(.send(reply, to: work.route))
        case .failure(let error):
            if let entry = work.entry { ledger.abandon(entry, at: now) }
            refuse(error, work.kind, seq: work.seq, to: work.route, into: &effects)
        }
        for waiting in work.resumes {
            do throws(ServiceError) {
                try resume(waiting.request, from: waiting.route, at: now, into: &effects)
            } catch {
                refuse(error, .resume, seq: waiting.request.seq, to: waiting.route, into: &effects)
            }
        }
    }

    private func complete(
        _ work: Work, of entry: SessionLedger.Entry, _ reply: StoredReply, at now: Moment,
        into effects: inout [Effect]
    ) {
        ledger.complete(entry, reply, at: now)
        switch work.kind {
        case .create:
            statistics.counters.sessionsCreated += 1
            effects.append(.began(entry))
        case .close:
            statistics.counters.sessionsClosed += 1
            effects.append(.ended(entry, "closed"))
        default: break
        }
    }

    /// Transfers a session to the client at `route`.
    private func resume(
        _ request: Request, from route: Route, at now: Moment, into effects: inout [Effect]
    ) throws(ServiceError) {
        let verdict = try ledger.resume(request, from: route, at: now)
        settle(verdict, .resume(request.resume), seq: request.seq, Frame(), nil, from: route, into: &effects)
    }

    private func countExecuted(_ kind: RequestKind, arrived: Moment, at now: Moment, steps: Int = 0) {
        // because: in the embedded library, no client can request statistics, and a route has no time of arrival.
        // Counting would take 2 % of the time of a one-board step.
        guard keys != nil else { return }
        statistics.countExecuted(kind, arrived: arrived, at: now, steps: steps)
    }

    /// Refuses a message without decoding it, because it can't be a request or its sender is not authorised.
    package func refuseUnread(_ error: ServiceError, to route: Route, into effects: inout [Effect]) {
        statistics.counters.received += 1
        refuse(error, seq: 0, to: route, into: &effects)
    }

    /// Refuses a request. `kind` is nil if the request can't be decoded.
    private func refuse(
        _ error: ServiceError, _ kind: RequestKind? = nil, seq: UInt64, to route: Route,
        into effects: inout [Effect]
    ) {
        statistics.countRefused(kind, error.code)
        effects.append(.send(StoredReply(error, seq: seq), to: route))
    }

    // MARK: time

    /// Subtracts a server pause from the idle time of all sessions. The pause ended at `now`.
    package func excuse(_ pause: Duration, until now: Moment) { ledger.excuse(pause, until: now) }

    /// Ends the sessions that have been idle since before `moment`.
    package func endIdle(since moment: Moment, at now: Moment, into effects: inout [Effect]) {
        for entry in ledger.endIdle(since: moment) {
            statistics.counters.sessionsExpired += 1
            effects.append(.ended(entry, "idle for \((now - entry.idleSince).components.seconds) s"))
        }
    }

    // MARK: between two runs of a server

    /// Restores a saved session, which replaces any older copy. Returns nil if the saved session is inconsistent.
    /// Throws if a limit prevents it.
    package func restore(_ saved: SavedSession, at now: Moment) throws -> SessionLedger.Entry? {
        // because: the limits may have no room for both copies, and the older one must not be used in any case.
        if let id = SessionID(saved.id) { ledger.forget(id) }
        let environment = try ServedEnvironment(saved.create, service)
        try environment.restore(from: saved)
        let last = try SessionLedger.Done(saved, environment)
        return try ledger.restore(saved, environment, last: last, at: now)
    }
}
