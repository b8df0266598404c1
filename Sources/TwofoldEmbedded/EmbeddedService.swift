internal import FoundationEssentials
internal import Platform
internal import Synchronization
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

/// A place for a service for callers in the same process. A lock protects the service's ``SessionMachine``. The work
/// of a request runs on the calling thread, outside the lock.
///
/// The places exist as long as the process, so a call may end later than its service. `@unchecked Sendable` because only
/// code under `lock` uses the service, except for the machine's constants.
final class EmbeddedService: @unchecked Sendable {
    /// The maximum number of services.
    static let limit = 4096
    /// A service's number modulo `limit` is the index of its place.
    private static let all = (0..<limit).map { _ in EmbeddedService() }
    /// The number of `create` calls so far.
    private static let created = Atomic<UInt64>(0)
    /// A placeholder time for all events. The real time is not needed, because embedded sessions never expire and
    /// have no statistics.
    private static let anyTime = Moment(nanoseconds: 0)

    private let lock = Locked(())
    /// The service; nil if the place is free. `caller` is the reply route of all callers. Callers cannot be distinguished,
    /// and each waits for its own reply.
    private var service: (number: UInt64, machine: SessionMachine, caller: Route)?
    /// The effects of the current event, also protected by `lock`.
    private var effects: [SessionMachine.Effect] = []

    /// Creates a service and returns its number, which is never reused; nil if no place is free.
    static func create(_ settings: ServiceSettings) -> UInt64? {
        let machine = SessionMachine(settings, keys: nil, at: anyTime)
        let turn = created.add(1, ordering: .relaxed).newValue
        // Each call starts at a different place, because nearly all places are free.
        let number = (0..<UInt64(limit)).lazy.map { turn * UInt64(limit) + (turn &+ $0) % UInt64(limit) }
            .first { at($0).begin($0, machine) }
        if turn == 1, let number { playOneBoard(number) }
        return number
    }

    /// Plays one board, so that the constants on a request's path exist before any other call.
    ///
    /// because: a constant that one thread is initialising while another forks stays unfinished in the child, whose
    /// first use of it would never return.
    private static func playOneBoard(_ number: UInt64) {
        var create = CreateRequest()
        create.environmentID = "twofold/Game2048-v0"
        create.numEnvs = 1
        var request = Request()
        request.session = Data(count: 16)
        request.epoch = 1
        var reset = ResetRequest()
        reset.seeds = true
        func zeros(_ count: Int) -> Frame {
            [UInt8](repeating: 0, count: count).withUnsafeBytes(Frame.init(copying:))
        }
        let requests: [(Request.OneOf_Op, Frame?)] = [
            (.create(create), nil), (.reset(reset), zeros(8)), (.step(.init()), zeros(1)),
            (.close(.init()), nil),
        ]
        for (op, payload) in requests {
            request.seq += 1
            request.op = op
            request.frame.withUnsafeBytes { header in
                _ = call(number, Frame(ofCaller: header), payload, memory: nil)?.reply.header
            }
        }
    }

    private static func at(_ number: UInt64) -> EmbeddedService { all[Int(number % UInt64(limit))] }

    /// Starts a service here. Returns false if the place is taken. Never waits: in a forked child, nobody unlocks the
    /// places that other threads of the parent had locked.
    private func begin(_ number: UInt64, _ machine: SessionMachine) -> Bool {
        let isFree = lock.withLockIfAvailable { _ in
            guard service == nil else { return false }
            service = (number, machine, Route(nil, arrived: Self.anyTime))
            return true
        }
        return isFree ?? false
    }

    /// Ends a service and all its sessions. Returns false if the service does not exist.
    static func destroy(_ number: UInt64) -> Bool { at(number).end(number) }

    private func end(_ number: UInt64) -> Bool {
        var ended: SessionMachine?
        lock.withLock { _ in
            guard service?.number == number else { return }
            ended = service?.machine
            service = nil
        }
        return ended != nil
    }

    /// Executes a request, given as an encoded header and its payload.
    ///
    /// - Parameters:
    ///   - memory: The caller's memory for the reply's payload, for requests without a session. Nil if the
    ///     payload must not be written before the reply's header is known.
    /// - Returns: The reply; nil if the service does not exist. If the payload does not fit in `memory`, nothing is
    ///   computed, and `missingRoom` is the payload's size in bytes.
    static func call(
        _ number: UInt64, _ header: Frame, _ payload: Frame?, memory: UnsafeMutableRawBufferPointer?
    ) -> (reply: StoredReply, missingRoom: Int?)? {
        at(number).answer(number, into: memory) { machine, caller, effects in
            machine.take(header: header, payload: payload, from: caller, into: &effects)
        }
    }

    /// Executes a step. Returns nil if the service does not exist.
    static func step(
        _ number: UInt64, _ session: SessionID, epoch: UInt32, seq: UInt64, actions: Frame
    ) -> StoredReply? {
        let answer = at(number).answer(number, into: nil) { machine, caller, effects in
            machine.takeStep(session, epoch: epoch, seq: seq, actions: actions, from: caller, into: &effects)
        }
        return answer?.reply
    }

    private func answer(
        _ number: UInt64, into memory: UnsafeMutableRawBufferPointer?,
        _ take: (SessionMachine, Route, inout [SessionMachine.Effect]) -> Void
    ) -> (reply: StoredReply, missingRoom: Int?)? {
        // If the service ends during the call, its machine lives until its last call ends.
        var machine: SessionMachine?
        var reply: StoredReply?
        var work: Work?
        lock.withLock { _ in
            guard let service, service.number == number else { return }
            machine = service.machine
            take(service.machine, service.caller, &effects)
            collect(&reply, &work)
        }
        guard let machine else { return nil }
        if let work {
            let result = work.perform(machine.service, into: memory)
            lock.withLock { _ in
                machine.finish(work, result, at: Self.anyTime, into: &effects)
                var none: Work?
                collect(&reply, &none)
            }
        }
        guard let reply else { preconditionFailure("every call must produce a reply") }
        return (reply, work?.missingRoom)
    }

    /// Sorts the effects of an event into the reply for the caller and the work to do before the reply. Empties
    /// `effects`.
    private func collect(_ reply: inout StoredReply?, _ work: inout Work?) {
        for effect in effects {
            switch effect {
            case .send(let sent, _): reply = sent
            case .perform(let asked): work = asked
            case .greeted, .began, .ended: break
            }
        }
        effects.removeAll(keepingCapacity: true)
    }
}
