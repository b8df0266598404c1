internal import FoundationEssentials
internal import Platform
public import TwofoldCore
internal import TwofoldOptimum
public import TwofoldProtocol

/// A session's environment, with the memory that the session has reserved. It executes requests and lays out their
/// replies, but knows nothing about sequence numbers and repeated requests.
///
/// Not thread-safe: only one caller at a time may use it.
public final class ServedEnvironment {
    /// A function that returns exactly `size` bytes of memory for a reply's payload. Throws if too little is left.
    public typealias ReplyMemory = (_ size: Int) throws(EnvironmentError) -> UnsafeMutableRawBufferPointer

    /// The create request, which a resume returns.
    package let create: CreateRequest
    /// The buffers for replies.
    package let pool: PayloadPool
    /// The budget for the frames of the session's requests, which the ledger keeps.
    package let requestMemory: MemoryBudget
    /// The number of bytes reserved for the boards, the create request, and the requests and replies of a client that
    /// only resets and steps.
    package let bytes: Int
    /// The budget for policies, and for the memory that a request needs while it runs.
    private let budget: MemoryBudget

    let batch: Batch
    private let rollouts: Rollouts
    private let resetLayout: BatchLayout
    private let stepLayout: BatchLayout
    private let afterstatesLayout: BatchLayout
    /// The layout of the final values if all episodes end in the same step, which is the longest possible layout.
    /// Nil unless the autoreset mode is SAME_STEP.
    private let longestFinals: BatchLayout?
    let snapshotFormat: SnapshotFormat
    /// The reservation of the boards and the create request. The last property, so that it ends after the batch.
    package let boardMemory: MemoryBudget.Reservation

    /// Executes a create request. Reserves memory for the boards, for the stored create request, and for the requests
    /// and replies of resets and steps. Therefore, the session can always be reset and stepped, no matter how much
    /// memory other sessions use.
    package init(_ create: CreateRequest, _ service: EnvironmentService) throws(EnvironmentError) {
        self.create = create
        budget = service.budget
        boardMemory = budget.reserveNothing()
        batch = try service.batch(create, reserve: boardMemory.growForBoards)
        rollouts = try Rollouts(create, batch, service)
        resetLayout = BatchLayout(batch.resetArrays, lanes: batch.lanes)
        stepLayout = BatchLayout(batch.stepArrays, lanes: batch.lanes)
        afterstatesLayout = BatchLayout(batch.afterstateArrays, lanes: batch.lanes)
        longestFinals =
            batch.autoreset == .sameStep
            ? BatchLayout(batch.finalArrays, lanes: batch.lanes, from: stepLayout.size) : nil
        snapshotFormat = SnapshotFormat(
            environmentID: create.environmentID, rules: batch.game.rules,
            recordSize: batch.recordSize, hasReturns: batch.returns != nil)
        // The header, seeds, mask and boards of a reset. Steps are never longer.
        let longestRequest =
            256 + batch.lanes * (8 + 1 + batch.boardSpace.shape.reduce(1, *))
        // Replies to resets are never longer.
        let longestStep = (longestFinals ?? stepLayout).size
        // A reply that is still in a broken connection, the stored reply to the last step, and the reply to the next step.
        let replyBytes = 3 * longestStep
        do throws(Reason) {
            try boardMemory.grow(by: create.frame.count)
            // because: longer replies and requests that the ledger keeps would use up the memory that resets and steps
            // need.
            pool = PayloadPool(try budget.part(replyBytes, upTo: longestStep))
            requestMemory = try budget.part(2 * longestRequest, upTo: longestRequest)
        } catch {
            throw .exhausted("num_envs", "no memory for the boards: \(error)")
        }
        bytes = boardMemory.bytes + replyBytes + requestMemory.limit
    }

    /// The environment's published id.
    package var id: String { create.environmentID }

    /// The number of boards.
    public var lanes: Int { batch.lanes }

