internal import CLinux
internal import Glibc
internal import ZeroMQ

/// Where clients on the same machine bring their requests without ZeroMQ between: a Unix socket beside that of an
/// ipc endpoint, `<path>.direct`, of the type SOCK_SEQPACKET. Every packet is one request, and gets one as its reply:
///
///     byte 0    the header's size (31 bits, little endian), and in the highest bit whether there is a payload
///     byte 4    the header: protobuf Request or Reply, as in a ZeroMQ message
///     then      the payload, where there is one
///
/// A packet of the four bytes 0 is the reply to a request whose reply does not fit: it has to be asked for over
/// ZeroMQ. For a message that goes through libzmq two threads have to be woken up on each way, its own and
/// the receiver's, and on each side; here it is one, or none while both sides look for what comes.
///
/// Lives on the socket thread. This is the room for the descriptors of these sockets and for their packets.
final class DirectListener {
    /// Bytes of a packet. What a Unix socket holds unless told otherwise is 208 KiB.
    static let maxPacketBytes = 1 << 17
    /// Each takes a descriptor, and ZeroMQ's connections need some too.
    private static let maxConnections = ProcessUsage.descriptorLimit / 4
    private static let backlog: Int32 = 128
    /// Who is let in before the others get their turn.
    private static let connectionsAtATime = 16

    /// Readable while somebody wants something.
    let descriptor: Int32
    private let path: String
    private let listener: Int32
    /// Given up for a moment to get rid of a connection where there are no descriptors left: it would be waiting
    /// for ever.
    private var spare: Int32
    private var connections: [Int32: DirectConnection] = [:]
    private let packet = PacketBuffer()
    private var events = [epoll_event](repeating: epoll_event(), count: 64)
    /// Which of `events` are still to be looked at.
    private var waiting = 0..<0

    /// Listens beside an ipc endpoint whose path the caller has claimed; nil where that can't be: the path is too
    /// long, or something else is there.
    init?(beside path: String) {
        self.path = path + ".direct"
        guard IPCPath.clear(self.path) else { return nil }
        listener = socket(
            AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        spare = open("/dev/null", O_RDONLY | O_CLOEXEC)
        let listener = listener
        guard listener >= 0, descriptor >= 0,
            IPCPath.withAddress(self.path, { bind(listener, $0, $1) }) == 0,
            listen(listener, Self.backlog) == 0, watch(listener)
        else { return nil }
    }

    deinit {
        for connection in connections.values { connection.close() }
        for descriptor in [listener, descriptor, spare] where descriptor >= 0 { close(descriptor) }
        _ = IPCPath.clear(path)
    }

    /// What there was to do.
    enum Event {
        /// A request. What it tells holds until the next call, and until something is sent.
        case packet(DirectPacket)
        /// Somebody came or went.
        case other
    }

    /// The next thing that has happened, in the order of turns; nil when there is nothing now.
    func receive() -> Event? {
        if waiting.isEmpty {
            let count = epoll_wait(descriptor, &events, Int32(events.count), 0)
            guard count > 0 else { return nil }
            waiting = 0..<Int(count)
        }
        let ready = events[waiting.removeFirst()].data.fd
        guard ready != listener else {
            for _ in 0..<Self.connectionsAtATime where !accept() { break }
            return .other
        }
        // Closed since: its number may even be another's.
        guard let connection = connections[ready] else { return .other }
        switch packet.receive(from: ready) {
        case let size where size > 0:
            return .packet(DirectPacket(connection: connection, bytes: packet.bytes, size: size))
        case 0: end(connection)
        default: if errno != EAGAIN && errno != EINTR { end(connection) }
        }
        return .other
    }

    private func end(_ connection: DirectConnection) {
        connections[connection.descriptor] = nil
        connection.close()
    }

    /// Takes in who waits, or sends it away: it can still come over ZeroMQ. False when nobody waits.
    private func accept() -> Bool {
        let accepted = Glibc.accept(listener, nil, nil)
        if accepted >= 0 {
            _ = fcntl(accepted, F_SETFD, FD_CLOEXEC)
            if connections.count < Self.maxConnections, watch(accepted) {
                connections[accepted] = DirectConnection(accepted, packet)
            } else {
                close(accepted)
            }
            return true
        }
        guard errno == EMFILE || errno == ENFILE else { return errno == EINTR || errno == ECONNABORTED }
        close(spare)
        let unwanted = Glibc.accept(listener, nil, nil)
        if unwanted >= 0 { close(unwanted) }
        spare = open("/dev/null", O_RDONLY | O_CLOEXEC)
        return unwanted >= 0
    }

    private func watch(_ watched: Int32) -> Bool {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(fd: watched))
        return epoll_ctl(descriptor, EPOLL_CTL_ADD, watched, &event) == 0
    }
}

