/// Arrays of a batch in memory of their own, each at a multiple of 64 bytes; at first they hold anything.
///
/// This is the room for that memory. `@unchecked Sendable` because lanes own disjoint rows, as in
/// ``BatchArrays``.
public final class OwnArrays: @unchecked Sendable {
    /// The arrays; they live as long as this.
    public let arrays: BatchArrays
    private let memory: UnsafeMutableRawBufferPointer

    /// Memory for these arrays with so many lanes.
    public init(_ specs: [ArraySpec], lanes: Int) {
        var offsets: [Int] = []
        var end = 0
        for spec in specs {
            offsets.append(end)
            end += Self.bytes(spec, lanes)
        }
        memory = .allocate(byteCount: end, alignment: 64)
        arrays = BatchArrays(memory, specs: specs, offsets: offsets, lanes: lanes)
    }

    deinit { memory.deallocate() }

    /// Bytes that these arrays take.
    static func bytes(_ specs: [ArraySpec], lanes: Int) -> Int {
        specs.reduce(0) { $0 + bytes($1, lanes) }
    }

    private static func bytes(_ spec: ArraySpec, _ lanes: Int) -> Int {
        (spec.bytesPerLane * lanes + 63) / 64 * 64
    }
}
