internal import CZeroMQ

extension Socket {
    /// Sets an option.
    ///
    /// The corresponding C function is `zmq_setsockopt`.
    ///
    /// - Throws: `.invalidArgument` for a value out of range or an option that this kind of socket
    ///   doesn't have, `.terminated`.
    public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws(ZeroMQError) {
        let number = option.encode(value)
        switch option.width {
        case .int32:
            guard let number = CInt(exactly: number) else {
                throw ZeroMQError(code: .invalidArgument, operation: "zmq_setsockopt", subject: option.name)
            }
            try withUnsafeBytes(of: number) { (bytes) throws(ZeroMQError) in
                try setBytes(option.code, name: option.name, to: bytes)
            }
        case .int64:
            try withUnsafeBytes(of: number) { (bytes) throws(ZeroMQError) in
                try setBytes(option.code, name: option.name, to: bytes)
            }
        }
    }

    /// What an option is set to.
    ///
    /// The corresponding C function is `zmq_getsockopt`.
    ///
    /// - Throws: `.invalidArgument` for an option that can't be read, `.terminated`.
    public func get<Value>(_ option: SocketOption<Value>) throws(ZeroMQError) -> Value {
        switch option.width {
        case .int32: option.decode(Int64(try number(option.code, name: option.name, as: CInt.self)))
        case .int64: option.decode(try number(option.code, name: option.name, as: Int64.self))
        }
    }

    /// The name by which a ROUTER on the other side knows this socket: 1 to 255 bytes, the first not
    /// zero. Applies to later connections.
    ///
    /// The corresponding C function is `zmq_setsockopt` with `ZMQ_ROUTING_ID`.
    ///
    /// - Throws: `.invalidArgument` for a name that is empty or too long.
    public func setRoutingID(_ id: [UInt8]) throws(ZeroMQError) {
        try id.span.withUnsafeBytes { (bytes) throws(ZeroMQError) in
            try setBytes(ZMQ_ROUTING_ID, name: "ZMQ_ROUTING_ID", to: bytes)
        }
    }

    /// The name set by `setRoutingID`; empty when none was set.
    public var routingID: [UInt8] {
        get throws(ZeroMQError) {
            // because: a routing id has at most 255 bytes.
            try withOptionBytes(ZMQ_ROUTING_ID, name: "ZMQ_ROUTING_ID", capacity: 255) { Array($0) }
        }
    }

    /// Makes a SUB receive messages that start with `prefix`; all messages, if it is empty.
    ///
    /// The corresponding C function is `zmq_setsockopt` with `ZMQ_SUBSCRIBE`.
    public func subscribe(to prefix: [UInt8]) throws(ZeroMQError) {
        try prefix.span.withUnsafeBytes { (bytes) throws(ZeroMQError) in
            try setBytes(ZMQ_SUBSCRIBE, name: "ZMQ_SUBSCRIBE", to: bytes)
        }
    }

    /// Whether the frame received last is followed by another of the same message.
    /// `Message.hasMore` says the same of a frame in hand, at less cost.
    ///
    /// The corresponding C function is `zmq_getsockopt` with `ZMQ_RCVMORE`.
    public var receiveMore: Bool {
        get throws(ZeroMQError) { try number(ZMQ_RCVMORE, name: "ZMQ_RCVMORE", as: CInt.self) != 0 }
    }

    /// What can be done now without waiting: `.input`, `.output`. Reading it re-arms `descriptor`.
    ///
    /// The corresponding C function is `zmq_getsockopt` with `ZMQ_EVENTS`.
    public var events: PollEvents {
        get throws(ZeroMQError) {
            let events = try number(ZMQ_EVENTS, name: "ZMQ_EVENTS", as: CInt.self)
            return PollEvents(rawValue: CShort(truncatingIfNeeded: events))
        }
    }

    /// A file descriptor that becomes readable when `events` may have changed: edge-triggered, so
    /// after each wake and each send or receive read `events` again. For foreign event loops only.
    ///
    /// The corresponding C function is `zmq_getsockopt` with `ZMQ_FD`.
    public var descriptor: CInt {
        get throws(ZeroMQError) { try number(ZMQ_FD, name: "ZMQ_FD", as: CInt.self) }
    }
}

// MARK: - The two C calls

extension Socket {
    func setNumber(_ code: CInt, name: String, to number: CInt) throws(ZeroMQError) {
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

    private func number<Number: FixedWidthInteger & BitwiseCopyable>(
        _ code: CInt, name: String, as type: Number.Type
    ) throws(ZeroMQError) -> Number {
        // because: libzmq tells int from int64 by the exact size that it is given.
        var value: Number = 0
        var size = MemoryLayout<Number>.size
        try check("zmq_getsockopt", on: name) { zmq_getsockopt(pointer, code, &value, &size) }
        return value
    }

    func withOptionBytes<Result>(
        _ code: CInt, name: String, capacity: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(ZeroMQError) -> Result {
        // because: a buffer of ours on the stack, of which libzmq says how much it filled.
        try withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 8) { (buffer) throws(ZeroMQError) in
            var size = buffer.count
            try check("zmq_getsockopt", on: name) {
                zmq_getsockopt(pointer, code, buffer.baseAddress, &size)
            }
            return body(UnsafeRawBufferPointer(rebasing: buffer[..<size]))
        }
    }
}
