internal import CZeroMQ

/// A socket: one end of a message pattern, owned by one thread.
///
/// Not Sendable, because libzmq's sockets are not thread-safe: make the socket in the thread that uses it. Its
/// deinit closes it and drops unsent messages after `linger`, which is zero by default.
///
/// Signals do not interrupt a call that waits. A waiting call throws `.terminated` when the context ends.
public struct Socket: ~Copyable {
    /// libzmq's socket, which only deinit closes.
    let pointer: UnsafeMutableRawPointer

    /// A reference that keeps the context from terminating while this socket is open.
    private let context: ContextHandle

    /// The liveness that pollers check before they use this socket.
    let liveness: SocketLiveness

    /// Makes a socket of `kind` that is neither bound nor connected.
    ///
    /// The corresponding C function is `zmq_socket`.
    ///
    /// - Throws: EMFILE if there are too many sockets.
    public init(_ kind: Kind, in context: borrowing Context) throws(ZeroMQError) {
        let handle = context.handle
        pointer = try check("zmq_socket", on: "\(kind)") { zmq_socket(handle.pointer, kind.rawValue) }
        self.context = handle
        // because: if an initialiser throws, Swift 6.2 destroys a property with a default value twice.
        liveness = SocketLiveness()
    }

    deinit {
        liveness.isOpen = false
        // because: it fails only if the pointer is not an open socket, and only this deinit closes ours.
        try! check("zmq_close") { zmq_close(pointer) }
    }
}

@available(*, unavailable, message: "a socket belongs to one thread: make it there, in a shared Context")
extension Socket: Sendable {}

/// The state of a socket, open or closed, shared with the pollers that watch it.
///
/// Not Sendable: a socket and its pollers live on one thread.
final class SocketLiveness {
    var isOpen = true
}
