internal import CZeroMQ

/// A failed call into libzmq: the function, its subject, and the reason.
///
/// ```
/// zmq_bind tcp://127.0.0.1:5555: Address already in use
/// └ operation  └ subject         └ code, in the words of zmq_strerror
/// ```
public struct ZeroMQError: Error, Hashable, Sendable {
    /// The reason, libzmq's errno.
    public let code: Code

    /// The C function that failed.
    public let operation: String

    /// The endpoint or option that the call was about; nil if it was only about the socket.
    public let subject: String?

    /// Makes an error. `check` calls this; it is public for the tests of callers.
    public init(code: Code, operation: String, subject: String? = nil) {
        self.code = code
        self.operation = operation
        self.subject = subject
    }
}

extension ZeroMQError: CustomStringConvertible {
    /// The operation, its subject if it has one, and the text of the code.
    public var description: String {
        guard let subject else { return "\(operation): \(code)" }
        return "\(operation) \(subject): \(code)"
    }
}
