import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer
@testable import TwofoldSessions

/// Tests that the memory of unsent messages in libzmq stays valid and stays counted.
@Suite struct ReplyMemoryTests {
    private let pool = PayloadPool(MemoryBudget(limit: .max))

    @Test func `a reply keeps its buffer even after it was sent`() throws {
        var first: ObjectIdentifier?
        var reply: StoredReply? = try {
            let buffer = try pool.take(size: 1000)
            first = ObjectIdentifier(buffer)
            return StoredReply(.step(.init()), seq: 1, payload: buffer.frame(1000))
        }()
        var request = Multipart()
        for _ in 0..<2 { request.append(Message()) }
        let envelope = Envelope(request, through: 0)
        var message = Multipart()
        try envelope.append(reply!, to: &message)
        #expect(message.count == 4)
        #expect(try ObjectIdentifier(pool.take(size: 1000)) != first, "sent and stored")
        reply = nil
        #expect(try ObjectIdentifier(pool.take(size: 1000)) != first, "sent")
        message.removeAll()
        #expect(try ObjectIdentifier(pool.take(size: 1000)) == first)
    }

    @Test func `a stored request does not keep its route`() throws {
        let machine = SessionMachine(ServiceSettings(threads: 1), keys: { ([:], 0) }, at: .now)
        weak var route: AnyObject?
        func play(_ op: Request.OneOf_Op, seq: UInt64, _ payload: [UInt8]) throws {
            var message = Multipart()
            let header = Request(op, session: Data(repeating: 1, count: 16), seq: seq).bytes
            let frames = payload.isEmpty ? [[1], [], header] : [[1], [], header, payload]
            for frame in frames { message.append(try Message(copying: frame)) }
            var effects: [SessionMachine.Effect] = []
            machine.take(
                message, isWhole: true, through: 0, from: { _ in .success(nil) }, at: .now,
                into: &effects)
            guard case .perform(let work)? = effects.first else {
                Issue.record("the work was not performed")
                return
            }
            route = work.route.address
            let result = work.perform(machine.service)
            machine.finish(work, result, at: .now, into: &effects)
        }
        try play(.create(lanes: 100), seq: 1, [])
        try play(.seededReset, seq: 2, [UInt8](repeating: 1, count: 800))
        #expect(machine.ledger.openCount == 1)
        #expect(route == nil)
    }

    @Test func `a reply that libzmq still holds counts after its session has ended`() throws {
        let budget = MemoryBudget(limit: 100)
        var pool: PayloadPool? = PayloadPool(try budget.part(50, upTo: .max))
        var message: Message? = try {
            let buffer = try pool!.take(size: 30)
            return try Message(adopting: buffer.bytes, keeping: buffer)
        }()
        pool = nil
        #expect(budget.used == 50)
        #expect(message!.size == 30)
        message = nil
        #expect(budget.used == 0)
    }
}
