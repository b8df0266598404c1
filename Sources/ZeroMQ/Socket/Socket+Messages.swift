internal import CZeroMQ

extension Socket {
    /// Sends a single-frame message. Waits if there is no peer, or while the queues of all peers are full.
    ///
    /// - Throws: EAGAIN after the send timeout, EFSM. In both cases, the message is lost; to keep it, use `trySend`.
    public func send(_ message: consuming Message) throws(ZeroMQError) {
        // because: libzmq moves the content out and leaves an empty message, which deinit closes.
        try check("zmq_msg_send") { zmq_msg_send(&message.raw, pointer, 0) }
    }

    /// Sends a frame if that is possible without waiting. Returns true if the frame was sent; `message` is then
    /// empty. Otherwise returns false. In that case, and after an error, `message` is unchanged. Set `more` if
    /// another frame of the same message follows. (While a thread sends continuously, libzmq checks the state of
    /// its peers only once a millisecond. A result of false may therefore be a millisecond out of date.)
    ///
    /// - Throws: The errors of `send`, except EAGAIN.
    public func trySend(_ message: inout Message, more: Bool = false) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_send") {
            zmq_msg_send(&message.raw, pointer, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0))
        }
    }

    /// Waits for a frame and returns it. `Message.hasMore` is true if another frame of the same message follows.
    ///
    /// - Throws: EAGAIN after the receive timeout, EFSM.
    public func receive() throws(ZeroMQError) -> Message {
        var message = Message()
        try receive(into: &message)
        return message
    }

    /// Waits for a frame, and replaces the content of `message` with it.
    ///
    /// - Throws: The errors of `receive()`.
    public func receive(into message: inout Message) throws(ZeroMQError) {
        try check("zmq_msg_recv") { zmq_msg_recv(&message.raw, pointer, 0) }
    }

    /// If a frame has arrived, replaces the content of `message` with it and returns true. Otherwise empties
    /// `message` and returns false. Never waits.
    ///
    /// - Throws: The errors of `receive()`, except EAGAIN.
    public func tryReceive(into message: inout Message) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_recv") { zmq_msg_recv(&message.raw, pointer, ZMQ_DONTWAIT) }
    }
}
