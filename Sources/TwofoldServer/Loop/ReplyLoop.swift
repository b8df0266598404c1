internal import Dispatch
internal import Logging
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// The loop of the thread that owns the sockets. It waits for messages, finished work, handshakes and signals, and
/// decides in which order to handle them. It performs the effects that the ``SessionMachine`` returns for each
/// event.
final class ReplyLoop {
    /// The maximum number of frames in a message: a route through a few proxies, the delimiter, the header and the
    /// payload.
    private static let maxFrames = 16
    /// The limits of one socket's turn. They keep clients that send many or slow requests from delaying the clients
    /// of other endpoints.
    private static let turn = (messages: 64, time: Duration.microseconds(100))
    /// The interval at which the loop checks that the parent process still exists.
    private static let parentCheck = Duration.seconds(1)
    /// The time without a message after which a stopping server stops reading. By then, it has read all messages sent
    /// before the stop, although libzmq passes on only a few messages from one connection before it reads the next.
    private static let drainPause = Duration.milliseconds(10)
    /// The time for which a stopping server with no work left keeps refusing requests, so that clients learn to retry.
    /// A private server does not wait, because its clients end together with it.
    private static let refusalTime = Duration.milliseconds(100)

    private let endpoints: [Endpoint]
    private let machine: SessionMachine
    /// The authenticator, which knows the authorised keys; nil without encryption.
    private let authenticator: Authenticator?
    /// The queues that run long work outside this thread, and the mailbox through which the results come back.
    ///
    ///     work ──► queue, searches or statistics ──► mailbox ──► work and result
    private let queue = DispatchQueue(label: "twofold.batches", attributes: .concurrent)
    private let searches = DispatchQueue(label: "twofold.searches")
    /// The queue for statistics. It has its own quality-of-service class, so batches never occupy its threads.
    private let statistics = DispatchQueue(label: "twofold.statistics", qos: .userInitiated)
    private let mailbox: Mailbox<(work: Work, result: Result<StoredReply, ServiceError>)>
    private let trimmer = MemoryTrimmer()
    private let configuration: ServerConfiguration
    private let logger: Logger
    private var refusedConnections = RefusedConnectionsReport()
    /// The message that is being sent.
    private var outgoing = Multipart()
    /// The effects of the current event.
    private var effects: [SessionMachine.Effect] = []

    init(
        _ machine: SessionMachine, _ endpoints: [Endpoint], _ authenticator: Authenticator?,
        _ configuration: ServerConfiguration, _ logger: Logger
    ) throws(SystemError) {
        self.machine = machine
        self.endpoints = endpoints
        self.authenticator = authenticator
        self.configuration = configuration
        self.logger = logger
        mailbox = try Mailbox()
    }

    /// Serves until `stopDescriptor` becomes readable or the parent process has ended. Then answers the requests
    /// that have arrived or are in progress. Each signal of `reloadSignals` reloads the list of client keys.
    func run(stopDescriptor: Int32, reloadSignals: Signals?) throws(ZeroMQError) {
        try serve(stopDescriptor, reloadSignals)
        try stop()
    }

    private func serve(_ stopDescriptor: Int32, _ reloadSignals: Signals?) throws(ZeroMQError) {
        var poller = Poller()
        let inputs = Inputs(of: self, &poller)
        let stop = poller.add(descriptor: stopDescriptor)
        let lists = authenticator.map { poller.add(descriptor: $0.lists.descriptor) }
        let reload = reloadSignals.map { poller.add(descriptor: $0.descriptor) }
        let parentCheck = configuration.parentProcess.map { _ in Self.parentCheck }
        var idleCheck = configuration.service.limits.idleTimeout.map { IdleCheck($0, at: .now) }
        let timeout = [parentCheck, idleCheck?.interval].compactMap(\.self).min()

        while true {
            _ = try poller.wait(timeout: timeout)
            if let reload, poller[reload] {
                reloadSignals?.take()
                guard let authenticator else { return logger.info("stopping: hang-up") }
                authenticator.reload()
            }
            if let lists, poller[lists] { authenticator?.replaceList() }
            let hasReadAll = try take(inputs, poller)
            let now = Moment.now
            if let finding = idleCheck?.turn(at: now, hasReadAll: hasReadAll) {
                machine.handle(finding, at: now, into: &effects)
                try settle(at: now)
            }
            refusedConnections.update(to: Platform.refusedConnections, at: now, logger)
            if poller[stop] { return logger.info("stopping") }
            if let parent = configuration.parentProcess, getppid() != parent {
                return logger.info("stopping: the parent process has ended")
            }
        }
    }

    /// Stops within a bounded time, even if requests are still running: see ``Phase``.
    ///
    /// (Does not unbind the sockets, because libzmq would then close the connections of clients that wait for
    /// replies.)
    private func stop() throws(ZeroMQError) {
        let stop = Stop(at: .now)
        machine.service.phase.enter(.draining)
        var poller = Poller()
        let inputs = Inputs(of: self, &poller)
        while Moment.now < stop.drainEnd, try poller.wait(timeout: Self.drainPause) > 0 {
            try take(inputs, poller)
        }
        let refusalEnd = Moment.now + (configuration.parentProcess == nil ? Self.refusalTime : .zero)
        while true {
            let now = Moment.now
            let (phase, until) = stop.phase(
                at: now, refusalEnd: refusalEnd, jobsInProgress: machine.inProgress)
            machine.service.phase.enter(phase)
            guard phase < .ended else { break }
            _ = try poller.wait(timeout: until - now)
            try take(inputs, poller)
        }
        if machine.inProgress > 0 {
            logger.error("stopping after 5 s, although \(machine.inProgress) requests are still running")
        }
    }

