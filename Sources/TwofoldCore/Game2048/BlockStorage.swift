internal import Kernel2048

/// The memory of a batch that the kernel runs: its blocks of 64 lanes, and what the workers need beside.
///
/// This is the room for the kernel's memory. `@unchecked Sendable` because the environment that owns it
/// is called by one caller at a time, and within a call workers have disjoint ranges of whole blocks and
/// scratch memory of their own; what the last, partly used block needs belongs to the one worker that
/// has it.
final class BlockStorage: @unchecked Sendable {
    private let lanes: Int
    private let blocks: UnsafeMutableRawPointer
    private let scratches: UnsafeMutableRawPointer
    private let tailActions: UnsafeMutableRawPointer
    private let stepTail: ArrayMemory
    private let afterstateTail: ArrayMemory

    init(lanes: Int, workers: Int, stepArrays: [ArraySpec], afterstateArrays: [ArraySpec]) {
        self.lanes = lanes
        let count = Self.blocks(lanes)
        let blockBytes = count * KernelBlock.size
        blocks = .allocate(byteCount: blockBytes, alignment: 64)
        blocks.initializeMemory(as: UInt8.self, repeating: 0, count: blockBytes)
        // No more workers than blocks run at a time.
        scratches = .allocate(byteCount: min(workers, count) * KernelBlock.scratchSize, alignment: 64)
        tailActions = .allocate(byteCount: KernelBlock.lanes, alignment: 64)
        tailActions.initializeMemory(as: UInt8.self, repeating: 0, count: KernelBlock.lanes)
        stepTail = ArrayMemory(stepArrays, lanes: KernelBlock.lanes)
        afterstateTail = ArrayMemory(afterstateArrays, lanes: KernelBlock.lanes)
    }

    deinit {
        blocks.deallocate()
        scratches.deallocate()
        tailActions.deallocate()
    }

    /// Memory that the storage of a batch takes.
    static func bytes(
        lanes: Int, workers: Int, stepArrays: [ArraySpec], afterstateArrays: [ArraySpec]
    ) -> Int {
        let count = blocks(lanes)
        return count * KernelBlock.size + min(workers, count) * KernelBlock.scratchSize + KernelBlock.lanes
            + ArrayMemory.size(stepArrays, lanes: KernelBlock.lanes)
            + ArrayMemory.size(afterstateArrays, lanes: KernelBlock.lanes)
    }

    private static func blocks(_ lanes: Int) -> Int { (lanes + KernelBlock.lanes - 1) / KernelBlock.lanes }

    /// 64 rows of each array that a step fills, for a partly used last block.
    var tail: BatchArrays { stepTail.arrays }

    /// 64 rows of each array of afterstates, for the same block.
    var afterstatesTail: BatchArrays { afterstateTail.arrays }

    /// The block that a lane is in.
    @inline(__always)
    func block(of lane: Int) -> UnsafeMutableRawPointer {
        blocks + lane / KernelBlock.lanes * KernelBlock.size
    }

    /// A worker's scratch memory.
    func scratch(_ worker: Int) -> UnsafeMutableRawPointer {
        scratches + worker * KernelBlock.scratchSize
    }

    /// The 64 actions from lane `first` on: where they are, or, for the last block where it is partly
    /// used, a copy that is as long.
    func actions(_ actions: LaneInput<UInt8>, from first: Int) -> UnsafeRawPointer {
        let source = actions.address(first)
        guard first + KernelBlock.lanes > lanes else { return source }
        tailActions.copyMemory(from: source, byteCount: lanes - first)
        return UnsafeRawPointer(tailActions)
    }

    // MARK: single lanes

    /// Whether a lane's episode has ended.
    func isFinished(_ lane: Int) -> Bool {
        let phase = block(of: lane).load(
            fromByteOffset: KernelBlock.phase + lane % KernelBlock.lanes, as: UInt8.self)
        return phase != KernelPhase.playing
    }

    /// A lane's board and counts in the form of the readable rules.
    func state(_ lane: Int) -> Game2048.State {
        let (block, column) = (block(of: lane), lane % KernelBlock.lanes)
        func count(_ offset: Int) -> Int32 {
            block.load(fromByteOffset: offset + column * 4, as: Int32.self)
        }
        var board = Board(rows: 4, columns: 4)
        for cell in 0..<16 {
            board[cell] = block.load(fromByteOffset: cell * KernelBlock.lanes + column, as: UInt8.self)
        }
        return Game2048.State(
            board: board, score: Int(count(KernelBlock.score)), moves: count(KernelBlock.moves),
            legalActions: board.legalActions)
    }

