internal import CZeroMQ

extension Socket {
    /// If a message has arrived, replaces the content of `parts` with its frames, and returns the message's number of
    /// frames. Otherwise empties `parts` and returns nil. Never waits.
    ///
    /// Keeps at most `maxFrames` frames, no matter how many the peer sends. Reads and drops the rest, so that the next
    /// receive starts with the next message.
    ///
    /// (libzmq receives a whole message into memory before it returns the first frame. `setMaxMessageSize` limits the
    /// size of each frame, but libzmq has no limit on the number of frames.)
    ///
    /// - Throws: The errors of `tryReceive(into:)`. After an error, `parts` is empty.
    public func tryReceive(
        into parts: inout Multipart, maxFrames: Int = 64
    ) throws(ZeroMQError) -> Int? {
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
        return frameCount
    }

    /// Sends all frames as one message if that is possible without waiting. Returns true if the message was sent;
    /// `parts` is then empty but keeps its storage. Otherwise returns false, and `parts` is unchanged.
    ///
    /// - Throws: The errors of `trySend(_:more:)`. After an error, the frames that libzmq has already taken are empty.
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
