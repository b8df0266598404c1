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

    /// One lane's row in each array.
    @inline(__always)
    func row(_ lane: Int) -> LaneRow { LaneRow(arrays: self, lane: lane) }

    /// Copies the first rows of `other` to these rows of some arrays.
    func copyRows(_ rows: Range<Int>, ofArrays arrays: ClosedRange<Int>, from other: BatchArrays) {
        for array in arrays {
            address(array: array, lane: rows.lowerBound)
                .copyMemory(from: other.bases[array], byteCount: rows.count * strides[array])
        }
    }

    /// Copies a lane's rows of the first `count` arrays to a row of as many of these, from array `first` on.
    @inline(__always)
    func keep(_ count: Int, from step: BatchArrays, lane: Int, asArray first: Int, row: Int) {
        for array in 0..<count {
            address(array: first + array, lane: row)
                .copyMemory(from: step.address(array: array, lane: lane), byteCount: step.strides[array])
        }
    }

    /// The address of a lane's row in the array of a key; of any alignment.
    @inlinable @inline(__always)
    public func address<Element>(_ key: ArrayKey<Element>, lane: Int) -> UnsafeMutableRawPointer {
        address(array: key.index, lane: lane)
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

    /// Writes one element of a key's array.
    @inline(__always)
    func store<Element>(_ value: Element, _ key: ArrayKey<Element>, at element: Int = 0) {
        store(value, array: key.index, at: element)
    }

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
public struct LaneInput<Value: BitwiseCopyable & Sendable>: @unchecked Sendable {
    @usableFromInline let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// The address of a lane's number.
    func address(_ lane: Int) -> UnsafeRawPointer {
        bytes.baseAddress! + lane * MemoryLayout<Value>.stride
    }

    /// A lane's number.
    @inlinable @inline(__always)
    public subscript(lane: Int) -> Value {
        bytes.loadUnaligned(fromByteOffset: lane * MemoryLayout<Value>.stride, as: Value.self)
    }
}
