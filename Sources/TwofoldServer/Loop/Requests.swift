internal import Logging
internal import Platform
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// The server's ledger keeps frames.
typealias ServerLedger = SessionLedger<RequestFrames, ReplyFrames, Route>

/// What becomes of each message: taken apart, decoded, shown to the ledger, carried out, and answered.
///
///     route | header | payload ──► ledger ──► job ──► reply ──► socket
///
/// Nothing that a client sends stops it: each message with a delimiter gets one reply, each without is dropped and
/// counted. In this module a *session* is the ledger's. Belongs to the socket thread.
final class Requests {
    /// Requests of no session that may be in progress at a time: nothing else limits them.
    private static let maxExpansions = 256

    let endpoints: [Endpoint]
    /// Decides which clients may come in at encrypted endpoints; nil without any.
    let authenticator: Authenticator?
    let configuration: ServerConfiguration
    let logger: Logger
    let runner: JobRunner
    let trimmer = MemoryTrimmer()
    let begin = Moment.now
    var ledger: ServerLedger
    var statistics = ServerStatistics()

    init(
        _ endpoints: [Endpoint], _ authenticator: Authenticator?, _ configuration: ServerConfiguration,
        logger: Logger
    ) throws(SystemError) {
        self.endpoints = endpoints
        self.authenticator = authenticator
        self.configuration = configuration
        self.logger = logger
        runner = try JobRunner(configuration)
        ledger = ServerLedger(configuration.service.limits)
    }

    // MARK: a message

    /// Takes a message apart: the route up to the delimiter, the header, the payload.
    func take(
        _ message: consuming Multipart, isWhole: Bool, from endpoint: Int, at now: Moment
    ) throws(ZeroMQError) {
        statistics.received += 1
        guard let delimiter = message.firstIndex(where: { $0.isEmpty }) else {
            statistics.dropped += 1
            logger.debug("dropped a message without an empty delimiter frame")
            return
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
        let client = client(of: header, at: endpoint)
        let route = Route(
            endpoint: endpoint, client: client ?? .anonymous, arrived: now, frames: message)
        guard client != nil else {
            return try refuse(
                ServiceError(.permissionDenied, "this client key is not let in any more"), seq: 0, to: route)
        }
        try dispatch(RequestFrames(header: header, payload: payload), from: route)
    }

    /// The client that sent a frame; nil for one that is not let in any more.
    private func client(of frame: borrowing Message, at endpoint: Int) -> Client? {
        guard endpoints[endpoint].isEncrypted else { return .anonymous }
        guard let key = frame.userID.flatMap(CurvePublicKey.init) else { return nil }
        let client = Client.key(key.description)
        return authenticator?.name(of: client) == nil ? nil : client
    }

    private func dispatch(_ request: RequestFrames, from route: Route) throws(ZeroMQError) {
        let header: Request
        do throws(ServiceError) { header = try request.decodeHeader() } catch {
            return try refuse(error, seq: 0, to: route)
        }
        switch header.op {
        case nil: try refuse(.unknownOp, seq: header.seq, to: route)
        case .hello(let hello):
            logger.debug("hello from \(hello.client.prefix(100))")
            try answer(.hello, header, request, to: route) { () throws(ServiceError) in
                .hello(try runner.service.hello(hello))
            }
        case .stats:
            try answer(.stats, header, request, to: route) { () throws(ServiceError) in
                .stats(stats(for: route.client, at: route.arrived))
            }
        case .expand(let expand): try perform(expand, seq: header.seq, request, from: route)
        case .resume:
            do throws(ServiceError) { try request.refusePayload() } catch {
                return try refuse(error, .resume, seq: header.seq, to: route)
            }
            try resume(header, from: route)
        case .some(let op): try admit(header, op, request, from: route)
        }
    }

    // MARK: requests of no session

    private func answer(
        _ kind: RequestKind, _ header: Request, _ request: RequestFrames, to route: Route,
        _ result: () throws(ServiceError) -> Reply.OneOf_Result
    ) throws(ZeroMQError) {
        var reply = Reply()
        reply.seq = header.seq
        do throws(ServiceError) {
            try request.refusePayload()
            reply.result = try result()
        } catch {
            return try refuse(error, kind, seq: header.seq, to: route)
        }
        statistics.countExecuted(kind, arrived: route.arrived, at: .now, steps: 0)
        try send(ReplyFrames(reply), to: route)
    }

    /// The rules over arrays of boards.
    private func perform(
        _ expand: ExpandRequest, seq: UInt64, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) {
        let expansion: Expansion
        do throws(ServiceError) {
            guard runner.phase < .refusing else { throw Job.stopping }
            guard runner.expansionsInProgress < Self.maxExpansions else {
                throw ServiceError(
                    .resourceExhausted, field: "op",
                    "this server carries out \(Self.maxExpansions) such requests at a time, and that many "
                        + "are in progress: try again")
            }
            expansion = try runner.service.expansion(expand)
            try request.reserve(in: runner.budget)
        } catch {
            return try refuse(error, .expand, seq: seq, to: route)
        }
        let job = Job(
            task: .expand(expansion, route), seq: seq, kind: .expand, arrived: route.arrived, request: request
        )
        if let outcome = runner.perform(job, isAlone: false) { try finish(job, outcome) }
    }

    // MARK: requests of a session

    private func admit(
        _ header: Request, _ op: Request.OneOf_Op, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) {
        switch ledger.admit(header, request, from: route, at: route.arrived) {
        case .refuse(let error): try refuse(error, RequestKind(op), seq: header.seq, to: route)
        case .resend(let reply):
            statistics.resent += 1
            try send(reply, to: route)
        case .parked: statistics.parked += 1
        case .create(let entry, let create):
            try start(.session(entry, .create(create)), header, op, request, route)
        case .execute(let entry, let host):
            try start(.session(entry, .request(op, host)), header, op, request, route)
        }
    }

    private func start(
        _ task: Job.Task, _ header: Request, _ op: Request.OneOf_Op, _ request: RequestFrames, _ route: Route
    ) throws(ZeroMQError) {
        let job = Job(
            task: task, seq: header.seq, kind: RequestKind(op), arrived: route.arrived, request: request)
        do throws(ServiceError) {
            guard runner.phase < .refusing else { throw Job.stopping }
            try request.reserve(in: runner.budget)
        } catch {
            return try finish(job, .refused(error))
        }
        if let outcome = runner.perform(job, isAlone: ledger.openCount == 1) { try finish(job, outcome) }
    }

    /// Hands a session over to the client at this route.
    func resume(_ header: Request, from route: Route) throws(ZeroMQError) {
        switch ledger.resume(header, from: route, at: route.arrived) {
        case .refuse(let error): try refuse(error, .resume, seq: header.seq, to: route)
        case .waits(let inPlaceOfAnother): if inPlaceOfAnother { statistics.parked += 1 }
        case .answer(let reply, let last):
            statistics.countExecuted(.resume, arrived: route.arrived, at: .now, steps: 0)
            try send(last.resumed(reply, seq: header.seq), to: route)
        }
    }
}
