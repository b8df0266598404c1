internal import CZeroMQ
internal import Platform

extension ZeroMQError {
    /// An errno of libzmq: a number of the system, or one of libzmq's own numbers, which start at 156384712.
    ///
    /// A number without a name below is also valid.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The number itself.
        public let rawValue: CInt

        /// Makes a code from a number of libzmq or the system.
        public init(rawValue: CInt) { self.rawValue = rawValue }
    }
}

extension ZeroMQError.Code: CustomStringConvertible {
    /// The text of the number. The corresponding C function is `zmq_strerror`.
    public var description: String {
        // because: zmq_strerror returns a literal of libzmq, or strerror's text, which glibc keeps per
        // thread. It never returns null, and we copy the text at once.
        String(cString: zmq_strerror(rawValue))
    }
}

extension ZeroMQError.Code {
    /// EAGAIN: the call would have to wait, because the peer's queue is full or nothing has arrived, or the
    /// timeout is over.
    public static let wouldBlock = Self(rawValue: EAGAIN)
    /// EINTR: a signal arrived. `check` retries, so no public function throws this.
    public static let interrupted = Self(rawValue: EINTR)
    /// EINVAL: the endpoint or the option's value is invalid, or the option cannot be read.
    public static let invalidArgument = Self(rawValue: EINVAL)
    /// EFSM: the socket's state does not allow the call; for example, a REQ receives before it has sent.
    public static let wrongState = Self(rawValue: EFSM)
    /// ETERM: the context was shut down. Close the socket.
    public static let terminated = Self(rawValue: ETERM)
}
