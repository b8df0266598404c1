internal import CZeroMQ

/// A number that can be set on a socket, with the Swift type of its value.
///
/// ```swift
/// try socket.set(.linger, to: .seconds(1))        // a Duration?, nil for "forever"
/// try socket.set(.sendHighWaterMark, to: 100)     // an Int
/// ```
///
/// The options by what they take: see the extensions. Set them before bind or connect: most apply to
/// later ones only.
public struct SocketOption<Value>: Sendable {
    let code: CInt
    /// The name in zmq.h, for errors.
    let name: String
    /// How wide libzmq wants the number.
    let width: Width
    let encode: @Sendable (Value) -> Int64
    let decode: @Sendable (Int64) -> Value

    enum Width: Sendable { case int32, int64 }
}

extension SocketOption where Value == Duration? {
    private init(_ code: CInt, _ name: String) {
        // because: libzmq's "forever" is -1.
        self.init(
            code: code, name: name, width: .int32,
            encode: { duration in
                guard let duration else { return -1 }
                precondition(duration >= .zero, "a negative time")
                return duration.millisecondsRoundedUp
            },
            decode: { $0 < 0 ? nil : .milliseconds($0) })
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

extension SocketOption where Value == Duration {
    private init(_ code: CInt, _ name: String) {
        self.init(
            code: code, name: name, width: .int32,
            encode: { duration in
                precondition(duration >= .zero, "a negative time")
                return duration.millisecondsRoundedUp
            },
            decode: { .milliseconds($0) })
    }

    /// How long a peer may take to shake hands; zero: as long as it likes. 30 s by default.
    /// (`ZMQ_HANDSHAKE_IVL`)
    public static var handshakeInterval: Self { Self(ZMQ_HANDSHAKE_IVL, "ZMQ_HANDSHAKE_IVL") }

    /// How often to ping a peer; zero, the default: never. (`ZMQ_HEARTBEAT_IVL`)
    public static var heartbeatInterval: Self { Self(ZMQ_HEARTBEAT_IVL, "ZMQ_HEARTBEAT_IVL") }

    /// How long after a ping a silent peer is disconnected. libzmq's getter says -1 for "as the
    /// interval", its default. (`ZMQ_HEARTBEAT_TIMEOUT`)
    public static var heartbeatTimeout: Self { Self(ZMQ_HEARTBEAT_TIMEOUT, "ZMQ_HEARTBEAT_TIMEOUT") }

    /// What a ping asks of the peer: to disconnect us if we are silent for that long. In steps of
    /// 100 ms, at most 6,553 s. (`ZMQ_HEARTBEAT_TTL`)
    public static var heartbeatTimeToLive: Self { Self(ZMQ_HEARTBEAT_TTL, "ZMQ_HEARTBEAT_TTL") }

    /// The first pause before a lost connection is tried again. 100 ms by default.
    /// (`ZMQ_RECONNECT_IVL`)
    public static var reconnectInterval: Self { Self(ZMQ_RECONNECT_IVL, "ZMQ_RECONNECT_IVL") }
}

extension SocketOption where Value == Int {
    private init(_ code: CInt, _ name: String) {
        self.init(code: code, name: name, width: .int32, encode: { Int64($0) }, decode: { Int($0) })
    }

    /// How many messages to queue for a peer before sending to it would block; 0: no limit. 1000 by
    /// default. A multipart message counts once. (`ZMQ_SNDHWM`)
    public static var sendHighWaterMark: Self { Self(ZMQ_SNDHWM, "ZMQ_SNDHWM") }

    /// How many messages to queue from a peer; 0: no limit. 1000 by default. (`ZMQ_RCVHWM`)
    public static var receiveHighWaterMark: Self { Self(ZMQ_RCVHWM, "ZMQ_RCVHWM") }

    /// How many connections may wait to be accepted. (`ZMQ_BACKLOG`)
    public static var backlog: Self { Self(ZMQ_BACKLOG, "ZMQ_BACKLOG") }

    /// The kernel's send buffer in bytes; -1: its own default. (`ZMQ_SNDBUF`)
    public static var sendBuffer: Self { Self(ZMQ_SNDBUF, "ZMQ_SNDBUF") }

    /// The kernel's receive buffer in bytes; -1: its own default. (`ZMQ_RCVBUF`)
    public static var receiveBuffer: Self { Self(ZMQ_RCVBUF, "ZMQ_RCVBUF") }
}

extension SocketOption where Value == Int64? {
    /// The largest *frame* in bytes that is taken from a peer; whoever sends a larger one is
    /// disconnected without a word. nil, the default: no limit. It says nothing about how many frames
    /// a message has. (`ZMQ_MAXMSGSIZE`)
    public static var maxMessageSize: Self {
        Self(
            code: ZMQ_MAXMSGSIZE, name: "ZMQ_MAXMSGSIZE", width: .int64,
            encode: { size in
                precondition(size ?? 0 >= 0, "a negative size")
                return size ?? -1
            },
            decode: { $0 < 0 ? nil : $0 })
    }
}

extension SocketOption where Value == Bool {
    private init(_ code: CInt, _ name: String) {
        self.init(code: code, name: name, width: .int32, encode: { $0 ? 1 : 0 }, decode: { $0 != 0 })
    }

    /// Whether a ROUTER throws `.hostUnreachable` for a peer that it doesn't know, and blocks (or says
    /// "not now") for one whose queue is full, instead of dropping the message. Can't be read.
    /// (`ZMQ_ROUTER_MANDATORY`)
    public static var routerMandatory: Self { Self(ZMQ_ROUTER_MANDATORY, "ZMQ_ROUTER_MANDATORY") }

    /// Whether a new peer takes over the routing id of an old one, instead of being ignored. Can't be
    /// read. (`ZMQ_ROUTER_HANDOVER`)
    public static var routerHandover: Self { Self(ZMQ_ROUTER_HANDOVER, "ZMQ_ROUTER_HANDOVER") }

    /// Whether a REQ puts a number before each request and drops replies that don't bring it back.
    /// Can't be read. (`ZMQ_REQ_CORRELATE`)
    public static var reqCorrelate: Self { Self(ZMQ_REQ_CORRELATE, "ZMQ_REQ_CORRELATE") }

    /// Whether a REQ may send again before it has received. Can't be read. (`ZMQ_REQ_RELAXED`)
    public static var reqRelaxed: Self { Self(ZMQ_REQ_RELAXED, "ZMQ_REQ_RELAXED") }

    /// Whether messages are queued for completed connections only. (`ZMQ_IMMEDIATE`)
    public static var immediate: Self { Self(ZMQ_IMMEDIATE, "ZMQ_IMMEDIATE") }

    /// Whether IPv6 addresses work, besides IPv4. (`ZMQ_IPV6`)
    public static var ipv6: Self { Self(ZMQ_IPV6, "ZMQ_IPV6") }
}

extension SocketOption where Value == Bool? {
    /// Whether the kernel probes idle TCP connections; nil, the default: as the system does.
    /// (`ZMQ_TCP_KEEPALIVE`)
    public static var tcpKeepalive: Self {
        Self(
            code: ZMQ_TCP_KEEPALIVE, name: "ZMQ_TCP_KEEPALIVE", width: .int32,
            encode: { $0.map { $0 ? 1 : 0 } ?? -1 },
            decode: { $0 < 0 ? nil : $0 != 0 })
    }
}

extension SocketOption where Value == Int? {
    private init(_ code: CInt, _ name: String) {
        self.init(
            code: code, name: name, width: .int32,
            encode: { number in
                precondition(number ?? 0 >= 0, "a negative number")
                return Int64(number ?? -1)
            },
            decode: { $0 < 0 ? nil : Int($0) })
    }

    /// How many probes go unanswered before a connection is dead; nil: as the system does.
    /// (`ZMQ_TCP_KEEPALIVE_CNT`)
    public static var tcpKeepaliveCount: Self { Self(ZMQ_TCP_KEEPALIVE_CNT, "ZMQ_TCP_KEEPALIVE_CNT") }

    /// After how many idle seconds to start probing; nil: as the system does.
    /// (`ZMQ_TCP_KEEPALIVE_IDLE`)
    public static var tcpKeepaliveIdle: Self { Self(ZMQ_TCP_KEEPALIVE_IDLE, "ZMQ_TCP_KEEPALIVE_IDLE") }

    /// How many seconds between probes; nil: as the system does. (`ZMQ_TCP_KEEPALIVE_INTVL`)
    public static var tcpKeepaliveInterval: Self { Self(ZMQ_TCP_KEEPALIVE_INTVL, "ZMQ_TCP_KEEPALIVE_INTVL") }
}
