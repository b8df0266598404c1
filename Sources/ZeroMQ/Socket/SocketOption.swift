internal import CZeroMQ

/// A numeric socket option, with the Swift type of its value.
///
/// ```swift
/// try socket.set(.linger, to: .seconds(1))          // a Duration?, nil for "forever"
/// try socket.set(.maxMessageSize, to: 1 << 20)      // an Int64?, nil for "no limit"
/// ```
///
/// Set options before bind or connect: most do not affect existing connections.
public struct SocketOption<Value>: Sendable {
    let code: CInt
    /// The option's name in zmq.h, used in error messages.
    let name: String
    /// The width of the integer that libzmq expects.
    let width: Width
    let encode: @Sendable (Value) -> Int64

    enum Width: Sendable { case int32, int64 }
}

extension SocketOption where Value == Duration? {
    private init(_ code: CInt, _ name: String) {
        // because: libzmq's "forever" is -1.
        self.init(code: code, name: name, width: .int32) { duration in
            guard let duration else { return -1 }
            precondition(duration >= .zero, "a negative time")
            return duration.millisecondsRoundedUp
        }
    }

    /// The time for which a closed socket keeps trying to send its messages. The default in this library's contexts is
    /// zero. With nil, the socket waits until all messages are sent, so the process may never end. (`ZMQ_LINGER`)
    public static var linger: Self { Self(ZMQ_LINGER, "ZMQ_LINGER") }

    /// The time after which a receive throws `.wouldBlock`; nil, the default, means never. A signal restarts the
    /// timeout. For a hard deadline, use a ``Poller``. (`ZMQ_RCVTIMEO`)
    public static var receiveTimeout: Self { Self(ZMQ_RCVTIMEO, "ZMQ_RCVTIMEO") }

    /// The time after which a send throws `.wouldBlock`; nil, the default, means never. A signal restarts the timeout.
    /// (`ZMQ_SNDTIMEO`)
    public static var sendTimeout: Self { Self(ZMQ_SNDTIMEO, "ZMQ_SNDTIMEO") }
}

extension SocketOption where Value == Int64? {
    /// The maximum size of one *frame* in bytes; nil, the default, means no limit. libzmq silently disconnects a
    /// peer that sends a larger frame. There is no limit on the number of frames in a message. (`ZMQ_MAXMSGSIZE`)
    public static var maxMessageSize: Self {
        Self(code: ZMQ_MAXMSGSIZE, name: "ZMQ_MAXMSGSIZE", width: .int64) { size in
            precondition(size ?? 0 >= 0, "a negative size")
            return size ?? -1
        }
    }
}

extension SocketOption where Value == Int {
    /// The maximum number of messages from one peer that may wait to be received; 1000 by default. At this limit,
    /// libzmq stops reading from the peer. (`ZMQ_RCVHWM`)
    public static var receiveHighWaterMark: Self {
        Self(code: ZMQ_RCVHWM, name: "ZMQ_RCVHWM", width: .int32) { mark in
            precondition(mark > 0, "the limit must be at least 1: libzmq reads 0 as no limit")
            return Int64(mark)
        }
    }
}

extension SocketOption where Value == Bool {
    /// Whether a REQ socket adds a number to each request and drops replies with a different number. Twofold's
    /// clients enable it. (`ZMQ_REQ_CORRELATE`)
    public static var reqCorrelate: Self {
        Self(code: ZMQ_REQ_CORRELATE, name: "ZMQ_REQ_CORRELATE", width: .int32) { $0 ? 1 : 0 }
    }
}
