internal import Logging
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldServer
internal import TwofoldService
internal import TwofoldSessions
internal import TwofoldTestSupport
internal import ZeroMQ

/// An event at a server.
enum ServerEvent {
    /// A queue of the server performs work.
    case work(SimulatedServer, Work, for: Oracle.Question?)
    /// The server checks for idle sessions, or continues to shut down.
    case turn(SimulatedServer)
    /// A server starts at the address again.
    case start
    /// The second server ends, and requests reach the first one again.
    case switchBack
    /// A delayed message arrives at this server or, if that is nil, at the server that is running now.
    case again(World.Packet, SimulatedServer?)
}

/// The servers at the only address that clients know. There is usually one server, and sometimes also a second one.
final class Servers {
    private unowned let world: World
    private let configuration: ServerConfiguration
    private let disk: SimulatedDisk?
    /// The maximum frame size that a server accepts, in bytes.
    var maxMessageBytes: Int { configuration.service.limits.maxMessageBytes }
    private var count = 0
    /// The server of line 0; nil while it is down. Its successors have the same disk.
    private(set) var first: SimulatedServer?
    /// A server with separate sessions. While it exists, it receives all new requests.
    private(set) var second: SimulatedServer?

    init(_ world: World) {
        self.world = world
        var settings = ServiceSettings(threads: 1)
        settings.searchThreads = 1
        var limits = Limits()
        limits.maxSessions = world.dice.once(in: 4) ? 2 + world.dice.below(5) : 1000
        limits.maxBoards = world.dice.once(in: 4) ? 100 + world.dice.below(300) : 1 << 20
        // With less memory, it is used up more often just when an open session needs its reserve.
        let little = world.dice.once(in: 2) ? 1_000_000 : 100_000 + world.dice.below(400_000)
        limits.maxBytes = world.dice.once(in: 6) ? little : 1 << 28
        // A slow request or a pause can last longer than the shorter timeouts.
        let timeout = world.dice.once(in: 3) ? 1 + world.dice.below(4) : 20 + world.dice.below(100)
        limits.idleTimeout = world.dice.once(in: 2) ? nil : .seconds(timeout)
        if world.dice.once(in: 4) { limits.maxSessionsPerClient = 1 + world.dice.below(3) }
        if world.dice.once(in: 4) { limits.maxMessageBytes = 2000 }
        limits.maxPolicyBytes = 1 << 22
        settings.limits = limits
        configuration = ServerConfiguration(endpoints: [], settings)
        disk = world.dice.once(in: 3) ? nil : SimulatedDisk()
    }

    /// Starts a server of line 0 with the content of the disk.
    func start() {
        guard first == nil else { return }
        count += 1
        first = SimulatedServer(world, configuration, disk, number: count, line: 0)
        if first!.hasEnded { restart() }
    }

    func take(_ packet: World.Packet) {
        guard let server = second ?? first else {
            // If libzmq has not yet sent the message, it arrives once there is a server again. Otherwise it is
            // lost.
            if world.dice.once(in: 2) { world.add(.server(.again(packet, nil)), after: 100_000_000) }
            return
        }
        if second != nil { world.reach(.secondServerAsked) }
        server.take(packet)
    }

    func handle(_ event: ServerEvent) {
        switch event {
        case .work(let server, let work, let question): server.perform(work, for: question)
        case .turn(let server):
            server.turn()
            if server.hasEnded, server === first { restart() }
        case .start: start()
        case .switchBack:
            second?.kill()
            second = nil
        case .again(let packet, let server?): server.take(packet)
        case .again(let packet, nil): take(packet)
        }
    }

    private func restart() {
        first = nil
        world.add(.server(.start), after: world.dice.below(2_000_000_000))
    }

    func makeTrouble() {
        if let server = first {
            if world.faults.strikes(.stall) { server.stall(for: world.dice.below(2_000_000_000)) }
            if world.faults.strikes(.stopServer) {
                server.stop()
            } else if world.faults.strikes(.powerLoss) {
                server.kill()
                losePower()
                restart()
            } else if world.faults.strikes(.killServer) {
                server.kill()
                restart()
            }
        }
        if first == nil, world.faults.strikes(.powerLoss) { losePower() }
        if second == nil, world.faults.strikes(.secondServer) {
            count += 1
            second = SimulatedServer(world, configuration, nil, number: count, line: count)
            world.add(.server(.switchBack), after: world.dice.below(2_000_000_000))
        }
    }

    private func losePower() {
        guard let disk else { return }
        if disk.unsettledCount > 0 { world.reach(.lostNames) }
        disk.losePower(keeping: world.dice.below(disk.unsettledCount + 1))
    }

    func checkEmpty() { first?.checkEmpty() }

