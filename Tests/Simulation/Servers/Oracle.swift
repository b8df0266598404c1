internal import FoundationEssentials
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldServer
internal import TwofoldService
internal import TwofoldSessions

/// The oracle, which computes each result independently. A trajectory is a pure function of seed and actions.
/// Therefore a second environment that executes each request once, without faults, must give the same bytes.
///
///     request n, executed:     the second environment's bytes
///     request n, repeated:     the same reply, byte for byte
///     any other success:       a request was lost, or executed twice
///
/// It sees all messages that servers send, even messages that the network then loses.
final class Oracle {
    /// A request as it reached a server.
    struct Question {
        let request: Request
        let payload: [UInt8]?
        let owner: String?

        init?(_ packet: World.Packet) {
            guard let request = packet.header.withUnsafeBytes({ Request(frame: $0) }),
                request.session.count == 16
            else { return nil }
            self.request = request
            payload = packet.payload
            owner = packet.owner
        }

        func isSame(as other: Question) -> Bool { request == other.request && payload == other.payload }

        var name: String { SessionID(request.session)?.hex ?? "" }

        /// Whether the request belongs to no session. The ledger does not see such requests.
        var isOfNoSession: Bool {
            switch request.op {
            case .hello, .stats, .expand: true
            default: false
            }
        }

        /// The seed of the simulated clock during the request's execution.
        var clockSeed: UInt64 {
            request.session.reduce(request.seq) { $0 &* 0x100_0000_01b3 ^ UInt64($1) }
        }
    }

    /// The oracle's record of a session.
    final class Record {
        let owner: String?
        var seq: UInt64 = 0
        var epoch: UInt32 = 1
        /// The header and payload of the last reply, and its request.
        var header: [UInt8] = []
        var payload: [UInt8]?
        var question: Question?
        /// The second environment; nil before the create request and after the close request.
        var shadow: ServedEnvironment?
        /// The same boards under the plain rules; nil for most sessions.
        var plain: (any PlainSession)?
        /// The same boards in the in-process library; nil for most sessions.
        var twin: EmbeddedTwin.Session?
        var create = CreateRequest()
        var created = CreateReply()
        /// Whether the boards have been reset or restored since the create request.
        var wasReset = false
        /// The size of the session's network in bytes.
        var networkBytes = 0
        /// The number of the server that has the session.
        var server = 0
        /// The time of the last request or reply, whichever was later.
        var idleSince = 0
        /// The idle time at each save of the session. The key is the time that the server counted.
        var savedIdleTimes: [Int: Int] = [:]
        /// The next request, and the sender of its newest copy, which gets the reply.
        var pending: (question: Question, place: SimulatedServer.Place)?
        /// The holder that resumed the session last, and all earlier holders.
        var holder: Data?
        var formerHolders: [Data] = []
        /// Whether a server has saved the session. If so, the next server must restore it.
        var isSaved = false
        /// Whether the session is lost. Only a new create request may use its id again.
        var isLost = false
        var isClosed = false

        init(of owner: String?) { self.owner = owner }

        /// Returns the layouts of the arrays in the result's payload; nil if the payload is one piece.
        func layouts(of result: Reply.OneOf_Result) -> [PayloadLayoutMessage]? {
            switch result {
            case .reset, .observe, .restore: [created.reset]
            case .step(let step): step.hasFinals ? [created.step, step.finals] : [created.step]
            case .afterstates: [created.afterstates]
            case .rollout(let rollout): [rollout.arrays, rollout.finals]
            default: nil
            }
        }
    }

    unowned let world: World
    let service: EnvironmentService
    let memory = OracleMemory()
    private(set) lazy var twin = EmbeddedTwin(seed: world.seed)
    let plainSnapshots = PlainSnapshots()
    /// The records. The key contains the line of servers because a second server may have created the same session.
    var records: [Key: Record] = [:]
    /// The sessions that may no longer exist when their client uses them.
    var losable: Set<SessionID> = []

    /// The key of a record. A line is a server and its successors.
    struct Key: Hashable {
        let session: SessionID
        let line: Int
    }

    init(_ world: World) {
        self.world = world
        var settings = ServiceSettings(threads: 1)
        settings.limits = Limits()
        settings.limits.maxPolicyBytes = 1 << 22
        service = settings.service(MemoryBudget(limit: 1 << 60), clock: world.clock.clock)
    }

    /// Returns true if a session may no longer exist because its server has ended or because it was idle.
    func mayBeLost(_ session: SessionID) -> Bool { losable.contains(session) }

    // MARK: servers

