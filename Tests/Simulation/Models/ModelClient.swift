internal import FoundationEssentials
internal import TwofoldProtocol
internal import TwofoldSessions
internal import TwofoldTestSupport

/// A client that follows the protocol and sometimes deliberately breaks it. It creates and uses sessions, takes over
/// sessions of other clients, repeats unanswered requests, and dies.
///
///     free ──► has a session ──request──► waits ──reply──► has a session
///                                          │ timeout: the same bytes over another socket
///                                          └── STALE_EPOCH, NOT_FOUND ──► free
final class ModelClient {
    private unowned let run: ModelRun
    private let number: Int
    private let owner: String?
    private var dice: Dice
    private var socket: Int?
    private var state = State.free
    /// The simulated nanoseconds after which a request without a reply is sent again.
    private var patience = 0

    private enum State {
        case free
        case holding(Hold)
        case waiting(Waiting)
        case done
    }

    /// A session that this client uses, and its position in it.
    private struct Hold {
        let session: ModelSession
        var epoch: UInt32
        var seq: UInt64
        /// Whether the server has refused a request since the last reply.
        var wasRefused = false
        /// The last request and its reply.
        var last: (request: Request, payload: [UInt8]?, reply: World.Packet)?
    }

    private struct Waiting {
        var hold: Hold
        let request: Request
        let payload: [UInt8]?
        /// The purpose of the request, which determines the expected reply.
        var purpose = Purpose.request
        var tries = 0
        var retryAt = 0
        /// Whether the network damaged the request in any attempt.
        var wasDamaged = false
    }

    private enum Purpose {
        case request
        /// A repeat of an answered request, which must get the same reply.
        case again(World.Packet)
        /// A request that breaks the protocol, which must be refused with one of these codes.
        case wrong([ErrorCode])
        case resume
        /// A request about another client's session. The server must answer NOT_FOUND.
        case intrusion
    }

    init(_ run: ModelRun, number: Int, owner: String?, seed: UInt64) {
        self.run = run
        self.owner = owner
        self.number = number
        dice = Dice(seed: seed &+ UInt64(number) &* 0x9e37_79b9)
        run.world.wake(number, at: dice.below(1_000_000))
    }

    var isDone: Bool { if case .done = state { true } else { false } }

    var description: String {
        switch state {
        case .free: "free"
        case .holding: "between requests"
        case .waiting(let waiting): "waiting for request \(waiting.request.seq), try \(waiting.tries)"
        case .done: "done"
        }
    }

    /// Continues after a message has arrived or a timeout has passed.
    func proceed() {
        if run.world.faults.strikes(.killClient) { die() }
        while true {
            switch state {
            case .free: guard begin() else { return }
            case .holding(let hold): next(hold)
            case .waiting(let waiting): guard advance(waiting) else { return }
            case .done: return
            }
        }
    }

    private func die() {
        run.world.killClient(number)
        socket = nil
        state = .free
    }

    // MARK: requests

    /// Creates a session, or takes one over. Returns false if there is nothing to do.
    private func begin() -> Bool {
        guard !run.world.faults.isCalm else {
            state = .done
            return false
        }
        if let session = run.anySession(&dice), dice.once(in: 2) {
            guard session.owner == owner else {
                intrude(session)
                return true
            }
            // Some clients resume only a session that no other client has resumed since.
            let epoch = dice.once(in: 2) ? session.epoch : 0
            var request = Request(.resume(.init()), session: session.id.bytes, epoch: epoch)
            request.resume.holder = Data(dice.bytes(16))
            send(request, nil, Hold(session: session, epoch: 0, seq: 0), .resume)
            return true
        }
        let fork = dice.once(in: 4) ? run.anySession(&dice) : nil
        let session = ModelSession(&dice, of: owner, fork: fork?.snapshot == nil ? nil : fork)
        send(
            Request(.create(session.create), session: session.id.bytes, seq: 1), nil,
            Hold(session: session, epoch: 1, seq: 0))
        return true
    }

    /// Returns a random request within the servers' size limits.
    private func anyRequest(_ session: ModelSession) -> (Request.OneOf_Op, [UInt8]?) {
        let (op, payload) = ModelRequests.random(session, &dice)
        return payload?.count ?? 0 > run.world.servers.maxMessageBytes
            ? (.observe(.init()), nil) : (op, payload)
    }