    /// Ends the second server and any pause of the first one.
    func recover() {
        second?.kill()
        second = nil
        first?.stall(for: 0)
    }
}

/// The process of one server, from its start to its end: the real ``SessionMachine``, its work and its state
/// directory.
final class SimulatedServer {
    /// The server's number, and its line. The first server and its successors belong to line 0.
    let number: Int
    let line: Int
    private unowned let world: World
    private let machine: SessionMachine
    private var effects: [SessionMachine.Effect] = []
    private let files: SimulatedFiles?
    private let directory: StateDirectory?
    private var idleCheck: IdleCheck?
    private var lastTurn = 0
    private var isAskedToStop = false
    private var stopping: (stop: Stop, refusalEnd: Moment)?
    private var pausedUntil = 0
    private(set) var hasEnded = false
    /// The number of created sessions when the statistics were last read.
    private var countedSessions: UInt64 = 0
    /// Whether the server is taking a message, so that its replies are immediate.
    private var isTaking = false
    private var unanswered = Unanswered()

    /// The sender of a request.
    struct Place: Hashable {
        let socket: Int
        let number: UInt32
    }

    init(_ world: World, _ configuration: ServerConfiguration, _ disk: SimulatedDisk?, number: Int, line: Int)
    {
        (self.number, self.line) = (number, line)
        self.world = world
        machine = SessionMachine(
            configuration.service, keys: { ([:], 0) }, clock: world.clock.clock, at: world.moment)
        files = disk.map { SimulatedFiles($0, world) }
        directory = files.map { StateDirectory($0) }
        idleCheck = configuration.service.limits.idleTimeout.map { IdleCheck($0, at: world.moment) }
        lastTurn = world.now
        if let directory {
            _ = machine.restoreSessions(from: directory, logger: world.logger, at: world.moment)
            if machine.statistics.counters.sessionsCreated > 0 { world.reach(.restored) }
        }
        world.oracle.began(self, with: idleTimes)
        if files?.isKilled == true { kill() }
        if let idleCheck { scheduleTurn(after: idleCheck.interval) }
    }

    private func scheduleTurn(after time: Duration) {
        world.add(.server(.turn(self)), after: Int(time / .nanoseconds(1)))
    }

    // MARK: events

    func take(_ packet: World.Packet) {
        guard !hasEnded else { return }
        let question = Oracle.Question(packet)
        guard world.now >= pausedUntil else {
            if let question { world.oracle.arrived(question, at: self) }
            return world.add(.server(.again(packet, self)), after: pausedUntil - world.now)
        }
        let (before, inProgress) = (machine.statistics.counters, machine.inProgress)
        var message = Multipart()
        // A process that cannot allocate a few bytes would have ended long before.
        withUnsafeBytes(of: packet.socket) { message.append(try! Message(copying: $0)) }
        withUnsafeBytes(of: packet.number) { message.append(try! Message(copying: $0)) }
        message.append(Message())
        message.append(try! Message(copying: packet.header))
        if let payload = packet.payload { message.append(try! Message(copying: payload)) }
        let place = Place(socket: packet.socket, number: packet.number)
        unanswered.add(question, from: place)
        let count = unanswered.count
        if let question { world.oracle.asked(question, of: self, from: place) }
        isTaking = true
        machine.take(
            message, isWhole: true, through: 0, from: { _ in .success(packet.owner) }, at: world.moment,
            into: &effects)
        settle(for: question)
        isTaking = false
        checkBegin(of: question, after: before, inProgress)
        if unanswered.count == count { unanswered.replaceOlder() }
        if machine.statistics.counters.resent > before.resent { world.reach(.resent) }
        if machine.statistics.counters.parked > before.parked { world.reach(.parked) }
        checkLimits()
    }

    /// Performs work from one of the server's queues.
    func perform(_ work: Work, for question: Oracle.Question?) {
        guard !hasEnded else { return world.reach(.killedDuringJob) }
        guard world.now >= pausedUntil else {
            return world.add(.server(.work(self, work, for: question)), after: pausedUntil - world.now)
        }
        let isLate = work.isTooLate(in: machine.phase)
        if isLate {
            world.reach(.jobTooLate)
        } else if machine.phase >= .late, question?.isOfNoSession != true {
            world.violate("a server started work in the last seconds of its shutdown")
        }
        finish(work, isLate ? .failure(.stopping) : result(of: work, question))
        settle(for: question)
        checkLimits()
    }

    private func result(of work: Work, _ question: Oracle.Question?) -> Result<StoredReply, ServiceError> {
        world.clock.restart(question?.clockSeed ?? 0, at: world.now)
        defer { world.clock.set(world.now) }
        return work.perform(machine.service)
    }

