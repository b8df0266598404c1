import SwiftProtobuf

extension Request {
    /// The request in a header frame; nil when the bytes are no such message.
    public init?(frame: UnsafeRawBufferPointer) {
        guard let request = try? Request(serializedBytes: [UInt8](frame)) else { return nil }
        self = request
    }
}

extension Reply {
    /// The reply as a header frame.
    public var frame: [UInt8] {
        // Encoding fails only for messages that lack a required field, which proto3 does not have.
        try! serializedBytes()
    }
}
