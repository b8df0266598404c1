internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// One accepted request of a session, from the ledger's yes to its outcome.
///
/// `@unchecked Sendable` because it has one owner at a time: the socket thread makes it, a worker
/// performs it, and the mailbox's mutex stands between the worker's last write and the socket thread's
/// first read. The session that it runs on is marked busy in the ledger for all that time.
final class Job: @unchecked Sendable {
    let entry: ServerLedger.Entry
    let seq: UInt64
    let kind: RequestKind
    let arrived: Moment
    private let op: Request.OneOf_Op
    private let request: RequestFrames
    private let service: EnvironmentService
    private let budget: MemoryBudget
    private(set) var outcome: Result<Success, ServiceError>?

    /// A reply, and what the request made of its session.
    struct Success {
        let reply: ReplyFrames
        let change: ServerLedger.Change
        /// Boards that it has stepped, each as often as it was.
        var steps = 0
    }

    init(
        _ entry: ServerLedger.Entry, seq: UInt64, op: Request.OneOf_Op, _ request: RequestFrames,
        arrived: Moment, _ service: EnvironmentService, _ budget: MemoryBudget
    ) {
        self.entry = entry
        self.seq = seq
        kind = RequestKind(op)
        self.arrived = arrived
        self.op = op
        self.request = request
        self.service = service
        self.budget = budget
    }

    /// About how long it will take on one thread; a create touches the memory of all its boards.
    var nanoseconds: Int {
        if case .create(let create) = op { return 10 * Int(min(create.numEnvs, 1 << 32)) }
        return entry.session?.environment.nanoseconds(op, payload: request.payloadSize) ?? 0
    }

    /// Whether it searches for actions.
    var isSearch: Bool { ServedEnvironment.isSearch(op) }

    /// What is said to a request that comes too late; it may be sent again.
    static var stopping: ServiceError {
        var error = ServiceError(.shuttingDown, "this server is about to stop; ask again in a second")
        error.retryAfter = retryAfter
        return error
    }

    /// When to come back, in milliseconds: what a restart takes, about.
    private static let retryAfter: UInt32 = 1000

    /// Carries the request out, unless it is too late for that.
    func perform(unless isTooLate: Bool = false) {
        do throws(ServiceError) {
            guard !isTooLate else { throw Self.stopping }
            outcome = .success(try execute())
        } catch {
            // A search that the stop has ended has not run out of its time.
            let isStopped = isSearch && service.stop.isSet && error.code == .resourceExhausted
            outcome = .failure(isStopped ? Self.stopping : error)
        }
    }

    private func execute() throws(ServiceError) -> Success {
        var reply = Reply()
        reply.seq = seq
        if case .create(let create) = op {
            try request.refusePayload()
            let (session, result) = try EnvironmentHost.create(create, service, budget)
            reply.result = .create(result)
            return Success(reply: try frames(reply), change: .created(session))
        }
        guard let session = entry.session else {
            throw ServiceError(.internal, "the session has no environment")
        }
        let outcome = try request.withPayload { (payload) throws(ServiceError) in
            try session.execute(op, payload: payload)
        }
        reply.result = outcome.result
        var change = ServerLedger.Change.none
        if case .close = outcome.result { change = .closed }
        return Success(reply: try frames(reply, outcome.payload), change: change, steps: outcome.steps)
    }

    private func frames(
        _ reply: Reply, _ payload: EnvironmentHost.Payload? = nil
    ) throws(ServiceError) -> ReplyFrames {
        do throws(ZeroMQError) { return try ReplyFrames(reply, payload: payload) } catch {
            throw ServiceError(.internal, "no memory for the reply: \(error)")
        }
    }
}
