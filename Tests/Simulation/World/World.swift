internal import Logging
internal import Platform
internal import Synchronization
internal import TwofoldCore
internal import TwofoldServer
internal import TwofoldSessions
internal import TwofoldTestSupport
internal import ZeroMQ

/// A simulated system in one thread: clients, servers with their disk, the network between them, and one clock. A
/// queue of events drives the system. The seed and the clients' actions determine all events.
///
///     client ──send──► network ──► server (the real SessionMachine, ledger, service, state directory)
///            ◄─inbox── network ◄──   │
///                                    └──► Oracle: checks each reply
///
/// The clients' code is outside the world: ``next(until:)`` returns the number of the client that must act next.
final class World {
    /// An event at a point in time.
    indirect enum Event {
        case wake(client: Int, ticket: Int)
        /// A message reaches the servers' address or a client.
        case request(Packet)
        case reply(Packet)
        case server(ServerEvent)
        /// Faults of the network, of servers, of the disk and of the clock may happen.
        case trouble
    }

    /// A message in transit.
    struct Packet {
        let socket: Int
        /// The request's number on its socket, like the one that ZMQ_REQ_CORRELATE adds.
        let number: UInt32
        /// The client that the connection's key identifies.
        var owner: String?
        var header: [UInt8]
        var payload: [UInt8]?
        /// Whether the message was truncated.
        var isDamaged = false
    }

    private struct Socket {
        let client: Int
        let owner: String?
        var number: UInt32 = 0
        var inbox: [Packet] = []
        /// Whether the connection is cut, so that messages in transit are lost.
        var isCut = false
        /// Whether the network has truncated a request.
        var isRequestDamaged = false
    }

    let seed: UInt64
    private(set) var now = 0
    /// The part of ``now`` that comes from jumps of the clock.
    private(set) var jumped = 0
    var faults: Faults
    var dice: Dice
    /// The clock that servers read while they work.
    let clock: SimulatedClock
    private(set) var oracle: Oracle!
    private(set) var servers: Servers!
    private var queue = EventQueue<Event>()
    /// The number of each client's newest wake-up time, which replaces the earlier ones.
    private var tickets: [Int]
    private var sockets: [Int: Socket] = [:]
    private var socketCount = 0
    private var networkDownUntil = 0
    private let latency: Int
    private let timeBetweenTroubles: Int
    /// The first violation; nil if none has been found.
    private(set) var violation: String?
    private(set) var events = 0
    private(set) var requests = 0
    private(set) var marks = [Int](repeating: 0, count: Mark.allCases.count)

    init(seed: UInt64, clients: Int, disabled: UInt64, suppressed: [UInt64]) {
        self.seed = seed
        faults = Faults(seed: seed, disabled: disabled, suppressed: suppressed)
        var dice = Dice(seed: seed)
        tickets = Array(repeating: 0, count: clients)
        clock = SimulatedClock(seed: seed)
        latency = 20_000 + dice.below(400_000)
        timeBetweenTroubles = 200_000_000 + dice.below(3_000_000_000)
        self.dice = dice
        oracle = Oracle(self)
        servers = Servers(self)
        servers.start()
        add(.trouble, after: timeBetweenTroubles)
    }

    var moment: Moment { Moment(nanoseconds: now) }

    func reach(_ mark: Mark) { marks[mark.rawValue] += 1 }

    /// Whether events are printed, one line each.
    private let isLogged = getenv("TWOFOLD_SIMULATION_LOG") != nil

    /// The logger of the servers.
    var logger: Logger {
        Logger(label: "server") { [isLogged] label in
            guard isLogged else { return SwiftLogNoOpLogHandler() }
            return StreamLogHandler.standardOutput(label: label)
        }
    }

    private func log(_ text: () -> String) { if isLogged { print(now, text()) } }

    /// Records a violation; only the first one is kept.
    func violate(_ text: String) {
        if violation == nil { violation = "at \(now) ns: " + text }
    }