    /// Records that a server has started with these sessions, and counts these idle times for them.
    func began(_ server: SimulatedServer, with sessions: [SessionID: Int]) {
        guard server.line == 0 else { return }
        for (session, idleTime) in sessions {
            guard let record = records[Key(session: session, line: 0)] else {
                world.violate("a server restored session \(session.hex), which never existed")
                continue
            }
            if record.isClosed { world.violate("a server restored session \(session.hex), which was closed") }
            record.server = server.number
            (record.isLost, record.isSaved) = (false, false)
            if let saved = record.savedIdleTimes[idleTime] {
                record.idleSince = world.now - saved
            } else {
                world.violate("session \(session.hex) was restored with an idle time that it never had")
            }
            record.pending = nil
        }
        for (key, record) in records where record.isSaved && record.server != server.number {
            world.violate("session \(key.session.hex) was saved, but not restored")
        }
        for (key, record) in records where key.line == 0 && record.server != server.number {
            record.isLost = true
            losable.insert(key.session)
        }
    }

    /// Records that a stopping server saves its sessions, for which it counts these idle times.
    func saves(_ sessions: [SessionID: Int], on server: SimulatedServer) {
        for (session, idleTime) in sessions {
            guard let record = records[Key(session: session, line: server.line)] else { continue }
            record.savedIdleTimes[idleTime] = world.now - record.idleSince
        }
    }

    /// Records that a server has ended. If the end was not clean, its sessions may be lost. `hasSaved` is true if the
    /// server has certainly saved all of them.
    func ended(_ server: SimulatedServer, isClean: Bool, hasSaved: Bool = false) {
        for record in records.values
        where record.server == server.number && !record.isClosed && !record.isLost {
            record.isSaved = hasSaved
        }
        for (key, record) in records where record.server == server.number && !isClean {
            losable.insert(key.session)
            record.isLost = true
        }
    }

    // MARK: requests

    /// Records a request that waits for a paused server.
    func arrived(_ question: Question, at server: SimulatedServer) {
        record(of: question, on: server)?.idleSince = world.now
    }

    /// Returns the record of a request's session; nil if the session does not belong to the sender.
    private func record(of question: Question, on server: SimulatedServer) -> Record? {
        guard let session = SessionID(question.request.session),
            let record = records[Key(session: session, line: server.line)], record.owner == question.owner
        else { return nil }
        return record
    }

    /// Records that a request has reached a server.
    func asked(_ question: Question, of server: SimulatedServer, from place: SimulatedServer.Place) {
        guard let record = record(of: question, on: server), !record.isLost else { return }
        record.idleSince = world.now
        guard question.request.seq == record.seq + 1, question.request.epoch == record.epoch else { return }
        if record.pending == nil || record.pending!.question.isSame(as: question) {
            record.pending = (question, place)
        }
    }

    // MARK: replies

    /// Checks a reply that a server sends.
    func answered(
        _ question: Question?, at place: SimulatedServer.Place, by server: SimulatedServer, isStopping: Bool,
        isLate: Bool,
        _ packet: World.Packet
    ) {
        guard let reply = packet.header.withUnsafeBytes({ Reply(frame: $0) }) else {
            return world.violate("a server sent a header that is not a Reply")
        }
        if case .error(let error) = reply.result { note(error.code) }
        guard let question, let session = SessionID(question.request.session), let op = question.request.op
        else { return }
        guard isOwners(question, session, reply, server) else { return }
        record(of: question, on: server)?.idleSince = world.now
        switch (op, reply.result) {
        case _ where question.isOfNoSession: return
        case (_, .resume(let resume)):
            if isLate { world.reach(.resumeWaited) }
            resumed(session, question.request, resume, packet.payload, server)
        case (.resume(let resume), .error(let error)):
            refused(resume, question.request, session, error, server)
        case (_, .error(let error)): refused(question, session, error, server)
        default: succeeded(question, session, reply, packet, place, server, isStopping)
        }
    }

