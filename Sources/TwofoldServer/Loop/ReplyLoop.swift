internal import Dispatch
internal import Glibc
internal import Logging
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// The thread that owns the sockets and the ledger: takes requests in, sends replies out, and carries
/// out what is small; what is large goes to a Dispatch queue and comes back through the mailbox.
///
///     sockets ──► route | header | payload ──► ledger ──► execute ──► reply ──► socket
///                                                │ (large)  ▲
///                                                └► queue ──┴── mailbox
///
/// Nothing that a client sends stops it: each message with a delimiter gets one reply, each without is dropped and
/// counted.
final class ReplyLoop {
    /// Frames of a message that are looked at: a route through a few proxies, the delimiter, header and
    /// payload.
    private static let maxFrames = 16
    /// Messages that one socket may have before the others get their turn, and nanoseconds that they may take:
    /// whoever sends much, or what takes long, does not hold up those who come over another.
    private static let turn = (messages: 64, time: Duration.microseconds(100))
    /// What takes no longer than this is done on this thread: handing it over would take as long.
    private static let inlineNanoseconds = 80_000
    /// The same while there is a single session, whose client waits for the reply: nobody else is held up but
    /// who comes in just then.
    private static let aloneNanoseconds = 2_000_000
    /// How often to look whether the parent is still there.
    private static let parentCheck = Duration.seconds(1)
    /// For how long requests that had arrived before the stop signal are still taken, and begun.
    private static let drainTime = Duration.seconds(1)
    /// For how long requests in progress may go on after the stop signal: beyond that the server ends without them.
    private static let lastTime = Duration.seconds(5)
    /// For how long whoever asks for something new after that is told to come back, at least.
    private static let farewellTime = Duration.milliseconds(100)
    /// Requests of no session that may be in progress at a time: nothing else limits them.
    private static let maxExpandJobs = 256

    private let endpoints: [Endpoint]
    /// Who may come in at encrypted endpoints; nil without any.
    private let authenticator: Authenticator?
    private let service: EnvironmentService
    private let configuration: ServerConfiguration
    private let logger: Logger
    private let mailbox: Mailbox
    /// How often to look for idle sessions; nil for never.
    private let idleCheck: Duration?
    private let queue = DispatchQueue(label: "twofold.batches", attributes: .concurrent)
    private let budget: MemoryBudget
    private let trimmer = MemoryTrimmer()
    /// Searches for actions run here, one request at a time, so that they never take all threads.
    private let searches = DispatchQueue(label: "twofold.searches")
    private var ledger: ServerLedger
    private var nextIdleCheck: Moment
    private let begin = Moment.now
    private var jobsInProgress = 0
    private var expandJobsInProgress = 0
    /// Whether nothing new is begun any more: it is refused as SHUTTING_DOWN.
    private let isRefusing = Flag()
    /// Whether what waits for a thread is not begun any more, either.
    private let isLate = Flag()
    /// Whether the stop signal has come.
    private var isDraining = false
    private var refusedConnections = RefusedConnectionsReport()
    private(set) var statistics = ServerStatistics()

    init(
        _ endpoints: [Endpoint], _ authenticator: Authenticator?, _ service: EnvironmentService,
        _ configuration: ServerConfiguration, logger: Logger
    ) throws(ServerError) {
        self.endpoints = endpoints
        self.authenticator = authenticator
        self.service = service
        self.configuration = configuration
        self.logger = logger
        mailbox = try Mailbox()
        budget = MemoryBudget(limit: configuration.service.limits.maxBytes)
        ledger = ServerLedger(configuration.service.limits)
        idleCheck = configuration.service.limits.idleTimeout.map { min(.seconds(60), $0 / 4) }
        nextIdleCheck = Moment.now + (idleCheck ?? .zero)
    }

    // MARK: the loop

