internal import CZeroMQ

extension Socket {
    /// Accepts peers at `endpoint`: "tcp://127.0.0.1:5555", "tcp://127.0.0.1:*" (any free port, see
    /// `lastEndpoint`), "ipc:///tmp/a-path", "inproc://a-name".
    ///
    /// Beware of what libzmq accepts: an ipc path that another process is bound to is taken over
    /// without an error, and stays in the file system after the socket is closed ("ipc://*" doesn't);
    /// a TCP port above 65535 wraps round.
    ///
    /// The corresponding C function is `zmq_bind`.
    ///
    /// - Throws: `.addressInUse`, `.addressNotAvailable`, `.noSuchDevice`, `.invalidArgument` (not an
    ///   endpoint), `.protocolNotSupported` (unknown transport), `.nameTooLong`, `.terminated`.
    public func bind(_ endpoint: String) throws(ZeroMQError) {
        try check("zmq_bind", on: endpoint) { zmq_bind(pointer, endpoint) }
    }

    /// Stops accepting peers at `endpoint`, which must be spelt as `lastEndpoint` spelt it. It ends
    /// the connections of peers too, and what was not sent to them is lost.
    ///
    /// The corresponding C function is `zmq_unbind`.
    ///
    /// - Throws: `.notFound`, `.invalidArgument`, `.terminated`.
    public func unbind(_ endpoint: String) throws(ZeroMQError) {
        try check("zmq_unbind", on: endpoint) { zmq_unbind(pointer, endpoint) }
    }

    /// Starts connecting to `endpoint`, in the background and for as long as it takes: that nobody
    /// listens there is no error.
    ///
    /// The corresponding C function is `zmq_connect`.
    ///
    /// - Throws: `.invalidArgument` (not an endpoint), `.protocolNotSupported`, `.noIOThread`,
    ///   `.terminated`.
    public func connect(_ endpoint: String) throws(ZeroMQError) {
        try check("zmq_connect", on: endpoint) { zmq_connect(pointer, endpoint) }
    }

    /// Ends the connection to `endpoint`; what has not been sent yet is dropped after `linger`.
    ///
    /// The corresponding C function is `zmq_disconnect`.
    ///
    /// - Throws: `.notFound`, `.invalidArgument`, `.terminated`.
    public func disconnect(_ endpoint: String) throws(ZeroMQError) {
        try check("zmq_disconnect", on: endpoint) { zmq_disconnect(pointer, endpoint) }
    }

    /// The endpoint of the last bind or connect, with the real port in place of a wildcard; empty
    /// before the first.
    ///
    /// The corresponding C function is `zmq_getsockopt` with `ZMQ_LAST_ENDPOINT`.
    public var lastEndpoint: String {
        get throws(ZeroMQError) {
            // because: an ipc or tcp endpoint is far below 4096 bytes; libzmq refuses with EINVAL
            // rather than write past the end, and ends what it writes with a zero.
            try withOptionBytes(ZMQ_LAST_ENDPOINT, name: "ZMQ_LAST_ENDPOINT", capacity: 4096) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
        }
    }
}
