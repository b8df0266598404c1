/// One thing that a move did to one tile, in the order in which a view would show it: the slides of
/// each line from the wall on, a merge right behind the two slides that led to it, the spawn last.
///
/// Cells are numbered row by row; values are tile values (2, 4, 8 …).
public enum MoveAction: Equatable, Sendable {
    /// A tile went from one cell to another and stays what it is, or is about to merge there.
    case slide(tile: TileID, source: Int, target: Int, value: Int)
    /// The two tiles that are now in `target` became one, a new tile of twice their value.
    case merge(first: TileID, second: TileID, into: TileID, target: Int, value: Int)
    /// A new tile appeared.
    case spawn(tile: TileID, target: Int, value: Int)
}

/// Which tile it is, for as long as it lives; numbered from 1 in the order of appearance.
public struct TileID: Hashable, Sendable, RawRepresentable {
    /// The number.
    public let rawValue: UInt32

    /// The tile with a number.
    public init(rawValue: UInt32) { self.rawValue = rawValue }
}

/// A board whose tiles have identities, so that a move can be told tile by tile.
public struct TrackedBoard: Equatable, Sendable {
    /// The exponents.
    public private(set) var board: Board
    private var tiles: [Int: TileID] = [:]
    private var lastID: UInt32 = 0

    /// Gives the tiles of a board their identities, row by row.
    public init(_ board: Board) {
        self.board = board
        for cell in 0..<board.count where board[cell] != 0 { tiles[cell] = newID() }
    }

    /// The tile in a cell, nil where empty.
    public func tile(at cell: Int) -> TileID? { tiles[cell] }

    /// Slides and merges, and tells what happened; an empty list means that nothing moved.
    public mutating func slide(towards direction: Direction) -> [MoveAction] {
        let before = self
        var actions: [MoveAction] = []
        tiles = [:]
        board = Slide(before.board, towards: direction).afterstate
        for line in 0..<direction.lineCount(of: board) {
            let tokens = collapse(condense(before.board, line: line, towards: direction))
            for position in 0..<tokens.count {
                let target = direction.cell(line: line, position: position, of: board)
                arrive(tokens[position], at: target, actions: &actions) { position in
                    let cell = direction.cell(line: line, position: position, of: before.board)
                    return (cell, before.tiles[cell]!)
                }
            }
        }
        return actions
    }

    /// Puts a new tile into an empty cell.
    public mutating func spawn(_ spawn: Spawn) -> MoveAction {
        board.place(spawn)
        let tile = newID()
        tiles[spawn.cell] = tile
        return .spawn(tile: tile, target: spawn.cell, value: 1 << Int(spawn.exponent))
    }

    /// One tile of a collapsed line reaches its cell: the step that the tutorials call convert.
    private mutating func arrive(
        _ token: Token, at target: Int, actions: inout [MoveAction],
        from origin: (_ position: Int) -> (cell: Int, tile: TileID)
    ) {
        let value = 1 << Int(token.exponent)
        let first = origin(token.source)
        if first.cell != target {
            let slidValue = token.isMerged ? value / 2 : value
            actions.append(.slide(tile: first.tile, source: first.cell, target: target, value: slidValue))
        }
        guard token.isMerged else {
            tiles[target] = first.tile
            return
        }
        let second = origin(token.partner)
        actions.append(.slide(tile: second.tile, source: second.cell, target: target, value: value / 2))
        let merged = newID()
        tiles[target] = merged
        actions.append(
            .merge(first: first.tile, second: second.tile, into: merged, target: target, value: value))
    }

    private mutating func newID() -> TileID {
        lastID += 1
        return TileID(rawValue: lastID)
    }
}

extension TrackedBoard {
    /// What happened, tile by tile, from `board` through an action to `next`: its slides and merges, then
    /// the one new tile. Nothing where the action is illegal and the board has stayed as it was. Throws
    /// when `next` does not follow.
    public static func explain(
        _ board: Board, _ direction: Direction, _ next: Board
    ) throws(InvalidBoard) -> [MoveAction] {
        var tracked = TrackedBoard(board)
        let moves = tracked.slide(towards: direction)
        guard !moves.isEmpty else {
            guard next == board else {
                throw InvalidBoard(
                    message: "does not follow: \(direction) is illegal, and the board has changed")
            }
            return []
        }
        let different = (0..<next.count).filter { next[$0] != tracked.board[$0] }
        guard let cell = different.first else {
            throw InvalidBoard(message: "does not follow: it has no new tile")
        }
        guard different.count == 1, tracked.board[cell] == 0, next[cell] <= 2 else {
            let wrong: Int = different.first { tracked.board[$0] != 0 } ?? different[different.count - 1]
            throw InvalidBoard(
                message:
                    "does not follow: cell \(wrong) is neither what \(direction) leaves there nor the one "
                    + "new tile, a 2 or a 4")
        }
        return moves + [tracked.spawn(Spawn(cell: cell, exponent: next[cell]))]
    }
}
