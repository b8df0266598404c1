public import FoundationEssentials
import SwiftProtobuf

extension Request {
    /// Decodes a header frame. Returns nil if the bytes are not a request.
    public init?(frame: UnsafeRawBufferPointer) {
        guard let request = try? Request(serializedBytes: [UInt8](frame)) else { return nil }
        self = request
    }

    /// The request, encoded as a header frame.
    public var frame: [UInt8] {
        // Encoding fails only for messages that lack a required field, which proto3 does not have.
        try! serializedBytes()
    }
}

extension CreateRequest {
    /// The encoded size in bytes.
    public var size: Int { (try? serializedBytes() as [UInt8])?.count ?? 0 }
}

extension Reply {
    /// Decodes a header frame. Returns nil if the bytes are not a reply.
    public init?(frame: UnsafeRawBufferPointer) {
        guard let reply = try? Reply(serializedBytes: [UInt8](frame)) else { return nil }
        self = reply
    }

    /// The reply, encoded as a header frame.
    public var frame: [UInt8] {
        // Encoding fails only for messages that lack a required field, which proto3 does not have.
        try! serializedBytes()
    }
}

extension NTupleForm {
    /// Decodes a network's form. Returns nil if the bytes are not a form.
    public init?(frame: UnsafeRawBufferPointer) {
        guard let form = try? NTupleForm(serializedBytes: [UInt8](frame)) else { return nil }
        self = form
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
