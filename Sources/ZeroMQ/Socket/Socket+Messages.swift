internal import CZeroMQ

extension Socket {
    /// Sends a message of one frame, and waits while the peers' queues are full (or there is no peer).
    ///
    /// The corresponding C function is `zmq_msg_send`.
    ///
    /// - Throws: `.wouldBlock` after `sendTimeout`, `.wrongState`, `.terminated`. The message is gone then; to
    ///   keep it, use `trySend`.
    public func send(_ message: consuming Message) throws(ZeroMQError) {
        // because: libzmq moves the content out and leaves an empty message, which deinit closes.
        try check("zmq_msg_send") { zmq_msg_send(&message.raw, pointer, 0) }
    }

    /// Sends a frame if that needs no waiting: true, and `message` is empty. `more`: another frame of the same message
    /// follows. False: not now; `message`
    /// is as it was, as it is after an error. (libzmq looks for news of its peers once a millisecond
    /// when one sends all the time: "not now" may be that old. Polling for `.output` looks at once.)
    ///
    /// The corresponding C function is `zmq_msg_send` with `ZMQ_DONTWAIT`.
    ///
    /// - Throws: as `send`, without `.wouldBlock`.
    public func trySend(_ message: inout Message, more: Bool = false) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_send") {
            zmq_msg_send(&message.raw, pointer, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0))
        }
    }

    /// Receives a frame, and waits for it. `Message.hasMore`: another of the same message follows.
    ///
    /// The corresponding C function is `zmq_msg_recv`.
    ///
    /// - Throws: `.wouldBlock` after `receiveTimeout`, `.wrongState`, `.terminated`.
    public func receive() throws(ZeroMQError) -> Message {
        var message = Message()
        try receive(into: &message)
        return message
    }

    /// Receives a frame, which replaces what `message` was, and waits for it.
    ///
    /// - Throws: as `receive()`.
    public func receive(into message: inout Message) throws(ZeroMQError) {
        try check("zmq_msg_recv") { zmq_msg_recv(&message.raw, pointer, 0) }
    }

    /// Receives a frame, which replaces what `message` was, if one is there; false: nothing now, and
    /// `message` is empty.
    ///
    /// The corresponding C function is `zmq_msg_recv` with `ZMQ_DONTWAIT`.
    ///
    /// - Throws: as `receive()`, without `.wouldBlock`.
    public func tryReceive(into message: inout Message) throws(ZeroMQError) -> Bool {
        try attempt("zmq_msg_recv") { zmq_msg_recv(&message.raw, pointer, ZMQ_DONTWAIT) }
    }
}
