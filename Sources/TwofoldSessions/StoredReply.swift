internal import FoundationEssentials
package import TwofoldProtocol
package import TwofoldService

/// A reply as it is kept, and sent as often as it is asked for: its header, encoded, and its payload.
///
/// Made by the thread that executes the request.
package final class StoredReply: Sendable {
    private let seq: UInt64
    /// Nil for a step without finals.
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

    package convenience init(_ error: ServiceError, seq: UInt64) { self.init(.error(error.wire), seq: seq) }

    private static func encode(_ result: Reply.OneOf_Result, _ seq: UInt64) -> [UInt8] {
        var reply = Reply()
        reply.seq = seq
        reply.result = result
        return reply.frame
    }

    /// The header of a step's reply without finals, which is the same but for its seq:
    ///
    ///     0     1       9        12
    ///     ┌─────┬───────┬────────┐
    ///     │ tag │ seq   │ step   │
    ///     └─────┴───────┴────────┘
    private static let stepHeader = encode(.step(.init()), 1)

    /// Whether it answers a step in which no episode kept its final observation: then its header says nothing.
    package var isPlainStep: Bool { encoded == nil }

    /// The encoded header.
    package var header: [UInt8] {
        if let encoded { return encoded }
        var header = Self.stepHeader
        withUnsafeBytes(of: seq.littleEndian) { header.replaceSubrange(1..<9, with: $0) }
        return header
    }

    /// The answer to a resume: it carries this reply again, whose payload it shares.
    package func resumed(_ resume: ResumeReply, seq: UInt64) -> StoredReply {
        var resume = resume
        resume.lastReply = Data(header)
        return StoredReply(.resume(resume), seq: seq, payload: payload)
    }

    // MARK: between two runs of a server

    /// The frames, to be saved.
    package var saved: SavedFrames {
        var saved = SavedFrames()
        saved.header = Data(header)
        if let payload { saved.payload = payload.withBytes { Data($0) } }
        return saved
    }

    /// Frames that were saved; the payload is copied to `pool`.
    package init(_ saved: SavedFrames, _ pool: PayloadPool) throws(MemoryBudget.Exhausted) {
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
