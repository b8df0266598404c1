internal import FoundationEssentials
internal import Platform
public import TwofoldCore
public import TwofoldProtocol

/// An environment that is served: it carries out requests, and knows the layout of its replies. Which session it belongs
/// to is the carrier's business.
///
/// Used by one caller at a time.
public final class ServedEnvironment {
    /// Asks the carrier for the memory of a reply's payload, of exactly this many bytes; throws when it is
    /// exhausted.
    public typealias ReplyMemory = (_ size: Int) throws(EnvironmentError) -> UnsafeMutableRawBufferPointer

    /// The environment's published id.
    public let id: String

    let environment: Batch
    private let rollouts: Rollouts
    private let resetLayout: BatchLayout
    private let stepLayout: BatchLayout
    private let afterstatesLayout: BatchLayout
    /// The finals when all episodes end at once: no step's payload is longer. Nil except in SAME_STEP.
    private let longestFinals: BatchLayout?
    let snapshotFormat: SnapshotFormat

    init(
        _ request: CreateRequest, _ environment: Batch, _ service: EnvironmentService
    ) throws(EnvironmentError) {
        id = request.environmentID
        self.environment = environment
        rollouts = try Rollouts(request, environment, service)
        resetLayout = BatchLayout(environment.resetArrays, lanes: environment.lanes)
        stepLayout = BatchLayout(environment.stepArrays, lanes: environment.lanes)
        afterstatesLayout = BatchLayout(environment.afterstateArrays, lanes: environment.lanes)
        longestFinals =
            environment.autoreset == .sameStep
            ? BatchLayout(environment.finalArrays, lanes: environment.lanes, from: stepLayout.size) : nil
        snapshotFormat = SnapshotFormat(
            environmentID: id, rules: environment.game.rules, recordSize: environment.recordSize,
            hasReturns: environment.returns != nil)
    }

    /// Number of boards.
    public var lanes: Int { environment.lanes }

    /// About what a request costs, whose payload has `size` bytes.
    public func cost(_ op: Request.OneOf_Op, payload size: Int = 0) -> Cost {
        let each = environment.nanosecondsPerLane
        return switch op {
        case .reset: Cost(lanes: lanes, nanosecondsPerLane: max(each, 200), bytes: size)
        case .afterstates: Cost(lanes: lanes, nanosecondsPerLane: 5 * each / 2)
        case .snapshot: Cost(lanes: lanes, nanosecondsPerLane: max(each, 400))
        case .restore: Cost(lanes: lanes, nanosecondsPerLane: each + 700, bytes: size)
        case .rollout(let request): rollouts.cost(request, payload: size)
        case .policy: Cost(lanes: 1, nanosecondsPerLane: 1_000_000, bytes: size)
        default: Cost(lanes: lanes, nanosecondsPerLane: each)
        }
    }

    /// Whether a request searches for actions: these run one at a time, apart from all others.
    public static func isSearch(_ op: Request.OneOf_Op) -> Bool {
        if case .rollout(let request) = op { Rollouts.isSearch(request) } else { false }
    }

    /// Memory that a request takes for as long as it is carried out, apart from its reply; 0 where it is little.
    public func workingBytes(_ op: Request.OneOf_Op) -> Int {
        switch op {
        case .rollout(let request): rollouts.workingBytes(request)
        // Lists of lanes: those of the request, which of them were named, and those that are not.
        case .snapshot: (MemoryLayout<Int>.stride + 1) * lanes
        case .restore: (4 * MemoryLayout<Int>.stride + 1) * lanes
        default: 0
        }
    }

    /// Memory that the policies will have once a request is carried out, networks and tables; nil where it
    /// changes nothing.
    public func policyBytes(after op: Request.OneOf_Op) -> Int? {
        switch op {
        case .policy(let request): rollouts.bytes(after: request)
        case .rollout(let request): rollouts.bytes(after: request)
        default: nil
        }
    }

    /// Reply memory for a client that resets and steps and keeps no arrays: a reset's and two steps', the one that is
    /// stored and the next.
    public var replyBytes: Int { resetLayout.size + 2 * longestStep }

    /// Bytes of the longest reply to a step, which is longer than a reset's.
    public var longestStep: Int { (longestFinals ?? stepLayout).size }

