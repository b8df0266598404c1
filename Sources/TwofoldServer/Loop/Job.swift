internal import TwofoldCore
internal import TwofoldProtocol
package import TwofoldService
package import TwofoldSessions
internal import ZeroMQ

/// One accepted request that takes time, from its check to its outcome.
///
/// `@unchecked Sendable` because it has one owner at a time: the socket thread makes it, and a worker performs it once.
/// Nothing in it changes; the environment that it runs on is the job's alone, since its session is busy in the ledger
/// for all that time.
package struct Job: @unchecked Sendable {
    /// What is to be carried out, and where the reply goes.
    enum Task {
        /// A session's request, whose route is in the ledger.
        case session(ServerLedger.Entry, SessionWork)
        /// The rules over arrays of boards. No session: the ledger never hears of it, and a repeat is another one.
        case expand(Expansion, Route)
        /// The server's statistics. No session either.
        case stats(StatsWork, Route)
    }

    /// What it becomes.
    package enum Outcome {
        /// `steps` are the boards that it stepped, each as often as it was.
        case done(ReplyFrames, SessionChange, steps: Int)
        case refused(ServiceError)
    }

    /// Where it is carried out.
    package enum Place {
        /// On the socket thread.
        case here
        /// On any thread, beside others.
        case queue
        /// One at a time, so that searches never take all threads.
        case searches
        /// One at a time and soon, because a probe waits for it.
        case statistics
    }

    /// What takes no longer than this is done on the socket thread: handing it over would take as long.
    private static let inlineNanoseconds = 80_000
    /// The same while the request's session is the only one: a wait delays only a client that arrives during this time.
    private static let aloneNanoseconds = 2_000_000

    let task: Task
    let seq: UInt64
    let kind: RequestKind
    let arrived: Moment
    let request: RequestFrames

    /// Where to carry it out; `isAlone` where no other session waits.
    func place(isAlone: Bool) -> Place {
        let cost: Cost
        switch task {
        case .session(_, let work) where work.isSearch: return .searches
        case .session(_, let work): cost = work.cost(payload: request.payloadSize)
        case .expand(let expansion, _): cost = expansion.cost
        case .stats: return .statistics
        }
        return cost.nanoseconds <= (isAlone ? Self.aloneNanoseconds : Self.inlineNanoseconds) ? .here : .queue
    }

    /// The reply's route, unless the ledger has it.
    var route: Route? {
        switch task {
        case .session: nil
        case .expand(_, let route), .stats(_, let route): route
        }
    }

    private var isSearch: Bool {
        if case .session(_, let work) = task { work.isSearch } else { false }
    }

    /// Whether a job that has waited for a thread is refused: a search that began now would not get far. Statistics are
    /// answered to the end.
    package func isTooLate(in phase: Phase) -> Bool {
        if case .stats = task { return false }
        return phase >= (isSearch ? .refusing : .late)
    }

    /// The answer to a request that comes too late; it may be sent again after what a restart takes, about.
    package static var stopping: ServiceError {
        var error = ServiceError(.shuttingDown, "this server is about to stop; ask again in a second")
        error.retryAfter = 1000
        return error
    }

    /// Carries the request out.
    package func perform(_ service: EnvironmentService, _ budget: MemoryBudget) -> Outcome {
        do throws(ServiceError) {
            return try execute(service, budget)
        } catch {
            // A search that the stop has ended has not run out of its time.
            let isStopped = isSearch && service.stop.isSet && error.code == .resourceExhausted
            return .refused(isStopped ? Self.stopping : error)
        }
    }

    private func execute(
        _ service: EnvironmentService, _ budget: MemoryBudget
    ) throws(ServiceError) -> Outcome {
        switch task {
        case .session(_, let work):
            let outcome = try request.withPayload { (payload) throws(ServiceError) in
                try work.perform(payload: payload, service, budget)
            }
            return .done(try reply(outcome.result, outcome.payload), outcome.change, steps: outcome.steps)
        case .expand(let expansion, _):
            var buffer: PayloadPool.Buffer?
            let result = try request.withPayload { (payload) throws(ServiceError) in
                try expansion.perform(payload: payload) { (size) throws(EnvironmentError) in
                    let taken = try PayloadPool.Buffer(in: budget, size: size)
                    buffer = taken
                    return taken.bytes
                }
            }
            let payload = buffer.map { EnvironmentHost.Payload($0, size: $0.bytes.count) }
            return .done(try reply(.expand(result), payload), .none, steps: 0)
        case .stats(let stats, _): return .done(try reply(.stats(stats.finish()), nil), .none, steps: 0)
        }
    }

    private func reply(
        _ result: Reply.OneOf_Result, _ payload: EnvironmentHost.Payload?
    ) throws(ServiceError) -> ReplyFrames {
        do throws(ZeroMQError) {
            if case .step(let step) = result, !step.hasFinals {
                return try ReplyFrames(toStep: seq, payload: payload)
            }
            var reply = Reply()
            reply.seq = seq
            reply.result = result
            return try ReplyFrames(reply, payload: payload)
        } catch {
            throw ServiceError(.internal, "no memory for the reply: \(error)")
        }
    }
}
