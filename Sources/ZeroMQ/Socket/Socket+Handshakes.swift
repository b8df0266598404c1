internal import CZeroMQ

extension Socket {
    /// A step on the way to a connection.
    public enum HandshakeReport: Sendable {
        /// The peer has accepted the connection; the handshake begins.
        case connected
        /// libzmq will try to connect again: nothing accepts the connection, or it was lost.
        case retrying
        /// The peer speaks another protocol, or only one side encrypts.
        case mismatch
        /// The peer refuses the key.
        case refusal
        /// The peer has closed the connection: it has another key than expected, or it has ended.
        case hangup
    }

    /// Starts to report connections and failed handshakes to a `.pair` socket, which this function connects.
    /// Without reports, libzmq silently repeats failed handshakes. Call ``ignoreHandshakes()`` before either
    /// socket closes: libzmq waits forever for a closed socket to receive its reports.
    ///
    /// The corresponding C function is `zmq_socket_monitor`.
    public func reportHandshakes(to reports: borrowing Socket) throws(ZeroMQError) {
        let endpoint = "inproc://handshakes"
        let events =
            ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
            | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
        try check("zmq_socket_monitor", on: endpoint) { zmq_socket_monitor(pointer, endpoint, events) }
        try reports.connect(endpoint)
    }

    /// Stops the reports. Safe to call if there are none.
    public func ignoreHandshakes() {
        // because: it fails only if the pointer is not an open socket, or the context has ended.
        _ = zmq_socket_monitor(pointer, nil, 0)
    }

    /// Receives the next report of ``reportHandshakes(to:)`` on a `.pair` socket; waits until one arrives.
    public func receiveHandshakeReport() throws(ZeroMQError) -> HandshakeReport {
        // because: a report is a frame with the event's number (16 bits) and a value, then one with the address.
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