    func add(_ event: Event, after time: Int) { queue.add(event, at: now + time) }

    /// The marks that clients outside the world have reached, by name.
    var ownMarks: [String: Int] = [:]

    /// Ends the run when no client is left. Delivers the messages in transit, and then checks that the servers have no
    /// sessions left.
    func settle() {
        let end = now + 60_000_000_000
        while next(until: end) != nil {}
        servers.checkEmpty()
    }

    /// The report on the run: one name and its value per line.
    var report: String {
        var lines = ["time \(now)", "events \(events)", "requests \(requests)", "faults \(faults.ordinal)"]
        if let violation { lines.append("violation \(violation)") }
        lines += Fault.allCases.map { "fault.\($0) \(faults.counts[$0.rawValue])" }
        lines += Mark.allCases.map { "mark.\($0) \(marks[$0.rawValue])" }
        lines += ownMarks.sorted { $0.key < $1.key }.map { "mark.\($0.key) \($0.value)" }
        return lines.joined(separator: "\n")
    }

    /// Stops all faults, and makes the network and the server available again.
    func calm() {
        faults.calm()
        networkDownUntil = 0
        servers.recover()
    }

    // MARK: events

    /// Processes events until a client must act, and returns its number. Returns nil at the time `end`, after a
    /// violation, or if no event is left.
    func next(until end: Int = .max) -> Int? {
        while violation == nil, now < end, let (time, event) = queue.next() {
            if time > now { now = time }
            clock.set(now)
            events += 1
            switch event {
            case .wake(let client, let ticket): if tickets[client] == ticket { return client }
            case .request(let packet): arrive(packet)
            case .reply(let packet):
                guard sockets[packet.socket] != nil, now >= networkDownUntil || dice.once(in: 2) else {
                    continue
                }
                sockets[packet.socket]!.inbox.append(packet)
                let client = sockets[packet.socket]!.client
                tickets[client] += 1
                return client
            case .server(let event): servers.handle(event)
            case .trouble: makeTrouble()
            }
        }
        return nil
    }

    private func makeTrouble() {
        guard !faults.isCalm else { return }
        if faults.strikes(.clockJump) {
            let time = 1_000_000_000 * (1 + dice.below(100))
            now += time
            jumped += time
        }
        if faults.strikes(.partition) { networkDownUntil = now + dice.below(2_000_000_000) }
        if faults.strikes(.cut) {
            for socket in sockets.keys.sorted() where dice.once(in: 2) { sockets[socket]!.isCut = true }
        }
        servers.makeTrouble()
        add(.trouble, after: dice.below(2 * timeBetweenTroubles))
    }

    // MARK: the network

    private func delay() -> Int {
        let usual = latency / 2 + dice.below(latency)
        return faults.strikes(.delay) ? usual + dice.below(3_000_000_000) : usual
    }

    private func arrive(_ packet: Packet) {
        guard now >= networkDownUntil, sockets[packet.socket]?.isCut != true else { return }
        requests += 1
        log { "request \(packet.socket).\(packet.number) \(Log.request(packet))" }
        servers.take(packet)
    }

    /// Sends a server's reply through the network.
    func deliver(_ packet: Packet) {
        guard let socket = sockets[packet.socket], !socket.isCut, !faults.strikes(.dropReply) else { return }
        var packet = packet
        packet.isDamaged = socket.isRequestDamaged
        log { "reply \(packet.socket).\(packet.number) \(Log.reply(packet))" }
        if faults.strikes(.truncateReply) { truncate(&packet) }
        add(.reply(packet), after: delay())
        if faults.strikes(.doubleReply) { add(.reply(packet), after: delay()) }
    }

    private func truncate(_ packet: inout Packet) {
        packet.isDamaged = true
        if packet.payload != nil {
            // Remove an odd number of bytes, because the rest must not be a valid shorter request.
            packet.payload!.removeLast(min(packet.payload!.count, 1 + 2 * dice.below(8)))
        } else {
            packet.header.removeLast(1 + dice.below(packet.header.count))
        }
    }

