internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import ZeroMQ

/// One accepted request of a session, from the ledger's yes to its outcome.
///
/// `@unchecked Sendable` because it has one owner at a time: the socket thread makes it, a worker
/// performs it, and the mailbox's mutex stands between the worker's last write and the socket thread's
/// first read. The session that it runs on is marked busy in the ledger for all that time.
final class Job: @unchecked Sendable {
    let entry: SessionLedger.Entry
    let seq: UInt64
    let kind: RequestKind
    let arrived: Moment
    private let op: Request.OneOf_Op
    private let request: RequestFrames
    private let service: EnvironmentService
    private let budget: MemoryBudget
    private let session: ServerSession?
    private(set) var outcome: Result<Success, ServiceError>?

    /// A reply, and what the request made of its session.
    struct Success {
        let reply: ReplyFrames
        let change: SessionLedger.Change
        /// Boards that it has stepped, each as often as it was.
        var steps = 0
    }

    init(
        _ entry: SessionLedger.Entry, seq: UInt64, op: Request.OneOf_Op, _ request: RequestFrames,
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
        session = entry.session
    }

    /// About how long it will take on one thread; a create touches the memory of all its boards.
    var nanoseconds: Int {
        if case .create(let create) = op { return 10 * Int(min(create.numEnvs, 1 << 32)) }
        return session?.environment.nanoseconds(op) ?? 0
    }

    /// Whether it searches for actions.
    var isSearch: Bool { EnvironmentSession.isSearch(op) }

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
            outcome = .failure(error)
        }
    }

    private func execute() throws(ServiceError) -> Success {
        var reply = Reply()
        reply.seq = seq
        if case .create(let create) = op {
            try request.refusePayload()
            let (environment, result) = try makeEnvironment(create)
            reply.result = .create(result)
            return Success(
                reply: try frames(reply, payload: nil), change: .created(try makeSession(environment)))
        }
        guard let session else {
            throw ServiceError(.internal, "the session has no environment")
        }
        do throws(MemoryBudget.Exhausted) { try session.reservePolicies(for: op) } catch {
            throw ServiceError(.resourceExhausted, field: "policy", "no memory for the policy: \(error)")
        }
        var buffer: PayloadPool.Buffer?
        let outcome = try request.withPayload { (payload) throws(ServiceError) in
            try session.environment.execute(op, payload: payload) { (size) throws(EnvironmentError) in
                do throws(MemoryBudget.Exhausted) {
                    let taken = try session.pool.take(size: size)
                    buffer = taken
                    return taken.bytes
                } catch {
                    throw .exhausted("", "no memory for the reply: \(error)")
                }
            }
        }
        session.settlePolicies()
        reply.result = outcome.result
        let frames = try frames(reply, payload: buffer, size: outcome.payloadSize)
        return switch outcome.result {
        case .close: Success(reply: frames, change: .closed)
        case .step: Success(reply: frames, change: .none, steps: session.environment.lanes)
        case .rollout(let rollout):
            Success(reply: frames, change: .none, steps: Int(rollout.steps) * session.environment.lanes)
        default: Success(reply: frames, change: .none)
        }
    }

    /// Makes the boards once there is room for them; how much one takes is asked of a single one.
    private func makeEnvironment(
        _ create: CreateRequest
    ) throws(ServiceError) -> (EnvironmentSession, CreateReply) {
        var room: MemoryBudget.Reservation?
        // Any other number is refused by the service.
        if (1...UInt64(service.limits.maxBoardsPerSession)).contains(create.numEnvs) {
            var single = create
            single.numEnvs = 1
            let bytes = try service.create(single).0.bytes * Int(create.numEnvs)
            do throws(MemoryBudget.Exhausted) { room = try budget.reserve(bytes) } catch {
                throw Self.noMemoryForBoards(error)
            }
        }
        defer { withExtendedLifetime(room) {} }
        return try service.create(create)
    }

    private func makeSession(_ environment: EnvironmentSession) throws(ServiceError) -> ServerSession {
        do throws(MemoryBudget.Exhausted) {
            return try ServerSession(environment, budget)
        } catch {
            throw Self.noMemoryForBoards(error)
        }
    }

    private static func noMemoryForBoards(_ error: MemoryBudget.Exhausted) -> ServiceError {
        ServiceError(.resourceExhausted, field: "num_envs", "no memory for the boards: \(error)")
    }

    private func frames(
        _ reply: Reply, payload: PayloadPool.Buffer?, size: Int? = nil
    ) throws(ServiceError) -> ReplyFrames {
        do throws(ZeroMQError) {
            return try ReplyFrames(reply, payload: payload, size: size)
        } catch {
            throw ServiceError(.internal, "no memory for the reply: \(error)")
        }
    }
}
