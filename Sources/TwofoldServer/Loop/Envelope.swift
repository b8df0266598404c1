package import TwofoldCore
internal import TwofoldProtocol
package import TwofoldService
package import TwofoldSessions
package import ZeroMQ

/// The frames of a message before a request's header: the route of its reply, and an empty delimiter. A
/// ``Route`` holds an envelope as its address. Header and payload are separate, because the ledger keeps them
/// longer.
///
///     ┌───────┬───────────┬────────┬─────────┐
///     │ route │ delimiter │ header │ payload │
///     └───────┴───────────┴────────┴─────────┘
///
/// `@unchecked Sendable` because only the socket thread uses the frames.
package final class Envelope: @unchecked Sendable {
    /// The endpoint that received the message.
    package let endpoint: Int
    private var frames: Multipart

    init(_ frames: consuming Multipart, through endpoint: Int) {
        self.endpoint = endpoint
        self.frames = frames
    }

    /// Appends the reply to this message: the same route, then the reply's frames. The payload's memory is
    /// shared.
    package func append(_ reply: StoredReply, to message: inout Multipart) throws(ZeroMQError) {
        for index in 0..<frames.count { message.append(frames[index].copy()) }
        message.append(try Message(copying: reply.header))
        guard let payload = reply.payload else { return }
        message.append(try Message(adopting: payload))
    }
}

extension Frame {
    /// Takes the bytes of a message. They stay in libzmq's memory unless the message is short.
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
    /// Makes a message of a frame's bytes, which the frame's owner keeps valid.
    init(adopting frame: Frame) throws(ZeroMQError) {
        guard let owner = frame.owner else { preconditionFailure("a server's frames have owners") }
        self = try frame.withBytes { (bytes) throws(ZeroMQError) in
            try Message(adopting: UnsafeMutableRawBufferPointer(mutating: bytes), keeping: owner)
        }
    }
}

extension SessionMachine {
    /// Splits a message into the route up to the delimiter, the header and the payload. Drops a message
    /// without a delimiter. `client` returns the sender of the first frame after the delimiter, or the
    /// refusal if the sender is no longer authorised.
    package func take(
        _ message: consuming Multipart, isWhole: Bool, through endpoint: Int,
        from client: (borrowing Message) -> Result<Client, ServiceError>, at now: Moment,
        into effects: inout [Effect]
    ) {
        guard let delimiter = message.firstIndex(where: { $0.isEmpty }) else {
            statistics.received += 1
            statistics.dropped += 1
            return
        }
        let frames = message.count - delimiter - 1
        let isRequest = isWhole && (frames == 1 || frames == 2)
        let sender = isRequest ? client(message[delimiter + 1]) : .success(.anonymous)
        var message = message
        let payload = isRequest && frames == 2 ? Frame(message.removeLast()) : nil
        let header = isRequest ? Frame(message.removeLast()) : Frame()
        message.truncate(to: delimiter + 1)
        let envelope = Envelope(message, through: endpoint)
        let route = Route((try? sender.get()) ?? .anonymous, arrived: now, address: envelope)
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
