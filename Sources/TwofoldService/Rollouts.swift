internal import FoundationEssentials
internal import Platform
package import TwofoldCore
internal import TwofoldOptimum
package import TwofoldProtocol

/// The rollouts of one environment: its policies, the policies' random streams, and the network sent by the client.
///
/// Not thread-safe: only one caller at a time may use it.
final class Rollouts {
    private let batch: Batch
    /// The environment's 2048 config; nil for another game.
    private let game: Game2048Config?
    private let service: EnvironmentService
    /// The maximum number of steps in a reply. No machine completes more steps within a rollout's time limit, so
    /// the reply needs no memory for them.
    private let maxSteps: Int
    let streams: PolicyStreams
    private(set) var network: NTupleNetwork?
    /// The policy of the last rollout. The next rollout with the same selection reuses the policy's tables.
    private var last: Selected?
    /// A policy, the part of the request that selected it, and the reservation for its tables.
    private typealias Selected = (
        source: RolloutRequest.OneOf_Source, policy: any Policy, reservation: any Sendable
    )

    init(
        _ request: CreateRequest, _ batch: Batch, _ service: EnvironmentService
    ) throws(EnvironmentError) {
        self.batch = batch
        game = batch.game is Game2048 ? request.game2048 : nil
        self.service = service
        // Assumes twice the estimated speed on all threads, and at least 400 ns for each step.
        let step = batch.lanes * batch.nanosecondsPerLane / (2 * service.workers.threads)
        maxSteps = Int(EnvironmentService.answerTime / .nanoseconds(max(400, step))) + 1
        streams = try PolicyStreams(
            lanes: batch.lanes, reserve: batch.options.reserve)
    }

    /// Seeds the policies' random streams with the seeds of a reset, lane by lane.
    func reset(_ input: ResetInput) {
        for lane in 0..<batch.lanes where input.resets(lane) {
            if let seed = input.seed(lane) { streams.seed(lane, seed) }
        }
    }

    /// Seeds the policies' random streams with the seeds of a restore. Lanes without a seed continue the snapshot's
    /// streams.
    func restore(_ input: RestoreInput, _ saved: SavedStreams) {
        for (index, lane) in input.lanes.enumerated() {
            if let seed = input.seed(index) {
                streams.seed(lane, seed)
            } else {
                streams[lane] = saved[input.rows[index]]
            }
        }
    }

    // MARK: networks

    func take(_ request: PolicyRequest, _ payload: UnsafeRawBufferPointer?) throws(EnvironmentError)
        -> PolicyReply
    {
        switch request.part {
        case .network(let form):
            guard payload == nil else { throw .invalid("payload", "a network's form takes no payload") }
            let shape = batch.observationSpace.shape
            guard shape.count == 2, !batch.afterstateArrays.isEmpty else {
                throw .invalid("policy", "the policy 'ntuple' needs a game that has a board and afterstates")
            }
            let wanted = NTupleNetwork.Form(form)
            if let network, network.form == wanted {
                network.removeWeights()
            } else {
                network = try NTupleNetwork(
                    wanted, rows: shape[0], columns: shape[1], maxBytes: service.limits.maxPolicyBytes,
                    reserve: reservePolicy)
            }
            last = nil
        case .weights(let piece):
            guard let network else {
                throw .precondition("policy", "the session has no network yet: send the network's form first")
            }
            guard let payload else { throw .invalid("payload", "weights need a float32 payload frame") }
            try network.add(payload, at: Int(clamping: piece.offset))
        case nil:
            throw .invalid("part", "the request contains neither a network's form nor weights")
        }
        var reply = PolicyReply()
        reply.bytes = UInt64(network!.bytes)
        reply.received = UInt64(network!.received)
        return reply
    }

    /// Reserves memory for a network or a policy, in addition to the memory of the previous one, which is released only
    /// after the request, because a refused request changes nothing.
    private func reservePolicy(_ bytes: Int) throws(EnvironmentError) -> any Sendable {
        do throws(Reason) { return try service.budget.reserve(bytes) } catch {
            throw .exhausted("policy", "no memory for the policy: \(error)")
        }
    }

    /// Returns the size, in bytes, of a policy's tables.
    private func tableBytes(_ source: RolloutRequest.OneOf_Source) -> Int {
        switch source {
        case .actions, .random, .fixedOrder, .optimal: 0
        case .greedy, .ntuple: AfterstateMemory.bytes(batch)
        case .expectimax: min(16 << 20, service.limits.maxPolicyBytes - (network?.bytes ?? 0))
        }
    }

    /// The size, in bytes, of the weights that `save(into:)` copies.
    var savedBytes: Int { network?.received ?? 0 }

    /// Adds the network and the weights received so far to a session's saved state.
    func save(into saved: inout SavedSession) {
        guard let network else { return }
        saved.network.exponents = UInt32(network.form.exponents)
        saved.network.symmetric = network.form.isSymmetric
        saved.network.tuples = network.form.tuples.map { cells in
            var tuple = Twofold_V1_NTuple()
            tuple.cells = Data(cells.map(UInt8.init))
            return tuple
        }
        saved.weights = network.withReceived { Data($0) }
    }

