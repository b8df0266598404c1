internal import CZeroMQ

/// The result of receiving a multipart message.
public enum Reception: Hashable, Sendable {
    /// All frames were received.
    case complete
    /// The message had `frameCount` frames, more than allowed. The first ones are kept, the others were read
    /// and dropped. The next receive starts with the next message.
    case overlong(frameCount: Int)
}

extension Socket {
    /// Receives all frames of a message, which replace the content of `parts`, if a message has arrived.
    /// Otherwise returns nil, and `parts` is empty. Keeps at most `maxFrames` frames, however many the peer
    /// sends.
    ///
    /// (libzmq receives a whole message into memory before it returns the first frame. `maxMessageSize` limits the
    /// size of each frame, but libzmq does not limit their number.)
    ///
    /// - Throws: The errors of `tryReceive(into:)`; `parts` is empty then.
    public func tryReceive(
        into parts: inout Multipart, maxFrames: Int = 64
    ) throws(ZeroMQError) -> Reception? {
        precondition(maxFrames > 0, "maxFrames must be at least 1")
        parts.removeAll()
        var first = Message()
        guard try tryReceive(into: &first) else { return nil }
        var more = first.hasMore
        parts.append(first)
        var frameCount = 1
        do throws(ZeroMQError) {
            // Never waits: libzmq returns the first frame only after it has received the last.
            while more {
                var frame = Message()
                try receive(into: &frame)
                more = frame.hasMore
                frameCount += 1
                if frameCount <= maxFrames { parts.append(frame) }
            }
        } catch {
            parts.removeAll()
            throw error
        }
        return frameCount <= maxFrames ? .complete : .overlong(frameCount: frameCount)
    }

    /// Sends all frames as one message unless it would have to wait. Returns true if it was sent; `parts` is then
    /// empty and keeps its storage. Otherwise returns false, and `parts` is unchanged.
    ///
    /// - Throws: The errors of `trySend(_:more:)`. After `.terminated`, the frames already taken are empty.
    public func trySend(_ parts: inout Multipart) throws(ZeroMQError) -> Bool {
        precondition(parts.count > 0, "a message has at least one frame")
        guard try trySend(&parts[0], more: parts.count > 1) else { return false }
        // After libzmq takes the first frame, the others never wait: the limit counts messages, not frames.
        // If the peer disconnects in between, libzmq drops the rest.
        for index in 1..<parts.count {
            let flags = index + 1 < parts.count ? ZMQ_SNDMORE : 0
            try check("zmq_msg_send") { zmq_msg_send(&parts[index].raw, pointer, flags) }
        }
        parts.removeAll()
        return true
    }
}
