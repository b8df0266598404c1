internal import Kernel2048
internal import Platform

/// The 2048 engine for boards up to 4 x 4. It processes 64 boards at a time.
///
/// Its results equal those of ``GameEngine`` with the readable rules, bit for bit. If the last block of a batch has
/// fewer than 64 lanes, the kernel writes to 64 spare rows in the engine, which then copies the used rows.
final class KernelEngine: BatchEngine {
    private let game: Game2048
    private let kernel: any KernelOperations.Type
    private let rules: KernelRules
    private let keys: BatchKeys
    private let infos: Game2048.Infos
    private let afterstateArrays: AfterstateArrays
    private let phases: LanePhases
    private let blocks: BlockStorage
    /// The declared reward and the extra infos of a step; nil if neither was requested.
    private let report: KernelReport?

    init(
        _ plan: BatchPlan<Game2048>, _ kernel: any KernelOperations.Type
    ) throws(EnvironmentError) {
        (game, keys, infos, phases) = (plan.game, plan.keys, plan.infos, plan.phases)
        afterstateArrays = plan.game.afterstates!
        self.kernel = kernel
        var rules = KernelRules(
            fourThreshold: game.spawnLaw.threshold, goalExponent: game.goalExponent)
        rules.startTiles = game.config.startTiles
        rules.stopAtGoal = game.config.stopAtGoal
        rules.illegalTerminates = game.config.illegalAction == .terminate
        rules.maxEpisodeSteps = plan.options.stepLimit
        rules.holdsFinished = phases.waitsForReset
        rules.isReported = !plan.report.isPlain
        self.rules = rules
        report = plan.report.isPlain ? nil : KernelReport(plan)
        blocks = try BlockStorage(
            game.config, kernel, plan.options, stepArrays: plan.stepArrays,
            afterstateArrays: afterstateArrays.specs)
    }

    var nanosecondsPerLane: Int { report == nil ? 10 : 25 }
    var nanosecondsPerSingleLane: Int { 200 }

    // MARK: blocks of lanes

    func step(_ lanes: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int) {
        var first = lanes.lowerBound
        while first &+ KernelBlock.lanes <= lanes.upperBound {
            step(first, actions, into: arrays, row: first, worker)
            first &+= KernelBlock.lanes
        }
        guard first < lanes.upperBound else { return }
        let tail = blocks.stepTail.arrays
        step(first, actions, into: tail, row: 0, worker)
        arrays.copyRows(first..<lanes.upperBound, from: tail)
    }

    /// Steps the block that starts at lane `first`, and writes 64 rows of `arrays`, starting at row `row`.
    @inline(__always)
    private func step(
        _ first: Int, _ actions: LaneInput<UInt8>, into arrays: BatchArrays, row: Int, _ worker: Int
    ) {
        let scratch = blocks.scratch(worker)
        kernel.step(
            blocks.block(of: first), actions: blocks.actions(actions, from: first),
            phases: phases.bytes + first, rules: rules, arrays.kernelOutputs(row, keys, infos),
            arrays.kernelStepOutputs(row, keys), scratch: scratch)
        if let report { kernel.report(report.program, report.outputs(arrays, row), scratch: scratch) }
    }

    func observe(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int) {
        if lanes.count == KernelBlock.lanes {
            return observe(lanes.lowerBound, into: arrays, row: lanes.lowerBound, worker)
        }
        let tail = blocks.stepTail.arrays
        observe(lanes.lowerBound, into: tail, row: 0, worker)
        arrays.copyRows(lanes, of: keys.resetCount, from: tail)
    }

    private func observe(_ first: Int, into arrays: BatchArrays, row: Int, _ worker: Int) {
        kernel.observe(
            blocks.block(of: first), phases: phases.bytes + first, rules: rules,
            arrays.kernelOutputs(row, keys, infos), scratch: blocks.scratch(worker))
    }

    func afterstates(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int) {
        if lanes.count == KernelBlock.lanes {
            return afterstates(lanes.lowerBound, into: arrays, row: lanes.lowerBound, worker)
        }
        let tail = blocks.afterstateTail.arrays
        afterstates(lanes.lowerBound, into: tail, row: 0, worker)
        arrays.copyRows(lanes, from: tail)
    }

    private func afterstates(_ first: Int, into arrays: BatchArrays, row: Int, _ worker: Int) {
        kernel.afterstates(
            blocks.block(of: first), phases: phases.bytes + first,
            boards: arrays.address(afterstateArrays.boards, lane: row),
            rewards: arrays.address(afterstateArrays.rewards, lane: row),
            mask: arrays.address(afterstateArrays.mask, lane: row), scratch: blocks.scratch(worker))
    }

    // MARK: single lanes, because few lanes of a block start at the same time

    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?) {
        if let seed {
            blocks.block(of: lane)[generator: lane % KernelBlock.lanes] = Generator(seed: seed).words
        }
        blocks.start(lane, from: board, rules: rules)
    }

    func observe(lane: Int, into arrays: BatchArrays) {
        let (state, row) = (blocks.lane(lane), arrays.row(lane))
        game.write(state.state, isTerminated: phases[lane] == .terminated, keys, infos, to: row)
        row.store(state.episodeLength, keys.episodeLength)
    }

    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer) {
        game.encode(blocks.lane(lane), phases[lane], into: record)
    }

    func check(_ record: UnsafeRawBufferPointer) throws(Reason) { _ = try game.decode(record) }

    // MARK: states in the caller's arrays

    /// Checks all lanes together, which is fast. If this check finds an unusual value, checks the record of each lane
    /// that has one. A board without a legal action is not unusual: the next step ends its episode. (The readable rules
    /// refuse this board.)
    func check(_ states: CallerStates, lanes: Int) throws(EnvironmentError) {
        guard !blocks.areUsual(states.arrays, 0..<lanes) else { return }
        for lane in 0..<lanes where !blocks.areUsual(states.arrays, lane..<lane + 1) {
            try checkRecord(of: lane, in: states)
        }
    }

    func load(_ block: Range<Int>, from states: CallerStates, _ phases: LanePhases, worker: Int) {
        blocks.load(block, from: states.arrays, phases: phases.bytes, scratch: blocks.scratch(worker))
    }

    func store(_ block: Range<Int>, into rest: CallerStates, _ phases: LanePhases) {
        blocks.store(block, into: rest.arrays, phases: phases.bytes)
    }

    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase {
        // Every record was checked before the first lane was changed.
        var (state, phase) = try! game.decode(record)
        if let seed { state.generator = Generator(seed: seed) }
        blocks.put(state, into: lane)
        return phase
    }
}
