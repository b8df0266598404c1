internal import Glibc
internal import TwofoldProtocol
internal import ZeroMQ

/// The frames of one request as they came, without the route. Kept by the ledger until the session's
/// next request, to recognise repeats; libzmq's own memory, so nothing is copied.
///
/// `@unchecked Sendable` because nothing changes it after it was made: a worker reads the payload while
/// the socket thread compares it with a repeat.
final class RequestFrames: @unchecked Sendable {
    let header: Message
    let payload: Message?

    init(header: consuming Message, payload: consuming Message?) {
        self.header = header
        self.payload = payload
    }

    /// Whether the other request is this one again.
    func hasSameBytes(as other: RequestFrames) -> Bool {
        guard header == other.header else { return false }
        return withPayload { mine in
            other.withPayload { theirs in
                switch (mine, theirs) {
                case (nil, nil): true
                case (let mine?, let theirs?):
                    mine.count == theirs.count
                        && (mine.isEmpty || memcmp(mine.baseAddress!, theirs.baseAddress!, mine.count) == 0)
                default: false
                }
            }
        }
    }

    /// The header alone, in memory of its own: what libzmq received lies in a buffer of 8 KiB that a frame
    /// keeps alive as a whole, too much for a closed session that is only remembered.
    var compactHeader: RequestFrames {
        // Without memory for a few bytes the process has ended long before.
        RequestFrames(header: header.withUnsafeBytes { try! Message(copying: $0) }, payload: nil)
    }

    /// The header, nil when it is no such message.
    func decodeHeader() -> Request? {
        header.withUnsafeBytes { Request(frame: $0) }
    }

    /// Calls `body` with the payload's bytes, nil where there is no payload frame.
    func withPayload<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer?) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        switch payload {
        case .some(let payload): try payload.withUnsafeBytes { (bytes) throws(Failure) in try body(bytes) }
        case .none: try body(nil)
        }
    }
}

/// The frames of one reply without the route; sent as often as it is asked for.
///
/// Made by whoever executes the request, then handed to the socket thread, which alone sends it.
final class ReplyFrames {
    private var header: Message
    private var payload: Message?

    /// The reply as protobuf, and the buffer with its payload where it has one.
    init(_ reply: Reply, payload buffer: PayloadPool.Buffer? = nil) throws(ZeroMQError) {
        header = try Message(copying: reply.frame)
        if let buffer { payload = try Message(adopting: buffer.bytes, keeping: buffer) }
    }

    /// Adds the frames to a route, sharing their memory.
    func append(to message: inout Multipart) {
        message.append(header.copy())
        if payload != nil { message.append(payload!.copy()) }
    }
}

/// Where a reply goes: the socket that the request came through, and all frames up to and including
/// the empty delimiter.
final class Route {
    let endpoint: Int
    var frames: Multipart

    init(endpoint: Int, frames: consuming Multipart) {
        self.endpoint = endpoint
        self.frames = frames
    }
}