    private func finish(_ work: Work, _ result: Result<StoredReply, ServiceError>) {
        machine.finish(work, result, at: world.moment, into: &effects)
    }

    /// Performs the effects of an event, as the server's loop does.
    private func settle(for question: Oracle.Question?) {
        var next = 0
        while next < effects.count {
            let effect = effects[next]
            next += 1
            switch effect {
            case .send(let reply, let route): send(reply, to: route)
            case .perform(let work):
                if machine.place(of: work) == .here, !world.faults.strikes(.slowJob) {
                    finish(work, result(of: work, question))
                } else {
                    world.add(
                        .server(.work(self, work, for: question)),
                        after: 1000 + world.dice.below(1_000_000_000))
                }
            case .greeted, .began, .ended: break
            }
        }
        effects.removeAll(keepingCapacity: true)
    }

    private func send(_ reply: StoredReply, to route: Route) {
        var message = Multipart()
        try! (route.address as! Envelope).append(reply, to: &message)
        let socket = message[0].withUnsafeBytes { $0.loadUnaligned(as: Int.self) }
        let number = message[1].withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
        let place = Place(socket: socket, number: number)
        guard let answered = unanswered.answer(at: place) else {
            return world.violate("a server answered a message twice, or after a newer copy had replaced it")
        }
        let header = message[3].withUnsafeBytes { [UInt8]($0) }
        let payload = message.count > 4 ? message[4].withUnsafeBytes { [UInt8]($0) } : nil
        let packet = World.Packet(socket: socket, number: number, header: header, payload: payload)
        world.oracle.answered(
            answered.question, at: place, by: self, isStopping: machine.phase > .serving,
            isLate: !isTaking,
            packet)
        world.deliver(packet)
    }

    /// Checks that a server that refuses new requests neither executes nor starts a session's request. `before` and
    /// `inProgress` describe the state before the request.
    private func checkBegin(of question: Oracle.Question?, after before: Counters, _ inProgress: Int) {
        guard machine.phase >= .refusing, let op = question?.request.op else { return }
        switch op {
        case .hello, .stats, .resume: return
        default: break
        }
        if machine.statistics.counters.executed > before.executed || machine.inProgress > inProgress {
            world.violate("a server that refuses new requests has started one")
        }
    }

    private func checkLimits() {
        let (limits, counters) = (machine.service.limits, machine.statistics.counters)
        if counters.sessionsCreated != countedSessions {
            countedSessions = counters.sessionsCreated
            checkCounts(limits)
        }
        if machine.service.budget.used > limits.maxBytes {
            world.violate("\(machine.service.budget.used) bytes are in use; the limit is \(limits.maxBytes)")
        }
        guard machine.inProgress == 0 else { return }
        // Exactly one of these numbers counts each message.
        let ends =
            counters.executed + counters.refused + counters.resent + counters.parked + counters.dropped
        if counters.received != ends {
            world.violate("\(counters.received) messages were received, but \(ends) are counted as handled")
        }
        if counters.received % 16 == 0 { checkBudget() }
    }

    /// Checks that the budget counts at least the memory that is known to be in use.
    private func checkBudget() {
        let known = machine.ledger.openEntries.reduce(0) {
            $0 + $1.bytes + world.oracle.countedBytes(of: $1.id, on: self)
        }
        let counted = machine.service.budget.used
        if counted < known {
            world.violate("\(counted) bytes are counted, but at least \(known) are in use")
        }
    }

    private func checkCounts(_ limits: Limits) {
        let (ledger, entries) = (machine.ledger, Array(machine.ledger.openEntries))
        let boards = entries.reduce(0) { $0 + $1.boards }
        if entries.count > limits.maxSessions {
            world.violate("\(entries.count) sessions are open; the limit is \(limits.maxSessions)")
        }
        if boards > limits.maxBoards {
            world.violate("\(boards) boards are open; the limit is \(limits.maxBoards)")
        }
        if (ledger.openCount, ledger.openBoards) != (entries.count, boards) {
            world.violate(
                "\(ledger.openCount) sessions and \(ledger.openBoards) boards are counted; "
                    + "\(entries.count) and \(boards) are open")
        }
        let clients = entries.reduce(into: [String?: Int]()) { $0[$1.owner, default: 0] += 1 }
        if clients.contains(where: { $0.key != nil && $0.value > limits.maxSessionsPerClient }) {
            world.violate("a client has more sessions than its limit, \(limits.maxSessionsPerClient)")
        }
    }

    /// Returns true if a limit prevents this client from creating another session.
    func isFull(for owner: String?) -> Bool {
        let (limits, entries) = (machine.service.limits, Array(machine.ledger.openEntries))
        return entries.count >= limits.maxSessions
            || owner != nil
                && entries.filter { $0.owner == owner }.count >= limits.maxSessionsPerClient
    }

