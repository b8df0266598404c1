internal import Synchronization
internal import TwofoldCore
internal import TwofoldSessions

/// A service for callers in the same process. A lock protects its ``SessionMachine``. The work of a request runs
/// on the calling thread, outside the lock.
///
/// `@unchecked Sendable` because only code under `lock` uses the machine, except for its constants.
final class EmbeddedService: @unchecked Sendable {
    /// A placeholder time for all events. The real time is not needed, because embedded sessions never expire and
    /// have no statistics.
    private static let anyTime = Moment(nanoseconds: 0)

    private let settings: ServiceSettings
    /// The reply route of all callers. Callers cannot be distinguished, and each waits for its own reply.
    private let caller = Route(nil, arrived: EmbeddedService.anyTime)
    private let lock = Mutex<Void>(())
    private var machine: SessionMachine
    /// The effects of the current event, also protected by `lock`.
    private var effects: [SessionMachine.Effect] = []

    init(_ settings: ServiceSettings) {
        self.settings = settings
        machine = SessionMachine(settings, keys: nil, at: Self.anyTime)
    }

    /// Ends all sessions.
    func end() {
        let fresh = SessionMachine(settings, keys: nil, at: Self.anyTime)
        lock.withLock { _ in machine = fresh }
    }

    /// Executes a request, given as an encoded header and its payload.
    ///
    /// - Parameters:
    ///   - memory: The caller's memory for the reply's payload, for requests without a session. Nil if the
    ///     payload must not be written before the reply's header is known.
    /// - Returns: The reply. If the payload does not fit in `memory`, nothing is computed, and `missingRoom` is
    ///   the payload's size in bytes.
    func call(
        _ header: Frame, _ payload: Frame?, memory: UnsafeMutableRawBufferPointer?
    ) -> (reply: StoredReply, missingRoom: Int?) {
        answer(into: memory) { machine, effects in
            machine.take(header: header, payload: payload, from: caller, into: &effects)
        }
    }

    /// Executes a step.
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
        // If the service ends during the call, it switches to a new machine; this one lives until its last call ends.
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
