import SwiftProtobuf

extension Request {
    /// The request in a header frame; nil when the bytes are no such message.
    public init?(frame: UnsafeRawBufferPointer) {
        guard let request = try? Request(serializedBytes: [UInt8](frame)) else { return nil }
        self = request
    }

    /// The request as a header frame.
    public var frame: [UInt8] {
        // Encoding fails only for messages that lack a required field, which proto3 does not have.
        try! serializedBytes()
    }
}

extension Reply {
    /// The reply in a header frame; nil when the bytes are no such message.
    public init?(frame: UnsafeRawBufferPointer) {
        guard let reply = try? Reply(serializedBytes: [UInt8](frame)) else { return nil }
        self = reply
    }

    /// The reply as a header frame.
    public var frame: [UInt8] {
        // Encoding fails only for messages that lack a required field, which proto3 does not have.
        try! serializedBytes()
    }
}
