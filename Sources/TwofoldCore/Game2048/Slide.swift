/// One slide of a whole board: the afterstate and its merges.
///
/// Each line is processed separately, towards the wall, in three steps (positions count from the wall):
///
///     cells      2 . 2 4 4 .      the cells of the line
///     condense   2 2 4 4          the tiles without the gaps, each with its source
///     collapse   4   8            equal neighbours merge, the pair nearest the wall first;
///                                 a merged tile does not merge again
///     convert    0,2→0  3,4→1     the position of each tile in the collapsed line
///
/// This is the reference for any board size. Every faster engine must agree with it.
public struct Slide: Equatable, Sendable {
    /// The board after slide and merge, before any spawn.
    public private(set) var afterstate: Board
    /// The sum of the values of the merged tiles.
    public private(set) var mergeScore = 0
    /// The exponents of the merged tiles, each in its cell of the afterstate, with 0 in all other cells.
    public private(set) var merges: Board
    public private(set) var mergeCount = 0
    /// Whether any tile moved; false for an illegal action.
    public private(set) var moved = false

    /// Makes the result of an action that moves nothing.
    init(staying board: Board) {
        afterstate = board
        merges = Board(rows: board.rows, columns: board.columns)
    }

    /// Slides all tiles of `board` towards `direction`.
    public init(_ board: Board, towards direction: Direction) {
        afterstate = Board(rows: board.rows, columns: board.columns)
        merges = afterstate
        for line in 0..<direction.lineCount(of: board) {
            let tokens = collapse(condense(board, line: line, towards: direction))
            for position in 0..<tokens.count {
                let token = tokens[position]
                let cell = direction.cell(line: line, position: position, of: board)
                afterstate[cell] = token.exponent
                if token.isMerged {
                    merges[cell] = token.exponent
                    mergeScore += 1 << Int(token.exponent)
                    mergeCount += 1
                }
                if token.isMerged || token.source != position { moved = true }
            }
        }
    }
}

/// A tile that moves along a line.
struct Token: Sendable, BitwiseCopyable {
    /// The tile's exponent after the slide.
    var exponent: UInt8
    /// The tile's position before the slide, counted from the wall.
    var source: Int
    /// For a merged tile, the position of its second tile before the slide, farther from the wall; otherwise -1.
    var partner = -1

    var isMerged: Bool { partner >= 0 }
}

/// The tiles of one line, starting at the wall. There are at most eight, so they need no heap memory.
struct TokenLine: Sendable {
    private(set) var count = 0
    private var tokens = InlineArray<8, Token>(repeating: Token(exponent: 0, source: 0))

    subscript(index: Int) -> Token { tokens[index] }

    mutating func append(_ token: Token) {
        tokens[count] = token
        count += 1
    }

    mutating func mergeLast(with token: Token) {
        tokens[count - 1].exponent += 1
        tokens[count - 1].partner = token.source
    }
}

/// Returns the tiles of a line without the gaps.
func condense(_ board: Board, line: Int, towards direction: Direction) -> TokenLine {
    var condensed = TokenLine()
    for position in 0..<direction.lineLength(of: board) {
        let exponent = board[direction.cell(line: line, position: position, of: board)]
        if exponent != 0 { condensed.append(Token(exponent: exponent, source: position)) }
    }
    return condensed
}

/// Returns the line with equal neighbours merged once, starting at the wall.
func collapse(_ condensed: TokenLine) -> TokenLine {
    var collapsed = TokenLine()
    for index in 0..<condensed.count {
        let token = condensed[index]
        if collapsed.count > 0, case let last = collapsed[collapsed.count - 1],
            last.exponent == token.exponent, !last.isMerged
        {
            collapsed.mergeLast(with: token)
        } else {
            collapsed.append(token)
        }
    }
    return collapsed
}
