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
/// owns its sockets, and keeps them open.
public struct Poller: ~Copyable {
    /// The handle of a socket or descriptor in a poller.
    public struct Item: Sendable, Hashable {
        let index: Int
    }

    private var items: [zmq_pollitem_t] = []
    /// The sockets of the items.
    private var sockets: [SocketHandle] = []

    public init() {}

    public mutating func add(_ socket: borrowing Socket) -> Item {
        sockets.append(socket.handle)
        return add(zmq_pollitem_t(socket: socket.pointer, fd: -1, events: CShort(ZMQ_POLLIN), revents: 0))
    }

    /// Adds a file descriptor, such as one for an event, a pipe or a system socket.
    public mutating func add(descriptor: CInt) -> Item {
        add(zmq_pollitem_t(socket: nil, fd: descriptor, events: CShort(ZMQ_POLLIN), revents: 0))
    }

    private mutating func add(_ item: zmq_pollitem_t) -> Item {
        items.append(item)
        return Item(index: items.count - 1)
    }

    /// True if the last wait found that the item has something to receive, or that its descriptor has hung up or is
    /// not open.
    public subscript(item: Item) -> Bool { items[item.index].revents != 0 }

    /// Waits until at least one item is ready. Returns the number of ready items; 0 means that `timeout` has
    /// expired. Without a timeout, the function waits indefinitely; with zero, it returns immediately. The timeout
    /// is rounded up to whole milliseconds. Signals do not prolong it.
    public mutating func wait(timeout: Duration? = nil) throws(ZeroMQError) -> Int {
        precondition(!items.isEmpty, "an empty poller would wait forever")
        let deadline = timeout.map { ContinuousClock.now + $0 }
        // because: nobody else uses the items during the call, and `sockets` keeps their sockets open.
        return try items.withUnsafeMutableBufferPointer { (items) throws(ZeroMQError) in
            let ready = try check("zmq_poll") {
                // A call that is repeated after a signal gets the rest of the time.
                let left = deadline.map { max(.zero, ContinuousClock.now.duration(to: $0)) }
                let milliseconds = left.map { CLong(clamping: $0.millisecondsRoundedUp) } ?? -1
                return zmq_poll(items.baseAddress, CInt(items.count), milliseconds)
            }
            return Int(ready)
        }
    }
}

@available(*, unavailable, message: "a poller belongs to one thread: create it on its sockets' thread")
extension Poller: Sendable {}
