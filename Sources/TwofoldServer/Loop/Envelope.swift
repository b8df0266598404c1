package import TwofoldCore
package import TwofoldProtocol
internal import TwofoldService
package import TwofoldSessions
package import ZeroMQ

/// The first frames of a request's message, which the reply must repeat: the client's route and an empty delimiter.
/// A ``Route`` stores an envelope as its address. The header and payload are not part of the envelope, because the
/// ledger keeps them longer.
///
///     ┌───────┬───────────┬────────┬─────────┐
///     │ route │ delimiter │ header │ payload │
///     └───────┴───────────┴────────┴─────────┘
package final class Envelope {
    /// The index of the endpoint that received the message.
    package let endpoint: Int
    private var frames: Multipart

    init(_ frames: consuming Multipart, through endpoint: Int) {
        self.endpoint = endpoint
        self.frames = frames
    }

    /// Appends a complete reply to `message`: the envelope's frames, then the reply's header and payload. Shares
    /// the payload's memory instead of copying it.
    package func append(_ reply: StoredReply, to message: inout Multipart) throws(ZeroMQError) {
        for index in 0..<frames.count { message.append(frames[index].copy()) }
        message.append(try Message(copying: reply.header))
        guard let payload = reply.payload else { return }
        message.append(try Message(adopting: payload))
    }
}

extension Frame {
    /// Takes over the bytes of a message. Copies a short message; the bytes of a longer one stay in libzmq's
    /// memory.
    init(_ message: consuming Message) {
        // because: the bytes of a short message may lie in the message itself, so their address is valid only
        // during a call.
        if message.size <= MemoryLayout<Message>.size {
            self = message.withUnsafeBytes { Frame(copying: $0) }
        } else {
            let owner = Received(message)
            self = owner.message.withUnsafeBytes { Frame($0, of: owner) }
        }
    }

    private final class Received: Sendable {
        let message: Message

        init(_ message: consuming Message) { self.message = message }
    }
}

extension Message {
    /// Creates a message from a frame's bytes without copying them. The message keeps the frame's owner alive.
    init(adopting frame: Frame) throws(ZeroMQError) {
        guard let owner = frame.owner else { preconditionFailure("a sent frame must have an owner") }
        self = try frame.withBytes { (bytes) throws(ZeroMQError) in
            try Message(adopting: UnsafeMutableRawBufferPointer(mutating: bytes), keeping: owner)
        }
    }
}

extension SessionMachine {
    /// Handles a received message. Splits it into the envelope, the header and the payload. Drops a message without
    /// a delimiter. `client` returns the sender of the first frame after the delimiter, or the refusal if the
    /// sender is no longer authorised.
    package func take(
        _ message: consuming Multipart, isWhole: Bool, through endpoint: Int,
        from client: (borrowing Message) -> Result<String?, ServiceError>, at now: Moment,
        into effects: inout [Effect]
    ) {
        guard let delimiter = message.firstIndex(where: { $0.isEmpty }) else {
            statistics.counters.received += 1
            statistics.counters.dropped += 1
            return
        }
        let frames = message.count - delimiter - 1
        let isRequest = isWhole && (frames == 1 || frames == 2)
        let sender = isRequest ? client(message[delimiter + 1]) : .success(nil)
        var message = message
        let payload = isRequest && frames == 2 ? Frame(message.removeLast()) : nil
        let header = isRequest ? Frame(message.removeLast()) : Frame()
        message.truncate(to: delimiter + 1)
        let envelope = Envelope(message, through: endpoint)
        let route = Route(try? sender.get(), arrived: now, address: envelope)
        guard isRequest else {
            let count = isWhole ? "\(frames)" : "too many"
            let error = ServiceError(
                .invalidArgument, field: "frames",
                "\(count) frames after the delimiter; a request has one, or two with a payload")
            return refuseUnread(error, to: route, into: &effects)
        }
        if case .failure(let refusal) = sender { return refuseUnread(refusal, to: route, into: &effects) }
        take(header: header, payload: payload, from: route, into: &effects)
    }
}
