internal import CZeroMQ

/// A number that can be set on a socket, with the Swift type of its value.
///
/// ```swift
/// try socket.set(.linger, to: .seconds(1))          // a Duration?, nil for "forever"
/// try socket.set(.maxMessageSize, to: 1 << 20)      // an Int64?, nil for "no limit"
/// ```
///
/// Set them before bind or connect: most apply to later ones only.
public struct SocketOption<Value>: Sendable {
    let code: CInt
    /// The name in zmq.h, for errors.
    let name: String
    /// How wide libzmq wants the number.
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

    /// How long a closed socket's unsent messages live on; nil: until they are sent, which can hang
    /// the process's end. Zero in our contexts. (`ZMQ_LINGER`)
    public static var linger: Self { Self(ZMQ_LINGER, "ZMQ_LINGER") }

    /// How long a receive waits before it throws `.wouldBlock`; nil, the default: for ever. A signal
    /// starts the time anew: for a deadline that holds, poll. (`ZMQ_RCVTIMEO`)
    public static var receiveTimeout: Self { Self(ZMQ_RCVTIMEO, "ZMQ_RCVTIMEO") }

    /// How long a send waits before it throws `.wouldBlock`; nil, the default: for ever. A signal
    /// starts the time anew. (`ZMQ_SNDTIMEO`)
    public static var sendTimeout: Self { Self(ZMQ_SNDTIMEO, "ZMQ_SNDTIMEO") }
}

extension SocketOption where Value == Int64? {
    /// The largest *frame* in bytes that is taken from a peer; a peer that sends a larger one is
    /// disconnected without a word. nil, the default: no limit. It says nothing about how many frames
    /// a message has. (`ZMQ_MAXMSGSIZE`)
    public static var maxMessageSize: Self {
        Self(code: ZMQ_MAXMSGSIZE, name: "ZMQ_MAXMSGSIZE", width: .int64) { size in
            precondition(size ?? 0 >= 0, "a negative size")
            return size ?? -1
        }
    }
}

extension SocketOption where Value == Int {
    /// The most messages of one peer that wait until they are received, whatever their number of frames. Beyond it
    /// libzmq stops reading from that peer. 1000 by default. (`ZMQ_RCVHWM`)
    public static var receiveHighWaterMark: Self {
        Self(code: ZMQ_RCVHWM, name: "ZMQ_RCVHWM", width: .int32) { mark in
            precondition(mark > 0, "libzmq takes 0 for no limit")
            return Int64(mark)
        }
    }
}

extension SocketOption where Value == Bool {
    /// Whether a REQ puts a number before each request and drops replies that don't bring it back, as
    /// our clients do. (`ZMQ_REQ_CORRELATE`)
    public static var reqCorrelate: Self {
        Self(code: ZMQ_REQ_CORRELATE, name: "ZMQ_REQ_CORRELATE", width: .int32) { $0 ? 1 : 0 }
    }
}
