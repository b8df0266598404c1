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
    }

    /// The weights that a board selects.
    let features: NTupleFeatures
    /// The size, in bytes, of the weights that have arrived.
    public private(set) var received = 0
    private let memory: OwnedMemory
    private let reservation: any Sendable
    private var weights: UnsafeMutableRawPointer { memory.start }

    /// Makes a network for boards of this size, without its weights. Throws if an argument is invalid; the error names
    /// the argument. The result of `reserve`, which reserves the memory of the weights, lives as long as the network.
    public init(
        _ form: Form, rows: Int, columns: Int, maxBytes: Int,
        reserve: (_ bytes: Int) throws(EnvironmentError) -> any Sendable = { _ in () }
    ) throws(EnvironmentError) {
        features = try NTupleFeatures(form, rows: rows, columns: columns, maxBytes: maxBytes)
        reservation = try reserve(features.bytes)
        memory = try OwnedMemory(byteCount: features.bytes, for: "tuples")
    }

    public var form: Form { features.form }
    /// The total size of the weights in bytes.
    public var bytes: Int { features.bytes }
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

    /// Removes the weights, so that others can arrive in the same memory.
    public func removeWeights() { received = 0 }

    /// Calls `body` with the bytes of the weights that have arrived.
    public func withReceived<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        body(UnsafeRawBufferPointer(start: weights, count: received))
    }

    /// The weights. All have arrived if ``isComplete``.
    var values: UnsafePointer<Float> { UnsafePointer(weights.assumingMemoryBound(to: Float.self)) }
}
