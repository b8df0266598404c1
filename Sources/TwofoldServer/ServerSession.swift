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
    /// What the policies take.
    private var policies: [MemoryBudget.Reservation] = []
    /// What they will take once the request in progress is done, and the part of it that is new.
    private var wanted: Int?
    private var more: MemoryBudget.Reservation?

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

    /// Goes on from what was written down.
    func takeUp(_ saved: SavedSession) throws {
        if saved.hasNetwork {
            var request = PolicyRequest()
            request.network = saved.network
            try reservePolicies(for: .policy(request))
        }
        try environment.takeUp(saved)
        settlePolicies()
    }

    private var held: Int { policies.reduce(0) { $0 + $1.bytes } }

    /// Reserves what the policies will take beyond what they do, if a request is carried out.
    func reservePolicies(for op: Request.OneOf_Op) throws(MemoryBudget.Exhausted) {
        wanted = environment.policyBytes(after: op)
        more = nil
        if let wanted, wanted > held { more = try budget.reserve(wanted - held) }
    }

    /// The request was carried out.
    func settlePolicies() {
        guard let wanted else { return }
        if let more {
            policies.append(more)
        } else if wanted < held {
            policies = []
            // because: that much has just been given back; should others have been faster, it is not counted
            // until the policies change again.
            if let reservation = try? budget.reserve(wanted) { policies = [reservation] }
        }
        more = nil
    }
}
