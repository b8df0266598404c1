internal import FoundationEssentials
package import TwofoldCore
package import TwofoldProtocol
package import TwofoldService

/// A reply that the ledger keeps and can send again: an encoded header and a payload.
///
/// The thread that executes the request creates the reply.
package final class StoredReply: Sendable {
    private let seq: UInt64
    /// The encoded header; nil for a step's reply without final values.
    private let encoded: [UInt8]?
    package let payload: Frame?

    package init(_ result: Reply.OneOf_Result, seq: UInt64, payload: Frame? = nil) {
        self.seq = seq
        self.payload = payload
        if case .step(let step) = result, !step.hasFinals {
            encoded = nil
        } else {
            encoded = Self.encode(result, seq)
        }
    }

    package convenience init(_ error: ServiceError, seq: UInt64) { self.init(.error(error), seq: seq) }

    private static func encode(_ result: Reply.OneOf_Result, _ seq: UInt64) -> [UInt8] {
        var reply = Reply()
        reply.seq = seq
        reply.result = result
        return reply.frame
    }

    /// The header of a step's reply without final values. Such headers differ only in the seq:
    ///
    ///     0     1       9        12
    ///     ┌─────┬───────┬────────┐
    ///     │ tag │ seq   │ step   │
    ///     └─────┴───────┴────────┘
    private static let stepHeader = encode(.step(.init()), 1)

    /// Whether this is a step's reply without final values. Its header contains only the seq.
    package var isPlainStep: Bool { encoded == nil }

    /// The encoded header.
    package var header: [UInt8] {
        if let encoded { return encoded }
        var header = Self.stepHeader
        withUnsafeBytes(of: seq.littleEndian) { header.replaceSubrange(1..<9, with: $0) }
        return header
    }

    /// Returns the answer to a resume request. The answer contains this reply, and shares its payload.
    package func resumed(_ resume: ResumeReply, seq: UInt64) -> StoredReply {
        var resume = resume
        resume.lastReply = Data(header)
        return StoredReply(.resume(resume), seq: seq, payload: payload)
    }

    // MARK: between two runs of a server

    /// Restores a saved reply. Copies its payload to memory from `pool`.
    package init(_ saved: SavedFrames, _ pool: PayloadPool) throws(EnvironmentError) {
        seq = 0
        encoded = [UInt8](saved.header)
        guard saved.hasPayload else {
            payload = nil
            return
        }
        let buffer = try pool.take(size: saved.payload.count)
        saved.payload.withUnsafeBytes { buffer.bytes.copyMemory(from: $0) }
        payload = buffer.frame(saved.payload.count)
    }
}

extension SavedFrames {
    /// Copies a header and a payload for saving.
    init(_ header: Data, _ payload: Frame?) {
        self.init()
        self.header = header
        if let payload { self.payload = payload.withBytes { Data($0) } }
    }
}