    /// A lane in the form of the readable rules.
    func lane(_ lane: Int) -> LaneState<Game2048.State> {
        let (block, column) = (block(of: lane), lane % KernelBlock.lanes)
        let words = (block + KernelBlock.words).assumingMemoryBound(to: UInt32.self) + column
        return LaneState(
            state: state(lane), generator: Generator(words: (words[0], words[64], words[128], words[192])),
            phase: LanePhase(block.load(fromByteOffset: KernelBlock.phase + column, as: UInt8.self)),
            episodeLength: block.load(fromByteOffset: KernelBlock.length + column * 4, as: Int32.self))
    }

    /// Puts a lane of the readable rules in the place of another.
    func put(_ new: LaneState<Game2048.State>, into lane: Int) {
        let (block, column) = (block(of: lane), lane % KernelBlock.lanes)
        func store(_ count: Int32, _ offset: Int) {
            block.storeBytes(of: count, toByteOffset: offset + column * 4, as: Int32.self)
        }
        for cell in 0..<16 {
            block.storeBytes(
                of: new.state.board[cell], toByteOffset: cell * KernelBlock.lanes + column, as: UInt8.self)
        }
        seed(lane, with: new.generator)
        store(Int32(clamping: new.state.score), KernelBlock.score)
        store(new.state.moves, KernelBlock.moves)
        store(new.episodeLength, KernelBlock.length)
        block.storeBytes(
            of: new.phase.kernel, toByteOffset: KernelBlock.phase + column, as: UInt8.self)
    }

    /// Gives a lane a stream of its own.
    func seed(_ lane: Int, with generator: Generator) {
        let words = (block(of: lane) + KernelBlock.words).assumingMemoryBound(to: UInt32.self)
        let column = words + lane % KernelBlock.lanes
        (column[0], column[64], column[128], column[192]) = generator.words
    }

    /// Starts an episode in a lane, from a given board or by drawing its start tiles.
    func start(_ lane: Int, from board: UnsafeRawBufferPointer?, rules: KernelRules) {
        if let board {
            Kernel.start(block(of: lane), lane: lane % KernelBlock.lanes, from: board.baseAddress!)
        } else {
            Kernel.start(block(of: lane), lane: lane % KernelBlock.lanes, rules: rules)
        }
    }
}

extension LanePhase {
    /// The phase of a lane that was reset, from the kernel's number.
    fileprivate init(_ kernel: UInt8) {
        switch kernel {
        case KernelPhase.terminated: self = .terminated
        case KernelPhase.truncated: self = .truncated
        default: self = .playing
        }
    }

    /// The kernel's number for it.
    fileprivate var kernel: UInt8 {
        switch self {
        case .playing: KernelPhase.playing
        case .terminated: KernelPhase.terminated
        case .truncated: KernelPhase.truncated
        }
    }
}

extension BatchArrays {
    /// What a step and a reset tell of the 64 lanes from `row` on; the order is that of StandardArrays
    /// and Game2048.infos.
    func kernelOutputs(_ row: Int) -> KernelOutputs {
        KernelOutputs(
            observation: address(array: StandardArrays.observation, lane: row),
            actionMask: address(array: StandardArrays.actionMask, lane: row),
            episodeLength: address(array: StandardArrays.episodeLength, lane: row),
            score: address(array: StandardArrays.firstInfo, lane: row),
            maxExponent: address(array: StandardArrays.firstInfo + 1, lane: row),
            moves: address(array: StandardArrays.firstInfo + 2, lane: row),
            goalReached: address(array: StandardArrays.firstInfo + 3, lane: row))
    }

    /// What only a step tells of the 64 lanes from `row` on.
    func kernelStepOutputs(_ row: Int) -> KernelStepOutputs {
        let reward = StandardArrays.firstInfo + 4
        return KernelStepOutputs(
            reward: address(array: reward, lane: row), terminated: address(array: reward + 1, lane: row),
            truncated: address(array: reward + 2, lane: row))
    }
}
