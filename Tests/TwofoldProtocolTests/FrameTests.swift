import Foundation
import SwiftProtobuf
import Testing
import TwofoldProtocol

@Suite struct FrameTests {
    private func step(seq: UInt64) throws -> [UInt8] {
        var request = Request()
        request.session = Data(repeating: 1, count: 16)
        request.epoch = 1
        request.seq = seq
        request.step = .init()
        return try request.serializedBytes()
    }

    @Test func `a step's header has a fixed size, so it can be encoded once and patched`() throws {
        let first = try step(seq: 1)
        for seq in [2, 255, 65_536, 1 << 40, UInt64.max] {
            let other = try step(seq: seq)
            #expect(other.count == first.count)
            #expect(
                other.indices.filter { other[$0] != first[$0] }.allSatisfy { seqBytes(first).contains($0) })
            var patched = first
            patched.replaceSubrange(seqBytes(first), with: withUnsafeBytes(of: seq.littleEndian, Array.init))
            #expect(patched == other)
        }
    }

    /// Returns the range of the seq's bytes. The fields are, in order: session (tag, length, 16 bytes), epoch
    /// (tag, 4 bytes), seq (tag, 8 bytes).
    private func seqBytes(_ header: [UInt8]) -> Range<Int> {
        #expect(header[0] == 1 << 3 | 2 && header[1] == 16)
        #expect(header[18] == 2 << 3 | 5)
        #expect(header[23] == 3 << 3 | 1)
        return 24..<32
    }

    @Test func `a request is decoded from a frame at any address`() throws {
        for offset in 0..<8 {
            let bytes = [UInt8](repeating: 0xff, count: offset) + (try step(seq: 5))
            let request = bytes.withUnsafeBytes {
                Request(frame: UnsafeRawBufferPointer(rebasing: $0[offset...]))
            }
            #expect(request?.seq == 5)
            #expect(request?.op == .step(.init()))
        }
    }

    @Test func `an empty frame is an empty request`() {
        #expect(Request(frame: UnsafeRawBufferPointer(start: nil, count: 0)) == Request())
    }

    @Test(
        arguments: [
            [0xff], [0x0a, 0x05, 1], [0x15, 1, 2], [0x08], [0x82, 0x01], [0x00], [0x0c],
            // A create whose environment id is not UTF-8.
            [0x8a, 0x01, 0x03, 0x0a, 0x01, 0xff],
        ] as [[UInt8]])
    func `bytes that are not a request give nil`(bytes: [UInt8]) {
        #expect(bytes.withUnsafeBytes { Request(frame: $0) } == nil)
    }

    @Test func `a truncated header is not a request, or has no op`() throws {
        let whole = try step(seq: 5)
        for length in 0..<whole.count {
            let request = whole.prefix(length).withUnsafeBytes { Request(frame: $0) }
            #expect(request == nil || request?.op == nil, "\(length) bytes")
        }
    }

    @Test func `endlessly nested messages are not a request`() {
        // The field is unknown and consists of nested groups.
        let bytes = [UInt8](repeating: 0xfb, count: 1) + [UInt8](repeating: 0x0b, count: 100_000)
        #expect(bytes.withUnsafeBytes { Request(frame: $0) } == nil)
    }

    @Test func `a decoded request has no unknown fields, at any depth`() throws {
        // A field 100 with two bytes, in the rollout's policy and in the request itself.
        let unknown: [UInt8] = [0xa2, 0x06, 0x02, 1, 1]
        var request = Request()
        request.rollout.random = .init()
        let known = try request.serializedBytes() as [UInt8]
        request.rollout.random = try Twofold_V1_RandomPolicy(serializedBytes: unknown)
        let longer = try request.serializedBytes() as [UInt8] + unknown
        #expect(longer.count == known.count + 2 * unknown.count)
        let decoded = try #require(longer.withUnsafeBytes { Request(frame: $0) })
        #expect(try decoded.serializedBytes() == known)
    }

    @Test func `a reply's frame decodes to the same reply`() throws {
        var reply = Reply()
        reply.seq = 9
        reply.error.code = .conflict
        reply.error.field = "seq"
        reply.error.lane = 0
        #expect(try Reply(serializedBytes: reply.frame) == reply)
        #expect(Reply().frame.isEmpty)
    }

    @Test func `a result has the same field number as its op`() throws {
        // The first one or two bytes of the message encode the field number.
        let pairs: [(Request.OneOf_Op, Reply.OneOf_Result)] = [
            (.hello(.init()), .hello(.init())), (.create(.init()), .create(.init())),
            (.reset(.init()), .reset(.init())), (.step(.init()), .step(.init())),
            (.observe(.init()), .observe(.init())), (.afterstates(.init()), .afterstates(.init())),
            (.close(.init()), .close(.init())), (.keepalive(.init()), .keepalive(.init())),
            (.resume(.init()), .resume(.init())),
            (.stats(.init()), .stats(.init())),
        ]
        for (op, result) in pairs {
            var request = Request()
            request.op = op
            var reply = Reply()
            reply.result = result
            let bytes: [UInt8] = try request.serializedBytes()
            #expect(bytes == reply.frame)
        }
    }
}
