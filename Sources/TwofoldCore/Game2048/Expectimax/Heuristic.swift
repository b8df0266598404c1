/// The weights that determine the value of an afterstate at the end of a search. A line is a row or column. The value
/// of the afterstate is the sum of the values of its lines, minus `room` divided by the number of empty cells on the
/// board. The value of a line is the sum of these parts, where a and b are exponents of its cells:
///
///     base                                 so that a board in play beats a finished one
///     + empty         x empty cells
///     + merges        x pairs of equal neighbours (empty cells between them don't count)
///     - monotonicity  x min(rise, fall)    the sums of |a^4 - b^4| over neighbours a < b and over a > b
///     - crowding      x sum of a^4         of the cells
///
/// Monotonicity keeps large tiles in order. Crowding prefers one large tile to several smaller ones that could merge
/// into it. Both have separate weights for outer and inner lines, which draws large tiles to an edge and a corner.
public struct Heuristic: Equatable, Sendable {
    /// The weights that differ between outer and inner lines.
    public struct Line: Equatable, Sendable {
        public var monotonicity: Double
        public var crowding: Double

        public init(monotonicity: Double, crowding: Double) {
            self.monotonicity = monotonicity
            self.crowding = crowding
        }
    }

    /// The constant part of each line's value.
    public var base = 100_000.0
    /// The weight of each empty cell in a line.
    public var empty = 750.0
    /// The weight of each pair of tiles that could merge.
    public var merges = 2000.0
    /// The weights of the first and last row and column.
    public var outer = Line(monotonicity: 4, crowding: 3)
    /// The weights of the other rows and columns.
    public var inner = Line(monotonicity: 6, crowding: 1)
    /// The cost of having only one empty cell. A board with n empty cells costs `room / n`.
    public var room = 6500.0

    /// Makes the standard weights, which were tuned on thousands of games at depth 2.
    public init() {}

    /// All weights in one list.
    public var weights: [Double] {
        [
            base, empty, merges, outer.monotonicity, outer.crowding, inner.monotonicity, inner.crowding, room,
        ]
    }

    /// Returns the value of a line of four exponents.
    func value(_ line: [Int], _ weights: Line) -> Double {
        var value = base + empty * Double(line.count { $0 == 0 })
        let tiles = line.filter { $0 != 0 }
        for (first, second) in zip(tiles, tiles.dropFirst()) where first == second { value += merges }
        let powers = line.map { $0 * $0 * $0 * $0 }
        var rise = 0
        var fall = 0
        for (first, second) in zip(powers, powers.dropFirst()) {
            if first < second { rise += second - first } else { fall += first - second }
        }
        value -= weights.monotonicity * Double(min(rise, fall))
        return value - weights.crowding * Double(powers.reduce(0, +))
    }

    /// Returns the cost of having only this number of empty cells.
    func roomCost(empties: Int) -> Double { room / Double(max(empties, 1)) }
}
