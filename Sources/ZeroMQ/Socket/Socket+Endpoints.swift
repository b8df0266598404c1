internal import CZeroMQ

extension Socket {
    /// Starts accepting peers at `endpoint`: "tcp://127.0.0.1:5555", "tcp://127.0.0.1:*" (any free port, see
    /// `lastEndpoint`), "ipc:///tmp/a-path" or "inproc://a-name".
    ///
    /// libzmq does not detect some mistakes. It silently takes over an ipc path to which another process is bound.
    /// The path's file stays after the socket is closed, except for "ipc://*". A TCP port above 65535 wraps around.
    ///
    /// - Throws: EADDRINUSE, EADDRNOTAVAIL, ENODEV (no such network interface), EPROTONOSUPPORT (unknown
    ///   transport), ENAMETOOLONG, EINVAL (not an endpoint).
    public func bind(_ endpoint: String) throws(ZeroMQError) {
        try check("zmq_bind", on: endpoint) { zmq_bind(pointer, endpoint) }
    }

    /// Starts to connect to `endpoint` in the background. libzmq retries until it succeeds, so it is not an error
    /// if nothing listens there yet.
    ///
    /// - Throws: EPROTONOSUPPORT (unknown transport), EINVAL (not an endpoint).
    public func connect(_ endpoint: String) throws(ZeroMQError) {
        try check("zmq_connect", on: endpoint) { zmq_connect(pointer, endpoint) }
    }

    /// The endpoint of the last bind or connect, with the actual port instead of a wildcard; empty before the first
    /// call.
    public var lastEndpoint: String {
        get throws(ZeroMQError) {
            // because: an ipc or tcp endpoint is far shorter than 4096 bytes. libzmq returns EINVAL instead
            // of writing past the end, and terminates its text with a zero.
            let capacity = 4096
            return try withText(capacity: capacity) { (text) throws(ZeroMQError) in
                var size = capacity
                try check("zmq_getsockopt", on: "ZMQ_LAST_ENDPOINT") {
                    zmq_getsockopt(pointer, ZMQ_LAST_ENDPOINT, text, &size)
                }
                return String(cString: text)
            }
        }
    }
}