    /// Serves until `stopDescriptor` becomes readable or the parent has gone; then answers what had
    /// arrived and what is in progress. On `reloadSignals` it reads the list of client keys again.
    func run(stopDescriptor: Int32, reloadSignals: Signals? = nil) throws(ZeroMQError) {
        var poller = Poller()
        let inputs = endpoints.map { poller.add($0.socket, for: .input) }
        let finished = poller.add(descriptor: mailbox.descriptor, for: .input)
        let stop = poller.add(descriptor: stopDescriptor, for: .input)
        let handshakes = authenticator.map { poller.add($0.socket, for: .input) }
        let reload = reloadSignals.map { poller.add(descriptor: $0.descriptor, for: .input) }
        let parentCheck = configuration.parentProcess.map { _ in Self.parentCheck }
        let timeout = [parentCheck, idleCheck].compactMap(\.self).min()

        while true {
            _ = try poller.wait(timeout: timeout)
            if !poller[finished].isEmpty { try sendFinished() }
            if let handshakes, !poller[handshakes].isEmpty { try authenticator?.answer(at: .now) }
            if let reload, !poller[reload].isEmpty {
                reloadSignals?.take()
                guard let authenticator else {
                    logger.info("stopping: hang-up")
                    break
                }
                authenticator.reload()
            }
            for (endpoint, input) in inputs.enumerated() where !poller[input].isEmpty {
                _ = try receive(from: endpoint)
            }
            endIdleSessions()
            refusedConnections.update(at: .now, logger)
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

    private func endIdleSessions() {
        guard let idleCheck, let idleTimeout = configuration.service.limits.idleTimeout, nextIdleCheck <= .now
        else {
            return
        }
        nextIdleCheck = Moment.now + idleCheck
        for entry in ledger.endIdle(for: idleTimeout, at: .now) {
            logEnd(of: entry, "idle for \(idleTimeout.components.seconds) s")
            statistics.sessionsExpired += 1
            trimmer.clear(afterFreeing: entry.session?.bytes ?? 0)
        }
    }

    /// Ends within a bounded time, whatever is asked: rollouts end at once, what waits for a thread for too long is
    /// refused, and what goes on for too long is left alone.
    ///
    /// (No unbind: libzmq would end the connections of the clients that wait for their replies.)
    private func drain() throws(ZeroMQError) {
        isDraining = true
        service.stop.set()
        let begin = Moment.now
        for endpoint in endpoints.indices {
            while Moment.now - begin < Self.drainTime, try receive(from: endpoint) {}
        }
        isRefusing.set()
        var poller = Poller()
        let finished = poller.add(descriptor: mailbox.descriptor, for: .input)
        let inputs = endpoints.map { poller.add($0.socket, for: .input) }
        // A private server's clients end with it.
        let farewell = Moment.now + (configuration.parentProcess == nil ? Self.farewellTime : .zero)
        while true {
            let now = Moment.now
            if now - begin >= Self.drainTime { isLate.set() }
            let next = begin + (isLate.isSet ? Self.lastTime : Self.drainTime)
            let end = jobsInProgress > 0 ? begin + Self.lastTime : farewell
            guard now < end else { break }
            _ = try poller.wait(timeout: min(next, end) - now)
            if !poller[finished].isEmpty { try sendFinished() }
            for (endpoint, input) in inputs.enumerated() where !poller[input].isEmpty {
                _ = try receive(from: endpoint)
            }
        }
        if jobsInProgress > 0 {
            logger.error("stopping without \(jobsInProgress) requests that go on for too long")
        }
    }

    private func sendFinished() throws(ZeroMQError) {
        for job in mailbox.collect() {
            jobsInProgress -= 1
            switch job {
            case .job(let job): try finish(job)
            case .expand(let job):
                expandJobsInProgress -= 1
                try finish(job)
            }
        }
    }

    // MARK: sessions between two runs

    /// Takes up the sessions that the last server has written there. A file that is no session, or one that
    /// can't be had here, stays.
    func restoreSessions(from directory: StateDirectory) {
        if directory.isOpenToOthers {
            logger.warning("others can look into the state directory, and take sessions over: chmod 700 it")
        }
        for name in directory.names {
            do {
                let saved = try directory.read(name)
                let (environment, _) = try service.create(saved.create)
                let session = try EnvironmentHost(environment, keeping: saved.create, budget)
                try session.restore(from: saved)
                let request = try RequestFrames(saved.lastRequest)
                try request.reserve(in: budget)
                let reply = try ReplyFrames(saved.lastReply, session.pool)
                guard CurvePublicKey(saved.clientKey) != nil || saved.clientKey.isEmpty,
                    let entry = ledger.restore(saved, session, last: (request, reply), at: .now)
                else { throw ServerError("it makes no sense") }
                statistics.sessionsCreated += 1
                if !directory.remove(name) {
                    logger.error(
                        "the file of session \(entry.id) stays: a later start would take it up again")
                }
                logger.info(
                    "session \(entry.id) restored", metadata: ["boards": .stringConvertible(entry.boards)])
            } catch {
                // because: a name is a session's id, which is a secret.
                logger.error(
                    "a session in the state directory can't be restored, and is left there: \(error)")
            }
        }
    }

    /// Ends all sessions; keeps them in the directory, if there is one, but for those whose request still goes on.
    func endSessions(keepingIn directory: StateDirectory?) {
        for entry in ledger.openEntries {
            guard let directory else {
                logEnd(of: entry, "the server stops")
                continue
            }
            guard !entry.isBusy else {
                logger.error("session \(entry.id) can't be kept: its last request goes on")
                continue
            }
            do {
                var saved = entry.saved
                // An open session that is not busy has carried out its create, at least.
                (saved.lastRequest, saved.lastReply) = (entry.last!.request.saved, entry.last!.reply.saved)
                try entry.session?.environment.save(into: &saved)
                try directory.write(saved)
                logEnd(of: entry, "the server stops, and keeps it")
            } catch {
                statistics.sessionsLost += 1
                logger.error("session \(entry.id) can't be kept: \(error)")
                logEnd(of: entry, "the server stops")
            }
        }
        directory?.settle()
    }

    // MARK: one message

    /// Handles the messages that are there, for one turn; whether there may be more.
    private func receive(from endpoint: Int) throws(ZeroMQError) -> Bool {
        let begin = Moment.now
        for _ in 0..<Self.turn.messages {
            var message = Multipart()
            guard
                let reception = try endpoints[endpoint].socket.tryReceive(
                    into: &message, maxFrames: Self.maxFrames)
            else { return false }
            statistics.received += 1
            try handle(message, isWhole: reception == .complete, from: endpoint)
            guard Moment.now - begin < Self.turn.time else { break }
        }
        return true
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
                seq: 0, to: Route(endpoint: endpoint, client: .anonymous, frames: message))
        }
        var payload: Message?
        if frames == 2 { payload = message.removeLast() }
        let header = message.removeLast()
        let client = client(of: header, at: endpoint)
        let route = Route(endpoint: endpoint, client: client ?? .anonymous, frames: message)
        guard client != nil else {
            return try refuse(
                ServiceError(.permissionDenied, "this client key is not let in any more"), seq: 0, to: route)
        }
        try handle(RequestFrames(header: header, payload: payload), from: route)
    }

