internal import Platform

/// The layout of a batch's arrays, which are stored in order in one block of memory. Each array starts at a multiple of
/// 64 bytes.
///
///     0            64·k          64·l
///     ┌────────────┬─────────────┬───────────┐
///     │observation │ action_mask │ …         │     one row per lane in each, no gaps between rows
///     └────────────┴─────────────┴───────────┘
///
/// Other arrays may precede the layout in the same memory.
public struct BatchLayout: Sendable {
    /// The name, type and shape of each array, in order.
    public let specs: [ArraySpec]
    /// The number of rows of each array.
    public let lanes: Int
    /// The byte range of each array in the memory.
    public let ranges: [Range<Int>]
    /// The number of bytes before these arrays.
    private let start: Int
    /// The number of bytes from the start of the memory to the end of the last array. Without arrays, it is the number
    /// of bytes before the layout.
    public let size: Int

    /// Makes a layout of these arrays with one row per lane, after the first `start` bytes of the memory.
    public init(_ specs: [ArraySpec], lanes: Int, from start: Int = 0) {
        var ranges: [Range<Int>] = []
        var end = start
        for spec in specs {
            let offset = aligned(end)
            end = offset + spec.bytesPerLane * lanes
            ranges.append(offset..<end)
        }
        self.specs = specs
        self.lanes = lanes
        self.ranges = ranges
        self.start = start
        size = end
    }

    /// Returns the arrays as views into `memory`, which must have at least ``size`` bytes. Fills the gaps between the
    /// arrays with zeros.
    public func arrays(in memory: UnsafeMutableRawBufferPointer) -> BatchArrays {
        precondition(memory.count >= size)
        var end = start
        for range in ranges {
            memory[end..<range.lowerBound].initializeMemory(as: UInt8.self, repeating: 0)
            end = range.upperBound
        }
        return BatchArrays(specs) { memory.baseAddress! + ranges[$0].lowerBound }
    }
}

/// Arrays in newly allocated memory. Only the gaps between the arrays are initialised.
///
/// This type holds unsafe memory. `@unchecked Sendable` because lanes own disjoint rows, as in ``BatchArrays``.
public final class ArrayMemory: @unchecked Sendable {
    /// The arrays, which are valid as long as this object lives.
    public let arrays: BatchArrays
    /// The memory. Its size is a multiple of 64 bytes.
    public var bytes: UnsafeMutableRawBufferPointer { memory.bytes }
    private let memory: OwnedMemory

    /// Allocates memory for these arrays, with one row per lane. If there is too little memory, throws an error that
    /// names `field`, the argument that determines the size.
    public init(
        _ specs: [ArraySpec], lanes: Int, for field: String = "", reserve: MemoryReserve = { _ in }
    ) throws(EnvironmentError) {
        memory = try OwnedMemory(
            byteCount: Self.size(specs, lanes: lanes), for: field, reserve: reserve)
        arrays = BatchLayout(specs, lanes: lanes).arrays(in: memory.bytes)
    }

    /// Returns the number of bytes that these arrays need.
    static func size(_ specs: [ArraySpec], lanes: Int) -> Int {
        aligned(BatchLayout(specs, lanes: lanes).size)
    }
}

/// Rounds an offset up to a multiple of 64, the size of a cache line.
private func aligned(_ offset: Int) -> Int { (offset + 63) / 64 * 64 }
