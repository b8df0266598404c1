internal import CZeroMQ

/// A failed call into libzmq: which call, on what, and why.
///
/// ```
/// zmq_bind tcp://127.0.0.1:5555: Address already in use
/// └ operation  └ subject         └ code, in the words of zmq_strerror
/// ```
public struct ZeroMQError: Error, Hashable, Sendable {
    /// Why: libzmq's errno.
    public let code: Code

    /// The C function that failed.
    public let operation: String

    /// What the call was about, where that is more than "this socket": an endpoint, an option.
    public let subject: String?

    /// An error as `check` makes it; public so that a caller's tests can make one too.
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
