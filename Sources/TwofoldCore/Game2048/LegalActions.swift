/// The legal actions on a board, as a set of directions.
public struct LegalActions: Equatable, Sendable, BitwiseCopyable {
    private var bits: UInt8 = 0

    public init() {}

    /// Whether no action is legal. The game is then over.
    public var isEmpty: Bool { bits == 0 }

    public func contains(_ direction: Direction) -> Bool { bits & (1 << direction.rawValue) != 0 }

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