/// One client's connection.
final class DirectConnection {
    fileprivate private(set) var descriptor: Int32
    private let packet: PacketBuffer

    fileprivate init(_ descriptor: Int32, _ packet: PacketBuffer) {
        self.descriptor = descriptor
        self.packet = packet
    }

    deinit { close() }

    /// Sends a reply. Nobody waits here: whoever does not take in what was sent before is shut out, and asks again
    /// over ZeroMQ. A reply to somebody who has gone is dropped.
    func send(_ reply: ReplyFrames, readsMemory: Bool) {
        guard descriptor >= 0 else { return }
        let size = reply.withFrames(readsMemory: readsMemory) { packet.write($0, $1) }
        guard packet.send(size, to: descriptor) != size, errno != EPIPE else { return }
        if errno == EMSGSIZE, packet.send(packet.writeTooLarge(), to: descriptor) > 0 { return }
        // The listener finds it closed, and lets it go.
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    fileprivate func close() {
        guard descriptor >= 0 else { return }
        Glibc.close(descriptor)
        descriptor = -1
    }
}

/// A request as it came.
struct DirectPacket {
    let connection: DirectConnection
    fileprivate let bytes: UnsafeMutableRawBufferPointer
    /// Bytes that were sent; of more than fit, the first came.
    fileprivate let size: Int

    /// The frames, copied; nil for what is no packet.
    var frames: RequestFrames? {
        get throws(ZeroMQError) {
            guard size >= PacketBuffer.prefix, size <= bytes.count else { return nil }
            let prefix = UInt32(littleEndian: bytes.loadUnaligned(as: UInt32.self))
            let payload = PacketBuffer.prefix + Int(prefix & ~PacketBuffer.hasPayload)
            guard payload <= size, prefix & PacketBuffer.hasPayload != 0 || payload == size else {
                return nil
            }
            let header = try Message(
                copying: UnsafeRawBufferPointer(rebasing: bytes[PacketBuffer.prefix..<payload]))
            guard prefix & PacketBuffer.hasPayload != 0 else {
                return RequestFrames(header: header, payload: nil)
            }
            return RequestFrames(
                header: header,
                payload: try Message(copying: UnsafeRawBufferPointer(rebasing: bytes[payload..<size])))
        }
    }
}

/// Memory for the packet that is just being received or sent.
private final class PacketBuffer {
    static let prefix = 4
    static let hasPayload: UInt32 = 1 << 31

    let bytes = UnsafeMutableRawBufferPointer.allocate(
        byteCount: DirectListener.maxPacketBytes, alignment: 64)

    deinit { bytes.deallocate() }

    /// The size of the packet that was there, also of one that is larger than the buffer; 0 at the end, -1 with errno.
    func receive(from descriptor: Int32) -> Int {
        recv(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT | MSG_TRUNC))
    }

    /// Puts frames together; the size of the packet.
    func write(_ header: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer?) -> Int {
        let size = Self.prefix + header.count + (payload?.count ?? 0)
        guard size <= bytes.count else { return writeTooLarge() }
        let prefix = UInt32(header.count) | (payload == nil ? 0 : Self.hasPayload)
        bytes.storeBytes(of: prefix.littleEndian, as: UInt32.self)
        UnsafeMutableRawBufferPointer(rebasing: bytes[Self.prefix...]).copyMemory(from: header)
        if let payload {
            UnsafeMutableRawBufferPointer(rebasing: bytes[(Self.prefix + header.count)...])
                .copyMemory(from: payload)
        }
        return size
    }

    /// What is said in place of a reply that does not fit.
    func writeTooLarge() -> Int {
        bytes.storeBytes(of: 0, as: UInt32.self)
        return Self.prefix
    }

    func send(_ size: Int, to descriptor: Int32) -> Int {
        Glibc.send(
            descriptor, bytes.baseAddress, size, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
    }
}
