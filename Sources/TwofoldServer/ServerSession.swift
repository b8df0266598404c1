internal import TwofoldService

/// What a session's requests run on: its boards and the memory of its replies. Belongs to whoever
/// executes the session's request.
final class ServerSession {
    let environment: EnvironmentSession
    let pool: PayloadPool
    /// Bytes that are reserved for its boards and the replies of stepping them.
    let bytes: Int
    private let boards: MemoryBudget.Reservation

    /// Reserves memory for the boards and for the replies that stepping them takes: a session that is
    /// admitted can be stepped, whatever others do.
    init(_ environment: EnvironmentSession, _ budget: MemoryBudget) throws(MemoryBudget.Exhausted) {
        bytes = environment.bytes + environment.replyBytes
        let own = try budget.part(bytes)
        boards = try own.reserve(environment.bytes)
        pool = PayloadPool(own, then: budget)
        self.environment = environment
    }
}
