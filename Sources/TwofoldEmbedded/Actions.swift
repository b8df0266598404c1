internal import Platform
internal import TwofoldProtocol
internal import TwofoldService

/// Actions as a caller has them: integers of any width, which a step takes as bytes. A payload is such bytes, too.
struct Actions {
    /// All of them, in the caller's memory.
    private let bytes: UnsafeRawBufferPointer
    let count: Int
    private let width: Int32

    /// Nil when the pointer is missing, the count is impossible, or there are no integers of that width; negative widths
    /// are those of signed ones.
    init?(_ start: UnsafeRawPointer?, _ count: Int, width: Int32) {
        guard let start, count >= 0, [1, 2, 4, 8].contains(abs(Int(width))),
            case let (size, overflow) = count.multipliedReportingOverflow(by: abs(Int(width))), !overflow
        else { return nil }
        bytes = UnsafeRawBufferPointer(start: start, count: size)
        self.count = count
        self.width = width
    }

    /// Bytes of the caller, as actions of one byte.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        (count, width) = (bytes.count, 1)
    }

    /// Whether both have the same values, of whatever width; false if one of them does not fit into a byte.
    func isSame(as other: Actions) -> Bool {
        guard count == other.count else { return false }
        if width == 1, other.width == 1 {
            return count == 0 || memcmp(bytes.baseAddress!, other.bytes.baseAddress!, count) == 0
        }
        return (0..<count).allSatisfy { lane in
            if let mine = self[lane], let theirs = other[lane] { mine == theirs } else { false }
        }
    }

    /// One as a byte; nil where it does not fit.
    private subscript(lane: Int) -> UInt8? {
        switch width {
        case 1: bytes[lane]
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
        bytes.loadUnaligned(fromByteOffset: lane * MemoryLayout<Value>.size, as: Value.self)
    }

    /// One byte for each. Throws for what does not fit, with the lane; the environment checks the rest.
    func narrowed() throws(ServiceError) -> [UInt8] {
        switch width {
        case 1: Array(bytes)
        case -1: try narrowed(Int8.self)
        case 2: try narrowed(UInt16.self)
        case -2: try narrowed(Int16.self)
        case 4: try narrowed(UInt32.self)
        case -4: try narrowed(Int32.self)
        case 8: try narrowed(UInt64.self)
        default: try narrowed(Int64.self)
        }
    }

    private func narrowed<Value: FixedWidthInteger & BitwiseCopyable>(
        _: Value.Type
    ) throws(ServiceError) -> [UInt8] {
        // All bits that any of them has: one look at the end, and no branch on the way.
        var bits: Value = 0
        let actions = [UInt8](unsafeUninitializedCapacity: count) { actions, initialized in
            for lane in 0..<count {
                let value = value(lane, Value.self)
                bits |= value
                actions[lane] = UInt8(truncatingIfNeeded: value)
            }
            initialized = count
        }
        guard bits < 0 || bits >> 7 != 0 else { return actions }
        for lane in 0..<count {
            let value = value(lane, Value.self)
            guard UInt8(exactly: value) == nil else { continue }
            throw ServiceError(
                .invalidArgument, field: "actions", lane: lane,
                "action \(value) of lane \(lane) is out of range")
        }
        return actions
    }
}
