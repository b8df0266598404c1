/// Where the tiles slide; the raw value is the action's number on the wire, frozen.
public enum Direction: UInt8, CaseIterable, Sendable {
    case up = 0
    case right = 1
    case down = 2
    case left = 3
}

extension Direction {
    /// How many lines a board has along this direction.
    func lineCount(of board: Board) -> Int {
        switch self {
        case .up, .down: board.columns
        case .left, .right: board.rows
        }
    }

    /// How many cells each of those lines has.
    func lineLength(of board: Board) -> Int {
        switch self {
        case .up, .down: board.rows
        case .left, .right: board.columns
        }
    }

    /// The cell at a position of a line, counted from the wall that the tiles slide to.
    ///
    /// The four directions differ in nothing but this; a 4x4 board's cells by their position:
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
