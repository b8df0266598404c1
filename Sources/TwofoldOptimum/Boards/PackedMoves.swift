internal import TwofoldCore

/// The moves of packed boards. Each line of a board is looked up in ``SlideTables``, with its first cell at the wall
/// towards which it slides. A short line occupies the left of the table's row.
final class PackedMoves: Sendable {
    private let rows: Int
    private let columns: Int
    private let slides = SlideTables.shared
    /// For each action, the bit positions of all cells: line by line, each line starting at the wall.
    private let shifts: InlineArray<36, UInt64>

    init(_ boards: PackedBoards) {
        (rows, columns) = (boards.rows, boards.columns)
        let board = Board(rows: rows, columns: columns)
        var shifts = InlineArray<36, UInt64>(repeating: 0)
        var next = 0
        for direction in Direction.allCases {
            for line in 0..<direction.lineCount(of: board) {
                for position in 0..<direction.lineLength(of: board) {
                    shifts[next] = boards.shifts[direction.cell(line: line, position: position, of: board)]
                    next += 1
                }
            }
        }
        self.shifts = shifts
    }

    /// Calls `body` for each action that changes the board.
    @inline(__always)
    func forEachLegal(
        _ board: UInt64, _ body: (_ action: Int, _ afterstate: UInt64, _ score: UInt32) -> Void
    ) {
        var first = 0
        for action in 0..<4 {
            let (count, length) = action % 2 == 0 ? (columns, rows) : (rows, columns)
            var afterstate = board
            var score: UInt32 = 0
            for _ in 0..<count {
                var line = 0
                for position in 0..<length {
                    let exponent = board &>> shifts[first &+ position] & 15
                    line |= Int(truncatingIfNeeded: exponent) &<< (4 &* position)
                }
                // The bits that the slide changes.
                let change = UInt64(truncatingIfNeeded: line ^ Int(slides.left[line]))
                if change != 0 {
                    for position in 0..<length {
                        let bits = change &>> UInt64(truncatingIfNeeded: 4 &* position) & 15
                        afterstate ^= bits &<< shifts[first &+ position]
                    }
                }
                score &+= UInt32(bitPattern: slides.scores[line])
                first &+= length
            }
            if afterstate != board { body(action, afterstate, score) }
        }
    }
}
