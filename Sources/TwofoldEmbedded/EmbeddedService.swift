internal import Synchronization
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

/// A service for callers in this process: a session machine under a lock. The thread that calls performs the work, outside
/// the lock.
///
/// `@unchecked Sendable` because the machine is touched under `lock` alone, but for what never changes.
final class EmbeddedService: @unchecked Sendable {
    /// The moment of everything: no session here is ever idle for too long, and none has statistics.
    private static let anyTime = Moment(nanoseconds: 0)

    private let settings: ServiceSettings
    /// Callers can't be distinguished, and each waits for its own reply.
    private let caller = Route(.anonymous, arrived: EmbeddedService.anyTime)
    private let lock = Mutex<Void>(())
    private var machine: SessionMachine
    /// The effects of an event; under the lock, too.
    private var effects: [SessionMachine.Effect] = []

    init(_ settings: ServiceSettings) {
        self.settings = settings
        machine = SessionMachine(settings, keys: nil, at: Self.anyTime)
    }

    /// Frees all sessions.
    func end() {
        let fresh = SessionMachine(settings, keys: nil, at: Self.anyTime)
        lock.withLock { _ in machine = fresh }
    }

    /// Answers the request in a header. `memory` is the caller's for the payload of a request without a session; nil where
    /// nothing may be written before the reply's header is known. Where it has no room for the payload, nothing is
    /// computed, and the bytes that it takes are returned, too.
    func call(
        _ header: Frame, _ payload: Frame?, memory: UnsafeMutableRawBufferPointer?
    ) -> (reply: StoredReply, missingRoom: Int?) {
        answer(into: memory) { machine, effects in
            machine.take(header: header, payload: payload, from: caller, into: &effects)
        }
    }

    /// Answers a step.
    func step(_ session: SessionID, epoch: UInt32, seq: UInt64, actions: Frame) -> StoredReply {
        let answer = answer(into: nil) { machine, effects in
            machine.takeStep(session, epoch: epoch, seq: seq, actions: actions, from: caller, into: &effects)
        }
        return answer.reply
    }

    private func answer(
        into memory: UnsafeMutableRawBufferPointer?,
        _ take: (SessionMachine, inout [SessionMachine.Effect]) -> Void
    ) -> (reply: StoredReply, missingRoom: Int?) {
        // A service that ends meanwhile has another machine, and this one goes with its last call.
        var machine: SessionMachine!
        var reply: StoredReply?
        var work: Work?
        lock.withLock { _ in
            machine = self.machine
            take(machine, &effects)
            collect(&reply, &work)
        }
        if let work {
            let result = work.perform(machine.service, machine.budget, into: memory)
            lock.withLock { _ in
                machine.finish(work, result, at: Self.anyTime, into: &effects)
                var none: Work?
                collect(&reply, &none)
            }
        }
        guard let reply else { preconditionFailure("a call is answered") }
        return (reply, work?.missingRoom)
    }

    /// Takes what an event has for its caller: a reply, or work first.
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
