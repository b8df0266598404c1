internal import CZeroMQ

/// The error from a failed libzmq call: the operation, its subject, and the reason.
///
/// ```
/// zmq_bind tcp://127.0.0.1:5555: Address already in use
/// └ operation  └ subject         └ code, in the words of zmq_strerror
/// ```
public struct ZeroMQError: Error, Hashable, Sendable {
    /// The reason: libzmq's error number.
    public let code: Code

    /// The C function that failed.
    public let operation: String

    /// The endpoint or option that the call concerned; nil if it concerned the whole socket.
    public let subject: String?

    /// Creates an error. Only `check` needs this initialiser; it is public so that callers can create errors in
    /// tests.
    public init(code: Code, operation: String, subject: String? = nil) {
        self.code = code
        self.operation = operation
        self.subject = subject
    }
}

extension ZeroMQError: CustomStringConvertible {
    /// The operation, its subject if there is one, and the code's message.
    public var description: String {
        guard let subject else { return "\(operation): \(code)" }
        return "\(operation) \(subject): \(code)"
    }
}
