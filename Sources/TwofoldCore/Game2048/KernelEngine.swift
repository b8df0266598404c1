internal import Kernel2048

extension Game2048 {
    /// A batch of boards, run by the fastest engine that can: the kernel up to 4 x 4.
    ///
    /// Throws where the reward or the extra infos are wrong.
    public func makeBatch(_ options: BatchOptions) throws(EnvironmentError) -> Batch {
        try makeBatch(options, passes: [])
    }

    /// The same with more passes, each for infos that users can request.
    package func makeBatch(
        _ options: BatchOptions, passes: [any StepPass]
    ) throws(EnvironmentError) -> Batch {
        let kernel = Kernels.kernel(options.engine, rows: config.rows, columns: config.columns)
        return try Batch(self, options, passes: passes) { (plan) throws(EnvironmentError) in
            if let kernel { try KernelEngine(plan, kernel) } else { try GameEngine(plan) }
        }
    }
}

/// The engine of 2048 on boards up to 4 x 4, 64 at a time.
///
/// It does what ``GameEngine`` does with the readable rules, bit by bit. The last block of a batch may be partly used:
/// the kernel then writes to 64 rows of the engine's, which are copied as far as there are lanes.
final class KernelEngine: BatchEngine {
    private let game: Game2048
    private let kernel: any KernelOperations.Type
    private let rules: KernelRules
    private let keys: BatchKeys
    private let phases: LanePhases
    private let blocks: BlockStorage
    /// What a step reports on request; nil where it is not asked for.
    private let report: KernelReport?
    private let workers: Int
    private let stepArrays: [ArraySpec]

    init(
        _ plan: BatchPlan<Game2048>, _ kernel: any KernelOperations.Type
    ) throws(EnvironmentError) {
        (game, keys, phases, stepArrays) = (plan.game, plan.keys, plan.phases, plan.stepArrays)
        self.kernel = kernel
        var rules = KernelRules(
            fourThreshold: game.spawnLaw.threshold, goalExponent: game.goalExponent)
        rules.startTiles = game.config.startTiles
        rules.stopAtGoal = game.config.stopAtGoal
        rules.illegalTerminates = game.config.illegalAction == .terminate
        rules.maxEpisodeSteps = plan.options.stepLimit
        rules.holdsFinished = phases.turnOfFinished == .wait
        rules.isReported = !plan.report.isPlain
        self.rules = rules
        report = plan.report.isPlain ? nil : KernelReport(plan)
        workers = plan.options.workers.threads
        blocks = try BlockStorage(
            game.config, kernel, lanes: plan.options.lanes, workers: workers, stepArrays: stepArrays,
            afterstateArrays: game.afterstates)
    }

    var nanosecondsPerLane: Int { report == nil ? 10 : 25 }
    var nanosecondsPerSingleLane: Int { 200 }

    func bytes(lanes: Int) -> Int {
        BlockStorage.bytes(
            lanes: lanes, workers: workers, stepArrays: stepArrays, afterstateArrays: game.afterstates)
    }

    // MARK: blocks of lanes

    func step(_ lanes: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int) {
        let first = lanes.lowerBound
        func step(_ arrays: BatchArrays, _ row: Int) {
            kernel.step(
                blocks.block(of: first), actions: blocks.actions(actions, from: first),
                phases: phases.bytes + first, rules: rules, arrays.kernelOutputs(row, keys),
                arrays.kernelStepOutputs(row, keys), scratch: blocks.scratch(worker))
        }
        if lanes.count == KernelBlock.lanes { return step(arrays, first) }
        step(blocks.tail, 0)
        arrays.copyRows(lanes, ofArrays: 0...keys.truncated.index, from: blocks.tail)
    }

    func step(
        _ lanes: Range<Int>, actions: LaneInput<UInt8>, in arrays: BatchArrays, phases: LanePhases,
        worker: Int
    ) {
        guard let report else { return }
        let scratch = blocks.scratch(worker)
        if lanes.count == KernelBlock.lanes {
            return kernel.report(
                report.program, report.outputs(arrays, lanes.lowerBound), scratch: scratch)
        }
        kernel.report(report.program, report.outputs(blocks.tail, 0), scratch: scratch)
        for array in report.arrays { arrays.copyRows(lanes, ofArrays: array...array, from: blocks.tail) }
    }

    func observe(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int) {
        let first = lanes.lowerBound
        func observe(_ arrays: BatchArrays, _ row: Int) {
            kernel.observe(
                blocks.block(of: first), phases: phases.bytes + first, rules: rules,
                arrays.kernelOutputs(row, keys), scratch: blocks.scratch(worker))
        }
        if lanes.count == KernelBlock.lanes { return observe(arrays, first) }
        observe(blocks.tail, 0)
        arrays.copyRows(lanes, ofArrays: 0...keys.resetCount - 1, from: blocks.tail)
    }

    func afterstates(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int) {
        let first = lanes.lowerBound
        func afterstates(_ arrays: BatchArrays, _ row: Int) {
            kernel.afterstates(
                blocks.block(of: first), phases: phases.bytes + first,
                boards: arrays.address(array: 0, lane: row), rewards: arrays.address(array: 1, lane: row),
                mask: arrays.address(array: 2, lane: row), scratch: blocks.scratch(worker))
        }
        if lanes.count == KernelBlock.lanes { return afterstates(arrays, first) }
        afterstates(blocks.afterstatesTail, 0)
        arrays.copyRows(lanes, ofArrays: 0...2, from: blocks.afterstatesTail)
    }

    // MARK: single lanes: few of a block start at a time

    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?) {
        if let seed { blocks.seed(lane, with: Generator(seed: seed)) }
        blocks.start(lane, from: board, rules: rules)
    }

    func observe(lane: Int, into arrays: BatchArrays) {
        let (state, row) = (blocks.lane(lane), arrays.row(lane))
        game.write(
            state.state, isTerminated: phases[lane] == .terminated, to: GameRow(row: row, keys: keys))
        row.store(state.episodeLength, keys.episodeLength)
    }

    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer) {
        game.encode(blocks.lane(lane), phases[lane], into: record)
    }

    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase {
        // Checked for every lane before the first one was changed.
        var (state, phase) = try! game.decode(record)
        if let seed { state.generator = Generator(seed: seed) }
        blocks.put(state, into: lane)
        return phase
    }
}
