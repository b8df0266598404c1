internal import CZeroMQ

extension Socket {
    /// Sets a socket option.
    ///
    /// The corresponding C function is `zmq_setsockopt`.
    ///
    /// - Throws: `.invalidArgument` if the value is out of range or this kind of socket does not have the option,
    ///   `.terminated`.
    public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws(ZeroMQError) {
        let number = option.encode(value)
        // because: libzmq distinguishes int from int64 by the exact size of the value.
        switch option.width {
        case .int32:
            guard let number = CInt(exactly: number) else {
                throw ZeroMQError(code: .invalidArgument, operation: "zmq_setsockopt", subject: option.name)
            }
            try setNumber(option.code, name: option.name, to: number)
        case .int64: try setNumber(option.code, name: option.name, to: number)
        }
    }

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
