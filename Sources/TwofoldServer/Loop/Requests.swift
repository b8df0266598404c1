package import Logging
internal import Platform
package import TwofoldCore
internal import TwofoldProtocol
package import TwofoldService
package import TwofoldSessions
package import ZeroMQ

/// The server's ledger keeps frames.
package typealias ServerLedger = SessionLedger<RequestFrames, ReplyFrames, Route>

/// What becomes of each message: taken apart, decoded, shown to the ledger, carried out, and answered.
///
///     route | header | payload ──► ledger ──► job ──► reply
///
/// A machine: each event comes with the moment at which it happens, and returns what to do. So it has no socket, no
/// clock and no thread; ``ReplyLoop`` has them, and a simulation of all this brings others.
///
/// Nothing that a client sends stops it: each message with a delimiter gets one reply, each without is dropped and
/// counted. In this module a *session* is the ledger's. One thread at a time.
package final class Requests {
    /// Requests without a session that may be in progress at a time: nothing else limits them.
    private static let maxExpansions = 256
    private static let maxStats = 16

    /// What an event returns to be done, in order.
    package enum Output {
        case send(ReplyFrames, to: Route)
        /// Carry it out there, and enter what comes of it by ``finish(_:_:at:)``.
        case perform(Job, Job.Place)
        /// The memory of a session that has ended is free, or will be in a moment.
        case freed(bytes: Int)
    }

    let configuration: ServerConfiguration
    /// Knows the clients' keys; nil without any.
    let authenticator: Authenticator?
    let logger: Logger
    let begin: Moment
    private let clock: Clock
    package let service: EnvironmentService
    package let budget: MemoryBudget
    package let phase = CurrentPhase()
    package internal(set) var ledger: ServerLedger
    package internal(set) var statistics = ServerStatistics()
    /// Jobs that were returned and are not finished, and those of them that belong to no session.
    package internal(set) var inProgress = 0
    private var expansionsInProgress = 0
    private var statsInProgress = 0

    /// A server that begins at `now`. On `clock` its long requests end; all else is given the moment.
    package init(
        _ configuration: ServerConfiguration, _ authenticator: Authenticator?, clock: Clock = .system,
        logger: Logger, at now: Moment
    ) {
        self.configuration = configuration
        self.authenticator = authenticator
        self.logger = logger
        self.clock = clock
        begin = now
        budget = MemoryBudget(limit: configuration.service.limits.maxBytes)
        service = configuration.service.service(budget, clock: clock)
        ledger = ServerLedger(configuration.service.limits)
    }

    /// Enters a phase, which decides what may still begin. Rollouts in progress end as soon as it is not `serving`.
    package func enter(_ phase: Phase) {
        self.phase.enter(phase)
        if phase > .serving { service.stop.set() }
    }

    // MARK: a message

    /// Takes a message apart: the route up to the delimiter, the header, the payload. On an endpoint that
    /// `isEncrypted` its client has shown a key; elsewhere it is the `known` client, which only a simulation knows.
    package func take(
        _ message: consuming Multipart, isWhole: Bool, from endpoint: Int, isEncrypted: Bool = false,
        as known: Client = .anonymous, at now: Moment
    ) throws(ZeroMQError) -> [Output] {
        statistics.received += 1
        guard let delimiter = message.firstIndex(where: { $0.isEmpty }) else {
            statistics.dropped += 1
            logger.debug("dropped a message without an empty delimiter frame")
            return []
        }
        let frames = message.count - delimiter - 1
        guard isWhole, frames == 1 || frames == 2 else {
            message.truncate(to: delimiter + 1)
            let count = isWhole ? "\(frames)" : "too many"
            return try refuse(
                ServiceError(
                    .invalidArgument, field: "frames",
                    "\(count) frames behind the delimiter; a request has one, or two with its payload"),
                seq: 0, to: Route(endpoint: endpoint, client: .anonymous, arrived: now, frames: message))
        }
        var payload: Message?
        if frames == 2 { payload = message.removeLast() }
        let header = message.removeLast()
        let client = isEncrypted ? keyHolder(header) : known
        let route = Route(
            endpoint: endpoint, client: client ?? .anonymous, arrived: now, frames: message)
        guard client != nil else {
            return try refuse(
                ServiceError(.permissionDenied, "this client key is not let in any more"), seq: 0, to: route)
        }
        return try dispatch(RequestFrames(header: header, payload: payload), from: route)
    }

    /// The client that sent a frame to an encrypted endpoint; nil for one that is not let in any more.
    private func keyHolder(_ frame: borrowing Message) -> Client? {
        guard let key = frame.userID else { return nil }
        let client = Client.key(key)
        return authenticator?.name(of: client) == nil ? nil : client
    }

    private func dispatch(_ request: RequestFrames, from route: Route) throws(ZeroMQError) -> [Output] {
        let header: Request
        do throws(ServiceError) { header = try request.decodeHeader() } catch {
            return try refuse(error, seq: 0, to: route)
        }
        switch header.op {
        case nil: return try refuse(.unknownOp, seq: header.seq, to: route)
        case .hello(let hello):
            logger.debug("hello from \(hello.client.prefix(100))")
            return try answer(.hello, header, request, to: route) { () throws(ServiceError) in
                .hello(try service.hello(hello))
            }
        case .stats: return try performStats(seq: header.seq, request, from: route)
        case .expand(let expand): return try perform(expand, seq: header.seq, request, from: route)
        case .resume:
            do throws(ServiceError) { try request.refusePayload() } catch {
                return try refuse(error, .resume, seq: header.seq, to: route)
            }
            return try resume(header, from: route, at: route.arrived)
        case .some(let op): return try admit(header, op, request, from: route)
        }
    }

    // MARK: requests of no session

    private func answer(
        _ kind: RequestKind, _ header: Request, _ request: RequestFrames, to route: Route,
        _ result: () throws(ServiceError) -> Reply.OneOf_Result
    ) throws(ZeroMQError) -> [Output] {
        var reply = Reply()
        reply.seq = header.seq
        do throws(ServiceError) {
            try request.refusePayload()
            reply.result = try result()
        } catch {
            return try refuse(error, kind, seq: header.seq, to: route)
        }
        statistics.countExecuted(kind, arrived: route.arrived, at: clock.now(), steps: 0)
        return [.send(try ReplyFrames(reply), to: route)]
    }

    /// The rules over arrays of boards.
    private func perform(
        _ expand: ExpandRequest, seq: UInt64, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) -> [Output] {
        let expansion: Expansion
        do throws(ServiceError) {
            guard phase.value < .refusing else { throw Job.stopping }
            guard expansionsInProgress < Self.maxExpansions else { throw Self.tooMany(Self.maxExpansions) }
            expansion = try service.expansion(expand)
            try request.reserve(in: budget)
        } catch {
            return try refuse(error, .expand, seq: seq, to: route)
        }
        let job = Job(
            task: .expand(expansion, route), seq: seq, kind: .expand, arrived: route.arrived, request: request
        )
        expansionsInProgress += 1
        return begin(job, isAlone: false)
    }

    private func performStats(
        seq: UInt64, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) -> [Output] {
        do throws(ServiceError) {
            try request.refusePayload()
            guard statsInProgress < Self.maxStats else { throw Self.tooMany(Self.maxStats) }
        } catch {
            return try refuse(error, .stats, seq: seq, to: route)
        }
        let stats = stats(for: route.client, at: route.arrived)
        statsInProgress += 1
        return begin(
            Job(
                task: .stats(stats, route), seq: seq, kind: .stats, arrived: route.arrived, request: request),
            isAlone: false)
    }

    private static func tooMany(_ limit: Int) -> ServiceError {
        ServiceError(
            .resourceExhausted, field: "op",
            "this server carries out \(limit) such requests at a time, and that many are in progress: try again"
        )
    }

    // MARK: requests of a session

    private func admit(
        _ header: Request, _ op: Request.OneOf_Op, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) -> [Output] {
        switch ledger.admit(header, request, from: route, at: route.arrived) {
        case .refuse(let error): return try refuse(error, RequestKind(op), seq: header.seq, to: route)
        case .resend(let reply):
            statistics.resent += 1
            return [.send(reply, to: route)]
        case .parked:
            statistics.parked += 1
            return []
        case .create(let entry, let create):
            return try start(.session(entry, .create(create)), header, op, request, route)
        case .execute(let entry, let host):
            return try start(.session(entry, .request(op, host)), header, op, request, route)
        }
    }

    private func start(
        _ task: Job.Task, _ header: Request, _ op: Request.OneOf_Op, _ request: RequestFrames, _ route: Route
    ) throws(ZeroMQError) -> [Output] {
        let job = Job(
            task: task, seq: header.seq, kind: RequestKind(op), arrived: route.arrived, request: request)
        do throws(ServiceError) {
            guard phase.value < .refusing else { throw Job.stopping }
            try request.reserve(in: budget)
        } catch {
            return try settle(job, .refused(error), at: route.arrived)
        }
        return begin(job, isAlone: ledger.openCount == 1)
    }

    /// Hands a session over to the client at this route.
    private func resume(_ header: Request, from route: Route, at now: Moment) throws(ZeroMQError) -> [Output]
    {
        switch ledger.resume(header, from: route, at: now) {
        case .refuse(let error): return try refuse(error, .resume, seq: header.seq, to: route)
        case .waits(let inPlaceOfAnother):
            if inPlaceOfAnother { statistics.parked += 1 }
            return []
        case .answer(let reply, let last):
            statistics.countExecuted(.resume, arrived: route.arrived, at: now, steps: 0)
            return [.send(try last.resumed(reply, seq: header.seq), to: route)]
        }
    }

    // MARK: jobs

    private func begin(_ job: Job, isAlone: Bool) -> [Output] {
        inProgress += 1
        return [.perform(job, job.place(isAlone: isAlone))]
    }

    /// Answers a job that was carried out, and then the client that waits for its end to resume the session.
    package func finish(_ job: Job, _ outcome: Job.Outcome, at now: Moment) throws(ZeroMQError) -> [Output] {
        inProgress -= 1
        switch job.task {
        case .session: break
        case .expand: expansionsInProgress -= 1
        case .stats: statsInProgress -= 1
        }
        return try settle(job, outcome, at: now)
    }

    private func settle(_ job: Job, _ outcome: Job.Outcome, at now: Moment) throws(ZeroMQError) -> [Output] {
        guard case .session(let entry, let work) = job.task else {
            guard let route = job.route else { return [] }
            return try answer(job, outcome, to: route, at: now)
        }
        var freed = 0
        let delivery: ServerLedger.Delivery
        switch outcome {
        case .refused: delivery = ledger.abandon(entry, at: now)
        case .done(let reply, let change, _):
            freed = note(change, of: entry, work, at: now)
            delivery = ledger.complete(entry, reply: reply, change: change, at: now)
        }
        var outputs = try answer(job, outcome, to: delivery.route, at: now)
        if let waiting = delivery.resume {
            outputs += try resume(waiting.header, from: waiting.route, at: now)
        }
        if freed > 0 { outputs.append(.freed(bytes: freed)) }
        return outputs
    }

    private func answer(
        _ job: Job, _ outcome: Job.Outcome, to route: Route, at now: Moment
    ) throws(ZeroMQError) -> [Output] {
        switch outcome {
        case .refused(let error): return try refuse(error, job.kind, seq: job.seq, to: route)
        case .done(let reply, _, let steps):
            statistics.countExecuted(job.kind, arrived: job.arrived, at: now, steps: steps)
            return [.send(reply, to: route)]
        }
    }

    private func refuse(
        _ error: ServiceError, _ kind: RequestKind? = nil, seq: UInt64, to route: Route
    ) throws(ZeroMQError) -> [Output] {
        statistics.countRefused(kind, error.code)
        var reply = Reply()
        reply.seq = seq
        reply.error = error.wire
        return [.send(try ReplyFrames(reply), to: route)]
    }
}