    /// The sources that the loop polls: the handshakes, the finished work and the sockets.
    private struct Inputs {
        let handshakes: Poller.Item?
        let finished: Poller.Item
        let sockets: [Poller.Item]

        init(of loop: ReplyLoop, _ poller: inout Poller) {
            handshakes = loop.authenticator.map { poller.add($0.socket) }
            finished = poller.add(descriptor: loop.mailbox.descriptor)
            sockets = loop.endpoints.map { poller.add($0.socket) }
        }
    }

    /// Handles the events of the last wait: handshakes and finished work first, then one turn of each socket.
    /// Returns true if no message is left in the sockets.
    @discardableResult
    private func take(_ inputs: Inputs, _ poller: borrowing Poller) throws(ZeroMQError) -> Bool {
        if let handshakes = inputs.handshakes, poller[handshakes] { try authenticator?.answer(at: .now) }
        if poller[inputs.finished] {
            for (work, result) in mailbox.collect() {
                let now = Moment.now
                machine.finish(work, result, at: now, into: &effects)
                try settle(at: now)
            }
        }
        var hasReadAll = true
        for (endpoint, socket) in inputs.sockets.enumerated() where poller[socket] {
            if try receive(from: endpoint) { hasReadAll = false }
        }
        return hasReadAll
    }

    /// Receives and handles the waiting messages of one endpoint, up to the limits of one turn. Returns true if
    /// more messages may be waiting.
    private func receive(from endpoint: Int) throws(ZeroMQError) -> Bool {
        let begin = Moment.now
        var now = begin
        for _ in 0..<Self.turn.messages {
            var message = Multipart()
            guard
                let frameCount = try endpoints[endpoint].socket.tryReceive(
                    into: &message, maxFrames: Self.maxFrames)
            else { return false }
            machine.take(
                message, isWhole: frameCount <= Self.maxFrames, through: endpoint,
                from: { client(of: $0, at: endpoints[endpoint], now) }, at: now, into: &effects)
            try settle(at: now)
            now = .now
            guard now - begin < Self.turn.time else { break }
        }
        return true
    }

    /// Returns the key of the client that sent a frame, or the refusal if the key is no longer authorised.
    private func client(
        of frame: borrowing Message, at endpoint: Endpoint, _ now: Moment
    ) -> Result<String?, ServiceError> {
        guard endpoint.isEncrypted else { return .success(nil) }
        guard let authenticator else { preconditionFailure("an encrypted endpoint needs an authenticator") }
        return authenticator.client(of: frame, at: now)
    }

    /// Performs the effects of an event in order. Work that runs on this thread appends further effects.
    private func settle(at now: Moment) throws(ZeroMQError) {
        var next = 0
        while next < effects.count {
            let effect = effects[next]
            next += 1
            switch effect {
            case .send(let reply, let route): try send(reply, to: route)
            case .perform(let work):
                let place = machine.place(of: work)
                guard place == .here else {
                    handOver(work, to: place)
                    continue
                }
                let result = work.perform(machine.service)
                machine.finish(work, result, at: .now, into: &effects)
            case .greeted(let client): logger.debug("hello from \(client.prefix(100))")
            case .began(let entry):
                logger.began(entry, "created", of: entry.owner.flatMap { authenticator?.names[$0] })
            case .ended(let entry, let reason):
                logger.ended(entry, reason, at: now)
                trimmer.trim(afterFreeing: entry.bytes)
            }
        }
        effects.removeAll(keepingCapacity: true)
    }

    /// Starts work on the queue for `place`. The result arrives in the mailbox.
    private func handOver(_ work: Work, to place: Work.Place) {
        let queue =
            switch place {
            case .searches: searches
            case .statistics: statistics
            case .queue, .here: queue
            }
        queue.async { [service = machine.service, mailbox] in
            let isTooLate = work.isTooLate(in: service.phase.value)
            mailbox.deliver((work, isTooLate ? .failure(.stopping) : work.perform(service)))
        }
    }

    private func send(_ reply: StoredReply, to route: Route) throws(ZeroMQError) {
        guard let envelope = route.address as? Envelope else { preconditionFailure("routes have envelopes") }
        do throws(ZeroMQError) { try envelope.append(reply, to: &outgoing) } catch {
            // Without memory for the message, the reply is lost, as on a network. The client repeats its request.
            return outgoing.removeAll()
        }
        // A ROUTER never waits: libzmq drops a reply to a client that has disconnected.
        if try !endpoints[envelope.endpoint].socket.trySend(&outgoing) { outgoing.removeAll() }
    }
}

extension Logger {
    /// Logs that a session was created or restored. `client` is empty or nil if the client has no name.
    func began(_ entry: SessionLedger.Entry, _ verb: String, of client: String?) {
        var metadata: Logger.Metadata = [
            "environment": "\(entry.environmentID)", "boards": .stringConvertible(entry.boards),
        ]
        if let client, !client.isEmpty { metadata["client"] = "\(client)" }
        info("session \(entry.id) \(verb)", metadata: metadata)
    }

    /// Logs the end of a session.
    func ended(_ entry: SessionLedger.Entry, _ reason: String, at now: Moment) {
        let milliseconds = Int((now - entry.begin) / .milliseconds(1))
        info(
            "session \(entry.id) ended: \(reason)",
            metadata: [
                "requests": .stringConvertible(entry.requests),
                "seconds": .stringConvertible(Double(milliseconds) / 1000),
            ])
    }
}
