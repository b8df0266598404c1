internal import TwofoldCore
package import TwofoldProtocol
package import TwofoldService

/// What the requests of an open session run on: the environment, the memory that its replies go to, and the part of the
/// budget that both are counted in.
///
/// Used by one request at a time; the ledger only keeps it.
package final class EnvironmentHost {
    package let environment: ServedEnvironment
    package let pool: PayloadPool
    /// Bytes that are reserved for its boards, the request that made them, and the replies of stepping them.
    package let bytes: Int
    private let boards: MemoryBudget.Reservation
    private let budget: MemoryBudget
    /// The memory of the policies.
    private var policies: [MemoryBudget.Reservation] = []

    /// Executes a create. Reserves memory for the boards as they are made, for the request, which is kept, and for the
    /// replies of stepping them, so an admitted session can be stepped, whatever others do.
    package init(
        _ create: CreateRequest, _ service: EnvironmentService, _ budget: MemoryBudget
    ) throws(ServiceError) {
        let boards = budget.reserveNothing()
        (environment, _) = try service.create(create) { (bytes) throws(EnvironmentError) in
            do throws(MemoryBudget.Exhausted) { try boards.grow(by: bytes) } catch {
                throw .exhausted("num_envs", "no memory for the boards: \(error)")
            }
        }
        do throws(MemoryBudget.Exhausted) {
            try boards.grow(by: create.size)
            let own = try budget.part(environment.replyBytes)
            pool = PayloadPool(own, upTo: environment.longestStep, then: budget)
        } catch {
            throw ServiceError(
                .resourceExhausted, field: "num_envs", "no memory for the boards: \(error)")
        }
        bytes = boards.bytes + environment.replyBytes
        self.boards = boards
        self.budget = budget
    }

    /// Carries out a request of the session, whose payload frame is `payload`; nil where it has none. A request
    /// that throws has changed nothing.
    package func execute(
        _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?
    ) throws(ServiceError) -> (result: Reply.OneOf_Result, payload: Frame?) {
        // because: a step changes no policy, and takes no memory but its reply's.
        if case .step = op { return try run(op, payload) }
        let claim: PolicyClaim?
        do throws(MemoryBudget.Exhausted) { claim = try claimPolicies(for: op) } catch {
            throw ServiceError(.resourceExhausted, field: "policy", "no memory for the policy: \(error)")
        }
        let working = try reserveWorking(for: op)
        defer { withExtendedLifetime(working) {} }
        let outcome = try run(op, payload)
        settle(claim)
        return outcome
    }

    /// Carries a request out, and gives its reply memory of the pool.
    private func run(
        _ op: Request.OneOf_Op, _ payload: UnsafeRawBufferPointer?
    ) throws(ServiceError) -> (result: Reply.OneOf_Result, payload: Frame?) {
        var buffer: PayloadPool.Buffer?
        let outcome = try environment.execute(op, payload: payload) { (size) throws(EnvironmentError) in
            do throws(MemoryBudget.Exhausted) {
                let taken = try pool.take(size: size)
                buffer = taken
                return taken.bytes
            } catch {
                throw .exhausted("", "no memory for the reply: \(error)")
            }
        }
        return (outcome.result, buffer?.frame(outcome.payloadSize))
    }

    /// Boards that a request has stepped, each as often as it was.
    func steps(of result: Reply.OneOf_Result) -> Int {
        switch result {
        case .step: environment.lanes
        case .rollout(let rollout): Int(rollout.steps) * environment.lanes
        default: 0
        }
    }

    /// Goes on from what was saved.
    package func restore(from saved: SavedSession) throws {
        var claim: PolicyClaim?
        if saved.hasNetwork {
            var request = PolicyRequest()
            request.network = saved.network
            claim = try claimPolicies(for: .policy(request))
        }
        try environment.restore(from: saved)
        settle(claim)
    }

    /// Reserves what a request takes while it is carried out; nil where that is little.
    private func reserveWorking(
        for op: Request.OneOf_Op
    ) throws(ServiceError) -> MemoryBudget.Reservation? {
        let bytes = environment.workingBytes(op)
        guard bytes > 0 else { return nil }
        do throws(MemoryBudget.Exhausted) { return try budget.reservePromised(bytes) } catch {
            throw ServiceError(.resourceExhausted, "no memory to carry the request out: \(error)")
        }
    }

    // MARK: policies

    /// What the policies will take once a request is carried out, and the part of it that is new; gone when the request
    /// is refused.
    private struct PolicyClaim {
        let bytes: Int
        let more: MemoryBudget.Reservation?
    }

    private var policyBytes: Int { policies.reduce(0) { $0 + $1.bytes } }

    /// Reserves what the policies will take beyond what they do; nil where a request changes nothing of that.
    private func claimPolicies(for op: Request.OneOf_Op) throws(MemoryBudget.Exhausted) -> PolicyClaim? {
        guard let bytes = environment.policyBytes(after: op) else { return nil }
        let more = bytes - policyBytes
        return PolicyClaim(bytes: bytes, more: more > 0 ? try budget.reserve(more) : nil)
    }

    /// The request was carried out.
    private func settle(_ claim: PolicyClaim?) {
        guard let claim else { return }
        if let more = claim.more {
            policies.append(more)
        } else if claim.bytes < policyBytes {
            policies = []
            // because: that much has just been given back; should others have been faster, it is not counted
            // until the policies change again.
            if let reservation = try? budget.reserve(claim.bytes) { policies = [reservation] }
        }
    }
}
