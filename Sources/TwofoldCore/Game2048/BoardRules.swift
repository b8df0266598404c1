internal import Kernel2048
internal import Platform

/// The rules of 2048 as stateless functions on arrays of boards. They need no environment, lanes or episodes.
///
/// An array holds consecutive boards, each stored as its exponents, row by row. A board need not be reachable by play.
/// The kernel processes boards of up to 4 x 4 cells, 64 at a time. The readable rules process larger boards one by one.
/// For the same boards, both produce the same bytes. If a board is invalid, the `lane` of the ``EnvironmentError`` is
/// the index of the board.
public struct BoardRules: Sendable {
    /// The largest exponent that a board may have in functions that slide it. Two tiles of this exponent merge into
    /// exponent 27. A slide of a 4 x 4 board makes at most eight such merges. Their sum is 2^30, which fits into Int32.
    public static let maxExponent: UInt8 = 26
    /// The largest exponent that a board may have in functions that do not slide it. Observations have the same
    /// maximum.
    public static let largestExponent: UInt8 = 31

    private let game: Game2048
    private let rows: Int
    private let columns: Int
    private let workers: Workers
    private let kernel: (any KernelOperations.Type)?

    private let ofAfterstates: AfterstateArrays
    private let ofMove: (boards: ArrayKey<UInt8>, rewards: ArrayKey<Float>, legal: ArrayKey<Bool>)
    private let ofLegal: ArrayKey<Int8>
    private let ofSpawn: (boards: ArrayKey<UInt8>, outcomes: ArrayKey<Int32>)
    /// The arrays that ``afterstates(_:into:)`` fills.
    public var afterstateArrays: [ArraySpec] { ofAfterstates.specs }
    /// The arrays that ``move(_:actions:into:)`` fills.
    public let moveArrays: [ArraySpec]
    /// The array that ``legal(_:into:)`` fills.
    public let legalArrays: [ArraySpec]
    /// The arrays that ``spawn(_:seeds:into:)`` fills.
    public let spawnArrays: [ArraySpec]

    /// Makes the rules for this game's board size and spawn probabilities.
    public init(_ game: Game2048, workers: Workers, engine: Engine = .automatic) {
        self.game = game
        rows = game.config.rows
        columns = game.config.columns
        self.workers = workers
        kernel = Kernels.kernel(engine, rows: rows, columns: columns)
        ofAfterstates = game.afterstates!
        var (move, legal, spawn) = (ArrayList(), ArrayList(), ArrayList())
        ofMove = (move.add("boards", shape: [rows, columns]), move.add("rewards"), move.add("legal"))
        ofLegal = legal.add("mask", shape: [4])
        ofSpawn = (spawn.add("boards", shape: [rows, columns]), spawn.add("outcomes"))
        (moveArrays, legalArrays, spawnArrays) = (move.specs, legal.specs, spawn.specs)
    }

    public var boardShape: [Int] { [rows, columns] }
    /// The number of cells of a board. A board has one byte per cell.
    public var cells: Int { rows * columns }
    /// The estimated time that one thread needs for one board, in nanoseconds.
    public var nanosecondsPerBoard: Int { kernel == nil ? 4000 : 20 }

    // MARK: the operations

    /// Writes the afterstate, reward and legality of each action on each board. An illegal action leaves the board
    /// unchanged.
    public func afterstates(_ boards: BoardInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try check(boards)
        let (game, keys) = (game, ofAfterstates)
        guard let kernel else {
            return forEach(boards) { index, board in
                game.writeAfterstates(
                    of: .init(board: board), isTerminated: false, keys, to: arrays.row(index))
            }
        }
        try forEachBlock(boards, kernel, afterstateArrays, into: arrays) { memory, _, arrays, row in
            kernel.afterstates(
                memory.block, phases: nil, boards: arrays.address(keys.boards, lane: row),
                rewards: arrays.address(keys.rewards, lane: row), mask: arrays.address(keys.mask, lane: row),
                scratch: memory.scratch)
        }
    }

    /// Plays one action on each board. Writes the afterstate, the reward, and whether the action was legal. `actions`
    /// holds one byte per board.
    public func move(
        _ boards: BoardInput, actions: UnsafeRawBufferPointer, into arrays: BatchArrays
    ) throws(EnvironmentError) {
        try check(boards)
        try check(actions: actions)
        let actions = LaneInput<UInt8>(actions)
        let keys = ofMove
        guard let kernel else {
            return forEach(boards) { index, board in
                let row = arrays.row(index)
                let slide = Slide(board, towards: Direction(rawValue: actions[index])!)
                Self.store(slide.afterstate, to: row[keys.boards])
                row.store(Float(slide.mergeScore), keys.rewards)
                row.store(slide.moved, keys.legal)
            }
        }
        try forEachBlock(boards, kernel, moveArrays, into: arrays) { memory, range, arrays, row in
            kernel.move(
                memory.block, actions: memory.whole(actions, range),
                boards: arrays.address(keys.boards, lane: row),
                rewards: arrays.address(keys.rewards, lane: row),
                legal: arrays.address(keys.legal, lane: row), scratch: memory.scratch)
        }
    }

