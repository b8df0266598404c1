/// A 4 x 4 board in one word, for search: four bits a cell, so exponents up to 15; two 32768 make another
/// 32768 here, a limit that only search has.
///
///     bits 0...3 cell 0, 4...7 cell 1, … 60...63 cell 15       row r is bits 16r ..< 16r + 16
struct Bitboard: Equatable, BitwiseCopyable, Sendable {
    var bits: UInt64

    init(bits: UInt64) { self.bits = bits }

    /// The board with these 16 exponents.
    init(_ exponents: UnsafePointer<UInt8>) {
        bits = 0
        for cell in 0..<16 { bits |= UInt64(min(exponents[cell], 15)) << UInt64(4 * cell) }
    }

    @inline(__always)
    func row(_ index: Int) -> Int { Int(truncatingIfNeeded: bits >> UInt64(16 * index)) & 0xffff }

    @inline(__always)
    init(_ r0: UInt16, _ r1: UInt16, _ r2: UInt16, _ r3: UInt16) {
        bits = UInt64(r0) | UInt64(r1) << 16 | UInt64(r2) << 32 | UInt64(r3) << 48
    }

    /// Rows become columns: first inside each 2 x 2 block, then block by block.
    @inline(__always)
    var transposed: Bitboard {
        // a b     a c        exchange b and c, 12 bits apart; then the blocks, 24 bits apart
        // c d  ─► b d
        let inner =
            bits & 0xf0f0_0f0f_f0f0_0f0f | (bits & 0x0000_f0f0_0000_f0f0) << 12
            | (bits & 0x0f0f_0000_0f0f_0000) >> 12
        return Bitboard(
            bits: inner & 0xff00_ff00_00ff_00ff | (inner & 0x00ff_00ff_0000_0000) >> 24
                | (inner & 0x0000_0000_ff00_ff00) << 24)
    }

    /// The empty cells, in bit 0 of each.
    @inline(__always)
    var empties: UInt64 {
        var filled = bits | bits >> 1
        filled |= filled >> 2
        return ~filled & 0x1111_1111_1111_1111
    }
}

/// The slide of every row of four exponents: 65,536 entries each.
///
/// This is the room for the tables' memory. `@unchecked Sendable` because nothing writes after init.
final class SlideTables: @unchecked Sendable {
    private let left: UnsafeMutablePointer<UInt16>
    private let right: UnsafeMutablePointer<UInt16>
    private let earned: UnsafeMutablePointer<Float>

    static let shared = SlideTables()

    private init() {
        left = .allocate(capacity: 65_536)
        right = .allocate(capacity: 65_536)
        earned = .allocate(capacity: 65_536)
        for row in 0..<65_536 {
            let line = (0..<4).map { UInt8(row >> (4 * $0) & 15) }
            let slide = Slide(Board(rows: 2, columns: 4, exponents: line + [0, 0, 0, 0]), towards: .left)
            let mirrored = Slide(
                Board(rows: 2, columns: 4, exponents: line + [0, 0, 0, 0]), towards: .right)
            left[row] = Self.pack(slide.afterstate)
            right[row] = Self.pack(mirrored.afterstate)
            earned[row] = Float(slide.mergeScore)
        }
    }

    deinit {
        left.deallocate()
        right.deallocate()
        earned.deallocate()
    }

    private static func pack(_ board: Board) -> UInt16 {
        (0..<4).reduce(0) { $0 | UInt16(min(board[$1], 15)) << UInt16(4 * $1) }
    }

    /// The board after a slide to the left or to the right, and the merge score.
    @inline(__always)
    func slide(_ board: Bitboard, toRight: Bool) -> (board: Bitboard, earned: Float) {
        let table = toRight ? right : left
        let (r0, r1, r2, r3) = (board.row(0), board.row(1), board.row(2), board.row(3))
        return (
            Bitboard(table[r0], table[r1], table[r2], table[r3]),
            earned[r0] + earned[r1] + earned[r2] + earned[r3]
        )
    }
}
