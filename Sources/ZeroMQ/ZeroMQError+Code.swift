internal import CZeroMQ
internal import Platform

extension ZeroMQError {
    /// An error number, from the system or from libzmq. libzmq's own numbers start at 156384712.
    ///
    /// Numbers without a constant below are also valid.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The error number.
        public let rawValue: CInt

        /// Creates a code from a libzmq or system error number.
        public init(rawValue: CInt) { self.rawValue = rawValue }
    }
}

extension ZeroMQError.Code: CustomStringConvertible {
    /// The message for the error number. The corresponding C function is `zmq_strerror`.
    public var description: String {
        // because: zmq_strerror returns a literal of libzmq, or strerror's text, which glibc keeps per
        // thread. It never returns null, and we copy the text at once.
        String(cString: zmq_strerror(rawValue))
    }
}

extension ZeroMQError.Code {
    /// EAGAIN: the peer's queue is full or nothing has arrived, and the call may not wait or has timed out.
    public static let wouldBlock = Self(rawValue: EAGAIN)
    /// EINTR: a signal arrived. `check` repeats the call, so no public function throws this error.
    public static let interrupted = Self(rawValue: EINTR)
    /// EINVAL: the endpoint or the option's value is invalid, or the option cannot be read.
    public static let invalidArgument = Self(rawValue: EINVAL)
    /// EFSM: the call is not allowed in the socket's current state. For example, a REQ socket must send before it
    /// receives.
    public static let wrongState = Self(rawValue: EFSM)
    /// ETERM: the context was shut down. Close the socket.
    public static let terminated = Self(rawValue: ETERM)
}
