internal import Platform

/// A policy for 2048 on 4 x 4 that chooses actions by full-width expectimax. It searches `depth` layers of moves, with
/// every possible new tile between two layers. It evaluates the leaf afterstates with ``Heuristic``.
///
///     depth 1    the best reward + heuristic of the afterstates
///     depth 2    max over moves, mean over new tiles, max over moves
///
/// If a leaf afterstate has at most `extension` empty cells, the search continues there for one more layer. On such a
/// board, few new tiles are possible, and each can decide the game.
///
/// Each worker has a table of the values that it has computed. The key is the afterstate and the number of layers below
/// it. All lanes of the worker share the table, because a value depends only on this key. The table lives as long as
/// the policy. It saves time but never changes which action is chosen.
public final class ExpectimaxPolicy: Policy {
    private let workers: Workers
    private let searchers: [Searcher]

    /// Makes the policy. Throws an error that names the argument if the game is not 2048 on 4 x 4, or if `depth` or
    /// `extension` is out of range. `tableBytes` is the total size of all workers' tables.
    public init(
        _ batch: Batch, depth: Int, extension: Int, tableBytes: Int, workers: Workers
    ) throws(EnvironmentError) {
        guard let game = batch.game as? Game2048, game.config.rows == 4, game.config.columns == 4
        else {
            throw .invalid("policy", "the policy 'expectimax' plays 2048 on 4 x 4 only")
        }
        guard (1...8).contains(depth) else {
            throw .invalid("depth", "depth is \(depth); it must be in 1...8")
        }
        guard (0...16).contains(`extension`) else {
            throw .invalid("extension", "extension is \(`extension`); it must be in 0...16")
        }
        self.workers = workers
        searchers = try (0..<workers.threads).map { _ throws(EnvironmentError) in
            try Searcher(
                fourProbability: Float(game.config.fourProbability), depth: depth,
                extension: `extension`, tableBytes: tableBytes / workers.threads)
        }
    }

    public func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError) {
        let searchers = searchers
        try workers.search(lanes: view.lanes, until: deadline) { lane, worker in
            guard let action = searchers[worker].best(lane, view, until: deadline) else { return false }
            view.choose(action, lane: lane)
            return true
        }
    }
}

/// The search of one worker, with its table of values. The search reads the clock once every few thousand afterstates.
///
/// This type holds the table's unsafe memory. `@unchecked Sendable` because one worker uses it at a time.
private final class Searcher: @unchecked Sendable {
    private struct Entry {
        var board: UInt64
        var value: Float
        /// The number of layers below the afterstate, plus 1; 0 if the entry is unused.
        var depth: UInt32
    }

    private let heuristic = Heuristic.shared
    private let slides = SlideTables.shared
    private let fourProbability: Float
    private let depth: Int
    private let `extension`: Int
    private let memory: OwnedMemory
    private let entries: UnsafeMutablePointer<Entry>
    private let shift: UInt64
    private var deadline: Deadline?
    /// The number of afterstates to search before the clock is read again.
    private var untilClock = Searcher.clockInterval
    private static let clockInterval = 4096
    private var isLate = false

    init(
        fourProbability: Float, depth: Int, extension: Int, tableBytes: Int
    ) throws(EnvironmentError) {
        self.fourProbability = fourProbability
        self.depth = depth
        self.extension = `extension`
        let count = max(16, tableBytes / MemoryLayout<Entry>.stride)
        let bits = Int.bitWidth - 1 - count.leadingZeroBitCount
        shift = UInt64(64 - bits)
        memory = try OwnedMemory(byteCount: MemoryLayout<Entry>.stride << bits, for: "policy")
        entries = memory.initialized(repeating: Entry(board: 0, value: 0, depth: 0)).baseAddress!
    }

    /// Returns the best action of a lane, or nil if the deadline passes before the search ends. If several actions are
    /// equally good, returns the one with the lowest number; if no action is legal, 0.
    func best(_ lane: Int, _ view: PolicyView, until deadline: Deadline?) -> Int? {
        self.deadline = deadline
        isLate = false
        let board = Bitboard((view.observations + lane * 16).assumingMemoryBound(to: UInt8.self))
        var (best, chosen) = (-Float.infinity, 0)
        view.forEachLegal(lane) { action in
            let (afterstate, score) = slide(board, action)
            let value = Float(score) + expected(afterstate, depth - 1)
            if value > best { (best, chosen) = (value, action) }
        }
        return isLate ? nil : chosen
    }

    private func slide(_ board: Bitboard, _ action: Int) -> (Bitboard, Int32) {
        if action & 1 == 1 { return slides.slide(board, toRight: action == 1) }
        let (columns, score) = slides.slide(board.transposed, toRight: action == 2)
        return (columns.transposed, score)
    }

    /// Returns the value of an afterstate with `layers` layers of moves below it. `layers` is -1 after the additional
    /// layer of an extension.
    private func expected(_ afterstate: Bitboard, _ layers: Int) -> Float {
        let empties = afterstate.empties
        if layers < 0 || layers == 0 && empties.nonzeroBitCount > self.extension {
            return heuristic.value(afterstate, empties: empties.nonzeroBitCount)
        }
        let place = Int((afterstate.bits &* 0x9e37_79b9_7f4a_7c15 &+ UInt64(layers)) >> shift)
        if entries[place].board == afterstate.bits, entries[place].depth == layers + 1 {
            return entries[place].value
        }
        untilClock -= 1
        if untilClock == 0 {
            untilClock = Searcher.clockInterval
            if let deadline, deadline.hasPassed { isLate = true }
        }
        // A late search's result is discarded.
        guard !isLate else { return 0 }
        var sum: Float = 0
        var count: Float = 0
        var rest = empties
        while rest != 0 {
            let two = rest & (0 &- rest)
            rest ^= two
            count += 1
            var value: Float = 0
            if fourProbability < 1 {
                value += (1 - fourProbability) * bestValue(Bitboard(bits: afterstate.bits | two), layers)
            }
            if fourProbability > 0 {
                value += fourProbability * bestValue(Bitboard(bits: afterstate.bits | two << 1), layers)
            }
            sum += value
        }
        let mean = sum / max(count, 1)
        if !isLate { entries[place] = Entry(board: afterstate.bits, value: mean, depth: UInt32(layers + 1)) }
        return mean
    }

    /// Returns the value of the best move on a board; 0 if no action is legal.
    private func bestValue(_ board: Bitboard, _ layers: Int) -> Float {
        var best = -Float.infinity
        let columns = board.transposed
        for toRight in [false, true] {
            let (afterstate, score) = slides.slide(board, toRight: toRight)
            if afterstate != board { best = max(best, Float(score) + expected(afterstate, layers - 1)) }
            let (slid, columnsScore) = slides.slide(columns, toRight: toRight)
            if slid != columns {
                best = max(best, Float(columnsScore) + expected(slid.transposed, layers - 1))
            }
        }
        return best == -.infinity ? 0 : best
    }
}