    // MARK: for the clients

    /// Wakes the client at this time, unless a message arrives earlier. Replaces the client's previous wake-up time.
    func wake(_ client: Int, at time: Int) {
        tickets[client] += 1
        queue.add(.wake(client: client, ticket: tickets[client]), at: max(now, time))
    }

    func open(_ client: Int, as owner: String? = nil) -> Int {
        socketCount += 1
        sockets[socketCount] = Socket(client: client, owner: owner)
        return socketCount
    }

    func close(_ socket: Int) { sockets[socket] = nil }

    func send(_ socket: Int, header: [UInt8], payload: [UInt8]?) {
        guard sockets[socket] != nil else { return }
        let size = max(header.count, payload?.count ?? 0)
        if size > servers.maxMessageBytes {
            // libzmq would close the connection without an error message.
            violate("a client sent a frame of \(size) bytes; servers allow \(servers.maxMessageBytes)")
        }
        sockets[socket]!.number += 1
        // The socket reconnects automatically; messages in transit on the old connection are lost.
        sockets[socket]!.isCut = false
        var packet = Packet(
            socket: socket, number: sockets[socket]!.number, owner: sockets[socket]!.owner, header: header,
            payload: payload)
        if faults.strikes(.truncateRequest) {
            truncate(&packet)
            sockets[socket]!.isRequestDamaged = true
            reach(.truncatedRequest)
        }
        if !faults.strikes(.dropRequest) { add(.request(packet), after: delay()) }
        if faults.strikes(.doubleRequest) { add(.request(packet), after: delay()) }
    }

    /// Returns a socket's next reply to its newest request. Like a REQ socket, drops replies to older requests.
    func receive(_ socket: Int) -> Packet? {
        guard sockets[socket] != nil else { return nil }
        while !sockets[socket]!.inbox.isEmpty {
            let packet = sockets[socket]!.inbox.removeFirst()
            if packet.number == sockets[socket]!.number { return packet }
        }
        return nil
    }

    /// Returns true if a request over this socket was truncated.
    func isDamaged(_ socket: Int) -> Bool { sockets[socket]?.isRequestDamaged ?? false }

    /// Closes all sockets of a client. Messages in transit to the client are lost.
    func killClient(_ client: Int) { sockets = sockets.filter { $0.value.client != client } }
}

/// The clock that servers read while they work. Each reading takes time, sometimes a lot of it, so that long requests
/// are answered in parts. Only the arguments of ``restart(_:at:isOver:)`` determine this time, so that the same work
/// can be repeated.
final class SimulatedClock: Sendable {
    private let time = Atomic(0)
    private let state = Atomic(0 as UInt64)
    private let isOver = Atomic(false)
    /// The average interval, in readings, between readings that take 60 ms. The server answers a long request after 100
    /// ms.
    private let slowness: UInt64

    init(seed: UInt64) {
        var dice = Dice(seed: seed ^ 0x636c_6f63_6b)
        slowness = UInt64(2 + dice.below(1000))
    }

    var clock: Clock {
        Clock { [self] in
            var dice = Dice(seed: state.load(ordering: .relaxed))
            let next = dice.next()
            state.store(next, ordering: .relaxed)
            let hour = 3_600_000_000_000
            let passed = isOver.load(ordering: .relaxed) ? hour : next % slowness == 0 ? 60_000_000 : 1000
            return Moment(nanoseconds: time.add(passed, ordering: .relaxed).newValue)
        }
    }

    func set(_ now: Int) { time.store(now, ordering: .relaxed) }

    /// Starts a new piece of work. The seed determines how long each reading takes; if `isOver`, each takes an hour.
    func restart(_ seed: UInt64, at now: Int, isOver: Bool = false) {
        self.isOver.store(isOver, ordering: .relaxed)
        state.store(seed, ordering: .relaxed)
        time.store(now, ordering: .relaxed)
    }
}