    private func intrude(_ session: ModelSession) {
        var (op, payload) = anyRequest(session)
        var (epoch, seq) = (session.epoch, session.acknowledged + UInt64(dice.below(2)))
        switch dice.below(4) {
        case 0: (op, payload, epoch, seq) = (.create(session.create), nil, 1, 1)
        case 1:
            var resume = ResumeRequest()
            resume.holder = Data(dice.bytes(16))
            (op, payload, epoch, seq) = (.resume(resume), nil, dice.once(in: 2) ? 0 : epoch, 0)
        default: break
        }
        send(
            Request(op, session: session.id.bytes, epoch: epoch, seq: seq), payload,
            Hold(session: session, epoch: epoch, seq: seq), .intrusion)
    }

    private func next(_ hold: Hold) {
        let session = hold.session
        func request(_ op: Request.OneOf_Op, ahead: UInt64 = 1) -> Request {
            Request(op, session: session.id.bytes, epoch: hold.epoch, seq: hold.seq + ahead)
        }
        if run.world.faults.isCalm { return send(request(.close(.init())), nil, hold) }
        if !session.wasReset {
            let (op, payload) =
                dice.once(in: 4)
                ? ModelRequests.policy(session, &dice) : ModelRequests.reset(session, &dice)
            return send(request(op), payload, hold)
        }
        let (op, payload) = anyRequest(session)
        switch dice.below(60) {
        case 0:
            if let last = hold.last {
                if var other = last.payload, !other.isEmpty, dice.once(in: 2) {
                    other[other.count - 1] ^= 1
                    return send(last.request, other, hold, .wrong([.conflict]))
                }
                return send(last.request, last.payload, hold, .again(last.reply))
            }
        case 1:
            // Send a different request with the number of the last one.
            return send(request(.keepalive(.init()), ahead: 0), [1], hold, .wrong([.conflict]))
        case 2: return send(request(op, ahead: 1_000_000), payload, hold, .wrong([.outOfSequence]))
        case 3:
            var wrong = request(op)
            wrong.epoch = hold.epoch + 1_000_000
            return send(wrong, payload, hold, .wrong([.notFound]))
        case 4:
            var wrong = request(op)
            wrong.session = Data(dice.bytes(dice.once(in: 2) ? 16 : 5))
            return send(wrong, payload, hold, .wrong([.notFound, .invalidArgument]))
        case 5: return state = .free
        default: break
        }
        send(request(op), payload, hold)
    }

    private func send(
        _ request: Request, _ payload: [UInt8]?, _ hold: Hold, _ purpose: Purpose = .request
    ) {
        if case .close = request.op, hold.session.owner == owner { hold.session.mayBeClosed = true }
        if case .resume = purpose { hold.session.mayHaveMoved = true }
        transmit(Waiting(hold: hold, request: request, payload: payload, purpose: purpose))
    }

    private func transmit(_ waiting: Waiting) {
        var waiting = waiting
        if waiting.tries > 0 || socket == nil {
            if let socket { run.world.close(socket) }
            socket = run.world.open(number, as: owner)
        }
        waiting.tries += 1
        waiting.retryAt = run.world.now + 20_000_000 << min(waiting.tries, 6)
        run.world.send(socket!, header: waiting.request.frame, payload: waiting.payload)
        waiting.wasDamaged = waiting.wasDamaged || run.world.isDamaged(socket!)
        run.world.wake(number, at: waiting.retryAt)
        state = .waiting(waiting)
    }

    // MARK: replies

    /// Handles a reply, or sends the request again after a timeout. Returns false if the client must wait.
    private func advance(_ waiting: Waiting) -> Bool {
        while let packet = run.world.receive(socket!) {
            guard let reply = packet.header.withUnsafeBytes({ Reply(frame: $0) }), reply.result != nil else {
                guard packet.isDamaged else {
                    run.world.violate("a client got a header that is not a Reply"); return false
                }
                continue
            }
            if packet.isDamaged {
                // The request was refused because it arrived damaged, or the reply is too short. Send the same
                // request again.
                transmit(waiting)
                return false
            }
            return take(reply, packet, waiting)
        }
        if run.world.now >= waiting.retryAt {
            if waiting.tries > 3, dice.once(in: 20), !run.world.faults.isCalm {
                // The client gives up, as if it had died.
                die()
                return true
            }
            transmit(waiting)
        } else {
            run.world.wake(number, at: waiting.retryAt)
        }
        return false
    }