    private func succeeded(
        _ question: Question, _ session: SessionID, _ reply: Reply, _ packet: World.Packet,
        _ place: SimulatedServer.Place, _ server: SimulatedServer, _ isStopping: Bool
    ) {
        let request = question.request
        let key = Key(session: session, line: server.line)
        if server.line != 0 { losable.insert(session) }
        if case .create = request.op, records[key].map(\.isLost) ?? true {
            records[key] = Record(of: question.owner)
        }
        guard let record = records[key] else {
            return world.violate("a server answered in session \(session.hex), which was never created")
        }
        guard !record.isLost else { return world.violate("the lost session \(session.hex) exists again") }
        if request.epoch != record.epoch {
            return world.violate(
                "a request for epoch \(request.epoch) of session \(session.hex) was answered; the session is "
                    + "at epoch \(record.epoch)")
        }
        if request.seq == record.seq {
            if record.isClosed { world.reach(.tombstone) }
            if record.seq == 1 { world.reach(.createRepeated) }
            if packet.header != record.header || packet.payload != record.payload {
                world.violate("request \(request.seq) of session \(session.hex) got two different replies")
            }
            return
        }
        guard request.seq == record.seq + 1, reply.seq == request.seq else {
            return world.violate(
                "request \(request.seq) of session \(session.hex) was executed after request \(record.seq)")
        }
        if let pending = record.pending, pending.question.isSame(as: question), pending.place != place {
            world.violate(
                "the reply to request \(request.seq) of session \(session.hex) went to an older route")
        }
        record.pending = nil
        (record.server, record.idleSince) = (server.number, world.now)
        switch request.op {
        case .create(let create): record.create = create
        case .reset, .restore: record.wasReset = true
        case .policy: record.networkBytes = Int(reply.policy.bytes)
        default: break
        }
        (record.seq, record.header, record.payload) = (request.seq, packet.header, packet.payload)
        record.question = question
        compare(question, reply, packet, record, isStopping)
        if case .close = request.op { record.isClosed = true }
    }

    /// Checks that the ledger refuses only requests that it must refuse. If the environment refuses a request, the
    /// second environment must refuse it too.
    private func refused(
        _ question: Question, _ session: SessionID, _ error: ServiceError, _ server: SimulatedServer
    ) {
        // A session of one server does not exist on the other.
        if server.line != 0 { losable.insert(session) }
        checkRoom(question, error, server)
        guard let record = records[Key(session: session, line: server.line)], !record.isLost,
            record.server == server.number
        else { return }
        let request = question.request
        let (isLast, isNext) = (request.seq == record.seq, request.seq == record.seq + 1)
        let isWrong =
            switch error.code {
            case .staleEpoch: request.epoch >= record.epoch
            // NOT_FOUND is right for an epoch that the session has not reached. It is also right for a closed session,
            // except in reply to a repeat of the close request.
            case .notFound:
                error.field == "session" && (!record.isClosed || isLast) && request.epoch <= record.epoch
            case .outOfSequence: isLast || isNext
            case .conflict: isLast && record.question?.isSame(as: question) == true
            default: false
            }
        if record.pending?.question.isSame(as: question) == true { record.pending = nil }
        if isWrong {
            world.violate(
                "request \(request.seq), epoch \(request.epoch) of session \(session.hex), which is at "
                    + "\(record.seq), epoch \(record.epoch), was refused: \(error.message)")
        }
        guard error.code == .invalidArgument || error.code == .failedPrecondition, isNext,
            request.epoch == record.epoch, let shadow = record.shadow, let op = request.op
        else { return }
        if record.plain?.hasOtherRules(op, question.payload ?? [], plainSnapshots) == true {
            world.reach(.plainOtherRules)
        }
        if case .create = op { return }
        do {
            _ = try execute(op, question, on: shadow, false)
            world.violate("a valid request was refused: \(error.message)")
        } catch {}
    }

    /// Checks that a server reports too many sessions only at a session limit, and that an open session always has
    /// memory for its steps.
    private func checkRoom(_ question: Question, _ error: ServiceError, _ server: SimulatedServer) {
        guard error.code == .resourceExhausted else { return }
        switch question.request.op {
        case .create where error.field == "session":
            if !server.isFull(for: question.owner) {
                world.violate("a create request was refused below the session limits: \(error.message)")
            }
        case .step, .reset, .observe, .keepalive, .close:
            world.violate("an open session has no memory for its requests: \(error.message)")
        default: break
        }
    }

    // MARK: marks

    private func note(_ code: ErrorCode) {
        switch code {
        case .invalidArgument: world.reach(.invalidArgument)
        case .notFound: world.reach(.notFound)
        case .failedPrecondition: world.reach(.failedPrecondition)
        case .outOfSequence: world.reach(.outOfSequence)
        case .conflict: world.reach(.conflict)
        case .staleEpoch: world.reach(.staleEpoch)
        case .resourceExhausted: world.reach(.resourceExhausted)
        case .shuttingDown: world.reach(.shuttingDown)
        case .internal: world.violate("a server answered INTERNAL")
        default: break
        }
    }
}

extension SessionID {
    /// The first four bytes of the session id in hexadecimal. Unlike `description`, they are the same in each run.
    var hex: String {
        bytes.prefix(4).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
