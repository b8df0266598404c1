internal import Kernel2048
internal import Platform

/// The memory of a batch that the kernel runs: blocks of 64 lanes, the workers' scratch memory, and spare rows for a
/// last block with fewer than 64 lanes.
///
/// This type holds the kernel's unsafe memory. `@unchecked Sendable` because its engine serves one caller at a time.
/// Within a call, workers have disjoint ranges of whole blocks and separate scratch memory. Only the worker of the last
/// block uses the spare rows.
final class BlockStorage: @unchecked Sendable {
    private let rows: Int
    private let columns: Int
    private let kernel: any KernelOperations.Type
    private let lanes: Int
    private let memory: OwnedMemory
    /// The address of the first block. The blocks are consecutive.
    private let blocks: UnsafeMutableRawPointer
    private let scratches: UnsafeMutableRawPointer
    private let tailActions: UnsafeMutableRawPointer
    /// 64 spare rows of each array that a step fills, for a last block with fewer than 64 lanes.
    let stepTail: ArrayMemory
    /// 64 spare rows of each array of afterstates, for a last block with fewer than 64 lanes.
    let afterstateTail: ArrayMemory

    init(
        _ config: Game2048.Config, _ kernel: any KernelOperations.Type, _ options: BatchOptions,
        stepArrays: [ArraySpec], afterstateArrays: [ArraySpec]
    ) throws(EnvironmentError) {
        (rows, columns) = (config.rows, config.columns)
        self.kernel = kernel
        lanes = options.lanes
        let count = (lanes + KernelBlock.lanes - 1) / KernelBlock.lanes
        let blockBytes = count * KernelBlock.size
        // At most one worker per block runs at a time.
        let scratchBytes = min(options.workers.threads, count) * KernelScratch.size
        memory = try OwnedMemory(
            byteCount: blockBytes + scratchBytes + KernelBlock.lanes, for: "num_envs",
            reserve: options.reserve)
        blocks = memory.start
        blocks.initializeMemory(as: UInt8.self, repeating: 0, count: blockBytes)
        scratches = blocks + blockBytes
        tailActions = scratches + scratchBytes
        tailActions.initializeMemory(as: UInt8.self, repeating: 0, count: KernelBlock.lanes)
        stepTail = try ArrayMemory(
            stepArrays, lanes: KernelBlock.lanes, reserve: options.reserve)
        afterstateTail = try ArrayMemory(
            afterstateArrays, lanes: KernelBlock.lanes, reserve: options.reserve)
    }

    @inline(__always)
    func block(of lane: Int) -> KernelBlock {
        KernelBlock(blocks + lane / KernelBlock.lanes * KernelBlock.size)
    }

    func scratch(_ worker: Int) -> KernelScratch { KernelScratch(scratches + worker * KernelScratch.size) }

    /// Returns the address of 64 actions, starting with the action of lane `first`. If fewer than 64 lanes are left,
    /// returns the address of a copy that is padded to 64 actions.
    @inline(__always)
    func actions(_ actions: LaneInput<UInt8>, from first: Int) -> UnsafeRawPointer {
        let source = actions.address(first)
        guard first + KernelBlock.lanes > lanes else { return source }
        tailActions.copyMemory(from: source, byteCount: lanes - first)
        return UnsafeRawPointer(tailActions)
    }

    // MARK: single lanes

    /// Returns a lane's state in the type that the readable rules use.
    func lane(_ lane: Int) -> LaneState<Game2048.State> {
        let (block, column) = (block(of: lane), lane % KernelBlock.lanes)
        var board = Board(rows: rows, columns: columns)
        for cell in 0..<board.count { board[cell] = block.cells[cell * KernelBlock.lanes + column] }
        let state = Game2048.State(
            board: board, score: Int(block.score[column]), moves: block.moves[column],
            legalActions: board.legalActions)
        return LaneState(
            state: state, generator: Generator(words: block[generator: column]),
            episodeLength: block.length[column])
    }

    /// Replaces a lane's state with a state in the type that the readable rules use.
    func put(_ new: LaneState<Game2048.State>, into lane: Int) {
        let (block, column) = (block(of: lane), lane % KernelBlock.lanes)
        let board = new.state.board
        for cell in 0..<board.count { block.cells[cell * KernelBlock.lanes + column] = board[cell] }
        block[generator: column] = new.generator.words
        block.score[column] = Int32(clamping: new.state.score)
        block.moves[column] = new.state.moves
        block.length[column] = new.episodeLength
    }

    /// Starts an episode in a lane from `board`. If `board` is nil, draws the start tiles.
    func start(_ lane: Int, from board: UnsafeRawBufferPointer?, rules: KernelRules) {
        let (block, column) = (block(of: lane), lane % KernelBlock.lanes)
        guard let board else { return kernel.start(block, lane: column, rules: rules) }
        for cell in 0..<rows * columns { block.cells[cell * KernelBlock.lanes + column] = board[cell] }
        block.begin(column)
    }
}

/// The numbers of the arrays with the states of 2048 boards, in the order of ``Game/stateFields``. The rest of a state
/// consists of the first two.
private enum StateArray {
    static let (generator, phase, episodeLength, score, moves, board) = (0, 1, 2, 3, 4, 5)
}

