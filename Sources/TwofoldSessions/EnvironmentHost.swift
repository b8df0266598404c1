internal import Platform
package import TwofoldCore
package import TwofoldProtocol
package import TwofoldService

/// The environment of an open session, the memory pool for its replies, and the reservations for its boards, replies and
/// requests.
///
/// Only one request at a time may use the host. The ledger only stores it.
package final class EnvironmentHost {
    package let environment: ServedEnvironment
    /// The create request, which a resume returns.
    let create: CreateRequest
    package let pool: PayloadPool
    /// The number of bytes reserved for the boards, the create request, and the requests and replies of a client that
    /// only resets and steps.
    package let bytes: Int
    private let boards: MemoryBudget.Reservation
    /// The budget for the frames of the session's requests, which the ledger keeps.
    let requests: MemoryBudget

    /// Executes a create request. Reserves memory for the boards, for the stored create request, and for the requests
    /// and replies of resets and steps. Therefore, the session can always be reset and stepped, no matter how much
    /// memory other sessions use.
    package init(
        _ create: CreateRequest, _ service: EnvironmentService, _ budget: MemoryBudget
    ) throws(EnvironmentError) {
        self.create = create
        let boards = budget.reserveNothing()
        environment = try service.create(
            create, reserve: boards.growForBoards, reserveLater: { try budget.reserve($0) })
        do throws(Reason) {
            try boards.grow(by: create.frame.count)
            // because: longer replies and requests that the ledger keeps would use up the memory that resets and steps
            // need.
            pool = PayloadPool(try budget.part(environment.replyBytes, upTo: environment.longestStep))
            requests = try budget.part(environment.requestBytes, upTo: environment.longestRequest)
        } catch {
            throw .exhausted("num_envs", "no memory for the boards: \(error)")
        }
        bytes = boards.bytes + environment.replyBytes + environment.requestBytes
        self.boards = boards
    }

    /// Executes one of the session's requests, with memory from the pool for the reply. `payload` is the request's
    /// payload frame, if there is one. If the function throws, the session is unchanged.
    package func execute(
        _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payload: Frame?) {
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
}

extension MemoryBudget.Reservation {
    /// Adds the memory of a batch's boards to the reservation.
    package func growForBoards(by bytes: Int) throws(EnvironmentError) {
        do throws(Reason) { try grow(by: bytes) } catch {
            throw .exhausted("num_envs", "no memory for the boards: \(error)")
        }
    }
}
