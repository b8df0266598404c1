internal import TwofoldCore

/// The symmetries of boards with at most nine cells. A board is a number with four bits for each exponent.
///
/// The corners come first, then the other cells of the border, both clockwise, and then the centre. On 3 x 3:
///
///     a e b        35                      0
///     h i f        a b c d   e f g h   i          a rotation turns two rings of 16 bits
///     d g c
///
/// Two boards are equal up to symmetry if and only if their canonical numbers are equal. A board's canonical
/// number is the smallest number among its images. The corners are the highest bits, so a canonical board also
/// has the smallest corners among its images.
///
/// This type holds the images' tables in unsafe memory. `@unchecked Sendable` because nothing writes to them
/// after init.
final class PackedBoards: @unchecked Sendable {
    /// The maximum number of cells on a board.
    static let maxCells = 9

    let rows: Int
    let columns: Int
    /// The number of symmetries: 8 for a square board, 4 for any other board.
    let images: Int
    /// The bit position of each cell's exponent. Cells are numbered row by row.
    let shifts: UnsafePointer<UInt64>

    /// A group of cells that an image moves by the same number of bits. Bits rotate within the 64-bit number.
    private struct Piece {
        var mask: UInt64 = 0
        var shift: UInt64 = 0
    }

    private let pieces: UnsafeMutablePointer<Piece>
    /// The index after each image's last piece.
    private let ends: UnsafeMutablePointer<Int>
    private let actionTable: UnsafeMutablePointer<UInt8>

    var cells: Int { rows * columns }

    init(rows: Int, columns: Int) {
        precondition(rows >= 2 && columns >= 2 && rows * columns <= Self.maxCells)
        self.rows = rows
        self.columns = columns
        let order = Self.order(rows, columns)
        var shifts = [UInt64](repeating: 0, count: rows * columns)
        for (position, cell) in order.enumerated() { shifts[cell] = UInt64(4 * (order.count - 1 - position)) }
        let table = UnsafeMutablePointer<UInt64>.allocate(capacity: shifts.count)
        table.initialize(from: shifts, count: shifts.count)
        self.shifts = UnsafePointer(table)

        let symmetries = Symmetry.all(rows: rows, columns: columns)
        images = symmetries.count
        let lists = symmetries.map { symmetry in
            var pieces: [UInt64: UInt64] = [:]
            for cell in 0..<rows * columns {
                let distance = (shifts[symmetry.cell(cell, rows, columns)] &- shifts[cell]) & 63
                pieces[distance, default: 0] |= 15 << shifts[cell]
            }
            return pieces.sorted { $0.key < $1.key }.map { Piece(mask: $0.value, shift: $0.key) }
        }
        pieces = .allocate(capacity: lists.reduce(0) { $0 + $1.count })
        ends = .allocate(capacity: images)
        actionTable = .allocate(capacity: images * 4)
        var end = 0
        for (image, symmetry) in symmetries.enumerated() {
            for piece in lists[image] {
                pieces[end] = piece
                end += 1
            }
            ends[image] = end
            for action in 0..<4 { actionTable[image * 4 + action] = symmetry.action(action) }
        }
    }

    deinit {
        pieces.deallocate()
        ends.deallocate()
        shifts.deallocate()
        actionTable.deallocate()
    }

    /// Returns the cells in the order of their bits in a board's number, from the highest bits to the lowest.
    private static func order(_ rows: Int, _ columns: Int) -> [Int] {
        let top = (0..<columns).map { $0 }
        let right = (1..<rows).map { $0 * columns + columns - 1 }
        let bottom = (0..<columns - 1).reversed().map { (rows - 1) * columns + $0 }
        let left = (1..<rows - 1).reversed().map { $0 * columns }
        let border = top + right + bottom + left
        let corners = [0, columns - 1, rows * columns - 1, (rows - 1) * columns]
        let inner = (0..<rows * columns).filter { !border.contains($0) }
        return corners + border.filter { !corners.contains($0) } + inner
    }

    /// Packs the exponents of a board, given row by row. Returns the board's number and the largest exponent. The
    /// number is meaningless if that exponent exceeds 15.
    @inline(__always)
    func pack(_ exponents: UnsafePointer<UInt8>) -> (board: UInt64, largest: UInt8) {
        var board: UInt64 = 0
        var largest: UInt8 = 0
        let (shifts, cells) = (shifts, cells)
        for cell in 0..<cells {
            board |= UInt64(exponents[cell] & 15) &<< shifts[cell]
            largest = max(largest, exponents[cell])
        }
        return (board, largest)
    }

    /// Returns the exponents of a board, row by row.
    func exponents(_ board: UInt64) -> [UInt8] { (0..<cells).map { UInt8(board >> shifts[$0] & 15) } }

    /// Returns 8 times the canonical number of a board, plus the index of the image with that number.
    @inline(__always)
    func canonicalWithImage(_ board: UInt64) -> UInt64 {
        var least = board &<< 3
        let (pieces, ends, images) = (pieces, ends, images)
        var index = ends[0]
        for image in 1..<images {
            var moved: UInt64 = 0
            let end = ends[image]
            while index < end {
                let part = board & pieces[index].mask
                let shift = pieces[index].shift
                moved |= part &<< shift | part &>> (64 &- shift)
                index &+= 1
            }
            least = min(least, moved &<< 3 | UInt64(truncatingIfNeeded: image))
        }
        return least
    }

    /// Returns the canonical number of a board.
    @inline(__always)
    func canonical(_ board: UInt64) -> UInt64 { canonicalWithImage(board) &>> 3 }

    /// Returns four bytes: for each action on the board, the matching action on the image.
    @inline(__always)
    func actions(ofImage image: Int) -> UnsafePointer<UInt8> { UnsafePointer(actionTable + image &* 4) }

    /// Returns true if a cell holds this exponent, which is at least 1.
    @inline(__always)
    func contains(_ board: UInt64, _ exponent: UInt64) -> Bool {
        // A 1 in each cell. Subtracting it from a cell that is 0 sets the cell's highest bit.
        let ones = 0x1_1111_1111 &>> UInt64(truncatingIfNeeded: 4 &* (Self.maxCells &- rows &* columns))
        let difference = board ^ (ones &* exponent)
        return (difference &- ones) & ~difference & (ones &<< 3) != 0
    }
}
