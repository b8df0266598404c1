/// The value of an afterstate at the end of a search: the sum over its rows and columns of
///
///     base                                 so that a board in play beats a finished one
///     + empty         x empty cells
///     + merges        x pairs of equal neighbours (empty cells between them don't count)
///     - monotonicity  x min(rise, fall)    sums of |a^4 - b^4| over neighbours a < b, a > b
///     - crowding      x sum of a^4         of the cells
///
/// less room / empty cells of the board; a, b are the exponents of the line's cells. Monotonicity keeps
/// large tiles in order, crowding prefers one large tile to several that could become it. Both have a
/// weight for the outer lines and one for the inner ones, which draws large tiles to an edge and a corner.
public struct Heuristic: Equatable, Sendable {
    /// The weights of a line.
    public struct Line: Equatable, Sendable {
        /// The weight of disorder.
        public var monotonicity: Double
        /// The weight of tiles.
        public var crowding: Double

        /// These weights.
        public init(monotonicity: Double, crowding: Double) {
            self.monotonicity = monotonicity
            self.crowding = crowding
        }
    }

    /// The value of each line.
    public var base = 100_000.0
    /// The weight of each empty cell in a line.
    public var empty = 750.0
    /// The weight of each pair that could merge.
    public var merges = 2000.0
    /// The weights of the first and last row and column.
    public var outer = Line(monotonicity: 4, crowding: 3)
    /// The weights of the other rows and columns.
    public var inner = Line(monotonicity: 6, crowding: 1)
    /// The weight of a lack of empty cells.
    public var room = 6500.0

    /// The standard weights, found by playing thousands of games at depth 2.
    public init() {}

    /// All weights.
    public var weights: [Double] {
        [
            base, empty, merges, outer.monotonicity, outer.crowding, inner.monotonicity, inner.crowding, room,
        ]
    }

    /// The value of a line of four exponents.
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

    /// The cost of this few empty cells.
    func roomCost(empties: Int) -> Double { room / Double(max(empties, 1)) }
}