    /// Writes the legal actions of each board.
    public func legal(_ boards: BoardInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try check(boards)
        let mask = ofLegal
        guard let kernel else {
            return forEach(boards) { index, board in
                let legal = board.legalActions
                for direction in Direction.allCases {
                    arrays.row(index).store(
                        legal.contains(direction) ? 1 : 0, mask, at: Int(direction.rawValue))
                }
            }
        }
        try forEachBlock(boards, kernel, legalArrays, into: arrays) { memory, _, arrays, row in
            kernel.legal(memory.block, mask: arrays.address(mask, lane: row), scratch: memory.scratch)
        }
    }

    /// Adds a random tile to each board. The board's seed determines the tile. `seeds` holds one 8-byte little-endian
    /// seed per board. A full board stays unchanged.
    public func spawn(
        _ boards: BoardInput, seeds: UnsafeRawBufferPointer, into arrays: BatchArrays
    ) throws(EnvironmentError) {
        try check(boards, limit: BoardRules.largestExponent)
        let seeds = LaneInput<UInt64>(seeds)
        let (law, keys) = (game.spawnLaw, ofSpawn)
        guard let kernel else {
            return forEach(boards) { index, board in
                var board = board
                var outcome: Int32 = -1
                if board.emptyCount > 0 {
                    var generator = Generator(seed: UInt64(littleEndian: seeds[index]))
                    let spawn = law.draw(on: board, generator: &generator)
                    board.place(spawn)
                    outcome = Int32(spawn.cell + (spawn.exponent == 2 ? board.count : 0))
                }
                let row = arrays.row(index)
                Self.store(board, to: row[keys.boards])
                row.store(outcome, keys.outcomes)
            }
        }
        try forEachBlock(boards, kernel, spawnArrays, into: arrays) { memory, range, arrays, row in
            for index in range {
                memory.block[generator: index - range.lowerBound] =
                    Generator(seed: UInt64(littleEndian: seeds[index])).words
            }
            kernel.spawn(
                memory.block, fourThreshold: law.threshold, boards: arrays.address(keys.boards, lane: row),
                outcomes: arrays.address(keys.outcomes, lane: row), scratch: memory.scratch)
        }
    }

    /// Calls `report` for each board with the tile moves that lead from the board to its next board. The list of moves
    /// is empty if the action was illegal and the board stayed the same.
    public func explain(
        _ boards: BoardInput, actions: UnsafeRawBufferPointer, nextBoards: BoardInput,
        report: (_ board: Int, _ moves: [MoveAction]) -> Void
    ) throws(EnvironmentError) {
        try check(boards)
        try check(actions: actions)
        try check(nextBoards, limit: BoardRules.largestExponent)
        for index in 0..<boards.count {
            let before = boards.board(index, rows, columns)
            let after = nextBoards.board(index, rows, columns)
            let direction = Direction(rawValue: actions[index])!
            do throws(Reason) {
                report(index, try MoveAction.explain(before, direction, after))
            } catch {
                throw .invalid("next_board", lane: index, "next_board \(error)")
            }
        }
    }

    // MARK: checks

    private func check(
        _ boards: BoardInput, limit: UInt8 = BoardRules.maxExponent
    ) throws(EnvironmentError) {
        precondition(boards.bytes.count == boards.count * cells)
        // Search for the board only if an exponent is too large.
        var largest: UInt8 = 0
        for exponent in boards.bytes { largest = max(largest, exponent) }
        guard largest > limit, let first = boards.bytes.firstIndex(where: { $0 > limit }) else { return }
        throw .invalid(
            boards.field, lane: first / cells,
            "board \(first / cells) has exponent \(boards.bytes[first]) in cell \(first % cells); at most "
                + "\(limit) is allowed")
    }

    private func check(actions: UnsafeRawBufferPointer) throws(EnvironmentError) {
        guard let row = actions.firstIndex(where: { $0 > 3 }) else { return }
        throw .invalid("actions", lane: row, "action \(actions[row]) of board \(row) is outside 0...3")
    }

    // MARK: one at a time

    private func forEach(_ boards: BoardInput, _ body: @Sendable (_ index: Int, _ board: Board) -> Void) {
        let (rows, columns) = (rows, columns)
        workers.run(lanes: boards.count, nanosecondsPerLane: nanosecondsPerBoard) { range, _ in
            for index in range { body(index, boards.board(index, rows, columns)) }
        }
    }

