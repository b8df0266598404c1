/// The direction of a slide. The raw value is the action's number on the wire and never changes.
public enum Direction: UInt8, CaseIterable, Sendable {
    case up = 0
    case right = 1
    case down = 2
    case left = 3
}

extension Direction {
    /// Returns the number of rows for left and right, and the number of columns for up and down.
    func lineCount(of board: Board) -> Int {
        switch self {
        case .up, .down: board.columns
        case .left, .right: board.rows
        }
    }

    /// Returns the number of cells in each row for left and right, and in each column for up and down.
    func lineLength(of board: Board) -> Int {
        switch self {
        case .up, .down: board.rows
        case .left, .right: board.columns
        }
    }

    /// Returns the number of the cell at a position in a line. Position 0 is at the wall towards which the tiles slide.
    /// Apart from this mapping, the rules treat all directions alike. On a 4 x 4 board, the cells have these positions:
    ///
    ///     up 0 0 0 0    right 3 2 1 0    down 3 3 3 3    left 0 1 2 3
    ///        1 1 1 1          3 2 1 0         2 2 2 2         0 1 2 3
    ///        2 2 2 2          3 2 1 0         1 1 1 1         0 1 2 3
    ///        3 3 3 3          3 2 1 0         0 0 0 0         0 1 2 3
    @inline(__always)
    func cell(line: Int, position: Int, of board: Board) -> Int {
        switch self {
        case .up: position * board.columns + line
        case .right: line * board.columns + (board.columns - 1 - position)
        case .down: (board.rows - 1 - position) * board.columns + line
        case .left: line * board.columns + position
        }
    }
}

/// The legal actions on a board, as a set of directions.
public struct LegalActions: Equatable, Sendable, BitwiseCopyable {
    private var bits: UInt8 = 0

    /// The empty set.
    public init() {}

    /// Whether no action is legal. The game is then over.
    public var isEmpty: Bool { bits == 0 }

    /// Returns true if an action is in the set.
    public func contains(_ direction: Direction) -> Bool { bits & (1 << direction.rawValue) != 0 }

    /// Adds an action.
    public mutating func insert(_ direction: Direction) { bits |= 1 << direction.rawValue }

    /// Adds the actions that move a tile from one of two neighbouring cells to the other. `first` and `second` are the
    /// exponents of the cells. `towardsFirst` is the direction from the second cell to the first.
    fileprivate mutating func insert(
        _ towardsFirst: Direction, _ towardsSecond: Direction, from first: UInt8, _ second: UInt8
    ) {
        if second != 0, first == 0 || first == second { insert(towardsFirst) }
        if first != 0, second == 0 || first == second { insert(towardsSecond) }
    }
}

extension Board {
    /// The actions that move at least one tile; empty if the game is over.
    ///
    /// A tile can move if and only if the next cell in that direction is empty or holds an equal tile. So each pair of
    /// neighbouring cells a, b can make two directions legal:
    ///
    ///     a b    left: b can move to or into a      right: a can move to or into b
    public var legalActions: LegalActions {
        var legal = LegalActions()
        for row in 0..<rows {
            for column in 0..<columns {
                let cell = row * columns + column
                if column + 1 < columns {
                    legal.insert(.left, .right, from: self[cell], self[cell + 1])
                }
                if row + 1 < rows {
                    legal.insert(.up, .down, from: self[cell], self[cell + columns])
                }
            }
        }
        return legal
    }
}
