/// The arrays of one reply, somewhere in the carrier's memory, one row per lane in each.
///
/// This is the room for unsafe writes to memory of others. `@unchecked Sendable` because the lanes of a
/// batch own disjoint rows: workers that write different lanes never touch the same byte. The memory
/// is the carrier's and outlives the call that fills it. It may have any alignment.
public struct BatchArrays: @unchecked Sendable {
    @usableFromInline let bases: [UnsafeMutableRawPointer]
    @usableFromInline let strides: [Int]

    /// The arrays of `specs`, the i-th of them at `offsets[i]` in `memory`.
    public init(_ memory: UnsafeMutableRawBufferPointer, specs: [ArraySpec], offsets: [Int], lanes: Int) {
        precondition(specs.count == offsets.count)
        for (spec, offset) in zip(specs, offsets) {
            precondition(offset >= 0 && offset + spec.bytesPerLane * lanes <= memory.count)
        }
        bases = offsets.map { memory.baseAddress! + $0 }
        strides = specs.map(\.bytesPerLane)
    }

    /// Arrays at these addresses, one for each of `specs`.
    init(bases: [UnsafeMutableRawPointer], specs: [ArraySpec]) {
        self.bases = bases
        strides = specs.map(\.bytesPerLane)
    }

    private init(bases: [UnsafeMutableRawPointer], strides: [Int]) {
        self.bases = bases
        self.strides = strides
    }

    /// The same memory without the first arrays, and without the first rows of the others.
    func dropping(arrays: Int, rows: Int) -> BatchArrays {
        let left = bases.indices.dropFirst(arrays)
        return BatchArrays(
            bases: left.map { address(array: $0, lane: rows) }, strides: left.map { strides[$0] })
    }

    /// The same memory with these arrays alone, in this order.
    package func picking(_ arrays: [Int]) -> BatchArrays {
        BatchArrays(bases: arrays.map { bases[$0] }, strides: arrays.map { strides[$0] })
    }

    /// One lane's row in each array.
    @inline(__always)
    func row(_ lane: Int) -> LaneRow { LaneRow(arrays: self, lane: lane) }

    /// Copies the first rows of `other` to these rows; `other` may have more arrays.
    func copyRows(_ rows: Range<Int>, from other: BatchArrays) {
        for array in bases.indices {
            address(array: array, lane: rows.lowerBound)
                .copyMemory(from: other.bases[array], byteCount: rows.count * strides[array])
        }
    }

    /// Fills a row of ``VectorEnvironment/finalArrays``: the lane, and its rows of a step's first arrays.
    @inline(__always)
    func keepFinal(_ row: Int, ofLane lane: Int, from step: BatchArrays) {
        address(array: 0, lane: row).storeBytes(of: UInt64(lane).littleEndian, as: UInt64.self)
        for array in 1..<bases.count {
            address(array: array, lane: row)
                .copyMemory(from: step.address(array: array - 1, lane: lane), byteCount: strides[array])
        }
    }

    /// The address of a lane's row in one array.
    @inlinable @inline(__always)
    public func address(array: Int, lane: Int) -> UnsafeMutableRawPointer {
        bases[array] + lane * strides[array]
    }
}

/// One lane's rows, to which a game writes its observation and infos.
public struct LaneRow {
    fileprivate let arrays: BatchArrays
    fileprivate let lane: Int

    /// Writes one element; `array` is the array's index in the declared order.
    @inline(__always)
    func store<Value: BitwiseCopyable>(_ value: Value, array: Int, at element: Int = 0) {
        (arrays.address(array: array, lane: lane) + element * MemoryLayout<Value>.stride)
            .storeBytes(of: value, as: Value.self)
    }
}

/// A request's array with one fixed-width number per lane, of any alignment.
///
/// `@unchecked Sendable` because it is only read, and the carrier keeps the memory for the call.
struct LaneInput<Value: BitwiseCopyable & Sendable>: @unchecked Sendable {
    private let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// The address of a lane's number.
    func address(_ lane: Int) -> UnsafeRawPointer {
        bytes.baseAddress! + lane * MemoryLayout<Value>.stride
    }

    @inline(__always)
    subscript(lane: Int) -> Value {
        bytes.loadUnaligned(fromByteOffset: lane * MemoryLayout<Value>.stride, as: Value.self)
    }
}
