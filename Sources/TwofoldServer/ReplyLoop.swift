internal import Dispatch
internal import Glibc
internal import Logging
internal import TwofoldProtocol
internal import TwofoldService
internal import ZeroMQ

/// The thread that owns the sockets and the ledger: takes requests in, sends replies out, and carries
/// out what is small; what is large goes to a Dispatch queue and comes back through the mailbox.
///
///     sockets ──► route | header | payload ──► ledger ──► execute ──► reply ──► socket
///                                                │ (large)  ▲
///                                                └► queue ──┴── mailbox
///
/// Nothing that a client sends stops it: each message with a delimiter gets one reply, each without is
/// dropped and counted.
final class ReplyLoop {
    /// Frames of a message that are looked at: a route through a few proxies, the delimiter, header and
    /// payload.
    private static let maxFrames = 16
    /// Messages that one socket may have before the others get their turn.
    private static let turn = 64
    /// What takes no longer than this is done on this thread: handing it over would take as long.
    private static let inlineNanoseconds = 100_000
    /// How often to look whether the parent is still there.
    private static let parentCheck = Duration.milliseconds(250)
    /// For how long requests that had arrived before the stop signal are still taken.
    private static let drainTime = Duration.seconds(1)

    private let endpoints: [Endpoint]
    private let service: EnvironmentService
    private let configuration: ServerConfiguration
    private let logger: Logger
    private let mailbox: Mailbox
    private let queue = DispatchQueue(label: "twofold.batches", attributes: .concurrent)
    private var ledger: SessionLedger
    private var jobsInProgress = 0
    private(set) var statistics = ServerStatistics()

    init(
        _ endpoints: [Endpoint], _ service: EnvironmentService, _ configuration: ServerConfiguration,
        logger: Logger
    ) throws(ServerError) {
        self.endpoints = endpoints
        self.service = service
        self.configuration = configuration
        self.logger = logger
        mailbox = try Mailbox()
        ledger = SessionLedger(maxSessions: configuration.limits.maxSessions)
    }

    // MARK: the loop

    /// Serves until `stopDescriptor` becomes readable or the parent has gone; then answers what had
    /// arrived and what is in progress.
    func run(stopDescriptor: Int32) throws(ZeroMQError) {
        var poller = Poller()
        let inputs = endpoints.map { poller.add($0.socket, for: .input) }
        let finished = poller.add(descriptor: mailbox.descriptor, for: .input)
        let stop = poller.add(descriptor: stopDescriptor, for: .input)
        let timeout = configuration.parentProcess == nil ? nil : Self.parentCheck

        while true {
            _ = try poller.wait(timeout: timeout)
            if !poller[finished].isEmpty { try sendFinished() }
            for (index, input) in inputs.enumerated() where !poller[input].isEmpty {
                _ = try receive(from: index, atMost: Self.turn)
            }
            if !poller[stop].isEmpty {
                logger.info("stopping")
                break
            }
            if let parent = configuration.parentProcess, getppid() != parent {
                logger.info("stopping: the parent process has gone")
                break
            }
        }
        try drain()
    }

    /// (No unbind: libzmq would end the connections of the clients that wait for their replies.)
    private func drain() throws(ZeroMQError) {
        let end = ContinuousClock.now + Self.drainTime
        for index in endpoints.indices {
            while ContinuousClock.now < end, try receive(from: index, atMost: Self.turn) == Self.turn {}
        }
        var poller = Poller()
        _ = poller.add(descriptor: mailbox.descriptor, for: .input)
        while jobsInProgress > 0 {
            _ = try poller.wait()
            try sendFinished()
        }
    }

    private func sendFinished() throws(ZeroMQError) {
        for job in mailbox.collect() {
            jobsInProgress -= 1
            try finish(job)
        }
    }

    // MARK: one message

