internal import FoundationEssentials
internal import Synchronization
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

/// A service for callers in this process: the ledger of their sessions, and what carries out their requests on the
/// thread that calls.
///
/// `@unchecked Sendable` because the ledger is touched under `lock` alone, and a session's environment by the one
/// caller whose request the ledger has admitted.
final class EmbeddedService: @unchecked Sendable {
    private typealias Ledger = SessionLedger<KeptBytes, SessionOutcome, Caller>

    /// The moment of everything: no session here is ever idle for too long, and none has statistics.
    private static let anyTime = Moment(nanoseconds: 0)

    private let service: EnvironmentService
    private let budget: MemoryBudget
    private let caller = Caller()
    private let lock = Mutex<Void>(())
    private var ledger: Ledger

    init(_ settings: ServiceSettings) {
        budget = MemoryBudget(limit: settings.limits.maxBytes)
        service = settings.service(budget)
        ledger = Ledger(settings.limits)
    }

    /// Frees all sessions.
    func end() {
        let limits = service.limits
        locked { $0 = Ledger(limits) }
    }

    /// The answer to a request.
    enum Answer {
        /// One whose payload is still to be copied. A session's is kept, and may be asked for again.
        case kept(SessionOutcome)
        /// One whose payload, if any, went to the caller's memory; it is kept nowhere.
        case done(Reply.OneOf_Result, payloadSize: Int)
        case refused(ServiceError)
        /// The caller's memory has no room for so many bytes; nothing was done.
        case tooSmall(Int)
    }

    /// Carries out the request in a header; returns its seq, too. `memory` is the caller's for the payload; nil where
    /// nothing may be written before the reply's header is known.
    func call(
        _ header: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer?,
        memory: UnsafeMutableRawBufferPointer?
    ) -> (seq: UInt64, Answer) {
        let request: Request
        do throws(ServiceError) {
            request = try Request.decode(header)
            try checkSize(payload)
        } catch {
            return (0, .refused(error))
        }
        return (request.seq, answer(request, header, payload, memory))
    }

    private func answer(
        _ request: Request, _ header: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer?,
        _ memory: UnsafeMutableRawBufferPointer?
    ) -> Answer {
        switch request.op {
        case nil: return .refused(.unknownOp)
        case .hello(let hello):
            guard payload == nil else { return .refused(.noPayload) }
            do throws(ServiceError) {
                return .done(.hello(try service.hello(hello)), payloadSize: 0)
            } catch {
                return .refused(error)
            }
        case .expand(let expand): return self.expand(expand, payload, memory)
        case .stats, .resume:
            return .refused(
                ServiceError(
                    .invalidArgument, field: "op",
                    "sessions in this process have no statistics, and nobody else can resume them"))
        case .some(let op):
            let kept: KeptBytes
            do throws(ServiceError) {
                kept = try KeptBytes(header: Array(header), ofCaller: payload.map(Actions.init))
            } catch {
                return .refused(error)
            }
            var verdict: Ledger.Verdict!
            locked { verdict = $0.admit(request, kept, from: caller, at: Self.anyTime) }
            return settle(verdict, kept, op)
        }
    }

    /// Carries out a step. Only as many actions as there are boards are read.
    func step(_ session: SessionID, epoch: UInt32, seq: UInt64, actions: Actions) -> Answer {
        var isRead = actions.count <= KeptBytes.smallBytes
        if !isRead { locked { isRead = $0.boards(of: session) == actions.count } }
        let kept: KeptBytes
        do throws(ServiceError) {
            kept =
                isRead
                ? try KeptBytes(header: [], ofCaller: actions) : KeptBytes(header: [], payload: [])
        } catch {
            return .refused(error)
        }
        var verdict: Ledger.Verdict!
        locked { verdict = $0.admit(session, epoch: epoch, seq: seq, kept, from: caller, at: Self.anyTime) }
        if case .execute(let entry, _) = verdict, kept.payloadSize != entry.boards {
            locked { $0.abandon(entry, at: Self.anyTime) }
            return .refused(
                ServiceError(
                    .invalidArgument, field: "actions",
                    "there are \(actions.count) actions; the session has \(entry.boards) boards"))
        }
        return settle(verdict, kept, .step(.init()))
    }

    /// Does what the ledger says.
    private func settle(_ verdict: Ledger.Verdict, _ request: KeptBytes, _ op: Request.OneOf_Op) -> Answer {
        switch verdict {
        case .refuse(let error): return .refused(error)
        case .resend(let answer): return .kept(answer)
        case .parked:
            return .refused(
                ServiceError(
                    .failedPrecondition, field: "session", "another thread is carrying out this request"))
        case .create(let entry, let create): return carryOut(.create(create), request, of: entry)
        case .execute(let entry, let host): return carryOut(.request(op, host), request, of: entry)
        }
    }

    private func carryOut(_ work: SessionWork, _ request: KeptBytes, of entry: Ledger.Entry) -> Answer {
        do throws(ServiceError) {
            if let copy = try request.reserve(in: budget) { locked { _ in request.keep(copy) } }
            let outcome = try request.withPayload { (payload) throws(ServiceError) in
                try work.perform(payload: payload, service, budget)
            }
            locked { $0.complete(entry, reply: outcome, change: outcome.change, at: Self.anyTime) }
            return .kept(outcome)
        } catch {
            locked { $0.abandon(entry, at: Self.anyTime) }
            return .refused(error)
        }
    }

    /// The rules over arrays of boards, straight into the caller's memory, if it may be written.
    private func expand(
        _ request: ExpandRequest, _ payload: UnsafeRawBufferPointer?, _ memory: UnsafeMutableRawBufferPointer?
    ) -> Answer {
        var wanted = 0
        var buffer: PayloadPool.Buffer?
        do throws(ServiceError) {
            let expansion = try service.expansion(request)
            let reply = try expansion.perform(payload: payload) { (size) throws(EnvironmentError) in
                wanted = size
                guard let memory else {
                    let taken = try PayloadPool.Buffer(in: budget, size: size)
                    buffer = taken
                    return taken.bytes
                }
                guard size <= memory.count else { throw .exhausted("", "no memory for the reply") }
                return UnsafeMutableRawBufferPointer(rebasing: memory[..<size])
            }
            guard memory == nil else { return .done(.expand(reply), payloadSize: wanted) }
            let kept = buffer.map { EnvironmentHost.Payload($0, size: wanted) }
            return .kept(SessionOutcome(result: .expand(reply), payload: kept, change: .none, steps: 0))
        } catch {
            return memory.map { wanted > $0.count } == true ? .tooSmall(wanted) : .refused(error)
        }
    }

    private func checkSize(_ payload: UnsafeRawBufferPointer?) throws(ServiceError) {
        let limit = service.limits.maxMessageBytes
        guard let payload, payload.count > limit else { return }
        throw ServiceError(
            .resourceExhausted,
            "the payload has \(payload.count) bytes; TWOFOLD_MAX_MESSAGE_BYTES allows \(limit)")
    }

    private func locked(_ body: (inout Ledger) -> Void) { lock.withLock { _ in body(&ledger) } }
}
