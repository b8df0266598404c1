internal import Kernel2048
internal import Platform

extension Game2048 {
    /// A batch of boards, run by the fastest engine that can: the kernel up to 4 x 4.
    ///
    /// Throws where the reward or the extra infos are wrong.
    public func makeEnvironment(_ options: BatchOptions) throws(EnvironmentError) -> any VectorEnvironment {
        let kernel = Kernels.kernel(options.engine, rows: config.rows, columns: config.columns)
        guard let kernel else { return try GameEnvironment(self, options) }
        return try KernelEnvironment(self, options, kernel)
    }
}

/// The vector environment of 2048 on boards up to 4 x 4, 64 at a time.
///
/// It does what ``GameEnvironment`` does with the readable rules, bit by bit; only the start of an
/// episode is done lane by lane.
final class KernelEnvironment: VectorEnvironment {
    let game: Game2048
    let options: BatchOptions
    private let kernel: any KernelOperations.Type
    private let rules: KernelRules
    private let checks: BatchChecks
    private let blocks: BlockStorage
    /// What a step reports on request; nil where it is not asked for.
    private let report: KernelReport?
    /// Whether the first reset, which has to reset all lanes, has been.
    private var isSeeded = false

    let returns: EpisodeReturns?
    let resetArrays: [ArraySpec]
    let stepArrays: [ArraySpec]
    let rewardTerms: [String]

    init(
        _ game: Game2048, _ options: BatchOptions, _ kernel: any KernelOperations.Type
    ) throws(EnvironmentError) {
        precondition(options.lanes >= 1)
        self.game = game
        self.options = options
        self.kernel = kernel
        checks = BatchChecks(game, options)
        let report = try TransitionReport(game, options)
        var rules = KernelRules(
            fourThreshold: game.spawnLaw.threshold, goalExponent: game.goalExponent)
        rules.startTiles = game.config.startTiles
        rules.stopAtGoal = game.config.stopAtGoal
        rules.illegalTerminates = game.config.illegalAction == .terminate
        rules.maxEpisodeSteps = options.maxEpisodeSteps.map { Int32(clamping: $0) } ?? .max
        rules.holdsFinished = options.autoreset == .disabled
        rules.isReported = !report.isPlain
        self.rules = rules
        resetArrays = StandardArrays.reset(game)
        self.report = report.isPlain ? nil : KernelReport(report, game)
        rewardTerms = report.program.names
        stepArrays = StandardArrays.step(game) + report.arrays
        returns = try EpisodeReturns(lanes: options.lanes, reset: resetArrays, step: stepArrays)
        blocks = try BlockStorage(
            game.config, kernel, lanes: options.lanes, workers: options.workers.threads,
            stepArrays: stepArrays, afterstateArrays: game.afterstates)
    }

    var nanosecondsPerLane: Int { report == nil ? 10 : 25 }
    /// About how long it takes to start one lane's episode by itself.
    private static let nanosecondsPerSingleLane = 200

    func bytes(lanes: Int) -> Int {
        BlockStorage.bytes(
            lanes: lanes, workers: options.workers.threads, stepArrays: stepArrays,
            afterstateArrays: afterstateArrays) + (returns?.bytes(lanes: lanes) ?? 0)
    }

    // MARK: the operations

    func isFinished(_ lane: Int) -> Bool { blocks.isFinished(lane) }

    func checkSeeded() throws(EnvironmentError) { try checks.seeded(isSeeded) }

