internal import CZeroMQ

/// How the receiving of a multipart message ended.
public enum Reception: Hashable, Sendable {
    /// All frames are there.
    case complete
    /// There were `frameCount` frames, more than allowed: the first ones are there, the rest have been
    /// read and dropped, and the next receive starts with the next message.
    case overlong(frameCount: Int)
}

extension Socket {
    /// Receives all frames of a message, which replace what `parts` had, if one is there; nil: nothing now, and
    /// `parts` is empty. Keeps at most `maxFrames`, whatever the peer sent.
    ///
    /// (libzmq itself holds a whole message before it hands out the first frame, and has no limit for
    /// the number of frames: nothing on this side of it can save that memory. `maxMessageSize` limits
    /// each frame.)
    ///
    /// - Throws: as `tryReceive(into:)`; `parts` is empty then.
    public func tryReceive(
        into parts: inout Multipart, maxFrames: Int = 64
    ) throws(ZeroMQError) -> Reception? {
        precondition(maxFrames > 0, "room for no frame")
        parts.removeAll()
        var first = Message()
        guard try tryReceive(into: &first) else { return nil }
        var more = first.hasMore
        parts.append(first)
        var frameCount = 1
        do throws(ZeroMQError) {
            // Never waits: libzmq hands out a first frame only when it has the last.
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

    /// Sends all frames as one message if that needs no waiting: true, and `parts` is empty, its
    /// storage kept. False: not now, and `parts` is as it was.
    ///
    /// - Throws: as `trySend(_:more:)`; after `.terminated`, frames already taken are empty.
    public func trySend(_ parts: inout Multipart) throws(ZeroMQError) -> Bool {
        precondition(parts.count > 0, "a message has at least one frame")
        guard try trySend(&parts[0], more: parts.count > 1) else { return false }
        // Once the first frame is taken the others don't wait: the limit counts messages, not frames, and
        // when the peer goes away in between, libzmq drops the rest.
        for index in 1..<parts.count {
            let flags = index + 1 < parts.count ? ZMQ_SNDMORE : 0
            try check("zmq_msg_send") { zmq_msg_send(&parts[index].raw, pointer, flags) }
        }
        parts.removeAll()
        return true
    }
}
