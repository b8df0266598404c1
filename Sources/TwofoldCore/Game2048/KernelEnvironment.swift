internal import Kernel2048

extension Game2048 {
    /// A batch of boards, run by the fastest engine that can: the kernel on 4 x 4.
    public func makeEnvironment(_ options: BatchOptions) -> any VectorEnvironment {
        let fitsKernel = config.rows == 4 && config.columns == 4
        return switch options.engine {
        case .automatic where fitsKernel, .avx2 where fitsKernel:
            KernelEnvironment(self, options, .avx2)
        case .baseline where fitsKernel:
            KernelEnvironment(self, options, .baseline)
        default:
            GameEnvironment(self, options)
        }
    }
}

/// The vector environment of 2048 on 4 x 4, 64 boards at a time.
///
/// It does what ``GameEnvironment`` does with the readable rules, bit by bit; only single lanes (a
/// reset, the start of an episode) are done one by one.
final class KernelEnvironment: VectorEnvironment {
    private let game: Game2048
    private let options: BatchOptions
    private let operations: KernelOperations
    private let rules: KernelRules
    private let checks: BatchChecks
    private let blocks: BlockStorage
    /// Whether the first reset, which has to reset all lanes, has been.
    private var isSeeded = false

    let resetArrays: [ArraySpec]
    let stepArrays: [ArraySpec]

    init(_ game: Game2048, _ options: BatchOptions, _ operations: KernelOperations) {
        precondition(options.lanes >= 1 && game.config.rows == 4 && game.config.columns == 4)
        self.game = game
        self.options = options
        self.operations = operations
        checks = BatchChecks(game, options)
        rules = KernelRules(
            fourThreshold: game.spawnLaw.threshold, startTiles: game.config.startTiles,
            goalExponent: game.goalExponent, stopAtGoal: game.config.stopAtGoal,
            illegalTerminates: game.config.illegalAction == .terminate,
            maxEpisodeSteps: options.maxEpisodeSteps.map { Int32(clamping: $0) } ?? .max)
        resetArrays = StandardArrays.reset(game)
        stepArrays = StandardArrays.step(game)
        blocks = BlockStorage(
            lanes: options.lanes, workers: options.workers.threads, stepArrays: stepArrays,
            afterstateArrays: game.afterstates)
    }

    var lanes: Int { options.lanes }
    var nanosecondsPerLane: Int { 10 }
    var observationSpace: ObservationSpace { game.observationSpace }
    var actions: [String] { game.actions }
    var afterstateArrays: [ArraySpec] { game.afterstates }

    // MARK: the operations

    func step(actions: UnsafeRawBufferPointer, into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.step(actions, isSeeded: isSeeded) { self.blocks.isFinished($0) }
        let (operations, rules, blocks) = (operations, rules, blocks)
        let actions = LaneInput<UInt8>(actions)
        run(into: arrays, tail: blocks.tail) { block, first, arrays, row, scratch in
            operations.step(
                block, blocks.actions(actions, from: first), rules, arrays.kernelOutputs(row),
                arrays.kernelStepOutputs(row), scratch)
        }
    }

    func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError) {
        var scratch = game.makeState()
        try checks.reset(input, isSeeded: isSeeded) { (board) throws(InvalidBoard) in
            try self.game.start(&scratch, from: board)
        }
        isSeeded = true
        let (rules, blocks) = (rules, blocks)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for lane in range where input.resets(lane) {
                if let seed = input.seed(lane) { blocks.seed(lane, with: Generator(seed: seed)) }
                blocks.start(lane, from: input.board(lane, bytes: 16), rules: rules)
            }
        }
        try observe(into: arrays)
    }

    func observe(into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let (operations, rules) = (operations, rules)
        run(into: arrays, tail: blocks.tail) { block, _, arrays, row, scratch in
            operations.observe(block, rules, arrays.kernelOutputs(row), scratch)
        }
    }

    func afterstates(into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let operations = operations
        run(into: arrays, tail: blocks.afterstatesTail) { block, _, arrays, row, scratch in
            operations.afterstates(
                block, arrays.address(array: 0, lane: row), arrays.address(array: 1, lane: row),
                arrays.address(array: 2, lane: row), scratch)
        }
    }

    /// Calls `body` for each block with the first of its lanes, and the arrays and the row in them to
    /// write to. The last block may be partly used: it writes to 64 rows of our own, which are copied as
    /// far as there are lanes.
    private func run(
        into arrays: BatchArrays, tail: BatchArrays,
        _ body:
            @Sendable (
                _ block: UnsafeMutableRawPointer, _ first: Int, _ arrays: BatchArrays, _ row: Int,
                _ scratch: UnsafeMutableRawPointer
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
