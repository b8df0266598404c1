internal import CZeroMQ
internal import Platform

extension ZeroMQError {
    /// An errno of libzmq: the system's numbers, and libzmq's own from 156384712 on.
    ///
    /// Open on purpose: a value that has no name here is still a value.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The number itself.
        public let rawValue: CInt

        /// A code with a number that libzmq or the system gave.
        public init(rawValue: CInt) { self.rawValue = rawValue }
    }
}

extension ZeroMQError.Code: CustomStringConvertible {
    /// The corresponding C function is `zmq_strerror`.
    public var description: String {
        // because: zmq_strerror returns a literal of libzmq or strerror's text, which glibc keeps per
        // thread; it never returns null, and we copy the text at once.
        String(cString: zmq_strerror(rawValue))
    }
}

extension ZeroMQError.Code {
    /// EAGAIN: not now; the peer's queue is full, or nothing has arrived, or the timeout is over.
    public static let wouldBlock = Self(rawValue: EAGAIN)
    /// EINTR: a signal came. `check` retries, so no public function throws this.
    public static let interrupted = Self(rawValue: EINTR)
    /// EINVAL: the endpoint or the option's value makes no sense, or the option cannot be read.
    public static let invalidArgument = Self(rawValue: EINVAL)
    /// EFSM: not in this state; for instance a REQ that receives before it has sent.
    public static let wrongState = Self(rawValue: EFSM)
    /// ETERM: the context was shut down. Close the socket.
    public static let terminated = Self(rawValue: ETERM)
}
