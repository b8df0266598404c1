internal import CZeroMQ

/// A set of sockets and file descriptors that waits until one of them has something to receive.
///
/// ```swift
/// var poller = Poller()
/// let requests = poller.add(socket)
/// let wake = poller.add(descriptor: eventDescriptor)
/// while try poller.wait() > 0 {
///     if poller[requests] { … }
///     if poller[wake] { … }
/// }
/// ```
///
/// Build it once and wait many times; waiting allocates nothing. It belongs to the thread of its sockets. The
/// sockets must stay open while the poller is used: waiting for a closed one is a precondition failure.
public struct Poller: ~Copyable {
    /// The identifier of a socket or descriptor in its poller.
    public struct Item: Sendable, Hashable {
        let index: Int
    }

    private var items: [zmq_pollitem_t] = []
    /// The liveness of the socket at the same index; nil for a descriptor.
    private var liveness: [SocketLiveness?] = []

    /// Makes an empty poller.
    public init() {}

    /// Adds a socket, which must stay open while this poller is used.
    public mutating func add(_ socket: borrowing Socket) -> Item {
        add(
            zmq_pollitem_t(socket: socket.pointer, fd: -1, events: CShort(ZMQ_POLLIN), revents: 0),
            socket.liveness)
    }

    /// Adds a file descriptor, for example of an event, a pipe or a system socket.
    public mutating func add(descriptor: CInt) -> Item {
        add(zmq_pollitem_t(socket: nil, fd: descriptor, events: CShort(ZMQ_POLLIN), revents: 0), nil)
    }

    private mutating func add(_ item: zmq_pollitem_t, _ socket: SocketLiveness?) -> Item {
        items.append(item)
        liveness.append(socket)
        return Item(index: items.count - 1)
    }

    /// True if the last wait found something to receive, or a descriptor that has hung up or is not open.
    public subscript(item: Item) -> Bool { items[item.index].revents != 0 }

    /// Waits until something is ready and returns the number of ready items; 0 means that `timeout` is over.
    /// Without a timeout it waits indefinitely; with zero it returns at once. The timeout is rounded up to
    /// whole milliseconds, and signals do not lengthen it.
    ///
    /// The corresponding C function is `zmq_poll`.
    ///
    /// - Throws: `.terminated` if the context of a socket was shut down.
    public mutating func wait(timeout: Duration? = nil) throws(ZeroMQError) -> Int {
        precondition(!items.isEmpty, "an empty poller would wait forever")
        for case let socket? in liveness {
            precondition(socket.isOpen, "a socket in the poller was closed")
        }
        do throws(ZeroMQError) {
            // because: nobody else uses the items during the call, and their sockets are open.
            return try items.withUnsafeMutableBufferPointer { (items) throws(ZeroMQError) in
                Int(
                    try check("zmq_poll", within: timeout) { milliseconds in
                        zmq_poll(items.baseAddress, CInt(items.count), milliseconds)
                    })
            }
        } catch {
            for index in items.indices { items[index].revents = 0 }
            throw error
        }
    }
}

@available(*, unavailable, message: "a poller lives on the thread of its sockets")
extension Poller: Sendable {}
