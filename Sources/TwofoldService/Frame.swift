package import FoundationEssentials
internal import Platform
package import TwofoldCore
internal import TwofoldProtocol

/// A sequence of bytes, and the object that keeps the bytes valid: a libzmq message, a pool's buffer, or the
/// frame's own memory.
///
///     owner ──► bytes         valid as long as a frame refers to them
///               bytes         memory of a caller in this process, valid until the call returns
///
/// A caller may pass its actions as wider integers, such as int64. Each integer then represents one byte.
///
/// `@unchecked Sendable` because nothing changes the bytes while a frame refers to them.
package struct Frame: Equatable, @unchecked Sendable {
    /// The size in bytes up to which a copied request is not counted in a memory budget.
    package static let smallBytes = 4096

    private let start: UnsafeRawPointer?
    /// The number of bytes that the frame represents.
    package let count: Int
    /// The size of each integer in bytes. Negative if the integers are signed.
    private let width: Int32
    /// The object that keeps the bytes valid; nil for a caller's bytes.
    package let owner: (any AnyObject & Sendable)?

    /// Creates an empty frame.
    package init() { (start, count, width, owner) = (nil, 0, 1, nil) }

    /// Creates a frame from bytes that `owner` keeps valid.
    package init(_ bytes: UnsafeRawBufferPointer, of owner: any AnyObject & Sendable) {
        (start, count, width) = (bytes.baseAddress, bytes.count, 1)
        self.owner = owner
    }

    /// Creates a frame from a caller's bytes, which are valid only during the call.
    package init(ofCaller bytes: UnsafeRawBufferPointer) {
        (start, count, width, owner) = (bytes.baseAddress, bytes.count, 1, nil)
    }

    /// Creates a frame from a caller's integers. A negative width means signed integers. Returns nil if the pointer
    /// is missing, or the count or width is invalid.
    package init?(ofCaller start: UnsafeRawPointer?, _ count: Int, width: Int32) {
        guard let start, count >= 0, [1, 2, 4, 8].contains(abs(Int(width))),
            !count.multipliedReportingOverflow(by: abs(Int(width))).overflow
        else { return nil }
        (self.start, self.count, self.width, owner) = (start, count, width, nil)
    }

    /// Creates a frame with a copy of the bytes.
    package init(copying bytes: UnsafeRawBufferPointer) {
        let memory = Memory(bytes.count)
        UnsafeMutableRawBufferPointer(memory.bytes).copyMemory(from: bytes)
        self.init(UnsafeRawBufferPointer(memory.bytes), of: memory)
    }

    /// Creates a frame with a copy of the data. Throws if the process has too little memory.
    package init(keeping data: Data) throws(EnvironmentError) {
        self = try data.bytes.withUnsafeBytes { (bytes) throws(EnvironmentError) in
            try Frame(ofCaller: bytes).kept()
        }
    }

    /// Memory that is owned only by frames.
    ///
    /// `@unchecked Sendable` because only the code that creates the frame writes to the memory.
    private final class Memory: @unchecked Sendable {
        let bytes: UnsafeMutableBufferPointer<UInt8>

        init(_ count: Int) { bytes = .allocate(capacity: count) }

        deinit { bytes.deallocate() }
    }

    /// Calls `body` with the bytes. A frame of wider integers must first be converted with ``kept()``.
    package func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(width == 1, "a frame of wider integers has no bytes")
        defer { withExtendedLifetime(owner) {} }
        return try body(UnsafeRawBufferPointer(start: start, count: count))
    }

    /// Returns true if both frames represent the same bytes, even with integers of different widths. An integer
    /// that does not fit into a byte is unequal to everything.
    package static func == (left: Frame, right: Frame) -> Bool {
        guard left.count == right.count else { return false }
        if left.width == 1, right.width == 1 {
            return left.count == 0 || memcmp(left.start!, right.start!, left.count) == 0
        }
        return (0..<left.count).allSatisfy { lane in
            if let mine = left[lane], let theirs = right[lane] { mine == theirs } else { false }
        }
    }

    /// The integer of one lane, as a byte; nil if it does not fit.
    private subscript(lane: Int) -> UInt8? {
        switch width {
        case 1: value(lane, UInt8.self)
        case -1: UInt8(exactly: value(lane, Int8.self))
        case 2: UInt8(exactly: value(lane, UInt16.self))
        case -2: UInt8(exactly: value(lane, Int16.self))
        case 4: UInt8(exactly: value(lane, UInt32.self))
        case -4: UInt8(exactly: value(lane, Int32.self))
        case 8: UInt8(exactly: value(lane, UInt64.self))
        default: UInt8(exactly: value(lane, Int64.self))
        }
    }

    @inline(__always)
    private func value<Value: FixedWidthInteger & BitwiseCopyable>(_ lane: Int, _: Value.Type) -> Value {
        start!.loadUnaligned(fromByteOffset: lane * MemoryLayout<Value>.size, as: Value.self)
    }

    // MARK: a copy that outlives the caller

    /// Returns a frame whose bytes stay valid after the call: a copy of a caller's bytes, otherwise this frame.
    /// Throws if the process has too little memory for the copy, or if an action does not fit into a byte; that error
    /// names the lane. The environment checks later whether the actions are in range.
    package func kept() throws(EnvironmentError) -> Frame {
        guard owner == nil, count > 0 else { return self }
        var promise: MemoryPromise?
        if count > Self.smallBytes {
            do throws(Reason) { promise = try MemoryPromise.make(count) } catch {
                throw .exhausted("", "no memory to keep the request: \(error)")
            }
        }
        defer { withExtendedLifetime(promise) {} }
        let memory = Memory(count)
        let bytes = memory.bytes
        switch width {
        case 1: UnsafeMutableRawPointer(bytes.baseAddress!).copyMemory(from: start!, byteCount: count)
        case -1: try narrow(Int8.self, to: bytes)
        case 2: try narrow(UInt16.self, to: bytes)
        case -2: try narrow(Int16.self, to: bytes)
        case 4: try narrow(UInt32.self, to: bytes)
        case -4: try narrow(Int32.self, to: bytes)
        case 8: try narrow(UInt64.self, to: bytes)
        default: try narrow(Int64.self, to: bytes)
        }
        return Frame(UnsafeRawBufferPointer(bytes), of: memory)
    }

    private func narrow<Value: FixedWidthInteger & BitwiseCopyable>(
        _: Value.Type, to bytes: UnsafeMutableBufferPointer<UInt8>
    ) throws(EnvironmentError) {
        // The bitwise OR of all values needs only one test at the end, and no branch in the loop.
        var bits: Value = 0
        for lane in 0..<count {
            let value = value(lane, Value.self)
            bits |= value
            bytes[lane] = UInt8(truncatingIfNeeded: value)
        }
        guard bits >> 7 != 0 else { return }
        for lane in 0..<count {
            let value = value(lane, Value.self)
            guard UInt8(exactly: value) == nil else { continue }
            throw .invalid(
                "actions", lane: lane,
                "action \(value) of lane \(lane) is out of range: it does not fit into a byte")
        }
    }
}
