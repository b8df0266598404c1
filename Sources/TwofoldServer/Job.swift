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
    private let op: Request.OneOf_Op
    private let request: RequestFrames
    private let service: EnvironmentService
    private let session: ServerSession?
    private(set) var outcome: Result<Success, ServiceError>?

    /// A reply, and what the request made of its session.
    struct Success {
        let reply: ReplyFrames
        let change: SessionLedger.Change
    }

    init(
        _ entry: SessionLedger.Entry, seq: UInt64, op: Request.OneOf_Op, _ request: RequestFrames,
        _ service: EnvironmentService
    ) {
        self.entry = entry
        self.seq = seq
        self.op = op
        self.request = request
        self.service = service
        session = entry.session
    }

    /// About how long it will take on one thread; a create touches the memory of all its boards.
    var nanoseconds: Int {
        if case .create(let create) = op { return 10 * Int(min(create.numEnvs, 1 << 32)) }
        return session?.environment.nanoseconds ?? 0
    }

    /// Carries the request out.
    func perform() {
        do throws(ServiceError) {
            outcome = .success(try execute())
        } catch {
            outcome = .failure(error)
        }
    }

    private func execute() throws(ServiceError) -> Success {
        var reply = Reply()
        reply.seq = seq
        if case .create(let create) = op {
            try refusePayload()
            let (environment, result) = try service.create(create)
            reply.result = .create(result)
            return Success(
                reply: try frames(reply, payload: nil), change: .created(ServerSession(environment)))
        }
        guard let session else {
            throw ServiceError(.internal, "the session has no environment")
        }
        var buffer: PayloadPool.Buffer?
        reply.result = try request.withPayload { (payload) throws(ServiceError) in
            try session.environment.execute(op, payload: payload) { size in
                let taken = session.pool.take(size: size)
                buffer = taken
                return taken.bytes
            }
        }
        var isClose = false
        if case .close = op { isClose = true }
        return Success(reply: try frames(reply, payload: buffer), change: isClose ? .closed : .none)
    }

    private func refusePayload() throws(ServiceError) {
        guard request.withPayload({ $0 == nil }) else {
            throw ServiceError(.invalidArgument, field: "payload", "create takes no payload frame")
        }
    }

    private func frames(
        _ reply: Reply, payload: PayloadPool.Buffer?
    ) throws(ServiceError) -> ReplyFrames {
        do throws(ZeroMQError) {
            return try ReplyFrames(reply, payload: payload)
        } catch {
            throw ServiceError(.internal, "no memory for the reply: \(error)")
        }
    }
}