    // MARK: time, and the end

    func stall(for time: Int) { pausedUntil = world.now + time }

    /// Performs the loop's work between messages: continues a shutdown, or ends idle sessions. As in the loop, a check
    /// for idle sessions comes before a shutdown.
    func turn() {
        guard !hasEnded else { return }
        guard world.now >= pausedUntil else {
            // As in the loop, the waiting messages come first.
            return world.add(.server(.turn(self)), after: pausedUntil - world.now + 1)
        }
        if let stopping {
            let (phase, until) = stopping.stop.phase(
                at: world.moment, refusalEnd: stopping.refusalEnd, jobsInProgress: machine.inProgress)
            machine.service.phase.enter(phase)
            guard phase == .ended else {
                return scheduleTurn(after: min(until - world.moment, .milliseconds(10)))
            }
            end()
        } else {
            if idleCheck != nil { endIdle() }
            if isAskedToStop {
                beginStop()
            } else if let idleCheck {
                scheduleTurn(after: idleCheck.interval)
            }
        }
    }

    private func endIdle() {
        let (timeout, elapsed) = (idleCheck!.timeout, Duration.nanoseconds(world.now - lastTurn))
        world.oracle.turned(self, after: elapsed, timeout)
        lastTurn = world.now
        let expired = machine.statistics.counters.sessionsExpired
        machine.handle(
            idleCheck!.turn(at: world.moment, hasReadAll: true), at: world.moment, into: &effects)
        settle(for: nil)
        let open = machine.ledger.openEntries
        if machine.statistics.counters.sessionsExpired > expired {
            world.reach(.idleExpired)
            world.oracle.expired(on: self, after: timeout, still: Set(open.map(\.id)))
        }
        // A check soon after the last one, or after a pause, leaves idle sessions to the next check.
        if (idleCheck!.interval...timeout / 2).contains(elapsed) {
            world.oracle.checkIdle(open.filter(\.isIdle).map(\.id), on: self, timeout)
        }
        checkSessions()
    }

    /// Checks that sessions are open from their create request to their close request.
    private func checkSessions() {
        let entries = machine.ledger.openEntries
        world.oracle.checkOpen(
            entries.filter(\.isIdle).map(\.id), busy: entries.filter(\.isBusy).map(\.id), on: self)
    }

    func isOpen(_ session: SessionID) -> Bool { machine.ledger.openEntries.contains { $0.id == session } }

    /// Asks the server to stop. A paused server notices this after the pause.
    func stop() {
        guard !isAskedToStop, !hasEnded else { return }
        isAskedToStop = true
        turn()
    }

    private func beginStop() {
        machine.service.phase.enter(.draining)
        if machine.inProgress > 0 { world.reach(.stoppedDuringJob) }
        stopping = (Stop(at: world.moment), world.moment + .milliseconds(100))
        scheduleTurn(after: .milliseconds(1))
    }

    /// The idle time in nanoseconds of each session, as the server counts it.
    private var idleTimes: [SessionID: Int] {
        let times = machine.ledger.openEntries.map { ($0.id, world.now - $0.idleSince.nanoseconds) }
        return Dictionary(uniqueKeysWithValues: times)
    }

    private func end() {
        checkAnswers()
        checkSessions()
        world.oracle.saves(idleTimes, on: self)
        machine.endSessions(savingIn: directory, logger: world.logger, at: world.moment)
        hasEnded = true
        let isClean = files.map { !$0.isKilled } ?? false && machine.inProgress == 0
        // If a bit flips later, the next server detects the damage, and the session is lost.
        world.oracle.ended(
            self, isClean: isClean,
            hasSaved: isClean && machine.statistics.sessionsLost == 0
                && !world.faults.isPossible(.flippedBit))
    }

    /// Ends the server at once, without a clean shutdown.
    func kill() {
        guard !hasEnded else { return }
        hasEnded = true
        world.oracle.ended(self, isClean: false)
    }

    /// Checks that all messages have been answered if no work is in progress.
    private func checkAnswers() {
        if machine.inProgress == 0, unanswered.count > 0 {
            world.violate("\(unanswered.count) messages got no reply")
        }
    }

    /// Ends all sessions at the end of a run, and checks that no memory remains in use.
    func checkEmpty() {
        checkAnswers()
        checkSessions()
        machine.endIdle(since: world.moment + .seconds(1), at: world.moment, into: &effects)
        settle(for: nil)
        if machine.ledger.openCount != 0 || machine.ledger.openBoards != 0 {
            world.violate("\(machine.ledger.openCount) sessions are still open at the end of the run")
        }
        if machine.service.budget.used != 0 {
            world.violate("\(machine.service.budget.used) bytes are still in use at the end of the run")
        }
    }
}
