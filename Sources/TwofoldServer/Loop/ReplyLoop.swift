internal import Logging
internal import Platform
internal import TwofoldCore
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// The thread that owns the sockets: waits for messages, finished jobs, handshakes and signals, decides in which order
/// they get their turn, and does what ``Requests`` returns for each.
final class ReplyLoop {
    /// Frames of a message that are looked at: a route through a few proxies, the delimiter, header and
    /// payload.
    private static let maxFrames = 16
    /// Messages that one socket may have before the others get their turn, and how long they may take: clients that
    /// send much, or ask for what takes long, do not hold up those of another endpoint.
    private static let turn = (messages: 64, time: Duration.microseconds(100))
    /// How often to look whether the parent is still there.
    private static let parentCheck = Duration.seconds(1)
    /// Everything that had arrived was taken once nothing comes for this time: libzmq hands over only a few messages of a
    /// connection, and then reads the next.
    private static let drainPause = Duration.milliseconds(10)
    /// For how long a server with nothing in progress still asks clients to come back before it ends. The clients of a
    /// private server end with it.
    private static let refusalTime = Duration.milliseconds(100)

    private let endpoints: [Endpoint]
    private let requests: Requests
    private let runner: JobRunner
    private let trimmer = MemoryTrimmer()
    private let configuration: ServerConfiguration
    private let logger: Logger
    private var refusedConnections = RefusedConnectionsReport()

    init(_ requests: Requests, _ endpoints: [Endpoint]) throws(SystemError) {
        self.requests = requests
        self.endpoints = endpoints
        runner = try JobRunner(requests)
        configuration = requests.configuration
        logger = requests.logger
    }

    /// Serves until `stopDescriptor` becomes readable or the parent has gone; then answers what had
    /// arrived and what is in progress. On `reloadSignals` the list of client keys is read again.
    func run(stopDescriptor: Int32, reloadSignals: Signals?) throws(ZeroMQError) {
        try serve(stopDescriptor, reloadSignals)
        try stop()
    }

    private func serve(_ stopDescriptor: Int32, _ reloadSignals: Signals?) throws(ZeroMQError) {
        let authenticator = requests.authenticator
        var poller = Poller()
        let inputs = Inputs(runner, endpoints, &poller)
        let stop = poller.add(descriptor: stopDescriptor)
        let handshakes = authenticator.map { poller.add($0.socket) }
        let lists = authenticator.map { poller.add(descriptor: $0.lists.descriptor) }
        let reload = reloadSignals.map { poller.add(descriptor: $0.descriptor) }
        let parentCheck = configuration.parentProcess.map { _ in Self.parentCheck }
        var idleCheck = configuration.service.limits.idleTimeout.map { IdleCheck($0, at: .now) }
        let timeout = [parentCheck, idleCheck?.interval].compactMap(\.self).min()

        while true {
            _ = try poller.wait(timeout: timeout)
            if let handshakes, poller[handshakes] { try authenticator?.answer(at: .now) }
            if let reload, poller[reload] {
                reloadSignals?.take()
                guard let authenticator else { return logger.info("stopping: hang-up") }
                authenticator.reload()
            }
            if let lists, poller[lists] { authenticator?.replaceList() }
            let hasReadAll = try take(inputs, poller)
            let now = Moment.now
            if let finding = idleCheck?.turn(at: now, hasReadAll: hasReadAll) {
                try carryOut(requests.handle(finding, at: now))
            }
            refusedConnections.update(at: now, logger)
            if poller[stop] { return logger.info("stopping") }
            if let parent = configuration.parentProcess, getppid() != parent {
                return logger.info("stopping: the parent process has gone")
            }
        }
    }

    /// Ends within a bounded time, whatever is asked: see ``Phase``.
    ///
    /// (No unbind: libzmq would end the connections of the clients that wait for their replies.)
    private func stop() throws(ZeroMQError) {
        let stop = Stop(at: .now)
        requests.enter(.draining)
        var arrivals = Poller()
        for endpoint in endpoints { _ = arrivals.add(endpoint.socket) }
        while Moment.now < stop.drainEnd, try arrivals.wait(timeout: Self.drainPause) > 0 {
            for endpoint in endpoints.indices { _ = try receive(from: endpoint) }
        }
        let refusalEnd = Moment.now + (configuration.parentProcess == nil ? Self.refusalTime : .zero)
        var poller = Poller()
        let inputs = Inputs(runner, endpoints, &poller)
        while true {
            let now = Moment.now
            let (phase, until) = stop.phase(
                at: now, refusalEnd: refusalEnd, jobsInProgress: requests.inProgress)
            requests.enter(phase)
            guard phase < .ended else { break }
            _ = try poller.wait(timeout: until - now)
            try take(inputs, poller)
        }
        if requests.inProgress > 0 {
            logger.error("stopping without \(requests.inProgress) requests that go on for too long")
        }
    }

    /// Where requests and outcomes come from, in a poller.
    private struct Inputs {
        let finished: Poller.Item
        let sockets: [Poller.Item]

        init(_ runner: JobRunner, _ endpoints: [Endpoint], _ poller: inout Poller) {
            finished = poller.add(descriptor: runner.mailbox.descriptor)
            sockets = endpoints.map { poller.add($0.socket) }
        }
    }

    /// Takes what the last wait found: outcomes first, then a turn of each socket. Returns whether that was all.
    @discardableResult
    private func take(_ inputs: Inputs, _ poller: borrowing Poller) throws(ZeroMQError) -> Bool {
        if poller[inputs.finished] {
            for finished in runner.mailbox.collect() {
                try carryOut(requests.finish(finished.job, finished.outcome, at: .now))
            }
        }
        var hasReadAll = true
        for (endpoint, socket) in inputs.sockets.enumerated() where poller[socket] {
            if try receive(from: endpoint) { hasReadAll = false }
        }
        return hasReadAll
    }

    /// Takes the messages that are there, for one turn; returns whether there may be more.
    private func receive(from endpoint: Int) throws(ZeroMQError) -> Bool {
        let begin = Moment.now
        var now = begin
        for _ in 0..<Self.turn.messages {
            var message = Multipart()
            guard
                let reception = try endpoints[endpoint].socket.tryReceive(
                    into: &message, maxFrames: Self.maxFrames)
            else { return false }
            try carryOut(
                requests.take(
                    message, isWhole: reception == .complete, from: endpoint,
                    isEncrypted: endpoints[endpoint].isEncrypted, at: now))
            now = .now
            guard now - begin < Self.turn.time else { break }
        }
        return true
    }

    /// Does what an event of ``Requests`` has returned.
    private func carryOut(_ outputs: [Requests.Output]) throws(ZeroMQError) {
        for output in outputs {
            switch output {
            case .send(let reply, let route):
                reply.append(to: &route.frames)
                // A ROUTER never waits: a reply to a client that has gone is dropped by libzmq.
                _ = try endpoints[route.endpoint].socket.trySend(&route.frames)
            case .perform(let job, .here):
                let outcome = runner.perform(job)
                try carryOut(requests.finish(job, outcome, at: .now))
            case .perform(let job, let place): runner.handOver(job, to: place)
            case .freed(let bytes): trimmer.trim(afterFreeing: bytes)
            }
        }
    }
}
