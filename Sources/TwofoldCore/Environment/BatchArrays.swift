/// The arrays of one reply, each with one row per lane, in memory that the caller owns.
///
/// This type holds the unsafe memory of a reply. `@unchecked Sendable` because the lanes of a batch own disjoint rows:
/// workers that write different lanes never touch the same byte. The memory outlives the call that fills it, and may
/// have any alignment.
public struct BatchArrays: @unchecked Sendable {
    /// The memory of one array: rows without gaps between them.
    @usableFromInline struct Rows {
        /// The address of the first row.
        @usableFromInline let base: UnsafeMutableRawPointer
        /// The size of a row in bytes.
        @usableFromInline let stride: Int
    }

    @usableFromInline let arrays: [Rows]

    /// Makes the arrays of `specs`. `address` returns the address of an array.
    package init(_ specs: [ArraySpec], at address: (_ array: Int) -> UnsafeMutableRawPointer) {
        arrays = specs.indices.map { Rows(base: address($0), stride: specs[$0].bytesPerLane) }
    }

    private init(_ arrays: [Rows]) { self.arrays = arrays }

    /// Returns a view of the same memory that skips the first `arrays` arrays, and the first `rows` rows of each other
    /// array.
    func dropping(arrays: Int, rows: Int) -> BatchArrays {
        BatchArrays(
            self.arrays.dropFirst(arrays).map { Rows(base: $0.base + rows * $0.stride, stride: $0.stride) })
    }

    @inline(__always)
    func row(_ lane: Int) -> LaneRow { LaneRow(arrays: self, lane: lane) }

    /// Copies rows of `other`, starting with row `first`, to the rows `rows` of these arrays. If `count` is given,
    /// copies only the first `count` arrays.
    func copyRows(
        _ rows: Range<Int>, of count: Int? = nil, from other: BatchArrays, startingAt first: Int = 0
    ) {
        for array in 0..<(count ?? other.arrays.count) {
            address(array: array, lane: rows.lowerBound).copyMemory(
                from: other.address(array: array, lane: first), byteCount: rows.count * arrays[array].stride)
        }
    }

    /// Returns the address of a lane's row in the array of `key`. The address may have any alignment.
    @inlinable @inline(__always)
    public func address<Element>(_ key: ArrayKey<Element>, lane: Int) -> UnsafeMutableRawPointer {
        address(array: key.index, lane: lane)
    }

    /// Returns the address of a lane's row in one array.
    @inlinable @inline(__always)
    func address(array: Int, lane: Int) -> UnsafeMutableRawPointer {
        let rows = arrays[array]
        return rows.base + lane &* rows.stride
    }
}

/// One lane's row in each array. A game writes the lane's observation and infos there.
public struct LaneRow {
    fileprivate let arrays: BatchArrays
    fileprivate let lane: Int

    @inline(__always)
    subscript<Element>(key: ArrayKey<Element>) -> ArrayRow<Element> {
        ArrayRow(address: arrays.address(key, lane: lane))
    }

    /// Writes one element of the lane's row in the array of `key`.
    @inline(__always)
    func store<Element>(_ value: Element, _ key: ArrayKey<Element>, at element: Int = 0) {
        self[key].store(value, at: element)
    }
}

/// One lane's row of one array.
struct ArrayRow<Element: ArrayElement> {
    fileprivate let address: UnsafeMutableRawPointer

    @inline(__always)
    func store(_ value: Element, at element: Int = 0) {
        address.storeBytes(
            of: value, toByteOffset: element * MemoryLayout<Element>.stride, as: Element.self)
    }
}

/// An array in a request, with one fixed-width number per lane. The memory may have any alignment.
///
/// `@unchecked Sendable` because nothing writes to the memory, and its owner keeps it alive during the call.
public struct LaneInput<Value: BitwiseCopyable & Sendable>: @unchecked Sendable {
    @usableFromInline let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Returns the address of a lane's number.
    func address(_ lane: Int) -> UnsafeRawPointer {
        bytes.baseAddress! + lane * MemoryLayout<Value>.stride
    }

    /// A lane's number.
    @inlinable @inline(__always)
    public subscript(lane: Int) -> Value {
        bytes.loadUnaligned(fromByteOffset: lane * MemoryLayout<Value>.stride, as: Value.self)
    }
}
