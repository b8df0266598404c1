/// The features of a board in an n-tuple network: its tuples on each image of the board. Each feature selects one weight.
/// ``NTupleNetwork`` describes the tables of the weights.
struct NTupleFeatures: Sendable {
    /// The allowed number of tuples, and the allowed number of cells in each tuple.
    private static let limits = (tuples: 1...256, cells: 1...12)

    let form: NTupleNetwork.Form
    let cells: Int
    /// The number of tuples, and the number of images of a board.
    let (tuples, images): (Int, Int)
    /// The total size of the weights in bytes.
    let bytes: Int
    /// The cells of each feature, in the order of the tuples and then of the images.
    let lists: [[Int]]
    /// The index of the first weight of each feature's table.
    let tables: [Int]

    /// Makes the features of boards of this size. Throws if the form is invalid; the error names the argument.
    init(
        _ form: NTupleNetwork.Form, rows: Int, columns: Int, maxBytes: Int
    ) throws(EnvironmentError) {
        guard Self.limits.tuples.contains(form.tuples.count) else {
            throw .invalid(
                "tuples",
                "there are \(form.tuples.count) tuples; expected 1...\(Self.limits.tuples.upperBound)")
        }
        for (index, tuple) in form.tuples.enumerated() {
            guard Self.limits.cells.contains(tuple.count), Set(tuple).count == tuple.count,
                tuple.allSatisfy({ (0..<rows * columns).contains($0) })
            else {
                throw .invalid(
                    "tuples",
                    "tuple \(index) has cells \(tuple.prefix(Self.limits.cells.upperBound + 1)); expected "
                        + "1...\(Self.limits.cells.upperBound) different cells, numbered 0...\(rows * columns - 1)"
                )
            }
        }
        guard (2...32).contains(form.exponents) else {
            throw .invalid("exponents", "exponents is \(form.exponents); it must be in 2...32")
        }
        // The indices of the weights are UInt32.
        let maxBytes = min(maxBytes, 4 * Int(UInt32.max))
        // because: 256 tables of 32^12 weights take 2^70 bytes.
        let bytes = form.tuples.reduce(0 as UInt128) { sum, tuple in
            sum + tuple.reduce(4 as UInt128) { size, _ in size * UInt128(form.exponents) }
        }
        guard bytes <= maxBytes else {
            throw .exhausted(
                "tuples",
                "the network's weights take \(bytes) bytes; the limit for a policy is \(maxBytes) bytes "
                    + "(--max-policy-bytes, or TWOFOLD_MAX_POLICY_BYTES)")
        }
        self.form = form
        self.bytes = Int(bytes)
        cells = rows * columns
        let images = form.isSymmetric ? boardImages(rows: rows, columns: columns) : [Array(0..<cells)]
        (tuples, self.images) = (form.tuples.count, images.count)
        var (lists, tables, table) = ([[Int]](), [Int](), 0)
        for tuple in form.tuples {
            for image in images {
                lists.append(tuple.map { image[$0] })
                tables.append(table)
            }
            table += tuple.reduce(1) { size, _ in size * form.exponents }
        }
        (self.lists, self.tables) = (lists, tables)
    }

    var count: Int { tuples * images }

    /// Returns the features of a tuple, one for each image.
    @inline(__always)
    func range(of tuple: Int) -> Range<Int> { tuple &* images..<(tuple &+ 1) &* images }
}

/// Returns the images of a board: the rotations and reflections that have the same shape as the board. Each image lists
/// the board's cells in the order in which they appear in the image, row by row. On a square board, the images are the
/// board, its transpose, the board after a quarter turn, the transpose of that image, and so on.
func boardImages(rows: Int, columns: Int) -> [[Int]] {
    let symmetries: [Symmetry] = [
        [], .transposes, [.transposes, .flips], .mirrors, [.flips, .mirrors],
        [.transposes, .flips, .mirrors], [.transposes, .mirrors], .flips,
    ]
    return symmetries.filter { rows == columns || !$0.contains(.transposes) }.map { symmetry in
        (0..<rows * columns).sorted {
            symmetry.cell($0, rows, columns) < symmetry.cell($1, rows, columns)
        }
    }
}
