/// The rules of one problem for packed boards: moves, new tiles, and the boards' numbers.
final class OptimumRules: Sendable {
    let problem: OptimumProblem
    let boards: PackedBoards
    let moves: PackedMoves
    let numbers: BoardNumbers
    private let twoProbability: Double
    private let fourProbability: Double

    init(_ problem: OptimumProblem) {
        self.problem = problem
        boards = PackedBoards(rows: problem.rows, columns: problem.columns)
        moves = PackedMoves(boards)
        numbers = BoardNumbers(boards, limit: problem.largestExponent)
        twoProbability = 1 - problem.fourProbability
        fourProbability = problem.fourProbability
    }

    /// Returns true if a board holds the tile that ends the game.
    @inline(__always)
    func isEnd(_ afterstate: UInt64) -> Bool {
        problem.endExponent != 0
            && boards.contains(afterstate, UInt64(truncatingIfNeeded: problem.endExponent))
    }

    /// Returns the contribution of a single move to the objective.
    @inline(__always)
    func reward(score: UInt32, isEnd: Bool) -> Double {
        switch problem.objective {
        case .score: Double(score)
        case .moves: 1
        case .goal: isEnd ? 1 : 0
        }
    }

    /// Calls `body` for each board that results from an afterstate and one new tile. `added` is the tile's
    /// value.
    @inline(__always)
    func forEachNewTile(
        _ afterstate: UInt64, _ body: (_ board: UInt64, _ probability: Double, _ added: Int) -> Void
    ) {
        var empty = 0
        for cell in 0..<boards.cells where afterstate &>> UInt64(truncatingIfNeeded: 4 &* cell) & 15 == 0 {
            empty &+= 1
        }
        let share = 1 / Double(empty)
        for cell in 0..<boards.cells {
            let shift = UInt64(truncatingIfNeeded: 4 &* cell)
            guard afterstate &>> shift & 15 == 0 else { continue }
            if twoProbability > 0 { body(afterstate | 1 &<< shift, twoProbability * share, 2) }
            if fourProbability > 0 { body(afterstate | 2 &<< shift, fourProbability * share, 4) }
        }
    }

    /// Returns the canonical start boards with their probabilities, in ascending order of the boards.
    func starts() -> [(board: UInt64, probability: Double)] {
        var starts: [UInt64: Double] = [0: 1]
        for _ in 0..<problem.startTiles {
            var more: [UInt64: Double] = [:]
            for (board, probability) in starts.sorted(by: { $0.key < $1.key }) {
                forEachNewTile(board) { next, share, _ in
                    more[boards.canonical(next), default: 0] += probability * share
                }
            }
            starts = more
        }
        return starts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns true if a number encodes a canonical board with this tile sum and no exponent above the
    /// limit.
    func isBoard(_ number: UInt64, _ tileSum: Int) -> Bool {
        number >> UInt64(4 * boards.cells) == 0
            && (0..<boards.cells).allSatisfy { number >> UInt64(4 * $0) & 15 <= numbers.limit }
            && self.tileSum(number) == tileSum && boards.canonical(number) == number
    }

    /// Returns the sum of a board's tiles.
    func tileSum(_ board: UInt64) -> Int {
        // A cell's exponent 0 counts as 1 << 0, which the last bit removes.
        (0..<boards.cells).reduce(0) { $0 + (1 << Int(board >> UInt64(4 * $1) & 15)) & ~1 }
    }
}
