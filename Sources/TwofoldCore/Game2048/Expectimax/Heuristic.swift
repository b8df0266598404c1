/// The values of afterstates at the end of a search. A line is a row or column. The value of an afterstate is the sum of
/// the values of its lines, minus 6500 divided by the number of empty cells on the board. The value of a line is the sum
/// of these parts, where a and b are exponents of its cells:
///
///     100,000                              so that a board in play beats a finished one
///     + 750           x empty cells
///     + 2000          x pairs of equal neighbours (empty cells between them don't count)
///     - monotonicity  x min(rise, fall)    the sums of |a^4 - b^4| over neighbours a < b and over a > b
///     - crowding      x sum of a^4         of the cells
///
/// Monotonicity keeps large tiles in order. Crowding prefers one large tile to several smaller ones that could merge
/// into it. Both have separate weights for outer and inner lines, which draws large tiles to an edge and a corner. All
/// weights were tuned on thousands of games at depth 2.
///
/// The tables hold the value of each line of four exponents. This type holds their unsafe memory. `@unchecked Sendable`
/// because nothing writes after init.
final class Heuristic: @unchecked Sendable {
    /// The tables that the whole process shares.
    static let shared = Heuristic()

    /// The values of the first and last row and column.
    private let outer: UnsafePointer<Float>
    /// The values of the other rows and columns.
    private let inner: UnsafePointer<Float>

    private init() {
        outer = Self.table(monotonicity: 4, crowding: 3)
        inner = Self.table(monotonicity: 6, crowding: 1)
    }

    private static func table(monotonicity: Int, crowding: Int) -> UnsafePointer<Float> {
        let table = UnsafeMutablePointer<Float>.allocate(capacity: 65_536)
        for row in 0..<65_536 {
            let line = (0..<4).map { row >> (4 * $0) & 15 }
            var value = 100_000 + 750 * line.count { $0 == 0 }
            let tiles = line.filter { $0 != 0 }
            value += 2000 * zip(tiles, tiles.dropFirst()).count { $0 == $1 }
            let powers = line.map { $0 * $0 * $0 * $0 }
            let steps = zip(powers, powers.dropFirst()).map { $1 - $0 }
            let rise = steps.reduce(0) { $0 + max(0, $1) }
            let fall = steps.reduce(0) { $0 + max(0, -$1) }
            value -= monotonicity * min(rise, fall) + crowding * powers.reduce(0, +)
            table[row] = Float(value)
        }
        return UnsafePointer(table)
    }

    /// Returns the value of an afterstate with this number of empty cells.
    @inline(__always)
    func value(_ board: Bitboard, empties: Int) -> Float {
        let columns = board.transposed
        let rowValue =
            outer[board.row(0)] + inner[board.row(1)] + inner[board.row(2)] + outer[board.row(3)]
        let columnValue =
            outer[columns.row(0)] + inner[columns.row(1)] + inner[columns.row(2)] + outer[columns.row(3)]
        return rowValue + columnValue - 6500 / Float(max(empties, 1))
    }
}
