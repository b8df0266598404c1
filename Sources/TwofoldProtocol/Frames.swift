public import FoundationEssentials
public import SwiftProtobuf

extension SwiftProtobuf.Message {
    /// Decodes a frame, without unknown fields. Returns nil if the bytes are not such a message.
    public init?(frame: UnsafeRawBufferPointer) {
        // because: sessions keep parts of requests, and a client could make these as long as a frame.
        var options = BinaryDecodingOptions()
        options.discardUnknownFields = true
        guard let message = try? Self(serializedBytes: [UInt8](frame), options: options) else { return nil }
        self = message
    }

    /// The message, encoded as a frame.
    public var frame: [UInt8] {
        // Encoding fails only for messages that lack a required field, which proto3 does not have.
        try! serializedBytes()
    }
}

extension SavedSession {
    /// Decodes the contents of a file. Returns nil if the bytes are not a saved session.
    public init?(bytes: Data) {
        guard let saved = try? SavedSession(serializedBytes: bytes) else { return nil }
        self = saved
    }

    /// The encoded session; nil if it exceeds protobuf's maximum message size of 2 GiB.
    public var bytes: Data? { try? serializedBytes() }
}
