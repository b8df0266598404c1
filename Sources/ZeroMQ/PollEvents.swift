internal import CZeroMQ

/// What one can wait for: a set of conditions.
public struct PollEvents: OptionSet, Hashable, Sendable {
    /// The bits of `zmq_pollitem_t`.
    public let rawValue: CShort

    /// A set of libzmq's bits.
    public init(rawValue: CShort) { self.rawValue = rawValue }

    /// A message (or a byte) can be received without waiting.
    public static let input = Self(rawValue: CShort(ZMQ_POLLIN))
    /// A message (or a byte) can be sent without waiting.
    public static let output = Self(rawValue: CShort(ZMQ_POLLOUT))
    /// Something is wrong with a raw descriptor: hung up, or not open. Told unasked; never for sockets.
    public static let error = Self(rawValue: CShort(ZMQ_POLLERR))
    /// Urgent data on a raw descriptor.
    public static let priority = Self(rawValue: CShort(ZMQ_POLLPRI))
}
