internal import CZeroMQ
internal import Platform

/// A message: one frame of bytes, owned by the code that holds it.
///
/// ```
///              64 bytes, moved by value
/// small        [ up to 33 bytes inside          ][flags]
/// large        [ ─► refcount, size, bytes       ][flags]   one block of libzmq's
/// adopted      [ ─► refcount, size ─► your bytes][flags]   until the last reference is gone
/// ```
///
/// **Why by value.** The manual forbids moving a `zmq_msg_t` by hand, and yet Swift moves this struct.
/// The rule protects a message from being owned twice, which `~Copyable` rules out; nothing in a
/// message points to itself (msg.hpp, 4.2 to 4.3.5), and libzmq moves messages in just this way, by
/// assignment, in `zmq_msg_move` and through every pipe. So no heap box per message. Two duties follow:
/// bytes of a small message live in the struct, so a pointer to them holds only during the closure that
/// got it; and what changes flags (`copy`) must be `mutating`, since a borrowed struct may be a copy of
/// the bits whose changes get lost.
///
/// Sendable: no state is shared but the bytes of a message and its copies, whose count is atomic and
/// which nothing changes.
public struct Message: ~Copyable, Sendable {
    var raw: zmq_msg_t

    /// A message of zero bytes.
    ///
    /// The corresponding C function is `zmq_msg_init`.
    public init() {
        raw = zmq_msg_t()
        // because: zmq_msg_init always returns 0.
        zmq_msg_init(&raw)
    }

    /// A message with a copy of `bytes`.
    ///
    /// The corresponding C function is `zmq_msg_init_size`.
    ///
    /// - Throws: ENOMEM.
    public init(copying bytes: UnsafeRawBufferPointer) throws(ZeroMQError) {
        var raw = zmq_msg_t()
        try check("zmq_msg_init_size") { zmq_msg_init_size(&raw, bytes.count) }
        UnsafeMutableRawBufferPointer(start: zmq_msg_data(&raw), count: bytes.count).copyMemory(from: bytes)
        self.raw = raw
    }

    /// A message with a copy of `bytes`.
    ///
    /// - Throws: ENOMEM.
    public init(copying bytes: RawSpan) throws(ZeroMQError) {
        self = try bytes.withUnsafeBytes { (bytes) throws(ZeroMQError) in try Message(copying: bytes) }
    }

    /// A message with a copy of `bytes`.
    ///
    /// - Throws: ENOMEM.
    public init(copying bytes: [UInt8]) throws(ZeroMQError) {
        try self.init(copying: bytes.span.bytes)
    }

    /// The corresponding C function is `zmq_msg_close`.
    deinit {
        // because: self is over, so its bits may be moved out; and it fails only for an invalid
        // message, which no initializer makes.
        var raw = raw
        zmq_msg_close(&raw)
    }

    /// How many bytes.
    ///
    /// The corresponding C function is `zmq_msg_size`.
    public var size: Int {
        withUnsafePointer(to: raw) { zmq_msg_size($0) }
    }

    /// Whether there are no bytes: a delimiter, for instance.
    public var isEmpty: Bool { size == 0 }

    /// Whether this frame was received with another of the same message behind it.
    ///
    /// The corresponding C function is `zmq_msg_more`.
    public var hasMore: Bool {
        withUnsafePointer(to: raw) { zmq_msg_more($0) != 0 }
    }

    /// Another message with the same bytes: shared and counted when large or adopted, copied when
    /// small. Mutating since both are marked as sharing from now on.
    ///
    /// The corresponding C function is `zmq_msg_copy`.
    public mutating func copy() -> Message {
        var copy = Message()
        // because: it fails only for an invalid message, which no initializer makes.
        let result = zmq_msg_copy(&copy.raw, &raw)
        precondition(result == 0, "zmq_msg_copy of an invalid message")
        return copy
    }
}

extension Message {
    /// Calls `body` with the bytes, which must not be used after it. They are aligned to nothing: load
    /// unaligned.
    ///
    /// The corresponding C function is `zmq_msg_data`.
    public func withUnsafeBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafePointer(to: raw) { (raw) throws(Failure) in
            // because: zmq_msg_data doesn't change the message, it only lacks the const.
            let start = zmq_msg_data(UnsafeMutablePointer(mutating: raw))
            return try body(UnsafeRawBufferPointer(start: start, count: zmq_msg_size(raw)))
        }
    }

    /// Whether two messages have the same bytes.
    public static func == (left: borrowing Message, right: borrowing Message) -> Bool {
        left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                guard left.count == right.count else { return false }
                // because: memcmp wants pointers that are not null, even for zero bytes.
                guard let left = left.baseAddress, let other = right.baseAddress else { return true }
                return memcmp(left, other, right.count) == 0
            }
        }
    }
}
