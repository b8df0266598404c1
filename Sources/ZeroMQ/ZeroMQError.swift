internal import CZeroMQ

/// The error from a failed libzmq call: the operation, its subject, and the reason.
///
/// ```
/// zmq_bind tcp://127.0.0.1:5555: Address already in use
/// └ operation  └ subject         └ reason
/// ```
public struct ZeroMQError: Error, Hashable, Sendable {
    /// The error number, from the system or from libzmq. libzmq's own numbers start at 156384712.
    ///
    /// - EAGAIN: the peer's queue is full or nothing has arrived, and the call may not wait or has timed out.
    /// - EINTR: a signal arrived. `check` repeats the call, so no public function throws this error.
    /// - EINVAL: the endpoint or the option's value is invalid, or the option cannot be read.
    /// - EFSM: the call is not allowed in the socket's current state. For example, a REQ socket must send before it
    ///   receives.
    public let code: CInt

    /// The C function that failed.
    public let operation: String

    /// The endpoint or option that the call concerned; nil if it concerned the whole socket.
    public let subject: String?

    /// Creates an error. Only `check` needs this initialiser; it is public so that callers can create errors in
    /// tests.
    public init(code: CInt, operation: String, subject: String? = nil) {
        self.code = code
        self.operation = operation
        self.subject = subject
    }

    /// The message for the error number.
    public var reason: String {
        // because: zmq_strerror returns a literal of libzmq, or strerror's text, which glibc keeps per
        // thread. It never returns null, and we copy the text at once.
        String(cString: zmq_strerror(code))
    }
}

extension ZeroMQError: CustomStringConvertible {
    /// The operation, its subject if there is one, and the reason.
    public var description: String {
        guard let subject else { return "\(operation): \(reason)" }
        return "\(operation) \(subject): \(reason)"
    }
}
