internal import CZeroMQ

extension Socket {
    /// An event that occurs while a socket connects to a peer.
    public enum HandshakeReport: Sendable {
        /// The peer has accepted the connection. The handshake begins.
        case connected
        /// libzmq will try to connect again, because nothing accepted the connection or because the connection was
        /// lost.
        case retrying
        /// The peer uses a different protocol, or only one side encrypts.
        case mismatch
        /// The peer has refused this socket's key.
        case refusal
        /// The peer has closed the connection. Either the peer's key is not the expected one, or the peer has
        /// stopped.
        case hangup
    }

    /// Starts reporting connections and failed handshakes to the `.pair` socket `reports`, which this function
    /// connects. Without reports, libzmq silently retries failed handshakes. Call ``ignoreHandshakes()`` before
    /// either socket closes. Otherwise, libzmq waits forever for a closed socket to receive its reports.
    public func reportHandshakes(to reports: borrowing Socket) throws(ZeroMQError) {
        let endpoint = "inproc://handshakes"
        let events =
            ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
            | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
        try check("zmq_socket_monitor", on: endpoint) { zmq_socket_monitor(pointer, endpoint, events) }
        try reports.connect(endpoint)
    }

    /// Stops reporting. Does nothing if reporting has not started.
    public func ignoreHandshakes() {
        // because: it fails only if the pointer is not an open socket.
        _ = zmq_socket_monitor(pointer, nil, 0)
    }

    /// Waits for the next report from ``reportHandshakes(to:)`` and returns it. Call this on the `.pair` socket.
    public func receiveHandshakeReport() throws(ZeroMQError) -> HandshakeReport {
        // because: the first frame of a report has the event's number (16 bits) and a value; the second, the address.
        let event = try receive().withUnsafeBytes { $0.loadUnaligned(as: UInt16.self) }
        _ = try receive()
        switch Int32(event) {
        case ZMQ_EVENT_CONNECTED: return .connected
        case ZMQ_EVENT_CONNECT_RETRIED: return .retrying
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: return .mismatch
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return .refusal
        default: return .hangup
        }
    }
}
