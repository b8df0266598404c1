/// The direction of a slide. The raw value is the action's number on the wire and never changes.
public enum Direction: UInt8, CaseIterable, Sendable {
    case up = 0
    case right = 1
    case down = 2
    case left = 3
}

extension Direction {
    /// Returns the number of rows for left and right, and the number of columns for up and down.
    package func lineCount(of board: Board) -> Int {
        switch self {
        case .up, .down: board.columns
        case .left, .right: board.rows
        }
    }

    /// Returns the number of cells in each row for left and right, and in each column for up and down.
    package func lineLength(of board: Board) -> Int {
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
    package func cell(line: Int, position: Int, of board: Board) -> Int {
        switch self {
        case .up: position * board.columns + line
        case .right: line * board.columns + (board.columns - 1 - position)
        case .down: (board.rows - 1 - position) * board.columns + line
        case .left: line * board.columns + position
        }
    }
}
