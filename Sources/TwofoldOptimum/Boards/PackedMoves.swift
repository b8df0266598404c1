internal import TwofoldCore

/// The moves of packed boards, looked up in tables of rows and columns.
///
/// For every possible line, a table holds the line after a slide, shifted to its place on the board. A slide of the
/// board is therefore the bitwise OR of its lines' entries. Merges score the same in both directions: of n equal tiles
/// in a row, with only empty cells between them, n / 2 pairs merge.
///
/// This type holds the tables' unsafe memory. `@unchecked Sendable` because nothing writes to them after
/// init.
final class PackedMoves: @unchecked Sendable {
    /// The lines along one axis, all of the same length.
    private struct Axis {
        let lineCount: Int
        let length: Int
        /// The actions that slide towards a line's first cell and towards its last cell.
        let actions: (first: Int, last: Int)
        /// The bit positions of all cells, line by line: `length` positions for each line.
        let shifts: UnsafeMutablePointer<UInt64>
        /// Each possible line after a slide towards its first cell, and after a slide towards its last cell.
        let slid: UnsafeMutablePointer<(first: UInt64, last: UInt64)>
        /// The sum of the merged values for each possible content of a line.
        let scores: UnsafeMutablePointer<UInt32>

        var contents: Int { 1 << (4 * length) }
    }

    private let across: Axis
    private let along: Axis

    init(_ boards: PackedBoards) {
        let (rows, columns) = (boards.rows, boards.columns)
        across = Self.axis(
            (0..<rows).map { row in (0..<columns).map { boards.shifts[row * columns + $0] } },
            actions: (first: 3, last: 1))
        along = Self.axis(
            (0..<columns).map { column in (0..<rows).map { boards.shifts[$0 * columns + column] } },
            actions: (first: 0, last: 2))
    }

    deinit {
        for axis in [across, along] {
            axis.shifts.deallocate()
            axis.slid.deallocate()
            axis.scores.deallocate()
        }
    }

    private static func axis(_ lines: [[UInt64]], actions: (first: Int, last: Int)) -> Axis {
        let length = lines[0].count
        let contents = 1 << (4 * length)
        let axis = Axis(
            lineCount: lines.count, length: length, actions: actions,
            shifts: .allocate(capacity: lines.count * length),
            slid: .allocate(capacity: lines.count * contents), scores: .allocate(capacity: contents))
        for (line, shifts) in lines.enumerated() {
            for (cell, shift) in shifts.enumerated() { axis.shifts[line * length + cell] = shift }
        }
        let slides = SlideTables.shared
        for content in 0..<contents {
            let first = UInt64(slides.left[content])
            // because: a shorter line occupies the left of the table's row, so its tiles slide past its own end.
            let last = UInt64(slides.right[content]) >> UInt64(4 * (4 - length))
            axis.scores[content] = UInt32(slides.scores[content])
            for (line, shifts) in lines.enumerated() {
                axis.slid[line * contents + content] = (place(first, shifts), place(last, shifts))
            }
        }
        return axis
    }

    /// Returns a line's tiles, shifted to their places on the board.
    private static func place(_ line: UInt64, _ shifts: [UInt64]) -> UInt64 {
        shifts.enumerated().reduce(0) { $0 | (line >> UInt64(4 * $1.offset) & 15) << $1.element }
    }

    /// Calls `body` for each action that changes the board, in no particular order.
    @inline(__always)
    func forEachLegal(
        _ board: UInt64, _ body: (_ action: Int, _ afterstate: UInt64, _ score: UInt32) -> Void
    ) {
        forEachLegal(board, across, body)
        forEachLegal(board, along, body)
    }

    @inline(__always)
    private func forEachLegal(
        _ board: UInt64, _ axis: Axis,
        _ body: (_ action: Int, _ afterstate: UInt64, _ score: UInt32) -> Void
    ) {
        var (first, last): (UInt64, UInt64) = (0, 0)
        var score: UInt32 = 0
        var shift = axis.shifts
        for line in 0..<axis.lineCount {
            var content = 0
            for cell in 0..<axis.length {
                content |= Int(truncatingIfNeeded: board &>> shift.pointee & 15) &<< (4 &* cell)
                shift += 1
            }
            let slid = axis.slid[line &* axis.contents &+ content]
            first |= slid.first
            last |= slid.last
            score &+= axis.scores[content]
        }
        if first != board { body(axis.actions.first, first, score) }
        if last != board { body(axis.actions.last, last, score) }
    }
}
