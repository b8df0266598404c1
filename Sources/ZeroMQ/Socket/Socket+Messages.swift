internal import CZeroMQ

extension Socket {
    /// Sends a message of one frame. Waits while the queues of all peers are full, or while there is no peer.
    ///
    /// The corresponding C function is `zmq_msg_send`.
    ///
    /// - Throws: `.wouldBlock` after `sendTimeout`, `.wrongState`, `.terminated`. The message is lost then;
    ///   to keep it, use `trySend`.
    public func send(_ message: consuming Message) throws(ZeroMQError) {
        // because: libzmq moves the content out and leaves an empty message, which deinit closes.
        try check("zmq_msg_send") { zmq_msg_send(&message.raw, pointer, 0) }
    }

    /// Sends a frame unless it would have to wait. Returns true if it was sent; `message` is then empty.
    /// Otherwise returns false. In that case, and after an error, `message` is unchanged. `more` means that
    /// another frame of the same message follows. (While a thread sends all the time, libzmq checks the state of
    /// its peers only once a millisecond, so "false" may be that old.)
    ///
    /// The corresponding C function is `zmq_msg_send` with `ZMQ_DONTWAIT`.
    ///
    /// - Throws: The errors of `send` except `.wouldBlock`.
    public func trySend(_ message: inout Message, more: Bool = false) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_send") {
            zmq_msg_send(&message.raw, pointer, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0))
        }
    }

    /// Receives a frame; waits until one arrives. `Message.hasMore` is true if another frame of the same
    /// message follows.
    ///
    /// The corresponding C function is `zmq_msg_recv`.
    ///
    /// - Throws: `.wouldBlock` after `receiveTimeout`, `.wrongState`, `.terminated`.
    public func receive() throws(ZeroMQError) -> Message {
        var message = Message()
        try receive(into: &message)
        return message
    }

    /// Receives a frame, which replaces the content of `message`; waits until one arrives.
    ///
    /// - Throws: The errors of `receive()`.
    public func receive(into message: inout Message) throws(ZeroMQError) {
        try check("zmq_msg_recv") { zmq_msg_recv(&message.raw, pointer, 0) }
    }

    /// Receives a frame, which replaces the content of `message`, if one has arrived. Otherwise returns
    /// false, and `message` is empty.
    ///
    /// The corresponding C function is `zmq_msg_recv` with `ZMQ_DONTWAIT`.
    ///
    /// - Throws: The errors of `receive()` except `.wouldBlock`.
    public func tryReceive(into message: inout Message) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_recv") { zmq_msg_recv(&message.raw, pointer, ZMQ_DONTWAIT) }
    }
}
