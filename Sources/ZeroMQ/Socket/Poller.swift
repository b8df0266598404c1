internal import CZeroMQ

/// A set of sockets and file descriptors. A thread can wait until at least one of them has something to receive.
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
/// Create the poller once and wait many times; waiting allocates no memory. A poller belongs to the thread that
/// owns its sockets. The sockets must stay open while the poller is in use: waiting on a closed socket is a
/// precondition failure.
public struct Poller: ~Copyable {
    /// The handle of a socket or descriptor in a poller.
    public struct Item: Sendable, Hashable {
        let index: Int
    }

    private var items: [zmq_pollitem_t] = []
    /// The open or closed state of each item's socket; nil for a descriptor.
    private var liveness: [SocketLiveness?] = []

    /// Creates an empty poller.
    public init() {}

    /// Adds a socket, which must stay open while the poller is in use.
    public mutating func add(_ socket: borrowing Socket) -> Item {
        add(
            zmq_pollitem_t(socket: socket.pointer, fd: -1, events: CShort(ZMQ_POLLIN), revents: 0),
            socket.liveness)
    }

    /// Adds a file descriptor, such as one for an event, a pipe or a system socket.
    public mutating func add(descriptor: CInt) -> Item {
        add(zmq_pollitem_t(socket: nil, fd: descriptor, events: CShort(ZMQ_POLLIN), revents: 0), nil)
    }

    private mutating func add(_ item: zmq_pollitem_t, _ socket: SocketLiveness?) -> Item {
        items.append(item)
        liveness.append(socket)
        return Item(index: items.count - 1)
    }

    /// True if the last wait found that the item has something to receive, or that its descriptor has hung up or is
    /// not open.
    public subscript(item: Item) -> Bool { items[item.index].revents != 0 }

    /// Waits until at least one item is ready. Returns the number of ready items; 0 means that `timeout` has
    /// expired. Without a timeout, the function waits indefinitely; with zero, it returns immediately. The timeout
    /// is rounded up to whole milliseconds. Signals do not prolong it.
    ///
    /// The corresponding C function is `zmq_poll`.
    public mutating func wait(timeout: Duration? = nil) throws(ZeroMQError) -> Int {
        precondition(!items.isEmpty, "an empty poller would wait forever")
        for case let socket? in liveness {
            precondition(socket.isOpen, "a socket in the poller was closed")
        }
        // because: nobody else uses the items during the call, and their sockets are open.
        return try items.withUnsafeMutableBufferPointer { (items) throws(ZeroMQError) in
            Int(
                try check("zmq_poll", within: timeout) { milliseconds in
                    zmq_poll(items.baseAddress, CInt(items.count), milliseconds)
                })
        }
    }
}

@available(*, unavailable, message: "a poller belongs to one thread: create it on its sockets' thread")
extension Poller: Sendable {}