    /// Who sent a frame; nil for somebody who is not let in any more.
    private func client(of frame: borrowing Message, at endpoint: Int) -> Client? {
        guard endpoints[endpoint].isEncrypted else { return .anonymous }
        guard let key = frame.userID.flatMap(CurvePublicKey.init) else { return nil }
        let client = Client.key(key.description)
        return authenticator?.name(of: client) == nil ? nil : client
    }

    private func handle(_ request: RequestFrames, from route: Route) throws(ZeroMQError) {
        let header: Request
        do throws(ServiceError) { header = try request.decodeHeader() } catch {
            return try refuse(error, seq: 0, to: route)
        }
        switch header.op {
        case nil: try refuse(.unknownOp, seq: header.seq, to: route)
        case .hello(let hello):
            logger.debug("hello from \(hello.client.prefix(100))")
            try answer(header, request, to: route) { () throws(ServiceError) in
                .hello(try service.hello(hello))
            }
        case .stats:
            try answer(header, request, to: route) { () throws(ServiceError) in
                .stats(stats(for: route.client))
            }
        case .expand(let expand):
            try perform(expand, seq: header.seq, request, from: route)
        case .resume:
            do throws(ServiceError) { try request.refusePayload() } catch {
                return try refuse(error, .resume, seq: header.seq, to: route)
            }
            try resume(header, from: route)
        case .some(let op):
            try admit(header, op, request, from: route)
        }
    }