    private static func store(_ board: Board, to row: ArrayRow<UInt8>) {
        for cell in 0..<board.count { row.store(board[cell], at: cell) }
    }

    // MARK: 64 at a time

    /// Loads each group of 64 boards into a worker's block, and calls `body` with the indices of the boards in `range`.
    /// `body` writes the results to `arrays`, starting at row `row`. If the last group has fewer than 64 boards, `body`
    /// writes to spare rows of the worker, and this function then copies the used rows.
    private func forEachBlock(
        _ boards: BoardInput, _ kernel: any KernelOperations.Type, _ specs: [ArraySpec],
        into arrays: BatchArrays,
        _ body:
            @Sendable (
                _ memory: BlockMemory, _ range: Range<Int>, _ arrays: BatchArrays, _ row: Int
            ) -> Void
    ) throws(EnvironmentError) {
        let layout = BlockMemory.layout(specs, cells: cells)
        do throws(Reason) {
            _ = try MemoryPromise.make(workers.threads * layout.size)
        } catch { throw EnvironmentError(outOfMemory: error) }
        workers.run(lanes: boards.count, nanosecondsPerLane: nanosecondsPerBoard) { range, _ in
            let memory = BlockMemory(layout, cells: cells)
            for first in stride(from: range.lowerBound, to: range.upperBound, by: KernelBlock.lanes) {
                let mine = first..<min(first + KernelBlock.lanes, boards.count)
                kernel.load(memory.whole(boards, mine), into: memory.block, scratch: memory.scratch)
                if mine.count == KernelBlock.lanes {
                    body(memory, mine, arrays, first)
                } else {
                    body(memory, mine, memory.tail, 0)
                    arrays.copyRows(mine, from: memory.tail)
                }
            }
        }
    }
}

/// The boards of a request, all of the same size, and the name of their argument for error messages.
///
/// `@unchecked Sendable` because nothing writes to the memory, and its owner keeps it alive during the call.
public struct BoardInput: @unchecked Sendable {
    let bytes: UnsafeRawBufferPointer
    let count: Int
    let field: String

    /// Makes the input from the memory of `count` consecutive boards.
    public init(_ bytes: UnsafeRawBufferPointer, count: Int, field: String = "boards") {
        self.bytes = bytes
        self.count = count
        self.field = field
    }

    func board(_ index: Int, _ rows: Int, _ columns: Int) -> Board {
        let cells = rows * columns
        return Board(rows: rows, columns: columns, exponents: bytes[index * cells..<(index + 1) * cells])
    }
}

/// A worker's memory for running the kernel on boards outside any environment: one block, scratch memory, and spare
/// rows of input and then of results for a group of fewer than 64 boards.
///
/// The worker that made this unsafe memory owns it.
private final class BlockMemory {
    private let memory: UnsafeMutableRawBufferPointer
    private let cells: Int
    let tail: BatchArrays

    private static let inputOffset = KernelBlock.size + KernelScratch.size

    /// Returns the layout of the spare rows of results, which end the memory.
    static func layout(_ specs: [ArraySpec], cells: Int) -> BatchLayout {
        BatchLayout(specs, lanes: KernelBlock.lanes, from: inputOffset + (cells + 1) * KernelBlock.lanes)
    }

    init(_ layout: BatchLayout, cells: Int) {
        self.cells = cells
        memory = .allocate(byteCount: layout.size, alignment: 64)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        tail = layout.arrays(in: memory)
    }

    deinit { memory.deallocate() }

    var block: KernelBlock { KernelBlock(memory.baseAddress!) }
    var scratch: KernelScratch { KernelScratch(memory.baseAddress! + KernelBlock.size) }

    /// Returns the address of the boards in `range`. If `range` has fewer than 64, returns the address of a copy that
    /// is padded to 64 boards.
    func whole(_ boards: BoardInput, _ range: Range<Int>) -> UnsafeRawPointer {
        whole(boards.bytes.baseAddress! + range.lowerBound * cells, bytes: cells, range.count, at: 0)
    }

    /// Returns the address of the actions for the boards in `range`. If `range` has fewer than 64, returns the address
    /// of a copy that is padded to 64 actions.
    func whole(_ actions: LaneInput<UInt8>, _ range: Range<Int>) -> UnsafeRawPointer {
        whole(actions.address(range.lowerBound), bytes: 1, range.count, at: cells * KernelBlock.lanes)
    }

    private func whole(
        _ source: UnsafeRawPointer, bytes: Int, _ count: Int, at offset: Int
    ) -> UnsafeRawPointer {
        guard count < KernelBlock.lanes else { return source }
        let copy = memory.baseAddress! + Self.inputOffset + offset
        copy.copyMemory(from: source, byteCount: bytes * count)
        return UnsafeRawPointer(copy)
    }
}
