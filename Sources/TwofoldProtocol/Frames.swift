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

extension CreateRequest {
    /// How many bytes it takes, encoded.
    public var size: Int { (try? serializedBytes() as [UInt8])?.count ?? 0 }
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

extension SavedSession {
    /// The session in the bytes of a file; nil when they are no such message.
    public init?(bytes: UnsafeRawBufferPointer) {
        guard let saved = try? SavedSession(serializedBytes: [UInt8](bytes)) else { return nil }
        self = saved
    }

    /// The session as bytes; nil when there are more than a message can have, 2 GiB.
    public var bytes: [UInt8]? { try? serializedBytes() }
}
