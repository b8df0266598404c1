internal import Platform
package import TwofoldCore
package import TwofoldProtocol
package import TwofoldService

/// The environment of an open session, the memory pool for its replies, and the memory reservations of both.
///
/// Only one request at a time may use the host. The ledger only stores it.
package final class EnvironmentHost {
    package let environment: ServedEnvironment
    package let pool: PayloadPool
    /// The number of bytes reserved for the boards, the create request, and the requests and replies of a client that
    /// only resets and steps.
    package let bytes: Int
    private let boards: MemoryBudget.Reservation
    private let budget: MemoryBudget
    /// The budget for the frames of the session's requests, which the ledger keeps.
    let requests: MemoryBudget
    /// The reservations for the network, and for the tables of the last rollout's policy.
    private var network, tables: MemoryBudget.Reservation?

    /// Executes a create request. Reserves memory for the boards, for the stored create request, and for the requests
    /// and replies of resets and steps. Therefore, the session can always be reset and stepped, no matter how much
    /// memory other sessions use.
    package init(
        _ create: CreateRequest, _ service: EnvironmentService, _ budget: MemoryBudget
    ) throws(ServiceError) {
        let boards = budget.reserveNothing()
        environment = try service.create(create, reserve: boards.growForBoards)
        do throws(Reason) {
            try boards.grow(by: create.frame.count)
            // because: longer replies and requests that the ledger keeps would use up the memory that resets and steps
            // need.
            pool = PayloadPool(try budget.part(environment.replyBytes, upTo: environment.longestStep))
            requests = try budget.part(environment.requestBytes, upTo: environment.longestRequest)
        } catch {
            throw ServiceError(
                .resourceExhausted, field: "num_envs", "no memory for the boards: \(error)")
        }
        bytes = boards.bytes + environment.replyBytes + environment.requestBytes
        self.boards = boards
        self.budget = budget
    }

    /// Executes one of the session's requests. `payload` is the request's payload frame, if there is one. If the
    /// function throws, the session is unchanged.
    package func execute(
        _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?
    ) throws(ServiceError) -> (result: Reply.OneOf_Result, payload: Frame?) {
        // because: a step changes no policy, and needs no memory except for its reply.
        if case .step = op { return try run(op, payload) }
        let policy = try reservePolicy(for: op)
        let working = try reserveWorking(for: op)
        defer { withExtendedLifetime(working) {} }
        let outcome = try run(op, payload)
        keep(policy)
        return outcome
    }

    /// Executes a request, with memory from the pool for the reply.
    private func run(
        _ op: Request.OneOf_Op, _ payload: UnsafeRawBufferPointer?
    ) throws(ServiceError) -> (result: Reply.OneOf_Result, payload: Frame?) {
        var buffer: PayloadPool.Buffer?
        let outcome = try environment.execute(op, payload: payload) { (size) throws(EnvironmentError) in
            let taken = try pool.take(size: size)
            buffer = taken
            return taken.bytes
        }
        return (outcome.result, buffer?.frame(outcome.payloadSize))
    }

    /// Returns the number of board steps in an executed request: the request's steps multiplied by the number of
    /// boards.
    func steps(of result: Reply.OneOf_Result) -> Int {
        switch result {
        case .step: environment.lanes
        case .rollout(let rollout): Int(rollout.steps) * environment.lanes
        default: 0
        }
    }

    /// Restores the state of a saved session.
    package func restore(from saved: SavedSession) throws {
        var request = PolicyRequest()
        if saved.hasNetwork { request.network = saved.network }
        let policy = try reservePolicy(for: .policy(request))
        try environment.restore(from: saved)
        keep(policy)
    }

    /// Reserves the memory that a request needs while it runs. Returns nil if the request needs little.
    private func reserveWorking(
        for op: Request.OneOf_Op
    ) throws(ServiceError) -> MemoryBudget.Reservation? {
        let bytes = environment.workingBytes(op)
        guard bytes > 0 else { return nil }
        do throws(Reason) { return try budget.reservePromised(bytes) } catch {
            throw ServiceError(.resourceExhausted, "no memory to execute the request: \(error)")
        }
    }

    // MARK: policies

    /// The reservation for a request's policy. If the request is refused, it is released.
    private typealias PolicyReservation = (isNetwork: Bool, memory: MemoryBudget.Reservation)

    /// Reserves the memory that a request needs for a policy, in addition to the memory of the policies before it.
    private func reservePolicy(
        for op: Request.OneOf_Op
    ) throws(ServiceError) -> PolicyReservation? {
        guard let policy = environment.policyMemory(op) else { return nil }
        do throws(Reason) {
            return (policy.isNetwork, try budget.reserve(policy.bytes))
        } catch {
            throw ServiceError(.resourceExhausted, field: "policy", "no memory for the policy: \(error)")
        }
    }

    /// Keeps an executed request's reservation. It replaces the reservations for the memory that the request released.
    private func keep(_ policy: PolicyReservation?) {
        guard let policy else { return }
        if policy.isNetwork {
            (network, tables) = (policy.memory, nil)
        } else {
            tables = policy.memory
        }
    }
}

extension MemoryBudget.Reservation {
    /// Adds the memory of a batch's boards to the reservation.
    package func growForBoards(by bytes: Int) throws(EnvironmentError) {
        do throws(Reason) { try grow(by: bytes) } catch {
            throw .exhausted("num_envs", "no memory for the boards: \(error)")
        }
    }
}
