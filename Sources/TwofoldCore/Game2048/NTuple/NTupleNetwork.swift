internal import Platform

/// An n-tuple network (Szubert and Jaśkowski 2014). The value of a board is a sum of weights: one weight for each tuple
/// or, if the network is symmetric, one weight for each tuple on each image of the board. The weights arrive in pieces.
/// The network is usable once it has all weights.
///
/// A tuple is a list of cells. A tuple of n cells has a table of `exponents` ^ n weights. The index of a board's weight
/// is a number in base `exponents`. Its k-th digit, starting with the least significant, is the exponent in the tuple's
/// k-th cell. Exponents above `exponents - 1` count as `exponents - 1`. The tables are consecutive in memory.
///
///     tuple 0 1 4 5      1 2 . .        index = 1 + 2·b + 0·b² + 3·b³, b = exponents
///                        . 3 . .
///
/// The images of a board are its rotations and reflections, including the board itself: 8 images for a square board, 4
/// for any other board.
///
/// This type holds the weights' unsafe memory. `@unchecked Sendable` because the weights are never read and written at
/// the same time: the network belongs to a session, which runs one request at a time.
public final class NTupleNetwork: @unchecked Sendable {
    /// The tuples and the indexing of their tables.
    public struct Form: Equatable, Sendable {
        /// The cells of each tuple, numbered row by row.
        public var tuples: [[Int]]
        /// The number of exponents that the tables distinguish, 2 ... 32. Exponents above `exponents - 1` count as
        /// `exponents - 1`.
        public var exponents: Int
        /// Whether the network uses all rotations and reflections of a board.
        public var isSymmetric: Bool

        /// Makes a form without checking it. ``NTupleNetwork`` checks the form.
        public init(tuples: [[Int]], exponents: Int, isSymmetric: Bool) {
            self.tuples = tuples
            self.exponents = exponents
            self.isSymmetric = isSymmetric
        }

        /// The total size of the weights in bytes; nil if the number overflows.
        public var bytes: Int? {
            var bytes = 0
            for tuple in tuples {
                var size = 4
                for _ in tuple {
                    let (product, overflows) = size.multipliedReportingOverflow(by: exponents)
                    guard !overflows else { return nil }
                    size = product
                }
                let (sum, overflows) = bytes.addingReportingOverflow(size)
                guard !overflows else { return nil }
                bytes = sum
            }
            return bytes
        }
    }

    /// The allowed number of tuples, and the allowed number of cells in each tuple.
    private static let limits = (tuples: 1...256, cells: 1...12)

    /// A tuple, as applied to one image of the board.
    private struct Feature {
        /// The index of the feature's first cell in `featureCells`.
        let first: Int
        /// The number of cells in the feature.
        let count: Int
        /// The index of the first weight of the tuple's table.
        let table: Int
    }

    /// The tuples and the indexing of their tables.
    public let form: Form
    /// The number of cells on a board.
    let cells: Int
    /// The total size of the weights in bytes.
    public let bytes: Int
    /// The size, in bytes, of the weights that have arrived.
    public private(set) var received = 0
    private let memory: OwnedMemory
    private var weights: UnsafeMutableRawPointer { memory.start }
    private let features: [[Feature]]
    /// The cells of all features, stored consecutively.
    private let featureCells: [Int]

    /// Makes a network for boards of this size, without its weights. Throws if an argument is invalid; the error names
    /// the argument.
    public init(
        _ form: Form, rows: Int, columns: Int, maxBytes: Int
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
            throw .invalid("exponents", "exponents is \(form.exponents); it has to be in 2...32")
        }
        guard let bytes = form.bytes, bytes <= maxBytes else {
            throw .exhausted(
                "tuples",
                "the network's weights take \(form.bytes.map(String.init) ?? "too many") bytes; this server "
                    + "allows \(maxBytes) bytes for a session's policy (--max-policy-bytes)")
        }
        self.form = form
        self.bytes = bytes
        cells = rows * columns
        let images = form.isSymmetric ? boardImages(rows: rows, columns: columns) : [Array(0..<cells)]
        var featureCells: [Int] = []
        var features: [[Feature]] = []
        var table = 0
        for tuple in form.tuples {
            features.append(
                images.map { image in
                    featureCells += tuple.map { image[$0] }
                    return Feature(first: featureCells.count - tuple.count, count: tuple.count, table: table)
                })
            table += tuple.reduce(1) { size, _ in size * form.exponents }
        }
        self.featureCells = featureCells
        self.features = features
        memory = try OwnedMemory(byteCount: bytes, for: "tuples")
    }

    /// Whether all weights have arrived.
    public var isComplete: Bool { received == bytes }

    /// Adds the next piece of the weights, as little-endian float32 numbers. Throws if the piece does not start where
    /// the received weights end, or if its size is wrong.
    public func add(_ piece: UnsafeRawBufferPointer, at offset: Int) throws(EnvironmentError) {
        guard offset == received else {
            throw .invalid("offset", "offset is \(offset); the missing weights start at \(received)")
        }
        guard !piece.isEmpty, piece.count % 4 == 0, piece.count <= bytes - received else {
            throw .invalid(
                "payload",
                "the piece has \(piece.count) bytes; expected a multiple of 4, at most \(bytes - received)")
        }
        (weights + offset).copyMemory(from: piece.baseAddress!, byteCount: piece.count)
        received += piece.count
    }

    /// Calls `body` with the bytes of the weights that have arrived.
    public func withReceived<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        body(UnsafeRawBufferPointer(start: weights, count: received))
    }

    /// Returns the value of a board. Sums in Float: first each tuple's weights over the images, then these sums over
    /// the tuples.
    @inline(__always)
    func value(_ board: UnsafePointer<UInt8>) -> Float {
        let weights = weights.assumingMemoryBound(to: Float.self)
        let (base, largest) = (form.exponents, UInt8(form.exponents - 1))
        return featureCells.withUnsafeBufferPointer { cells in
            var value: Float = 0
            for tuple in features {
                var sum: Float = 0
                for feature in tuple {
                    var place = 0
                    for index in stride(
                        from: feature.first + feature.count - 1, through: feature.first, by: -1)
                    {
                        place = place &* base &+ Int(min(board[cells[index]], largest))
                    }
                    sum += weights[feature.table &+ place]
                }
                value += sum
            }
            return value
        }
    }
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
