internal import CZeroMQ

/// A socket, which is one end of a ZeroMQ messaging pattern. One thread owns it.
///
/// Not Sendable, because libzmq's sockets are not thread-safe: create the socket on the thread that uses it. On
/// deinitialisation, the socket is closed, and unsent messages are dropped after its linger time, which is zero by
/// default.
///
/// Signals do not interrupt a call that waits.
public struct Socket: ~Copyable {
    /// The pointer to libzmq's socket. Only `deinit` closes the socket.
    let pointer: UnsafeMutableRawPointer

    /// A reference that prevents the context from terminating while this socket is open.
    private let context: Context

    /// The socket's open or closed state. Pollers check it before they use the socket.
    let liveness: SocketLiveness

    /// Creates a socket of `kind`, without binding or connecting it.
    ///
    /// The corresponding C function is `zmq_socket`.
    ///
    /// - Throws: EMFILE if there are too many sockets.
    public init(_ kind: Kind, in context: Context) throws(ZeroMQError) {
        pointer = try check("zmq_socket", on: "\(kind)") { zmq_socket(context.pointer, kind.rawValue) }
        self.context = context
        // because: if an initialiser throws, Swift 6.2 destroys a property with a default value twice.
        liveness = SocketLiveness()
    }

    deinit {
        liveness.isOpen = false
        // because: it fails only if the pointer is not an open socket, and only this deinit closes ours.
        try! check("zmq_close") { zmq_close(pointer) }
    }
}

@available(*, unavailable, message: "a socket belongs to one thread: create it there, in a shared Context")
extension Socket: Sendable {}

/// The open or closed state of a socket. The socket shares this object with the pollers that watch it.
///
/// Not Sendable: a socket and its pollers belong to one thread.
final class SocketLiveness {
    var isOpen = true
}