    /// Estimates the time on one thread, in nanoseconds, of a request whose payload has `size` bytes.
    public func cost(_ op: Request.OneOf_Op, payload size: Int = 0) -> Int {
        let each = batch.nanosecondsPerLane
        return switch op {
        case .reset: estimatedNanoseconds(lanes: lanes, nanosecondsPerLane: max(each, 200), bytes: size)
        case .afterstates: estimatedNanoseconds(lanes: lanes, nanosecondsPerLane: 5 * each / 2)
        case .snapshot: estimatedNanoseconds(lanes: lanes, nanosecondsPerLane: max(each, 400))
        case .restore: estimatedNanoseconds(lanes: lanes, nanosecondsPerLane: each + 700, bytes: size)
        case .rollout(let request): rollouts.cost(request, payload: size)
        case .policy: estimatedNanoseconds(lanes: 1, nanosecondsPerLane: 1_000_000, bytes: size)
        default: estimatedNanoseconds(lanes: lanes, nanosecondsPerLane: each)
        }
    }

    /// Returns true if a request uses a policy that searches. Searches run one at a time, on a separate queue.
    public static func isSearch(_ op: Request.OneOf_Op) -> Bool {
        if case .rollout(let request) = op { Rollouts.isSearch(request) } else { false }
    }

    /// Reserves the memory that a request needs while it runs, not counting its reply.
    private func reserveWorking(
        _ bytes: Int
    ) throws(EnvironmentError) -> (MemoryPromise, MemoryBudget.Reservation) {
        // because: these allocations can't report failure.
        do throws(Reason) { return (try MemoryPromise.make(bytes), try budget.reserve(bytes)) } catch {
            throw .exhausted("", "no memory to execute the request: \(error)")
        }
    }

    /// Executes one request, with memory from the pool for the reply. `payload` is the request's payload frame, if
    /// there is one. If the function throws, the environment is unchanged.
    package func execute(
        _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payload: Frame?) {
        try inMemory(of: pool) { (replyMemory) throws(EnvironmentError) in
            try execute(op, payload: payload, replyMemory: replyMemory)
        }
    }

