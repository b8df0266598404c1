/// A 2048 board with `rows` x `columns` cells. Each cell holds the exponent of its tile (3 is the tile 8),
/// or 0 if it is empty.
///
/// Cells are numbered row by row. Spawns, chance outcomes and observations use the same numbers:
///
///      0  1  2  3        . 2 . .
///      4  5  6  7        . . 8 .      cells[1] == 1, cells[6] == 3, cells[12] == 2
///      8  9 10 11        . . . .
///     12 13 14 15        4 . . .
///
/// A board needs no heap memory. Copying a board copies at most 66 bytes.
public struct Board: Equatable, Sendable {
    /// The allowed numbers of rows and columns.
    public static let sides = 2...8

    private let rowCount: UInt8
    private let columnCount: UInt8
    private var cells = InlineArray<64, UInt8>(repeating: 0)

    /// Makes an empty board. `rows` and `columns` must be within ``sides``.
    public init(rows: Int, columns: Int) {
        precondition(Board.sides.contains(rows) && Board.sides.contains(columns))
        rowCount = UInt8(rows)
        columnCount = UInt8(columns)
    }

    /// Makes a board from its exponents, row by row. There must be `rows * columns` exponents.
    public init(rows: Int, columns: Int, exponents: some Collection<UInt8>) {
        self.init(rows: rows, columns: columns)
        precondition(exponents.count == count)
        for (cell, exponent) in exponents.enumerated() { cells[cell] = exponent }
    }

    public var rows: Int { Int(rowCount) }
    public var columns: Int { Int(columnCount) }
    /// The number of cells.
    public var count: Int { rows * columns }

    /// The exponent in a cell; 0 if the cell is empty.
    public subscript(cell: Int) -> UInt8 {
        @inline(__always) get { cells[cell] }
        @inline(__always) set { cells[cell] = newValue }
    }

    /// The exponents, row by row.
    public var exponents: [UInt8] { (0..<count).map { cells[$0] } }

    /// The number of cells without a tile.
    public var emptyCount: Int {
        var empty = 0
        for cell in 0..<count where cells[cell] == 0 { empty += 1 }
        return empty
    }

    /// The largest exponent on the board; 0 if the board is empty.
    public var maxExponent: UInt8 {
        var largest: UInt8 = 0
        for cell in 0..<count { largest = max(largest, cells[cell]) }
        return largest
    }

    /// The sum of the tiles' values.
    public var tileSum: Int {
        var sum = 0
        for cell in 0..<count where cells[cell] != 0 { sum += 1 << Int(cells[cell]) }
        return sum
    }

    public static func == (left: Board, right: Board) -> Bool {
        guard left.rowCount == right.rowCount, left.columnCount == right.columnCount else { return false }
        for cell in 0..<left.count where left.cells[cell] != right.cells[cell] { return false }
        return true
    }
}