    /// Handles a decoded reply. Returns true if the client can continue at once.
    private func take(_ reply: Reply, _ packet: World.Packet, _ waiting: Waiting) -> Bool {
        let session = waiting.hold.session
        var hold = waiting.hold
        if case .error(let error) = reply.result { return refused(error, waiting) }
        switch waiting.purpose {
        case .wrong(let codes):
            run.world.violate("the server answered a request that it should have refused with \(codes[0])")
        case .again(let first):
            if first.header != packet.header || first.payload != packet.payload {
                run.world.violate("a repeat of request \(waiting.request.seq) got a different reply")
            }
        case .intrusion:
            // If a session is lost, a create starts another one.
            guard run.world.oracle.mayBeLost(session.id) else {
                run.world.violate("a client got a reply in another client's session, \(session.id.hex)")
                return false
            }
            state = .free
            return true
        case .resume:
            hold.epoch = reply.resume.epoch
            hold.seq = reply.resume.lastSeq
            session.wasReset = session.wasReset || reply.resume.wasReset
            session.epoch = max(session.epoch, hold.epoch)
        case .request:
            hold.seq = waiting.request.seq
            hold.wasRefused = false
            hold.last = (waiting.request, waiting.payload, packet)
            session.acknowledged = max(session.acknowledged, hold.seq)
            switch reply.result {
            case .create: run.add(session)
            case .reset, .restore: session.wasReset = true
            case .snapshot: session.snapshot = packet.payload
            case .close:
                // Sometimes repeat the close: the session's tombstone must answer.
                run.remove(session)
                if dice.once(in: 3), !run.world.faults.isCalm {
                    send(waiting.request, waiting.payload, hold, .again(packet))
                    return false
                }
                state = .free
                return true
            default: break
            }
        }
        if case .close = waiting.request.op { state = .free } else { state = .holding(hold) }
        return run.world.violation == nil
    }

    private func refused(_ error: ServiceError, _ waiting: Waiting) -> Bool {
        let session = waiting.hold.session
        let mayBeLost = session.mayBeClosed || run.world.oracle.mayBeLost(session.id)
        if case .wrong(let codes) = waiting.purpose, mayBeLost || codes.contains(error.code) {
            state = mayBeLost ? .free : .holding(waiting.hold)
            return true
        }
        if case .intrusion = waiting.purpose, mayBeLost || error.code == .notFound,
            error.code != .shuttingDown
        {
            state = .free
            return true
        }
        switch error.code {
        case .shuttingDown:
            var later = waiting
            later.retryAt = run.world.now + Int(error.retryAfterMs) * 1_000_000
            run.world.wake(number, at: later.retryAt)
            state = .waiting(later)
            return false
        case .conflict where waiting.wasDamaged:
            // A truncated copy is in progress and will be refused.
            state = .waiting(waiting)
            run.world.wake(number, at: waiting.retryAt)
            return false
        case .conflict where waiting.hold.wasRefused:
            // A late copy of the refused request is in progress; a resume invalidates it.
            state = .free
            return true
        case .notFound, .outOfSequence, .conflict:
            if case .create = waiting.request.op, error.code == .conflict { break }
            guard mayBeLost else { break }
            run.remove(session)
            state = .free
            return true
        case .staleEpoch:
            guard session.mayHaveMoved else { break }
            state = .free
            return true
        case .resourceExhausted:
            if case .create = waiting.request.op {
                state = .free
                run.world.wake(number, at: run.world.now + 50_000_000)
                return false
            }
            // Another copy of the request may still arrive and be executed. Send the same request again, or a resume,
            // which invalidates all copies.
            state = .free
            return true
        case .invalidArgument, .failedPrecondition:
            // The oracle knows whether the environment itself refuses the request.
            guard waiting.request.epoch == waiting.hold.epoch || mayBeLost else { break }
            if case .request = waiting.purpose {
                if case .reset = waiting.request.op, !session.wasReset, !mayBeLost { break }
                var hold = waiting.hold
                hold.wasRefused = true
                state = .holding(hold)
                return true
            }
        default: break
        }
        run.world.violate(
            "client \(number) got \(error.code) for request \(waiting.request.seq) of session "
                + "\(session.id.hex): \(error.message)")
        return false
    }
}
