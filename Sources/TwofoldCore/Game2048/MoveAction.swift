internal import Platform

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

extension MoveAction {
    /// Returns the slides and merges of a board's tiles, which are numbered row by row. The list is empty if nothing
    /// moves.
    static func slides(of board: Board, towards direction: Direction) -> [MoveAction] {
        var tiles: [Int: Int] = [:]
        for cell in 0..<board.count where board[cell] != 0 { tiles[cell] = tiles.count + 1 }
        var lastTile = tiles.count
        var actions: [MoveAction] = []
        for line in 0..<direction.lineCount(of: board) {
            let tokens = collapse(condense(board, line: line, towards: direction))
            for position in 0..<tokens.count {
                let token = tokens[position]
                let target = direction.cell(line: line, position: position, of: board)
                /// Moves the tile at a position of the line to the target, and returns the tile's number.
                func move(from position: Int) -> Int {
                    let source = direction.cell(line: line, position: position, of: board)
                    let (tile, value) = (tiles[source]!, 1 << Int(board[source]))
                    if source != target {
                        actions.append(.slide(tile: tile, source: source, target: target, value: value))
                    }
                    return tile
                }
                let first = move(from: token.source)
                guard token.isMerged else { continue }
                let second = move(from: token.partner)
                lastTile += 1
                let value = 1 << Int(token.exponent)
                actions.append(
                    .merge(first: first, second: second, into: lastTile, target: target, value: value))
            }
        }
        return actions
    }

    /// Returns the slides, merges and spawn with which this action turns `board` into `next`. The list is empty
    /// if the action is illegal and the boards are equal. Throws if the action cannot lead to `next`.
    static func explain(
        _ board: Board, _ direction: Direction, _ next: Board
    ) throws(Reason) -> [MoveAction] {
        let slide = Slide(board, towards: direction)
        guard slide.moved else {
            guard next == board else {
                throw Reason("does not follow: \(direction) is illegal, and the board has changed")
            }
            return []
        }
        let afterstate = slide.afterstate
        let different = (0..<next.count).filter { next[$0] != afterstate[$0] }
        guard let cell = different.first else {
            throw Reason("does not follow: it has no new tile")
        }
        guard different.count == 1, afterstate[cell] == 0, next[cell] <= 2 else {
            let wrong: Int = different.first { afterstate[$0] != 0 } ?? different[different.count - 1]
            throw Reason(
                "does not follow: cell \(wrong) differs from the board after \(direction); "
                    + "only one empty cell may differ, with a new tile of 2 or 4")
        }
        let tile = board.count - board.emptyCount + slide.mergeCount + 1
        return slides(of: board, towards: direction)
            + [.spawn(tile: tile, target: cell, value: 1 << Int(next[cell]))]
    }
}
