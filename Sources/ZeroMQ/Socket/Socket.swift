internal import CZeroMQ

/// A socket: one end of a message pattern, owned by one thread.
///
/// Not Sendable, because libzmq's sockets are not thread-safe: make the socket in the thread that uses
/// it. At the end of its scope it closes, and drops what it has not sent after `linger` (zero by default).
///
/// A call that waits is not bothered by signals; it throws `.terminated` when the context goes.
public struct Socket: ~Copyable {
    /// Valid until deinit, which alone closes it.
    let pointer: UnsafeMutableRawPointer

    /// Keeps the context from terminating while this socket is open.
    private let context: ContextHandle

    /// Tells pollers that this socket is gone.
    let liveness: SocketLiveness

    /// A socket of `kind`, neither bound nor connected.
    ///
    /// The corresponding C function is `zmq_socket`.
    ///
    /// - Throws: EMFILE when there are too many sockets.
    public init(_ kind: Kind, in context: borrowing Context) throws(ZeroMQError) {
        let handle = context.handle
        pointer = try check("zmq_socket", on: "\(kind)") { zmq_socket(handle.pointer, kind.rawValue) }
        self.context = handle
        // because: Swift 6.2 destroys a property twice that has a value when an initialiser throws.
        liveness = SocketLiveness()
    }

    deinit {
        liveness.isOpen = false
        // because: fails only for a pointer that is no open socket, and only this deinit closes ours.
        try! check("zmq_close") { zmq_close(pointer) }
    }
}

@available(*, unavailable, message: "a socket belongs to one thread: make it there, in a shared Context")
extension Socket: Sendable {}

/// Whether a socket is still open: shared with the pollers that watch it.
///
/// Not Sendable: a socket and its pollers live on one thread.
final class SocketLiveness {
    var isOpen = true
}
