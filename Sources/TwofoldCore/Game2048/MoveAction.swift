public import Platform

/// One part of a move: a slide, a merge or the spawn. The parts are in display order: line by line, starting with the
/// tile nearest the wall. Each merge comes directly after the slides of its tiles. The spawn comes last.
///
/// Cells are numbered row by row; values are tile values (2, 4, 8 …). Tiles are numbered from 1 in the order in which
/// they appear. A tile keeps its number until it merges.
public enum MoveAction: Equatable, Sendable {
    /// A tile slid to another cell, where it stays or merges.
    case slide(tile: Int, source: Int, target: Int, value: Int)
    /// The two tiles in `target` merged into a new tile of twice their value.
    case merge(first: Int, second: Int, into: Int, target: Int, value: Int)
    /// A new tile appeared.
    case spawn(tile: Int, target: Int, value: Int)
}

/// A board that gives each tile a number, so that it can describe a move tile by tile.
public struct TrackedBoard: Equatable, Sendable {
    /// The exponents of the tiles.
    public private(set) var board: Board
    /// The number of the tile in each cell that is not empty.
    private(set) var tiles: [Int: Int] = [:]
    private var lastTile = 0

    /// Creates a tracked board. Its tiles get their numbers row by row.
    public init(_ board: Board) {
        self.board = board
        for cell in 0..<board.count where board[cell] != 0 { tiles[cell] = newTile() }
    }

    /// Slides and merges the tiles. Returns the slides and merges; the list is empty if nothing moved.
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
        let tile = newTile()
        tiles[spawn.cell] = tile
        return .spawn(tile: tile, target: spawn.cell, value: 1 << Int(spawn.exponent))
    }

    /// Moves one tile of a collapsed line to its cell. The tutorials call this step "convert".
    private mutating func arrive(
        _ token: Token, at target: Int, actions: inout [MoveAction],
        from origin: (_ position: Int) -> (cell: Int, tile: Int)
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
        let merged = newTile()
        tiles[target] = merged
        actions.append(
            .merge(first: first.tile, second: second.tile, into: merged, target: target, value: value))
    }

    private mutating func newTile() -> Int {
        lastTile += 1
        return lastTile
    }
}

extension TrackedBoard {
    /// Returns the slides, merges and spawn with which this action turns `board` into `next`. The list is empty
    /// if the action is illegal and the boards are equal. Throws if the action cannot lead to `next`.
    public static func explain(
        _ board: Board, _ direction: Direction, _ next: Board
    ) throws(Reason) -> [MoveAction] {
        var tracked = TrackedBoard(board)
        let moves = tracked.slide(towards: direction)
        guard !moves.isEmpty else {
            guard next == board else {
                throw Reason("does not follow: \(direction) is illegal, and the board has changed")
            }
            return []
        }
        let different = (0..<next.count).filter { next[$0] != tracked.board[$0] }
        guard let cell = different.first else {
            throw Reason("does not follow: it has no new tile")
        }
        guard different.count == 1, tracked.board[cell] == 0, next[cell] <= 2 else {
            let wrong: Int = different.first { tracked.board[$0] != 0 } ?? different[different.count - 1]
            throw Reason(
                "does not follow: cell \(wrong) differs from the board after \(direction); "
                    + "only one empty cell may differ, with a new tile of 2 or 4")
        }
        return moves + [tracked.spawn(Spawn(cell: cell, exponent: next[cell]))]
    }
}
