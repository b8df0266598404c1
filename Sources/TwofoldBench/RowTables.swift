/// The slides of every row of four exponents 0 ... 15: 65,536 entries each.
///
///     bits 0...3 the leftmost cell, 12...15 the rightmost
///
/// This is the room for the tables' unsafe memory. `@unchecked Sendable` because nothing writes to it
/// after init.
final class RowTables: @unchecked Sendable {
    /// The row after a slide to the left.
    let left: UnsafeMutablePointer<UInt16>
    /// The row after a slide to the right.
    let right: UnsafeMutablePointer<UInt16>
    /// Sum of the values that merges make, the same in both directions.
    let score: UnsafeMutablePointer<Int32>
    /// Bit 0: a slide to the left moves something; bit 1: one to the right does.
    let legal: UnsafeMutablePointer<UInt8>

    init() {
        left = .allocate(capacity: 65_536)
        right = .allocate(capacity: 65_536)
        score = .allocate(capacity: 65_536)
        legal = .allocate(capacity: 65_536)
        for row in 0..<65_536 {
            let cells = (0..<4).map { row >> ($0 * 4) & 15 }
            let (slid, earned) = RowTables.slide(cells)
            left[row] = RowTables.pack(slid)
            score[row] = earned
            right[row] = RowTables.pack(RowTables.slide(cells.reversed()).cells.reversed())
            legal[row] = (left[row] != row ? 1 : 0) | (right[row] != row ? 2 : 0)
        }
    }

    deinit {
        left.deallocate()
        right.deallocate()
        score.deallocate()
        legal.deallocate()
    }

    private static func slide(_ cells: [Int]) -> (cells: [Int], score: Int32) {
        var tiles = cells.filter { $0 != 0 }
        var score: Int32 = 0
        var index = 0
        while index + 1 < tiles.count {
            if tiles[index] == tiles[index + 1] {
                // Four bits end at 15: 32768 + 32768 stays 32768, the known limit of such boards.
                tiles[index] = min(15, tiles[index] + 1)
                score += 1 << Int32(tiles[index])
                tiles.remove(at: index + 1)
            }
            index += 1
        }
        return (tiles + Array(repeating: 0, count: 4 - tiles.count), score)
    }

    private static func pack(_ cells: [Int]) -> UInt16 {
        cells.enumerated().reduce(0) { $0 | UInt16($1.element) << ($1.offset * 4) }
    }
}
