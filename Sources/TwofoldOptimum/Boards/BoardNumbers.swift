/// The numbering of the canonical boards with exponents up to a limit. The numbers are in 0 ..< ``count``, without
/// large gaps.
///
///     number = (index of the corners' values among all canonical ones) · (limit + 1) ^ (number of other cells)
///            + the other cells' exponents as digits in base limit + 1
///
/// For 3 x 3 boards with exponents up to 10, there are 2,211 · 11^5 numbers, or 356 million.
///
/// This type holds the tables' unsafe memory. `@unchecked Sendable` because nothing writes to them after
/// init.
final class BoardNumbers: @unchecked Sendable {
    /// The largest exponent.
    let limit: Int
    /// The count of numbers. A few numbers belong to no canonical board.
    let count: Int

    private let otherBits: UInt64
    private let others: Int
    /// The first number of the boards with given corners, indexed by the content of the corners.
    private let corners: UnsafeMutablePointer<Int>
    /// The parts of a number that come from the other cells, indexed by the cells' content: `low` for the three cells
    /// with the lowest place values, `high` for the remaining cells.
    private let low: UnsafeMutablePointer<Int>
    private let high: UnsafeMutablePointer<Int>

    private static let cornerContents = 1 << 16
    private static let lowContents = 1 << 12
    private static let highContents = 1 << 8

    init(_ boards: PackedBoards, limit: Int) {
        precondition((1...15).contains(limit))
        self.limit = limit
        let otherCells = boards.cells - 4
        otherBits = UInt64(4 * otherCells)
        let base = limit + 1
        func digits(_ content: Int, _ cells: Int, from exponent: Int) -> Int {
            (0..<cells).reduce(0) { $0 + (content >> (4 * $1) & 15) * power(base, exponent + $1) }
        }
        others = power(base, otherCells)
        low = .allocate(capacity: Self.lowContents)
        high = .allocate(capacity: Self.highContents)
        for content in 0..<Self.lowContents { low[content] = digits(content, 3, from: 0) }
        for content in 0..<Self.highContents { high[content] = digits(content, 2, from: 3) }
        corners = .allocate(capacity: Self.cornerContents)
        corners.initialize(repeating: 0, count: Self.cornerContents)
        var next = 0
        for content in 0..<Self.cornerContents where (0..<4).allSatisfy({ content >> (4 * $0) & 15 <= limit })
        {
            // With all other cells empty, an image is smaller if and only if its corners are.
            let board = UInt64(content) << otherBits
            guard boards.canonical(board) == board else { continue }
            corners[content] = next * others
            next += 1
        }
        count = next * others
    }

    deinit {
        corners.deallocate()
        low.deallocate()
        high.deallocate()
    }

    /// Returns the number of a canonical board whose exponents do not exceed the limit.
    @inline(__always)
    func number(_ board: UInt64) -> Int {
        let other = Int(truncatingIfNeeded: board & ((1 &<< otherBits) &- 1))
        return corners[Int(truncatingIfNeeded: board &>> otherBits)] &+ low[other & (Self.lowContents - 1)]
            &+ high[other &>> 12]
    }
}

private func power(_ base: Int, _ exponent: Int) -> Int {
    (0..<exponent).reduce(1) { product, _ in product * base }
}
