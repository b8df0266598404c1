/// A 4 x 4 board in one 64-bit word, with four bits per cell. The largest exponent is 15, so two tiles of 32768 merge
/// into one tile of 32768. No other board type has this limit.
///
///     bits 0...3 cell 0, 4...7 cell 1, … 60...63 cell 15       row r is bits 16r ..< 16r + 16
struct Bitboard: Equatable, BitwiseCopyable, Sendable {
    /// The exponents of all cells.
    var bits: UInt64

    init(bits: UInt64) { self.bits = bits }

    /// Makes a board from 16 exponents, one byte each.
    init(_ exponents: UnsafePointer<UInt8>) {
        bits = 0
        for cell in 0..<16 { bits |= UInt64(min(exponents[cell], 15)) << UInt64(4 * cell) }
    }

    /// Returns the exponents of a row, with the leftmost cell in the lowest bits.
    @inline(__always)
    func row(_ index: Int) -> Int { Int(truncatingIfNeeded: bits >> UInt64(16 * index)) & 0xffff }

    /// Makes a board from its four rows, from top to bottom.
    @inline(__always)
    init(_ r0: UInt16, _ r1: UInt16, _ r2: UInt16, _ r3: UInt16) {
        bits = UInt64(r0) | UInt64(r1) << 16 | UInt64(r2) << 32 | UInt64(r3) << 48
    }

    @inline(__always)
    var transposed: Bitboard {
        // a b     a c        First exchange b and c in each 2 x 2 block; they are 12 bits apart.
        // c d  ─► b d        Then exchange the blocks in the same way; they are 24 bits apart.
        let inner =
            bits & 0xf0f0_0f0f_f0f0_0f0f | (bits & 0x0000_f0f0_0000_f0f0) << 12
            | (bits & 0x0f0f_0000_0f0f_0000) >> 12
        return Bitboard(
            bits: inner & 0xff00_ff00_00ff_00ff | (inner & 0x00ff_00ff_0000_0000) >> 24
                | (inner & 0x0000_0000_ff00_ff00) << 24)
    }

    /// A mask of the empty cells. Bit 0 of each empty cell is 1; all other bits are 0.
    @inline(__always)
    var empties: UInt64 {
        var filled = bits | bits >> 1
        filled |= filled >> 2
        return ~filled & 0x1111_1111_1111_1111
    }
}

/// Tables with the result of a slide for every row of four exponents. The index is the row in 16 bits, with the
/// leftmost cell in the lowest bits, so each table has 65,536 entries.
///
/// This type holds the tables' unsafe memory. `@unchecked Sendable` because nothing writes after init.
public final class SlideTables: @unchecked Sendable {
    /// For each row, the row after a slide to the left.
    public let left: UnsafePointer<UInt16>
    /// For each row, the row after a slide to the right.
    public let right: UnsafePointer<UInt16>
    /// For each row, the merge score. It is the same in both directions.
    public let scores: UnsafePointer<Int32>

    /// The tables that the whole process shares.
    public static let shared = SlideTables()

    private init() {
        let left = UnsafeMutablePointer<UInt16>.allocate(capacity: 65_536)
        let right = UnsafeMutablePointer<UInt16>.allocate(capacity: 65_536)
        let scores = UnsafeMutablePointer<Int32>.allocate(capacity: 65_536)
        for row in 0...UInt16.max {
            let line = (0..<4).map { UInt8(row >> (4 * $0) & 15) }
            let slide = Slide(Board(rows: 2, columns: 4, exponents: line + [0, 0, 0, 0]), towards: .left)
            let slid = (0..<4).reduce(0) { $0 | UInt16(min(slide.afterstate[$1], 15)) << UInt16(4 * $1) }
            left[Int(row)] = slid
            right[Int(Self.mirrored(row))] = Self.mirrored(slid)
            scores[Int(row)] = Int32(slide.mergeScore)
        }
        (self.left, self.right, self.scores) = (.init(left), .init(right), .init(scores))
    }

    /// Returns the row with its cells in reverse order.
    private static func mirrored(_ row: UInt16) -> UInt16 {
        let pairs = row.byteSwapped
        return (pairs & 0x0f0f) << 4 | (pairs & 0xf0f0) >> 4
    }

    /// Returns the board after a slide to the left or to the right, and the merge score.
    @inline(__always)
    func slide(_ board: Bitboard, toRight: Bool) -> (board: Bitboard, score: Int32) {
        let table = toRight ? right : left
        let (r0, r1, r2, r3) = (board.row(0), board.row(1), board.row(2), board.row(3))
        return (
            Bitboard(table[r0], table[r1], table[r2], table[r3]),
            scores[r0] &+ scores[r1] &+ scores[r2] &+ scores[r3]
        )
    }
}
