import Platform
import Synchronization
import Testing
import ZeroMQ

/// A timeout that only a defect exceeds. Instead of hanging, a test then fails with EAGAIN.
let patience = Duration.seconds(300)

/// The maximum time by which libzmq may end a wait too early, because it counts whole milliseconds.
let slack = Duration.milliseconds(5)

/// libzmq's number for EFSM: the call is not allowed in the socket's current state.
let wrongState: CInt = 156_384_763

private let lastNumber = Atomic(0)

/// Returns an inproc name that is unique in this process.
func uniqueInproc() -> String { "inproc://test-\(lastNumber.add(1, ordering: .relaxed).newValue)" }

/// An endpoint where nothing listens.
let nowhere = "ipc:///tmp/zeromq-tests/no/such/directory"

/// The transports on which tests run.
enum Transport: CaseIterable {
    case inproc, ipc, tcp

    var wildcard: String {
        switch self {
        case .inproc: uniqueInproc()
        case .ipc: "ipc://*"  // libzmq chooses the path, and removes it
        case .tcp: "tcp://127.0.0.1:*"
        }
    }
}

extension Socket {
    /// Creates a socket with a timeout of `patience`.
    static func patient(_ kind: Kind, in context: Context) throws(ZeroMQError) -> Socket {
        let socket = try Socket(kind, in: context)
        try socket.setReceiveTimeout(patience)
        try socket.setSendTimeout(patience)
        return socket
    }

    /// Creates a patient socket bound to `endpoint`.
    static func bound(
        _ kind: Kind, to endpoint: String, in context: Context
    ) throws(ZeroMQError) -> Socket {
        let socket = try patient(kind, in: context)
        try socket.bind(endpoint)
        return socket
    }

    /// Creates a patient socket connected to `endpoint`.
    static func connected(
        _ kind: Kind, to endpoint: String, in context: Context
    ) throws(ZeroMQError) -> Socket {
        let socket = try patient(kind, in: context)
        try socket.connect(endpoint)
        return socket
    }

    func send(_ text: String) throws(ZeroMQError) {
        try send(Message(text))
    }

    /// Receives the next frame; returns nil if none has arrived.
    func tryReceive() throws(ZeroMQError) -> Message? {
        var message = Message()
        guard try tryReceive(into: &message) else { return nil }
        return message
    }

    /// Waits for the next message and receives it. Returns its number of frames.
    func receive(into parts: inout Multipart, maxFrames: Int = 64) throws(ZeroMQError) -> Int {
        var poller = Poller()
        _ = poller.add(self)
        while try poller.wait(timeout: patience) > 0 {
            if let count = try tryReceive(into: &parts, maxFrames: maxFrames) { return count }
        }
        throw ZeroMQError(code: EAGAIN, operation: "zmq_poll")
    }

    /// Waits until the socket has room for a message, and sends all frames.
    func send(_ parts: consuming Multipart) throws(ZeroMQError) {
        let deadline = ContinuousClock.now + patience
        while try !trySend(&parts) {
            guard ContinuousClock.now < deadline else {
                throw ZeroMQError(code: EAGAIN, operation: "zmq_msg_send")
            }
            usleep(1000)
        }
    }

    func send(_ frames: [String]) throws(ZeroMQError) {
        try send(Multipart(frames))
    }

    func receiveText() throws(ZeroMQError) -> String {
        try receive().text
    }

    func receiveTexts() throws(ZeroMQError) -> [String] {
        var parts = Multipart()
        _ = try receive(into: &parts)
        return parts.texts
    }
}

extension Message {
    init(_ text: String) throws(ZeroMQError) {
        try self.init(copying: Array(text.utf8))
    }

    var bytes: [UInt8] { withUnsafeBytes { Array($0) } }

    var text: String { withUnsafeBytes { String(decoding: $0, as: UTF8.self) } }

    /// The address of the bytes as a number, for comparisons only.
    var address: UInt? { withUnsafeBytes { $0.baseAddress.map { UInt(bitPattern: $0) } } }
}

extension Multipart {
    init(_ frames: [String]) throws(ZeroMQError) {
        self.init()
        for frame in frames { append(try Message(frame)) }
    }

    var texts: [String] {
        // because: Swift 6.2 ends with an internal error where `self[index].text` borrows `self`.
        var texts: [String] = []
        _ = firstIndex {
            texts.append($0.text)
            return false
        }
        return texts
    }
}

/// Returns the error that `body` throws; nil if it throws none.
func failure(of body: () throws(ZeroMQError) -> Void) -> ZeroMQError? {
    do throws(ZeroMQError) {
        try body()
        return nil
    } catch {
        return error
    }
}

/// Checks `condition` repeatedly until it holds. Returns false if it does not hold within `patience`.
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = ContinuousClock.now + patience
    while try !condition() {
        if ContinuousClock.now > deadline { return false }
        usleep(1000)
    }
    return true
}

/// A counter that all threads may use.
final class Counter: Sendable {
    private let count = Atomic(0)

    var value: Int { count.load(ordering: .acquiring) }

    func increment() { count.add(1, ordering: .acquiringAndReleasing) }
}

/// A heap buffer with a known pattern. It counts how often it was released.
///
/// `Sendable` is unchecked: only the initialiser writes the bytes, before another thread can read them.
final class Buffer: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer
    let releases = Counter()

    init(size: Int) {
        bytes = .allocate(byteCount: size, alignment: 8)
        for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: index &* 7 &+ 1) }
    }

    deinit { bytes.deallocate() }

    var address: UInt? { bytes.baseAddress.map { UInt(bitPattern: $0) } }

    /// Returns a message that adopts these bytes without copying them.
    func message() throws(ZeroMQError) -> Message {
        try Message(adopting: bytes, keeping: AtTheEnd { self.releases.increment() })
    }
}

/// An object whose deinitialiser calls a function.
final class AtTheEnd: Sendable {
    private let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    deinit { body() }
}

/// Returns true if the process of an exit test failed the precondition with this text.
///
/// An optimised build omits the texts, so there the result only shows that the process failed.
func died(_ result: ExitTest.Result?, saying text: String) -> Bool {
    guard let result else { return false }
    #if DEBUG
    return String(decoding: result.standardErrorContent, as: UTF8.self).contains(text)
    #else
    return result.exitStatus != .exitCode(EXIT_SUCCESS)
    #endif
}
