/// A symmetry of a board, as a set of reflections. The transposition, if present, is applied first.
package struct Symmetry: OptionSet, Sendable {
    /// The reflection that exchanges left and right.
    package static let mirrors = Symmetry(rawValue: 1)
    /// The reflection that exchanges top and bottom.
    package static let flips = Symmetry(rawValue: 2)
    /// The reflection that exchanges rows and columns. It applies only to square boards.
    package static let transposes = Symmetry(rawValue: 4)

    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    /// Returns all symmetries of a `rows` x `columns` board; the identity comes first.
    package static func all(rows: Int, columns: Int) -> [Symmetry] {
        (0..<(rows == columns ? 8 : 4)).map(Symmetry.init(rawValue:))
    }

    /// Returns the cell to which the symmetry moves the tile in `cell`.
    package func cell(_ cell: Int, _ rows: Int, _ columns: Int) -> Int {
        var (row, column) = (cell / columns, cell % columns)
        if contains(.transposes) { (row, column) = (column, row) }
        if contains(.flips) { row = rows - 1 - row }
        if contains(.mirrors) { column = columns - 1 - column }
        return row * columns + column
    }

    /// Returns the action on the transformed board that corresponds to `action` on the original board. Actions are 0
    /// up, 1 right, 2 down, 3 left.
    package func action(_ action: Int) -> UInt8 {
        var action = contains(.transposes) ? 3 - action : action
        if contains(.flips), action % 2 == 0 { action = 2 - action }
        if contains(.mirrors), action % 2 == 1 { action = 4 - action }
        return UInt8(action)
    }
}
