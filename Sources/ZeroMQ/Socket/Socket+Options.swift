internal import CZeroMQ
internal import Platform

// Set options before bind or connect: most do not affect existing connections. These functions throw EINVAL if the
// value is out of range or this kind of socket does not have the option.

extension Socket {
    /// Sets the time for which the closed socket keeps trying to send its messages. The default in this library's
    /// contexts is zero. (`ZMQ_LINGER`)
    public func setLinger(_ time: Duration) throws(ZeroMQError) {
        try setTime(ZMQ_LINGER, name: "ZMQ_LINGER", to: time)
    }

    /// Sets the time after which a receive throws EAGAIN; by default, never. A signal restarts the timeout. For a hard
    /// deadline, use a ``Poller``. (`ZMQ_RCVTIMEO`)
    public func setReceiveTimeout(_ time: Duration) throws(ZeroMQError) {
        try setTime(ZMQ_RCVTIMEO, name: "ZMQ_RCVTIMEO", to: time)
    }

    /// Sets the time after which a send throws EAGAIN; by default, never. A signal restarts the timeout.
    /// (`ZMQ_SNDTIMEO`)
    public func setSendTimeout(_ time: Duration) throws(ZeroMQError) {
        try setTime(ZMQ_SNDTIMEO, name: "ZMQ_SNDTIMEO", to: time)
    }

    /// Sets the maximum size of one *frame* in bytes; nil, the default, means no limit. libzmq silently disconnects a
    /// peer that sends a larger frame. There is no limit on the number of frames in a message. (`ZMQ_MAXMSGSIZE`)
    public func setMaxMessageSize(_ size: Int64?) throws(ZeroMQError) {
        precondition(size ?? 0 >= 0, "a negative size")
        try setNumber(ZMQ_MAXMSGSIZE, name: "ZMQ_MAXMSGSIZE", to: size ?? -1)
    }

    /// Sets the maximum number of messages from one peer that may wait to be received; 1000 by default. At this
    /// limit, libzmq stops reading from the peer. (`ZMQ_RCVHWM`)
    public func setReceiveHighWaterMark(_ mark: CInt) throws(ZeroMQError) {
        precondition(mark > 0, "the limit must be at least 1: libzmq reads 0 as no limit")
        try setNumber(ZMQ_RCVHWM, name: "ZMQ_RCVHWM", to: mark)
    }

    /// Lets the socket use IPv6 addresses too. (`ZMQ_IPV6`)
    public func setIPv6(_ isOn: Bool) throws(ZeroMQError) {
        try setNumber(ZMQ_IPV6, name: "ZMQ_IPV6", to: isOn ? 1 : 0 as CInt)
    }

    /// Makes the system probe a peer over tcp that has been silent for `idle`, and close the connection if it does not
    /// answer for a minute. The system also closes a connection whose peer takes no bytes for as long. Otherwise, the
    /// connection of a machine that vanished stays open, and keeps the messages that wait in it.
    /// (`ZMQ_TCP_KEEPALIVE`, `ZMQ_TCP_KEEPALIVE_IDLE`, `_INTVL` and `_CNT`, `ZMQ_TCP_MAXRT`)
    public func setTCPKeepalive(after idle: Duration) throws(ZeroMQError) {
        try setNumber(ZMQ_TCP_KEEPALIVE, name: "ZMQ_TCP_KEEPALIVE", to: CInt(1))
        try setNumber(
            ZMQ_TCP_KEEPALIVE_IDLE, name: "ZMQ_TCP_KEEPALIVE_IDLE", to: CInt(idle.components.seconds))
        try setNumber(ZMQ_TCP_KEEPALIVE_INTVL, name: "ZMQ_TCP_KEEPALIVE_INTVL", to: CInt(15))
        try setNumber(ZMQ_TCP_KEEPALIVE_CNT, name: "ZMQ_TCP_KEEPALIVE_CNT", to: CInt(4))
        // because: the system sends no probes while bytes wait in the connection.
        try setTime(ZMQ_TCP_MAXRT, name: "ZMQ_TCP_MAXRT", to: idle + .seconds(60))
    }

    /// Sets an option to a time, rounded up to milliseconds.
    private func setTime(_ code: CInt, name: String, to time: Duration) throws(ZeroMQError) {
        precondition(time >= .zero, "a negative time")
        guard let milliseconds = CInt(exactly: time.millisecondsRoundedUp) else {
            throw ZeroMQError(code: EINVAL, operation: "zmq_setsockopt", subject: name)
        }
        try setNumber(code, name: name, to: milliseconds)
    }

    /// Sets an option to a number. Its type must be the option's type in C, because libzmq checks the size.
    func setNumber(
        _ code: CInt, name: String, to number: some FixedWidthInteger & BitwiseCopyable
    ) throws(ZeroMQError) {
        try withUnsafeBytes(of: number) { (bytes) throws(ZeroMQError) in
            try setBytes(code, name: name, to: bytes)
        }
    }

    func setText(_ code: CInt, name: String, to text: String) throws(ZeroMQError) {
        try Array(text.utf8).span.withUnsafeBytes { (bytes) throws(ZeroMQError) in
            try setBytes(code, name: name, to: bytes)
        }
    }

    private func setBytes(
        _ code: CInt, name: String, to bytes: UnsafeRawBufferPointer
    ) throws(ZeroMQError) {
        try check("zmq_setsockopt", on: name) {
            zmq_setsockopt(pointer, code, bytes.baseAddress, bytes.count)
        }
    }
}