    /// Answers a request that belongs to no session.
    private func answer(
        _ header: Request, _ request: RequestFrames, to route: Route,
        _ result: () throws(ServiceError) -> Reply.OneOf_Result
    ) throws(ZeroMQError) {
        let kind = RequestKind(header.op!)
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

    /// The rules over arrays of boards: no session, so the ledger has no say.
    private func perform(
        _ expand: ExpandRequest, seq: UInt64, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) {
        let job: ExpandJob
        do throws(ServiceError) {
            guard !isRefusing.isSet else { throw Job.stopping }
            guard expandJobsInProgress < Self.maxExpandJobs else {
                throw ServiceError(
                    .resourceExhausted, field: "op",
                    "this server carries out \(Self.maxExpandJobs) such requests at a time, and that many "
                        + "are in progress: try again")
            }
            let expansion = try service.expansion(expand)
            try request.reserve(in: budget)
            job = ExpandJob(expansion, seq: seq, request, budget, from: route)
        } catch {
            return try refuse(error, .expand, seq: seq, to: route)
        }
        if job.nanoseconds <= Self.inlineNanoseconds {
            job.perform()
            try finish(job)
        } else {
            jobsInProgress += 1
            expandJobsInProgress += 1
            queue.async { [mailbox, isLate] in
                job.perform(unless: isLate.isSet)
                mailbox.deliver(.expand(job))
            }
        }
    }

    private func resume(_ header: Request, from route: Route) throws(ZeroMQError) {
        switch ledger.resume(header, from: route, at: route.arrived) {
        case .refuse(let error):
            try refuse(error, .resume, seq: header.seq, to: route)
        case .waits(let inPlaceOfAnother):
            if inPlaceOfAnother { statistics.parked += 1 }
        case .answer(let reply, let last):
            statistics.countExecuted(.resume, arrived: route.arrived, at: .now, steps: 0)
            try send(last.resumed(reply, seq: header.seq), to: route)
        }
    }

    private func stats(for client: Client) -> StatsReply {
        var reply = StatsReply()
        reply.serverVersion = EnvironmentService.version
        reply.uptime = (Moment.now - begin) / .seconds(1)
        reply.draining = isDraining
        reply.threads = UInt32(configuration.service.threads)
        reply.limits = configuration.service.limits.wire
        reply.counters = statistics.counters
        reply.counters.keysRefused = UInt64(authenticator?.refused ?? 0)
        reply.usage.sessions = UInt64(ledger.openCount)
        reply.usage.boards = UInt64(ledger.openBoards)
        reply.usage.inProgress = UInt64(jobsInProgress)
        reply.usage.sessionBytes = UInt64(budget.used)
        reply.usage.residentBytes = UInt64(ProcessUsage.residentBytes)
        reply.usage.descriptors = UInt64(ProcessUsage.descriptors)
        reply.requests = statistics.requestStats(at: .now)
        reply.refusals = statistics.refusalStats()
        reply.sessions = ledger.openEntries.sorted { $0.begin < $1.begin }
            .filter { client == .anonymous || $0.owner == client }
            .map { entry in
                var session = SessionStats()
                session.id = "\(entry.id)"
                session.client = authenticator?.name(of: entry.owner) ?? ""
                session.environmentID = entry.session?.environment.id ?? ""
                session.boards = UInt64(entry.boards)
                session.requests = UInt64(entry.requests)
                session.age = (Moment.now - entry.begin) / .seconds(1)
                session.idle = (Moment.now - entry.lastRequest) / .seconds(1)
                session.bytes = UInt64(entry.session?.bytes ?? 0)
                session.busy = entry.isBusy
                return session
            }
        return reply
    }

    private func admit(
        _ header: Request, _ op: Request.OneOf_Op, _ request: RequestFrames, from route: Route
    ) throws(ZeroMQError) {
        switch ledger.admit(header, request, from: route, at: route.arrived) {
        case .refuse(let error):
            try refuse(error, RequestKind(op), seq: header.seq, to: route)
        case .resend(let reply):
            statistics.resent += 1
            try send(reply, to: route)
        case .parked:
            statistics.parked += 1
        case .execute(let entry):
            do throws(ServiceError) {
                guard !isRefusing.isSet else { throw Job.stopping }
                try request.reserve(in: budget)
            } catch {
                return try refuse(error, RequestKind(op), seq: header.seq, to: ledger.abandon(entry))
            }
            let job = Job(
                entry, seq: header.seq, op: op, request, arrived: route.arrived, service, budget)
            let limit = ledger.openCount == 1 ? Self.aloneNanoseconds : Self.inlineNanoseconds
            if job.nanoseconds <= limit, !job.isSearch {
                job.perform()
                try finish(job)
            } else {
                jobsInProgress += 1
                // Searches wait for each other, and none that begins now would get far.
                let isTooLate = job.isSearch ? isRefusing : isLate
                (job.isSearch ? searches : queue).async { [mailbox] in
                    job.perform(unless: isTooLate.isSet)
                    mailbox.deliver(.job(job))
                }
            }
        }
    }

    // MARK: outcomes

    private func finish(_ job: Job) throws(ZeroMQError) {
        switch job.outcome! {
        case .success(let success):
            statistics.countExecuted(job.kind, arrived: job.arrived, at: .now, steps: success.steps)
            note(success.change, of: job)
            try send(
                success.reply, to: ledger.complete(job.entry, reply: success.reply, change: success.change))
        case .failure(let error):
            try refuse(error, job.kind, seq: job.seq, to: ledger.abandon(job.entry))
        }
        if let successor = ledger.takeSuccessor(of: job.entry) {
            try resume(successor.header, from: successor.route)
        }
    }

    private func finish(_ job: ExpandJob) throws(ZeroMQError) {
        switch job.outcome! {
        case .success(let reply):
            statistics.countExecuted(.expand, arrived: job.route.arrived, at: .now, steps: 0)
            try send(reply, to: job.route)
        case .failure(let error):
            try refuse(error, .expand, seq: job.seq, to: job.route)
        }
    }

    private func note(_ change: ServerLedger.Change, of job: Job) {
        switch change {
        case .none: break
        case .created(let session):
            statistics.sessionsCreated += 1
            var begin: Logger.Metadata = [
                "environment": "\(session.environment.id)",
                "boards": .stringConvertible(session.environment.lanes),
            ]
            if let name = authenticator?.name(of: job.entry.owner), !name.isEmpty {
                begin["client"] = "\(name)"
            }
            logger.info("session \(job.entry.id) created", metadata: begin)
        case .closed:
            statistics.sessionsClosed += 1
            logEnd(of: job.entry, "closed")
            trimmer.clear(afterFreeing: job.entry.session?.bytes ?? 0)
        }
    }

    private func logEnd(of entry: ServerLedger.Entry, _ reason: String) {
        logger.info(
            "session \(entry.id) ended: \(reason)",
            metadata: [
                "requests": .stringConvertible(entry.requests),
                "seconds": .stringConvertible(Int((Moment.now - entry.begin) / .seconds(1))),
            ])
    }

    private func refuse(
        _ error: ServiceError, _ kind: RequestKind? = nil, seq: UInt64, to route: Route
    ) throws(ZeroMQError) {
        statistics.countRefused(kind, error.code)
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