    /// Restores the network from a session's saved state.
    func restore(from saved: SavedSession) throws(EnvironmentError) {
        guard saved.hasNetwork else { return }
        var request = PolicyRequest()
        request.network = saved.network
        _ = try take(request, nil)
        guard !saved.weights.isEmpty else { return }
        try saved.weights.bytes.withUnsafeBytes { (bytes) throws(EnvironmentError) in
            try network!.add(bytes, at: 0)
        }
    }

    // MARK: rollouts

    /// Estimates the time on one thread, in nanoseconds, of a rollout whose payload has `size` bytes.
    func cost(_ request: RolloutRequest, payload size: Int) -> Int {
        let each = Self.isSearch(request) ? 4000 : batch.nanosecondsPerLane
        let frame = batch.lanes * batch.resetArrays.reduce(0) { $0 + $1.bytesPerLane }
        let steps = min(Int(request.steps), max(1, Int(clamping: request.maxPayloadBytes) / frame))
        var opensTable = false
        if case .optimal = request.source { opensTable = last?.source != request.source }
        return estimatedNanoseconds(
            lanes: batch.lanes, nanosecondsPerLane: each, steps: steps, bytes: size,
            opensTable: opensTable)
    }

    /// Returns true if the rollout uses a policy that searches.
    static func isSearch(_ request: RolloutRequest) -> Bool {
        switch request.source {
        case .expectimax, .ntuple: true
        default: false
        }
    }

    func run(
        _ request: RolloutRequest, _ payload: UnsafeRawBufferPointer?,
        replyMemory: ServedEnvironment.ReplyMemory
    ) throws(EnvironmentError) -> (RolloutReply, payloadSize: Int) {
        guard request.steps >= 1 else {
            throw .invalid("steps", "steps is 0; it must be at least 1")
        }
        let rollout = try BatchRollout(batch, infos: request.infos)
        let (source, selected) = try source(request, payload)
        let plan = RolloutPlan(rollout, request, lanes: batch.lanes, maxSteps: maxSteps)
        try batch.checkSeeded()
        let isStopping: @Sendable () -> Bool = { [phase = service.phase] in phase.isStopping }
        let memory = try replyMemory(plan.size)
        let done = try rollout.run(
            source, steps: plan.steps, frames: plan.frames.arrays(in: memory),
            steps: plan.rows.arrays(in: memory), finals: plan.finals.arrays(in: memory),
            finalsRoom: plan.finals.lanes,
            answer: Deadline(after: EnvironmentService.answerTime, on: service.clock, or: isStopping),
            searchEnd: Deadline(after: service.limits.maxSearch, on: service.clock, or: isStopping))
        // The policy is kept only now, because a refused request changes nothing and releases its memory.
        last = selected
        return plan.reply(done, in: memory)
    }

    /// Returns the source of a rollout's actions, and the policy to keep after the rollout.
    private func source(
        _ request: RolloutRequest, _ payload: UnsafeRawBufferPointer?
    ) throws(EnvironmentError) -> (BatchRollout.Source, Selected?) {
        guard let source = request.source else {
            throw .invalid(
                "policy", "the rollout has neither actions nor a policy that this server knows")
        }
        if case .actions = source {
            guard let payload, payload.count == Int(request.steps) * batch.lanes else {
                throw .invalid(
                    "payload",
                    "the rollout's payload has \(payload?.count ?? 0) bytes; expected actions, "
                        + "uint8 [\(request.steps), \(batch.lanes)]")
            }
            return (.actions(payload), last)
        }
        guard payload == nil else { throw .noPayload }
        if let last, last.source == source { return (.policy(last.policy, streams), last) }
        let reservation = try reservePolicy(tableBytes(source))
        let policy = try makePolicy(source)
        return (.policy(policy, streams), (source, policy, reservation))
    }

    private func makePolicy(_ source: RolloutRequest.OneOf_Source) throws(EnvironmentError) -> any Policy {
        switch source {
        case .actions: preconditionFailure("given actions are not a policy")
        case .random: return RandomPolicy()
        case .fixedOrder: return FixedOrderPolicy()
        case .greedy: return try GreedyPolicy(batch)
        case .optimal:
            guard let game else { throw .invalid("policy", "the policy 'optimal' plays only 2048") }
            return OptimalPolicy(try service.tables.table(of: game, for: "policy"))
        case .ntuple:
            guard let network else {
                throw .precondition("policy", "the session has no network yet: send one first")
            }
            return try NTuplePolicy(batch, network, workers: service.searchWorkers)
        case .expectimax(let wanted):
            return try ExpectimaxPolicy(
                batch, depth: Int(clamping: wanted.depth), extension: Int(clamping: wanted.extension),
                tableBytes: tableBytes(source), workers: service.searchWorkers)
        }
    }
}

extension NTupleNetwork.Form {
    /// Makes a form from a request's message, without checking it.
    package init(_ form: NTupleForm) {
        self.init(
            tuples: form.tuples.map { $0.cells.map(Int.init) }, exponents: Int(form.exponents),
            isSymmetric: form.symmetric)
    }
}
