import CTwofold
import Foundation
import Testing
import TwofoldEmbedded
import TwofoldProtocol
import TwofoldTestSupport

/// A service of the in-process library. Each call checks that the library writes nothing beyond the reply buffers.
final class Library {
    let number: UInt64
    private static let margin = 64

    /// The capacities of the buffers for the next replies.
    var headerRoom = 1 << 16
    var payloadRoom = 1 << 20

    init() throws {
        var number: UInt64 = 0
        try #require(create(&number, nil, 0) == TWOFOLD_ANSWERED)
        self.number = number
    }

    deinit { _ = destroy(number) }

    /// The result of a call: its status, and the bytes that it wrote.
    struct Answer {
        let status: Int32
        let header: [UInt8]
        let payload: [UInt8]
        /// The reported sizes, even if the library did not write the bytes.
        let sizes: (header: Int, payload: Int)

        var reply: Reply {
            get throws { try Reply(bytes: header) }
        }

        var error: ServiceError? {
            if case .error(let error) = try? reply.result { error } else { nil }
        }
    }

    func call(_ request: Request, _ payload: [UInt8]? = nil) -> Answer { call(request.bytes, payload) }

    func call(_ header: [UInt8], _ payload: [UInt8]? = nil) -> Answer {
        answer { reply in
            header.withUnsafeBufferPointer { header in
                // An array without bytes has no address, but is still a payload.
                var empty: UInt8 = 0
                return withUnsafePointer(to: &empty) { empty in
                    guard let payload else {
                        return TwofoldEmbedded.call(
                            number, header.baseAddress ?? empty, header.count, nil, 0, &reply)
                    }
                    return payload.withUnsafeBufferPointer {
                        TwofoldEmbedded.call(
                            number, header.baseAddress ?? empty, header.count, $0.baseAddress ?? empty,
                            payload.count, &reply)
                    }
                }
            }
        }
    }

    func step(_ session: [UInt8], epoch: UInt32 = 1, seq: UInt64, _ actions: [UInt8]) -> Answer {
        answer { $0.step(number, session, epoch, seq, actions, actions.count, 1) }
    }

    /// Executes a step whose actions are integers of another width.
    func step<Value: FixedWidthInteger>(_ session: [UInt8], seq: UInt64, wide actions: [Value]) -> Answer {
        let width = Int32(Value.bitWidth / 8) * (Value.isSigned ? -1 : 1)
        return answer { $0.step(number, session, 1, seq, actions, actions.count, width) }
    }

    private func answer(_ body: (inout twofold_reply) -> Int32) -> Answer {
        let rooms = [headerRoom, payloadRoom].map { room in
            let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: room + Self.margin)
            memory.initialize(repeating: 0x5a)
            return memory
        }
        defer { for room in rooms { room.deallocate() } }
        var reply = twofold_reply(
            header: rooms[0].baseAddress, header_capacity: headerRoom, header_size: 0,
            payload: rooms[1].baseAddress, payload_capacity: payloadRoom, payload_size: 0)
        let status = body(&reply)
        for (room, capacity) in [(rooms[0], headerRoom), (rooms[1], payloadRoom)] {
            #expect(room[capacity...].allSatisfy { $0 == 0x5a }, "a write beyond the buffer")
        }
        let fits = status == TWOFOLD_ANSWERED || status == TWOFOLD_STEPPED
        return Answer(
            status: status, header: fits ? Array(rooms[0][..<reply.header_size]) : [],
            payload: fits ? Array(rooms[1][..<reply.payload_size]) : [],
            sizes: (reply.header_size, reply.payload_size))
    }
}

extension twofold_reply {
    /// Executes a step, and writes its reply to this buffer.
    mutating func step(
        _ service: UInt64, _ session: [UInt8], _ epoch: UInt32, _ seq: UInt64, _ actions: UnsafeRawPointer?,
        _ count: Int, _ width: Int32
    ) -> Int32 {
        withUnsafeMutablePointer(to: &self) { reply in
            var steps = twofold_steps()
            steps.service = service
            withUnsafeMutableBytes(of: &steps.session) { $0.copyBytes(from: session) }
            (steps.epoch, steps.width, steps.count, steps.reply) = (epoch, width, count, reply)
            return TwofoldEmbedded.step(&steps, seq, actions)
        }
    }
}

/// A session of the library.
final class Boards {
    let library: Library
    let id: [UInt8]
    let lanes: Int
    private(set) var seq: UInt64 = 0
    private(set) var created = CreateReply()

    init(
        _ library: Library, lanes: Int, seed: UInt64 = 0, _ change: (inout CreateRequest) -> Void = { _ in }
    ) throws {
        self.library = library
        self.lanes = lanes
        id = (0..<16).map { _ in .random(in: 0...255) }
        created = try ask(.create(lanes: lanes, change)).reply.create
        try ask(.seededReset, bytes(of: (0..<UInt64(lanes)).map { seed + $0 }))
    }

    func request(_ op: Request.OneOf_Op) -> Request { Request(op, session: Data(id), seq: seq + 1) }

    /// Executes the next request.
    @discardableResult
    func ask(_ op: Request.OneOf_Op, _ payload: [UInt8]? = nil) throws -> Library.Answer {
        let answer = library.call(request(op), payload)
        try #require(answer.status == TWOFOLD_ANSWERED && answer.error == nil)
        seq += 1
        return answer
    }

    /// Executes the next step.
    @discardableResult
    func step(_ actions: [UInt8]) throws -> Library.Answer {
        let answer = library.step(id, seq: seq + 1, actions)
        try #require(answer.error == nil)
        seq += 1
        return answer
    }

    /// Repeats the last step.
    func repeatStep(_ actions: [UInt8]) -> Library.Answer { library.step(id, seq: seq, actions) }

    /// Returns actions that differ between lanes and between turns.
    func actions(_ turn: Int) -> [UInt8] { (0..<lanes).map { UInt8(($0 * 7 + turn * 3) % 4) } }
}
