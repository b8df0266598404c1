internal import CZeroMQ

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

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
    /// ENOENT: no such endpoint here (unbind, disconnect).
    public static let notFound = Self(rawValue: ENOENT)
    /// ENODEV: no such network interface.
    public static let noSuchDevice = Self(rawValue: ENODEV)
    /// ENOMEM: out of memory.
    public static let outOfMemory = Self(rawValue: ENOMEM)
    /// EMFILE: the context's maximum of sockets, or the process's of descriptors.
    public static let tooManySockets = Self(rawValue: EMFILE)
    /// EACCES: no permission, for instance to bind an ipc path.
    public static let permissionDenied = Self(rawValue: EACCES)
    /// ENAMETOOLONG: an ipc path beyond what a Unix socket's address holds (107 bytes on Linux).
    public static let nameTooLong = Self(rawValue: ENAMETOOLONG)
    /// EFAULT: the context or the message is invalid.
    public static let fault = Self(rawValue: EFAULT)
    /// ENOTSUP: this kind of socket can't do that.
    public static let notSupported = Self(rawValue: ENOTSUP)
    /// EPROTONOSUPPORT: a transport that this libzmq does not know.
    public static let protocolNotSupported = Self(rawValue: EPROTONOSUPPORT)
    /// EADDRINUSE: somebody else is bound there.
    public static let addressInUse = Self(rawValue: EADDRINUSE)
    /// EADDRNOTAVAIL: not an address of this machine.
    public static let addressNotAvailable = Self(rawValue: EADDRNOTAVAIL)
    /// ENOTSOCK: the socket is closed.
    public static let notSocket = Self(rawValue: ENOTSOCK)
    /// EHOSTUNREACH: a ROUTER that is told to care (`routerMandatory`) knows no such peer.
    public static let hostUnreachable = Self(rawValue: EHOSTUNREACH)
    /// EFSM: not in this state; for instance a REQ that receives before it has sent.
    public static let wrongState = Self(rawValue: EFSM)
    /// ENOCOMPATPROTO: this kind of socket does not go over that transport.
    public static let incompatibleProtocol = Self(rawValue: ENOCOMPATPROTO)
    /// ETERM: the context was shut down. Close the socket.
    public static let terminated = Self(rawValue: ETERM)
    /// EMTHREAD: the context has no I/O thread.
    public static let noIOThread = Self(rawValue: EMTHREAD)
}
