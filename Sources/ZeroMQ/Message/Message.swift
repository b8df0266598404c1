internal import CZeroMQ

/// A message: one frame of bytes with a single owner.
///
/// ```
///              64 bytes, moved by value
/// small        [ up to 33 bytes inside          ][flags]
/// large        [ ─► refcount, size, bytes       ][flags]   one block allocated by libzmq
/// adopted      [ ─► refcount, size ─► your bytes][flags]   kept until the last reference ends
/// ```
///
/// **Why by value.** The manual forbids moving a `zmq_msg_t` by hand, but Swift may move this struct. Moving is
/// safe here: the rule prevents a message from having two owners, and `~Copyable` prevents that, too. No part of a
/// message points into the message itself (msg.hpp, 4.2 to 4.3.5). libzmq also moves messages by assignment, in
/// `zmq_msg_move` and through every pipe.
///
/// A message therefore needs no heap allocation, but the code must follow two rules. First, the bytes of a small
/// message are inside the struct, so a pointer to them is valid only during the closure that receives it. Second, a
/// function that changes flags (`copy`) must be `mutating`, because changes to a borrowed struct may be lost.
///
/// Sendable because a message and its copies share only an atomic reference count and bytes that never change.
public struct Message: ~Copyable, Sendable {
    var raw: zmq_msg_t

    public init() {
        raw = zmq_msg_t()
        // because: zmq_msg_init always returns 0.
        zmq_msg_init(&raw)
    }

    /// Creates a message with a copy of `bytes`.
    ///
    /// - Throws: ENOMEM.
    public init(copying bytes: UnsafeRawBufferPointer) throws(ZeroMQError) {
        var raw = zmq_msg_t()
        try check("zmq_msg_init_size") { zmq_msg_init_size(&raw, bytes.count) }
        UnsafeMutableRawBufferPointer(start: zmq_msg_data(&raw), count: bytes.count).copyMemory(from: bytes)
        self.raw = raw
    }

    /// Creates a message with a copy of `bytes`.
    ///
    /// - Throws: ENOMEM.
    public init(copying bytes: [UInt8]) throws(ZeroMQError) {
        self = try bytes.span.withUnsafeBytes { (bytes) throws(ZeroMQError) in try Message(copying: bytes) }
    }

    deinit {
        // because: self ends here, so its bits may be moved out. The call fails only for an invalid message,
        // which no initializer makes.
        var raw = raw
        zmq_msg_close(&raw)
    }

    /// The size of the message in bytes.
    public var size: Int {
        withUnsafePointer(to: raw) { zmq_msg_size($0) }
    }

    /// Whether the message has no bytes, as a delimiter frame does.
    public var isEmpty: Bool { size == 0 }

    /// Whether this frame was received and another frame of the same message follows.
    public var hasMore: Bool {
        withUnsafePointer(to: raw) { zmq_msg_more($0) != 0 }
    }

    /// Creates another message with the same bytes. Large and adopted bytes are shared through a reference count;
    /// small ones are copied. The function is mutating because it marks both messages as shared.
    public mutating func copy() -> Message {
        var copy = Message()
        // because: it fails only for an invalid message, which no initializer makes.
        let result = zmq_msg_copy(&copy.raw, &raw)
        precondition(result == 0, "zmq_msg_copy of an invalid message")
        return copy
    }
}

extension Message {
    /// Calls `body` with the bytes, which are valid only during the call. The bytes may be unaligned, so use
    /// unaligned loads.
    public func withUnsafeBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafePointer(to: raw) { (raw) throws(Failure) in
            // because: zmq_msg_data does not change the message; its parameter only lacks the const.
            let start = zmq_msg_data(UnsafeMutablePointer(mutating: raw))
            return try body(UnsafeRawBufferPointer(start: start, count: zmq_msg_size(raw)))
        }
    }
}