    /// Handles the messages that are there, at most so many; returns how many there were.
    private func receive(from endpoint: Int, atMost limit: Int) throws(ZeroMQError) -> Int {
        for count in 0..<limit {
            var message = Multipart()
            guard
                let reception = try endpoints[endpoint].socket.tryReceive(
                    into: &message, maxFrames: Self.maxFrames)
            else { return count }
            statistics.received += 1
            try handle(message, isWhole: reception == .complete, from: endpoint)
        }
        return limit
    }

    /// Takes a message apart: the route up to the delimiter, the header, the payload.
    private func handle(
        _ message: consuming Multipart, isWhole: Bool, from endpoint: Int
    ) throws(ZeroMQError) {
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
                seq: 0, to: Route(endpoint: endpoint, frames: message))
        }
        var payload: Message?
        if frames == 2 { payload = message.removeLast() }
        let header = message.removeLast()
        try handle(
            RequestFrames(header: header, payload: payload), from: Route(endpoint: endpoint, frames: message))
    }

    private func handle(_ request: RequestFrames, from route: Route) throws(ZeroMQError) {
        guard let header = request.decodeHeader() else {
            return try refuse(
                ServiceError(
                    .invalidArgument, field: "request", "the first frame is no protobuf twofold.v1.Request"),
                seq: 0, to: route)
        }
        switch header.op {
        case nil:
            try refuse(
                ServiceError(
                    .invalidArgument, field: "op", "the request asks for nothing that this server knows"),
                seq: header.seq, to: route)
        case .hello where request.payload != nil:
            try refuse(
                ServiceError(.invalidArgument, field: "payload", "this request takes no payload frame"),
                seq: header.seq, to: route)
        case .hello(let hello):
            try answer(hello, seq: header.seq, to: route)
        case .some(let op):
            try admit(header, op, request, from: route)
        }
    }

    private func answer(_ hello: HelloRequest, seq: UInt64, to route: Route) throws(ZeroMQError) {
        var reply = Reply()
        reply.seq = seq
        do throws(ServiceError) {
            reply.result = .hello(try service.hello(hello))
        } catch {
            return try refuse(error, seq: seq, to: route)
        }
        statistics.executed += 1
        try send(ReplyFrames(reply), to: route)
    }

    private func admit(
        _ header: Request, _ op: Request.OneOf_Op, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) {
        switch ledger.admit(header, request, from: route) {
        case .refuse(let error):
            try refuse(error, seq: header.seq, to: route)
        case .resend(let reply):
            statistics.resent += 1
            try send(reply, to: route)
        case .parked:
            statistics.parked += 1
        case .execute(let entry):
            let job = Job(entry, seq: header.seq, op: op, request, service)
            if job.nanoseconds <= Self.inlineNanoseconds {
                job.perform()
                try finish(job)
            } else {
                jobsInProgress += 1
                queue.async { [mailbox] in
                    job.perform()
                    mailbox.deliver(job)
                }
            }
        }
    }

    // MARK: outcomes

    private func finish(_ job: Job) throws(ZeroMQError) {
        switch job.outcome! {
        case .success(let success):
            statistics.executed += 1
            log(success.change, of: job)
            try send(
                success.reply, to: ledger.complete(job.entry, reply: success.reply, change: success.change))
        case .failure(let error):
            try refuse(error, seq: job.seq, to: ledger.abandon(job.entry))
        }
    }

    private func log(_ change: SessionLedger.Change, of job: Job) {
        switch change {
        case .none: break
        case .created(let session):
            logger.info("session \(job.entry.id) created with \(session.environment.lanes) boards")
        case .closed: logger.info("session \(job.entry.id) closed")
        }
    }

    private func refuse(_ error: ServiceError, seq: UInt64, to route: Route) throws(ZeroMQError) {
        statistics.refused += 1
        var reply = Reply()
        reply.seq = seq
        reply.error = error.wire
        try send(ReplyFrames(reply), to: route)
    }

    /// A ROUTER never waits: a reply to somebody who has gone is dropped by libzmq.
    private func send(_ reply: ReplyFrames, to route: Route) throws(ZeroMQError) {
        reply.append(to: &route.frames)
        _ = try endpoints[route.endpoint].socket.trySend(&route.frames)
    }
}
