/// A new tile and its cell.
public struct Spawn: Equatable, Sendable, BitwiseCopyable {
    /// The number of the cell, counted row by row. The cell was empty before.
    public var cell: Int
    /// The exponent of the new tile: 1 for the tile 2, or 2 for the tile 4.
    public var exponent: UInt8
}

/// The probability that a new tile is a 4, stored as a threshold for a random word.
public struct SpawnLaw: Equatable, Sendable, BitwiseCopyable {
    /// The threshold round(probability x 2^32). If a random 32-bit word is below it, the tile is a 4.
    public let threshold: UInt64

    /// Makes a spawn law with this probability of a 4, in 0 ... 1.
    public init(fourProbability: Double) {
        precondition((0...1).contains(fourProbability))
        threshold = UInt64((fourProbability * 4_294_967_296).rounded())
    }

    /// Draws a new tile for a board with at least one empty cell.
    ///
    /// The algorithm is fixed. It always draws two words. The first word chooses an empty cell: the k-th in row-major
    /// order, counted from 0, where k = (word x number of empty cells) >> 32. If the second word is below
    /// ``threshold``, the tile is a 4.
    public func draw(on board: Board, generator: inout Generator) -> Spawn {
        var skip = generator.next(below: board.emptyCount)
        let isFour = UInt64(generator.next()) < threshold
        var cell = 0
        while board[cell] != 0 || skip > 0 {
            if board[cell] == 0 { skip -= 1 }
            cell += 1
        }
        return Spawn(cell: cell, exponent: isFour ? 2 : 1)
    }
}

extension Board {
    /// Puts a new tile into its empty cell.
    public mutating func place(_ spawn: Spawn) {
        precondition(self[spawn.cell] == 0, "a tile can only appear in an empty cell")
        self[spawn.cell] = spawn.exponent
    }
}
