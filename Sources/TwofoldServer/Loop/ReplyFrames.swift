internal import FoundationEssentials
internal import TwofoldProtocol
internal import TwofoldSessions
package import ZeroMQ

/// The frames of one reply without the route; sent as often as it is asked for.
///
/// Made by the thread that carries the request out, then handed to the socket thread, which alone sends it.
package final class ReplyFrames {
    private var header: Message
    private var payload: Message?

    /// The reply as protobuf, and its payload where it has one.
    init(_ reply: Reply, payload: EnvironmentHost.Payload? = nil) throws(ZeroMQError) {
        if let payload { self.payload = try Message(adopting: payload.bytes, keeping: payload.buffer) }
        header = try Message(copying: reply.frame)
    }

    /// The header of a step's reply without finals, which is the same but for its seq:
    ///
    ///     0     1       9        12
    ///     ┌─────┬───────┬────────┐
    ///     │ tag │ seq   │ step   │
    ///     └─────┴───────┴────────┘
    private static let stepHeader: [UInt8] = {
        var reply = Reply()
        reply.seq = 1
        reply.step = .init()
        return reply.frame
    }()

    /// The reply to a step in which no episode kept its final observation.
    init(toStep seq: UInt64, payload: EnvironmentHost.Payload?) throws(ZeroMQError) {
        if let payload { self.payload = try Message(adopting: payload.bytes, keeping: payload.buffer) }
        var frame = Self.stepHeader
        withUnsafeBytes(of: seq.littleEndian) { frame.replaceSubrange(1..<9, with: $0) }
        header = try Message(copying: frame)
    }

    /// The frames, to be saved.
    var saved: SavedFrames {
        var saved = SavedFrames()
        saved.header = header.withUnsafeBytes { Data($0) }
        if payload != nil { saved.payload = payload!.withUnsafeBytes { Data($0) } }
        return saved
    }

    /// Frames that were saved; the payload is copied to `pool`.
    init(_ saved: SavedFrames, _ pool: PayloadPool) throws {
        header = try Message(copying: saved.header.bytes)
        guard saved.hasPayload else { return }
        let buffer = try pool.take(size: saved.payload.count)
        saved.payload.withUnsafeBytes { buffer.bytes.copyMemory(from: $0) }
        payload = try Message(adopting: buffer.bytes, keeping: buffer)
    }

    /// The answer to a resume: it carries this reply again, whose payload it shares.
    func resumed(_ resume: ResumeReply, seq: UInt64) throws(ZeroMQError) -> ReplyFrames {
        var resume = resume
        resume.lastReply = header.withUnsafeBytes { Data($0) }
        var reply = Reply()
        reply.seq = seq
        reply.resume = resume
        let frames = try ReplyFrames(reply)
        if payload != nil { frames.payload = payload!.copy() }
        return frames
    }

    /// Adds the frames to a route, sharing their memory.
    package func append(to message: inout Multipart) {
        message.append(header.copy())
        if payload != nil { message.append(payload!.copy()) }
    }
}
