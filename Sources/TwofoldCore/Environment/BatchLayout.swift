internal import Platform

/// The places of arrays in one block of memory: in order, each at a multiple of 64 bytes.
///
///     0            64·k          64·l
///     ┌────────────┬─────────────┬───────────┐
///     │observation │ action_mask │ …         │     one row per lane in each, no gaps between rows
///     └────────────┴─────────────┴───────────┘
///
/// A layout may start behind other arrays in the same memory.
public struct BatchLayout: Sendable {
    /// The arrays.
    public let specs: [ArraySpec]
    /// Rows of each array.
    public let lanes: Int
    /// First byte of each array, from the start of the memory.
    public let offsets: [Int]
    /// End of the bytes before these arrays.
    private let start: Int
    /// Bytes from the start of the memory to the end of the last array; 0 without any.
    public let size: Int

    /// A layout of these arrays with one row per lane, behind the first `start` bytes of the memory.
    public init(_ specs: [ArraySpec], lanes: Int, from start: Int = 0) {
        var offsets: [Int] = []
        var end = start
        for spec in specs {
            let offset = aligned(end)
            offsets.append(offset)
            end = offset + spec.bytesPerLane * lanes
        }
        self.specs = specs
        self.lanes = lanes
        self.offsets = offsets
        self.start = start
        size = end
    }

    /// The bytes of each array.
    public var ranges: [Range<Int>] {
        zip(specs, offsets).map { $1..<$1 + $0.bytesPerLane * lanes }
    }

    /// The arrays in memory of at least ``size`` bytes; clears the gaps between them.
    public func arrays(in memory: UnsafeMutableRawBufferPointer) -> BatchArrays {
        var end = start
        for range in ranges {
            memory[end..<range.lowerBound].initializeMemory(as: UInt8.self, repeating: 0)
            end = range.upperBound
        }
        return BatchArrays(memory, specs: specs, offsets: offsets, lanes: lanes)
    }
}

/// Arrays in newly allocated memory; uninitialized apart from the gaps.
///
/// This is the room for that memory. `@unchecked Sendable` because lanes own disjoint rows, as in
/// ``BatchArrays``.
public final class ArrayMemory: @unchecked Sendable {
    /// The arrays; valid as long as this object lives.
    public let arrays: BatchArrays
    /// The memory, whole multiples of 64 bytes.
    public var bytes: UnsafeMutableRawBufferPointer { memory.bytes }
    private let memory: OwnedMemory

    /// Allocates memory for these arrays, one row per lane. The error names `field`, which decides the size.
    public init(
        _ specs: [ArraySpec], lanes: Int, for field: String = "", reserve: MemoryReserve = { _ in }
    ) throws(EnvironmentError) {
        memory = try OwnedMemory(
            byteCount: Self.size(specs, lanes: lanes), for: field, reserve: reserve)
        arrays = BatchLayout(specs, lanes: lanes).arrays(in: memory.bytes)
    }

    /// Bytes that these arrays take.
    static func size(_ specs: [ArraySpec], lanes: Int) -> Int {
        aligned(BatchLayout(specs, lanes: lanes).size)
    }
}

/// The next multiple of 64, a cache line.
private func aligned(_ offset: Int) -> Int { (offset + 63) / 64 * 64 }
