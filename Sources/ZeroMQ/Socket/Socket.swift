internal import CZeroMQ

/// A socket, which is one end of a ZeroMQ messaging pattern. One thread owns it.
///
/// Not Sendable, because libzmq's sockets are not thread-safe: create the socket on the thread that uses it. On
/// deinitialisation, the socket is closed, and unsent messages are dropped after its linger time, which is zero by
/// default. A ``Poller`` that watches the socket keeps it open.
///
/// Signals do not interrupt a call that waits.
public struct Socket: ~Copyable {
    /// The open socket. The pollers that watch it share this object.
    let handle: SocketHandle

    var pointer: UnsafeMutableRawPointer { handle.pointer }

    /// Creates a socket of `kind`, without binding or connecting it.
    ///
    /// - Throws: EMFILE if there are too many sockets.
    public init(_ kind: Kind, in context: Context) throws(ZeroMQError) {
        handle = try SocketHandle(kind, in: context)
    }
}

@available(*, unavailable, message: "a socket belongs to one thread: create it there, in a shared Context")
extension Socket: Sendable {}

/// The `void *` of an open libzmq socket. The last reference closes the socket.
///
/// Not Sendable: a socket and its pollers belong to one thread.
final class SocketHandle {
    let pointer: UnsafeMutableRawPointer

    /// A reference that prevents the context from terminating while this socket is open.
    private let context: Context

    fileprivate init(_ kind: Socket.Kind, in context: Context) throws(ZeroMQError) {
        pointer = try check("zmq_socket", on: "\(kind)") { zmq_socket(context.pointer, kind.rawValue) }
        self.context = context
    }

    deinit {
        // because: it fails only if the pointer is not an open socket, and only this deinit closes ours.
        try! check("zmq_close") { zmq_close(pointer) }
    }
}
