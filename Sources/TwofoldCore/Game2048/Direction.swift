/// The direction of a slide. The raw value is the action's number on the wire and never changes.
public enum Direction: UInt8, CaseIterable, Sendable {
    case up = 0
    case right = 1
    case down = 2
    case left = 3
}

extension Direction {
    /// Returns the number of lines of a board that slide in this direction.
    func lineCount(of board: Board) -> Int {
        switch self {
        case .up, .down: board.columns
        case .left, .right: board.rows
        }
    }

    /// Returns the number of cells in each line along this direction.
    func lineLength(of board: Board) -> Int {
        switch self {
        case .up, .down: board.rows
        case .left, .right: board.columns
        }
    }

    /// Returns the cell at a position of a line, counted from the wall to which the tiles slide. The
    /// directions differ in nothing else. The positions of a 4x4 board's cells:
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

/// A set of directions.
public struct LegalActions: Equatable, Sendable, BitwiseCopyable {
    private var bits: UInt8 = 0

    /// The empty set.
    public init() {}

    /// Whether no action is legal, which ends the game.
    public var isEmpty: Bool { bits == 0 }

    /// Returns true if an action is in the set.
    public func contains(_ direction: Direction) -> Bool { bits & (1 << direction.rawValue) != 0 }

    /// Adds an action.
    public mutating func insert(_ direction: Direction) { bits |= 1 << direction.rawValue }

    /// Adds the actions that move one of two neighbours; `first` lies in the direction `towardsFirst` from
    /// `second`.
    fileprivate mutating func insert(
        _ towardsFirst: Direction, _ towardsSecond: Direction, from first: UInt8, _ second: UInt8
    ) {
        if second != 0, first == 0 || first == second { insert(towardsFirst) }
        if first != 0, second == 0 || first == second { insert(towardsSecond) }
    }
}

extension Board {
    /// The actions that move a tile; empty once the game is over.
    ///
    /// A tile can move if and only if the next cell in that direction is empty or holds an equal tile. So
    /// each pair of neighbours decides two directions:
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
