internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// One request for the rules over arrays of boards, from its check to its outcome. It belongs to no session:
/// the ledger never hears of it, and a repeat is simply another one.
///
/// `@unchecked Sendable` because it has one owner at a time: the socket thread makes it, a worker performs
/// it, and the mailbox's mutex stands between the worker's last write and the socket thread's first read.
final class ExpandJob: @unchecked Sendable {
    let route: Route
    let seq: UInt64
    private let expansion: Expansion
    private let request: RequestFrames
    private let budget: MemoryBudget
    private(set) var outcome: Result<ReplyFrames, ServiceError>?

    init(
        _ expansion: Expansion, seq: UInt64, _ request: RequestFrames, _ budget: MemoryBudget,
        from route: Route
    ) {
        self.expansion = expansion
        self.seq = seq
        self.request = request
        self.budget = budget
        self.route = route
    }

    /// About how long it will take on one thread.
    var nanoseconds: Int { expansion.nanoseconds }

    /// Carries the request out, unless it is too late for that.
    func perform(unless isTooLate: Bool = false) {
        do throws(ServiceError) {
            guard !isTooLate else { throw Job.stopping }
            outcome = .success(try execute())
        } catch {
            outcome = .failure(error)
        }
    }

    private func execute() throws(ServiceError) -> ReplyFrames {
        var buffer: PayloadPool.Buffer?
        var reply = Reply()
        reply.seq = seq
        reply.expand = try request.withPayload { (payload) throws(ServiceError) in
            try expansion.perform(payload: payload) { (size) throws(EnvironmentError) in
                do throws(MemoryBudget.Exhausted) {
                    let taken = PayloadPool.Buffer(try budget.reserve(size))
                    buffer = taken
                    return taken.bytes
                } catch {
                    throw .exhausted("", "no memory for the reply: \(error)")
                }
            }
        }
        do throws(ZeroMQError) {
            return try ReplyFrames(
                reply, payload: buffer.map { EnvironmentHost.Payload($0, size: $0.bytes.count) })
        } catch {
            throw ServiceError(.internal, "no memory for the reply: \(error)")
        }
    }
}