    /// Carries out one request; `payload` is its payload frame, nil where it has none. The reply's
    /// payload, if any, is written to the memory that `replyMemory` is asked for, at most once.
    /// A request that throws has changed nothing.
    ///
    /// Returns the reply's result, and the size of its payload: the bytes from the start of the memory that was asked
    /// for; 0 where none was asked for.
    public func execute(
        _ op: Request.OneOf_Op, payload: UnsafeRawBufferPointer?, replyMemory: ReplyMemory
    ) throws(ServiceError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
        do throws(EnvironmentError) {
            switch op {
            case .reset(let request):
                let input = try resetInput(request, payload)
                try environment.reset(input, into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
                rollouts.reset(input)
                return (.reset(.init()), resetLayout.size)
            case .step:
                return try step(stepActions(payload), replyMemory)
            case .observe:
                try refusePayload(payload)
                try environment.observe(into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
                return (.observe(.init()), resetLayout.size)
            case .afterstates:
                try refusePayload(payload)
                guard afterstatesLayout.size > 0 else {
                    throw .invalid("op", "this environment has no afterstates")
                }
                try environment.afterstates(
                    into: afterstatesLayout.arrays(in: replyMemory(afterstatesLayout.size)))
                return (.afterstates(.init()), afterstatesLayout.size)
            case .keepalive:
                try refusePayload(payload)
                return (.keepalive(.init()), 0)
            case .snapshot:
                return try snapshot(laneNumbers(payload), replyMemory)
            case .restore(let request):
                let (input, streams) = try restoreInput(request, payload)
                try environment.restore(input, into: resetLayout.arrays(in: replyMemory(resetLayout.size)))
                rollouts.restore(input, streams)
                return (.restore(.init()), resetLayout.size)
            case .close:
                try refusePayload(payload)
                return (.close(.init()), 0)
            case .rollout(let request):
                let (reply, size) = try rollouts.run(request, payload, replyMemory: replyMemory)
                return (.rollout(reply), size)
            case .policy(let request):
                return (.policy(try rollouts.take(request, payload)), 0)
            case .hello, .create, .expand, .stats, .resume:
                throw .invalid("op", "this request does not belong inside a session")
            }
        } catch {
            throw ServiceError(error)
        }
    }

    /// Whether its boards were reset or restored since it was created.
    public var wasReset: Bool { (try? environment.checkSeeded()) != nil }

    /// The answer to the create that made it.
    public var createReply: CreateReply {
        var reply = CreateReply()
        reply.epoch = 1
        reply.observationSpace = environment.observationSpace.wire
        reply.boardSpace = environment.boardSpace.wire
        reply.actionSpace.discrete.n = UInt64(environment.actions.count)
        reply.reset = resetLayout.wire
        reply.step = stepLayout.wire
        reply.afterstates = afterstatesLayout.wire
        reply.rewardTerms = environment.rewardTerms
        if let longestFinals { reply.finals = longestFinals.wire }
        return reply
    }

    // MARK: between two runs of a server

    /// Saves what it needs to go on: all lanes, and the network that it was given.
    public func save(into saved: inout SavedSession) throws(ServiceError) {
        rollouts.save(into: &saved)
        // Before the first reset there is nothing else.
        guard wasReset else { return }
        saved.lanes = try written { (memory) throws(ServiceError) in
            try execute(.snapshot(.init()), payload: nil, replyMemory: memory)
        }
    }

    /// Goes on from what was saved; to be called right after create.
    public func restore(from saved: SavedSession) throws(ServiceError) {
        do throws(EnvironmentError) { try rollouts.restore(from: saved) } catch { throw ServiceError(error) }
        guard !saved.lanes.isEmpty else { return }
        var restore = RestoreRequest()
        restore.count = UInt64(lanes)
        try withBytes(of: saved.lanes) { (lanes) throws(ServiceError) in
            _ = try written { (memory) throws(ServiceError) in
                try execute(.restore(restore), payload: lanes, replyMemory: memory)
            }
        }
    }

    /// The bytes that a request writes to the memory that it asks for.
    private func written(
        _ request: (ReplyMemory) throws(ServiceError) -> (result: Reply.OneOf_Result, payloadSize: Int)
    ) throws(ServiceError) -> Data {
        var memory = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        defer { memory.deallocate() }
        let outcome = try request { (size) throws(EnvironmentError) in
            // Its copies in the message and in the file can't fail.
            do throws(OutOfMemory) { _ = try MemoryPromise.make(4 * size) } catch {
                throw EnvironmentError(error)
            }
            memory = .allocate(byteCount: size, alignment: 64)
            return memory
        }
        return Data(memory.prefix(outcome.payloadSize))
    }

    private func step(
        _ actions: UnsafeRawBufferPointer, _ replyMemory: ReplyMemory
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
        let memory = try replyMemory(longestFinals?.size ?? stepLayout.size)
        let arrays = stepLayout.arrays(in: memory)
        try environment.step(actions: actions, into: arrays)
        var reply = StepReply()
        guard longestFinals != nil else {
            return (.step(reply), stepLayout.size)
        }
        let ended = environment.endedCount(in: arrays)
        guard ended > 0 else { return (.step(reply), stepLayout.size) }
        let finals = BatchLayout(environment.finalArrays, lanes: ended, from: stepLayout.size)
        _ = environment.restartEnded(in: arrays, keeping: finals.arrays(in: memory))
        reply.finals = finals.wire
        return (.step(reply), finals.size)
    }

    private func snapshot(
        _ lanes: [Int], _ replyMemory: ReplyMemory
    ) throws(EnvironmentError) -> (result: Reply.OneOf_Result, payloadSize: Int) {
        let memory = try replyMemory(snapshotFormat.size(lanes: lanes.count))
        try environment.snapshot(lanes, into: snapshotFormat.records(in: memory))
        snapshotFormat.write(rollouts.streams, of: lanes, into: memory)
        if let returns = environment.returns { snapshotFormat.write(returns, of: lanes, into: memory) }
        snapshotFormat.seal(memory, lanes: lanes.count)
        return (.snapshot(.init()), memory.count)
    }
}

/// Calls `body` with the bytes of some data.
func withBytes<Result, Failure: Error>(
    of data: Data, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
) throws(Failure) -> Result {
    // because: Data's own method loses the error's type.
    let result = data.withUnsafeBytes { bytes in
        Swift.Result { () throws(Failure) in try body(bytes) }
    }
    return try result.get()
}
