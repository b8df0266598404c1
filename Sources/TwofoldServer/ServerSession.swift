internal import TwofoldProtocol
internal import TwofoldService

/// What a session's requests run on: its boards and the memory of its replies. Belongs to whoever
/// executes the session's request.
final class ServerSession {
    let environment: EnvironmentSession
    let pool: PayloadPool
    /// Bytes that are reserved for its boards and the replies of stepping them.
    let bytes: Int
    private let boards: MemoryBudget.Reservation
    private let budget: MemoryBudget
    private var policies: MemoryBudget.Reservation?

    /// Reserves memory for the boards and for the replies that stepping them takes: a session that is
    /// admitted can be stepped, whatever others do.
    init(_ environment: EnvironmentSession, _ budget: MemoryBudget) throws(MemoryBudget.Exhausted) {
        bytes = environment.bytes + environment.replyBytes
        let own = try budget.part(bytes)
        boards = try own.reserve(environment.bytes)
        pool = PayloadPool(own, then: budget)
        self.environment = environment
        self.budget = budget
    }

    /// Reserves memory for what the policies will take once a request is carried out; what they take already
    /// stays reserved until ``settlePolicies(_:)``.
    func reservePolicies(for op: Request.OneOf_Op) throws(MemoryBudget.Exhausted) -> MemoryBudget.Reservation?
    {
        guard let wanted = environment.policyBytes(after: op), wanted != policies?.bytes ?? 0 else {
            return nil
        }
        return try budget.reserve(wanted)
    }

    /// The policies take that much now.
    func settlePolicies(_ reservation: MemoryBudget.Reservation?) {
        if let reservation { policies = reservation }
    }
}