// MARK: states in the caller's arrays

extension BlockStorage {
    /// Returns true if a quick check finds nothing unusual in the states of these lanes. They then need no other check.
    func areUsual(_ states: BatchArrays, _ lanes: Range<Int>) -> Bool {
        func address(_ array: Int) -> UnsafeMutableRawPointer {
            states.address(array: array, lane: lanes.lowerBound)
        }
        let phases = address(StateArray.phase).assumingMemoryBound(to: UInt8.self)
        let cells = address(StateArray.board).assumingMemoryBound(to: UInt8.self)
        var (phase, exponent): (UInt8, UInt8) = (0, 0)
        for lane in 0..<lanes.count { phase = max(phase, phases[lane]) }
        for cell in 0..<lanes.count * rows * columns { exponent = max(exponent, cells[cell]) }
        // Bits 30 and 31 of a usual count are 0.
        var counts: UInt32 = 0
        for array in StateArray.episodeLength...StateArray.moves {
            let memory = address(array)
            for lane in 0..<lanes.count {
                counts |= memory.loadUnaligned(fromByteOffset: 4 * lane, as: UInt32.self)
            }
        }
        let words = address(StateArray.generator)
        // Bit 63 becomes 1 if the four words of any lane are all 0.
        var zeros: UInt64 = 0
        for lane in 0..<lanes.count {
            let word =
                words.loadUnaligned(fromByteOffset: 16 * lane, as: UInt64.self)
                | words.loadUnaligned(fromByteOffset: 16 * lane + 8, as: UInt64.self)
            zeros |= (word &- 1) & ~word
        }
        return phase <= KernelPhase.truncated && exponent <= BoardRules.maxExponent
            && counts < UInt32(maxRecordedCount) && zeros < 1 << 63
    }

    func load(
        _ lanes: Range<Int>, from states: BatchArrays, phases: UnsafeMutablePointer<UInt8>,
        scratch: KernelScratch
    ) {
        let (first, block) = (lanes.lowerBound, block(of: lanes.lowerBound))
        func copy(_ array: Int, to memory: UnsafeMutableRawPointer, _ size: Int) {
            memory.copyMemory(
                from: states.address(array: array, lane: first), byteCount: lanes.count * size)
        }
        copy(StateArray.phase, to: phases + first, 1)
        copy(StateArray.episodeLength, to: block.length, 4)
        copy(StateArray.score, to: block.score, 4)
        copy(StateArray.moves, to: block.moves, 4)
        let generators = states.address(array: StateArray.generator, lane: first)
        for lane in 0..<lanes.count {
            let generator = generators.loadUnaligned(fromByteOffset: 16 * lane, as: SIMD4<UInt32>.self)
            block[generator: lane] = (generator.x, generator.y, generator.z, generator.w)
        }
        let boards = states.address(array: StateArray.board, lane: first)
        guard lanes.count < KernelBlock.lanes else {
            return kernel.load(boards, into: block, scratch: scratch)
        }
        // The kernel reads 64 boards.
        withUnsafeTemporaryAllocation(byteCount: KernelBlock.lanes * rows * columns, alignment: 16) {
            padded in
            padded.initializeMemory(as: UInt8.self, repeating: 0)
            copy(StateArray.board, to: padded.baseAddress!, rows * columns)
            kernel.load(UnsafeRawPointer(padded.baseAddress!), into: block, scratch: scratch)
        }
    }

    func store(_ lanes: Range<Int>, into rest: BatchArrays, phases: UnsafeMutablePointer<UInt8>) {
        let first = lanes.lowerBound
        rest.address(array: StateArray.phase, lane: first)
            .copyMemory(from: phases + first, byteCount: lanes.count)
        let generators = rest.address(array: StateArray.generator, lane: first)
        let block = block(of: first)
        for lane in 0..<lanes.count {
            let words = block[generator: lane]
            generators.storeBytes(
                of: SIMD4(words.0, words.1, words.2, words.3), toByteOffset: 16 * lane,
                as: SIMD4<UInt32>.self)
        }
    }
}

extension BatchArrays {
    /// Returns the addresses of row `row` in the arrays that both a step and a reset fill. The kernel writes 64 rows,
    /// starting at these addresses.
    @inline(__always)
    func kernelOutputs(_ row: Int, _ keys: BatchKeys, _ infos: Game2048.Infos) -> KernelOutputs {
        KernelOutputs(
            observation: address(keys.observation, lane: row),
            actionMask: address(keys.actionMask, lane: row),
            episodeLength: address(keys.episodeLength, lane: row), score: address(infos.score, lane: row),
            maxExponent: address(infos.maxExponent, lane: row), moves: address(infos.moves, lane: row),
            goalReached: address(infos.goalReached, lane: row))
    }

    /// Returns the addresses of row `row` in the arrays that only a step fills. The kernel writes 64 rows, starting
    /// at these addresses.
    @inline(__always)
    func kernelStepOutputs(_ row: Int, _ keys: BatchKeys) -> KernelStepOutputs {
        KernelStepOutputs(
            reward: address(keys.reward, lane: row), terminated: address(keys.terminated, lane: row),
            truncated: address(keys.truncated, lane: row))
    }
}