    func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays, skippingFinished: Bool
    ) throws(EnvironmentError) {
        try checks.step(actions, isSeeded: isSeeded, skippingFinished: skippingFinished) {
            self.blocks.isFinished($0)
        }
        let (kernel, rules, blocks, report, returns) = (kernel, rules, blocks, report, returns)
        let lanes = lanes
        let actions = LaneInput<UInt8>(actions)
        run(into: arrays, tail: blocks.tail) { block, first, arrays, row, scratch in
            kernel.step(
                block, actions: blocks.actions(actions, from: first), rules: rules,
                arrays.kernelOutputs(row), arrays.kernelStepOutputs(row), scratch: scratch)
            if let report {
                kernel.report(report.program, report.outputs(arrays, row), scratch: scratch)
            }
            returns?.add(first..<min(first + KernelBlock.lanes, lanes), in: arrays, row: row)
        }
    }

    /// Few lanes of a block start at a time: they are written one by one, as the readable rules write them.
    func restart(_ lanes: [Int], in arrays: BatchArrays, keeping finals: BatchArrays) {
        let (game, rules, blocks, returns) = (game, rules, blocks, returns)
        options.workers.run(lanes: lanes.count, nanosecondsPerLane: Self.nanosecondsPerSingleLane) {
            range, _ in
            for row in range {
                let lane = lanes[row]
                finals.keepFinal(row, ofLane: lane, from: arrays)
                blocks.start(lane, from: nil, rules: rules)
                returns?[lane] = 0
                let output = arrays.row(lane)
                game.write(blocks.state(lane), isTerminated: false, to: GameRow(row: output))
                output.store(Int32(0), array: StandardArrays.episodeLength)
            }
        }
    }

    func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError) {
        var scratch = game.makeState()
        try checks.reset(input, isSeeded: isSeeded) { (board) throws(Reason) in
            try self.game.start(&scratch, from: board)
        }
        isSeeded = true
        let (rules, blocks, returns, bytesPerBoard) = (rules, blocks, returns, checks.bytesPerBoard)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for lane in range where input.resets(lane) {
                if let seed = input.seed(lane) { blocks.seed(lane, with: Generator(seed: seed)) }
                blocks.start(lane, from: input.board(lane, bytes: bytesPerBoard), rules: rules)
                returns?[lane] = 0
            }
        }
        try observe(into: arrays)
    }

    func observe(into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let (kernel, rules) = (kernel, rules)
        run(into: arrays, tail: blocks.tail) { block, _, arrays, row, scratch in
            kernel.observe(block, rules: rules, arrays.kernelOutputs(row), scratch: scratch)
        }
    }

    func afterstates(into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let kernel = kernel
        run(into: arrays, tail: blocks.afterstatesTail) { block, _, arrays, row, scratch in
            kernel.afterstates(
                block, boards: arrays.address(array: 0, lane: row),
                rewards: arrays.address(array: 1, lane: row), mask: arrays.address(array: 2, lane: row),
                scratch: scratch)
        }
    }

    func snapshot(
        _ lanes: [Int], into records: UnsafeMutableRawBufferPointer
    ) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let (game, blocks) = (game, blocks)
        let records = RecordOutput(memory: records, recordSize: recordSize)
        options.workers.run(lanes: lanes.count, nanosecondsPerLane: Self.nanosecondsPerSingleLane) {
            range, _ in
            for index in range { game.encode(blocks.lane(lanes[index]), into: records[index]) }
        }
    }

    func restore(_ input: RestoreInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.restore(input, isSeeded: isSeeded) { (record) throws(Reason) in
            _ = try self.game.decode(record)
        }
        isSeeded = true
        let (game, blocks, returns) = (game, blocks, returns)
        options.workers.run(lanes: input.lanes.count, nanosecondsPerLane: Self.nanosecondsPerSingleLane) {
            range, _ in
            for index in range {
                // Checked for every lane before the first one was changed.
                var lane = try! game.decode(input.record(index))
                if let seed = input.seed(index) { lane.generator = Generator(seed: seed) }
                blocks.put(lane, into: input.lanes[index])
                returns?[input.lanes[index]] = input.episodeReturn(index)
            }
        }
        try observe(into: arrays)
    }

    /// Calls `body` for each block with the first of its lanes, and the arrays and the row in them to
    /// write to. The last block may be partly used: it writes to 64 rows of our own, which are copied as
    /// far as there are lanes.
    private func run(
        into arrays: BatchArrays, tail: BatchArrays,
        _ body:
            @Sendable (
                _ block: KernelBlock, _ first: Int, _ arrays: BatchArrays, _ row: Int,
                _ scratch: KernelScratch
            ) -> Void
    ) {
        let (blocks, lanes) = (blocks, lanes)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, worker in
            let scratch = blocks.scratch(worker)
            for first in stride(from: range.lowerBound, to: range.upperBound, by: KernelBlock.lanes) {
                let block = blocks.block(of: first)
                if first + KernelBlock.lanes <= lanes {
                    body(block, first, arrays, first, scratch)
                } else {
                    body(block, first, tail, 0, scratch)
                    arrays.copyRows(first..<lanes, from: tail)
                }
            }
        }
    }
}