    /// Executes a request with memory from a pool for the reply.
    private func inMemory(
        of pool: PayloadPool,
        _ request: (ReplyMemory) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int)
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payload: Frame?) {
        var buffer: PayloadPool.Buffer?
        let outcome = try request { (size) throws(EnvironmentError) in
            let taken = try pool.take(size: size)
            buffer = taken
            return taken.bytes
        }
        return (outcome.result, buffer?.frame(outcome.payloadSize))
    }

    /// Returns the number of board steps in an executed request: the request's steps multiplied by the number of
    /// boards.
    package func steps(of result: Reply.OneOf_Result) -> Int {
        switch result {
        case .step: lanes
        case .rollout(let rollout): Int(rollout.steps) * lanes
        default: 0
        }
    }

    /// Executes one request. Calls `replyMemory` at most once, to get the memory for the reply's payload.
    ///
    /// Returns the result for the reply, and the number of bytes written to the reply memory; 0 if `replyMemory`
    /// was not called.
    public func execute(
        _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?, replyMemory: ReplyMemory
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
        switch op {
        case .reset(let request):
            let input = try resetInput(request, payload)
            try batch.reset(input, into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
            rollouts.reset(input)
            return (.reset(.init()), resetLayout.size)
        case .step:
            return try step(stepActions(payload), replyMemory)
        case .observe:
            guard payload == nil else { throw .noPayload }
            try batch.observe(into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
            return (.observe(.init()), resetLayout.size)
        case .afterstates:
            guard payload == nil else { throw .noPayload }
            guard afterstatesLayout.size > 0 else {
                throw .invalid("op", "this environment has no afterstates")
            }
            try batch.afterstates(
                into: afterstatesLayout.arrays(in: replyMemory(afterstatesLayout.size)))
            return (.afterstates(.init()), afterstatesLayout.size)
        case .keepalive:
            guard payload == nil else { throw .noPayload }
            return (.keepalive(.init()), 0)
        case .snapshot:
            // A list of the request's lanes, and a flag for each lane already named.
            let working = try reserveWorking((MemoryLayout<Int>.stride + 1) * lanes)
            defer { withExtendedLifetime(working) {} }
            return try snapshot(laneNumbers(payload), replyMemory)
        case .restore(let request):
            // The same as for a snapshot, and lists of the other lanes.
            let working = try reserveWorking((4 * MemoryLayout<Int>.stride + 1) * lanes)
            defer { withExtendedLifetime(working) {} }
            return try restore(request, payload, replyMemory)
        case .close:
            guard payload == nil else { throw .noPayload }
            return (.close(.init()), 0)
        case .rollout(let request):
            let working = try reserveWorking(BatchRollout.bytes(batch))
            defer { withExtendedLifetime(working) {} }
            let (reply, size) = try rollouts.run(request, payload, replyMemory: replyMemory)
            return (.rollout(reply), size)
        case .policy(let request):
            return (.policy(try rollouts.take(request, payload)), 0)
        case .hello, .create, .expand, .stats, .resume:
            throw .invalid("op", "this request does not belong to a session")
        }
    }

    /// Whether the boards have been reset or restored since the session was created.
    public var wasReset: Bool { (try? batch.checkSeeded()) != nil }

    /// The reply to the create request.
    public var createReply: CreateReply {
        var reply = CreateReply()
        reply.epoch = 1
        reply.observationSpace = batch.observationSpace.wire
        reply.boardSpace = batch.boardSpace.wire
        reply.actionSpace.discrete.n = UInt64(batch.actions.count)
        reply.reset = resetLayout.wire
        reply.step = stepLayout.wire
        reply.afterstates = afterstatesLayout.wire
        reply.rewardTerms = batch.rewardTerms
        if let longestFinals { reply.finals = longestFinals.wire }
        return reply
    }

    // MARK: between two runs of a server

    /// The number of bytes that `save(into:)` adds to a saved session.
    public var savedBytes: Int {
        rollouts.savedBytes + (wasReset ? snapshotFormat.size(lanes: lanes) : 0)
    }

    // because: a session must be saved and restored even if the sessions use up the whole budget, these two reserve no
    // memory in it.

    /// Saves the state of all lanes, and the policy's network.
    public func save(into saved: inout SavedSession) throws(EnvironmentError) {
        rollouts.save(into: &saved)
        // Before the first reset the lanes have no state.
        guard wasReset else { return }
        let (_, lanes) = try inMemory(of: PayloadPool(MemoryBudget(limit: .max))) {
            (memory) throws(EnvironmentError) in
            try snapshot(laneNumbers(nil), memory)
        }
        saved.lanes = lanes!.withBytes { Data($0) }
    }

    /// Restores a saved state. Call it immediately after the environment has been created.
    public func restore(from saved: SavedSession) throws(EnvironmentError) {
        try rollouts.restore(from: saved)
        guard !saved.lanes.isEmpty else { return }
        var request = RestoreRequest()
        request.count = UInt64(lanes)
        try saved.lanes.bytes.withUnsafeBytes { (lanes) throws(EnvironmentError) in
            _ = try inMemory(of: PayloadPool(MemoryBudget(limit: .max))) {
                (memory) throws(EnvironmentError) in
                try restore(request, lanes, memory)
            }
        }
    }

    private func restore(
        _ request: RestoreRequest, _ payload: UnsafeRawBufferPointer?, _ replyMemory: ReplyMemory
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
        let (input, streams) = try restoreInput(request, payload)
        try batch.restore(input, into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
        rollouts.restore(input, streams)
        return (.restore(.init()), resetLayout.size)
    }

    private func step(
        _ actions: UnsafeRawBufferPointer, _ replyMemory: ReplyMemory
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
        let memory = try replyMemory(longestFinals?.size ?? stepLayout.size)
        let arrays = stepLayout.arrays(in: memory)
        try batch.step(actions: actions, into: arrays)
        var reply = StepReply()
        let ended = longestFinals == nil ? 0 : batch.endedCount(in: arrays)
        guard ended > 0 else { return (.step(reply), stepLayout.size) }
        let finals = BatchLayout(batch.finalArrays, lanes: ended, from: stepLayout.size)
        _ = batch.restartEnded(in: arrays, keeping: finals.arrays(in: memory))
        reply.finals = finals.wire
        return (.step(reply), finals.size)
    }

    private func snapshot(
        _ lanes: [Int], _ replyMemory: ReplyMemory
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
        let memory = try replyMemory(snapshotFormat.size(lanes: lanes.count))
        try batch.snapshot(lanes, into: snapshotFormat.records(of: lanes.count, in: memory))
        snapshotFormat.complete(memory, lanes, rollouts.streams, batch.returns)
        return (.snapshot(.init()), memory.count)
    }
}
