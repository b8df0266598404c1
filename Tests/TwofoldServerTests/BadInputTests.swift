import Dispatch
import Foundation
import Platform
import Testing
import TwofoldProtocol
import TwofoldSessions
import TwofoldTestSupport

@testable import TwofoldServer
@testable import ZeroMQ

/// The frames after the delimiter of a message that is not a valid request.
struct Garbage: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let frames: @Sendable (_ session: Data, _ nextSeq: UInt64) -> [[UInt8]]
    let field: String
    let code: ErrorCode
    /// Whether the server can read the request's seq, and therefore repeats it.
    let echoesSeq: Bool

    init(
        _ name: String, _ field: String, _ code: ErrorCode = .invalidArgument, echoesSeq: Bool = true,
        _ frames: @escaping @Sendable (Data, UInt64) -> [[UInt8]]
    ) {
        testDescription = name
        self.field = field
        self.code = code
        self.echoesSeq = echoesSeq
        self.frames = frames
    }

    private static func step(_ session: Data, _ seq: UInt64) -> [UInt8] {
        Request(.step, session: session, seq: seq).bytes
    }

    /// All invalid messages, for a session of three boards.
    static let all = [
        Garbage("random bytes", "request", echoesSeq: false) { _, _ in [[0xff, 0x00, 0x80, 0x13, 0x37]] },
        Garbage("a truncated header", "request", echoesSeq: false) { session, seq in
            [step(session, seq).dropLast(), [0, 0, 0]].map { Array($0) }
        },
        Garbage("a string that is not UTF-8", "request", echoesSeq: false) { session, seq in
            var bytes = Request(.create(lanes: 1), session: session, seq: seq).bytes
            bytes[bytes.count - 10] = 0xff
            return [bytes]
        },
        Garbage("an empty header", "op", echoesSeq: false) { _, _ in [[]] },
        Garbage("an empty header and an empty payload", "op", echoesSeq: false) { _, _ in [[], []] },
        Garbage("no op", "op") { session, seq in
            var request = Request(.step, session: session, seq: seq)
            request.op = nil
            return [request.bytes]
        },
        Garbage("an op of a later version", "op") { session, seq in
            var request = Request(.step, session: session, seq: seq)
            request.op = nil
            return [request.bytes + [0xba, 0x06, 0x00]]  // field 103, empty
        },
        Garbage("three frames", "frames", echoesSeq: false) { session, seq in
            [step(session, seq), [0, 0, 0], [0]]
        },
        Garbage("three empty frames", "frames", echoesSeq: false) { _, _ in [[], [], []] },
        Garbage("100 frames", "frames", echoesSeq: false) { session, seq in
            [step(session, seq)] + [[UInt8]](repeating: [0, 0, 0], count: 99)
        },
        Garbage("a payload that is too short", "actions") { session, seq in [step(session, seq), [0, 0]] },
        Garbage("no payload", "actions") { session, seq in [step(session, seq)] },
        Garbage("a payload that is too long", "actions") { session, seq in
            [step(session, seq), [UInt8](repeating: 0, count: 100_000)]
        },
        Garbage("action 7", "actions") { session, seq in [step(session, seq), [0, 0, 7]] },
        Garbage("a session id of 15 bytes", "session") { session, seq in
            [step(session.dropLast(), seq), [0, 0, 0]]
        },
        Garbage("no session id", "session") { _, seq in [step(Data(), seq), [0, 0, 0]] },
        Garbage("another session id", "session", .notFound) { session, seq in
            [step(Data(session.reversed()), seq), [0, 0, 0]]
        },
        Garbage("an older epoch", "epoch", .staleEpoch) { session, seq in
            [Request(.step, session: session, epoch: 0, seq: seq).bytes, [0, 0, 0]]
        },
        Garbage("a later epoch", "session", .notFound) { session, seq in
            [Request(.step, session: session, epoch: 2, seq: seq).bytes, [0, 0, 0]]
        },
        Garbage("a later seq", "seq", .outOfSequence) { session, seq in [step(session, seq + 1), [0, 0, 0]] },
        Garbage("a create of the session", "session", .conflict) { session, seq in
            [Request(.create(lanes: 3), session: session, seq: seq).bytes]
        },
        Garbage("an unknown environment", "environment_id", .notFound) { _, _ in
            [Request(.create(lanes: 1) { $0.environmentID = "x" }, session: newSessionID(), seq: 1).bytes]
        },
        Garbage("more boards than memory", "num_envs", .resourceExhausted) { _, _ in
            [Request(.create(lanes: .max), session: newSessionID(), seq: 1).bytes]
        },
        Garbage("another version of the protocol", "protocol_version", .unsupportedVersion) { _, seq in
            [Request(.hello(HelloRequest()), seq: seq).bytes]
        },
    ]
}

@Suite struct BadInputTests {
    private let directory = ScratchDirectory()

    @Test(arguments: [1, 4])
    func `at most sixteen messages of a connection wait, regardless of their frames`(frames: Int) throws {
        let gate = DispatchSemaphore(value: 0)
        let server = try RunningServer(directory.ipc(), gate: gate)
        defer { gate.signal() }
        let context = try Context()
        let socket = try Socket(.dealer, in: context)
        // One more message waits in the client.
        try socket.setNumber(Self.sendHighWaterMark, name: "ZMQ_SNDHWM", to: CInt(1))
        try socket.connect(server.endpoint)
        // A frame that is larger than the system's buffers.
        let frame = [UInt8](repeating: 0, count: (1 << 20) / frames)
        var sent = 0
        while sent < 100 {
            var message = Multipart()
            for _ in 0..<frames { message.append(try Message(copying: frame)) }
            do throws(ZeroMQError) { try socket.send(&message, within: .seconds(1)) } catch {
                #expect(error.code == EAGAIN)
                break
            }
            sent += 1
        }
        #expect(sent <= 20)
    }

    private static let sendHighWaterMark: CInt = 23

    @Test(arguments: Garbage.all, [Manner.reqWithIDs, .dealer])
    func `an invalid message gets one error with the field, and the next valid request works`(
        garbage: Garbage, manner: Manner
    ) throws {
        let server = try RunningServer(directory.ipc())
        let player = try Player(try manner.peer(to: server.endpoint), lanes: 3)
        let twin = try Player(try Peer(to: server.endpoint), lanes: 3)
        try player.reset(seed: 8)
        try twin.reset(seed: 8)
        for turn in 0..<3 {
            try player.peer.send(garbage.frames(player.id, player.seq + 1))
            let answer = try player.peer.receive()
            let error = try #require(answer.error)
            #expect(error.code == garbage.code)
            #expect(error.field == garbage.field)
            #expect(!error.message.isEmpty)
            #expect((answer.reply.seq != 0) == garbage.echoesSeq)
            #expect(answer.payload == nil)
            // The next reply belongs to this step, so the invalid message got only one reply.
            #expect(try player.step(turn: turn) == twin.step(turn: turn))
        }
        let counters = try server.stop().counters
        #expect(counters.refused == 3)
        #expect(counters.dropped == 0)
    }

    @Test func `a message without the delimiter is dropped and counted`() throws {
        let server = try RunningServer(directory.ipc())
        let peer = try Peer(.dealer, to: server.endpoint)
        let hello = Request(.hello, seq: 9).bytes
        let long = [[UInt8]](repeating: [1], count: 20)
        for frames in [[hello], [hello, [1, 2, 3]], [[1], [2], [3], [4]], long] { try peer.send(raw: frames) }
        try peer.send(raw: [[], hello])
        // The only reply belongs to the valid message.
        #expect(try peer.receive().reply.seq == 9)
        try peer.expectNothing()
        let counters = try server.stop().counters
        #expect(counters.received == 6)
        #expect(counters.dropped == 4)
        #expect(counters.executed == 2)
        #expect(counters.refused == 0)
    }

    @Test func `a message that ends with the delimiter is an error`() throws {
        let server = try RunningServer(directory.ipc())
        let peer = try Peer(.dealer, to: server.endpoint)
        for frames in [[[]], [[7, 7], []]] as [[[UInt8]]] {
            try peer.send(raw: frames)
            let raw = try peer.receiveRaw()
            #expect(Array(raw.dropLast()) == frames, "the reply has the route")
            #expect(try Reply(bytes: raw.last ?? []).error.field == "frames")
        }
        #expect(try peer.ask(Request(.hello)).error == nil)
    }

    @Test func `a reply has the whole route through proxies`() throws {
        let server = try RunningServer(directory.ipc())
        let peer = try Peer(.dealer, to: server.endpoint)
        let route: [[UInt8]] = [[1], [2, 2], [3, 3, 3], []]
        try peer.send(raw: route + [Request(.hello, seq: 3).bytes])
        let raw = try peer.receiveRaw()
        #expect(Array(raw.dropLast()) == route)
        #expect(try Reply(bytes: raw.last ?? []).seq == 3)
    }

    @Test func `ten thousand invalid messages neither stop the server nor leak memory`() throws {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc())
        let endpoint = try server.endpoints()[0]
        let peer = try Peer(.dealer, to: endpoint)
        let player = try Player(try Peer(to: endpoint), lanes: 3)
        try player.reset(seed: 8)
        var dice = Dice(seed: 5)
        var (answered, dropped) = (0, 0)
        func send(_ count: Int) throws {
            for _ in 0..<count / 100 {
                var expected = 0
                for _ in 0..<100 {
                    let frames = garbage(player, &dice)
                    try peer.send(raw: frames)
                    if frames.contains([]) { expected += 1 } else { dropped += 1 }
                }
                for _ in 0..<expected {
                    guard case .error = try Reply(bytes: peer.receiveRaw().last ?? []).result else {
                        Issue.record("garbage was executed")
                        continue
                    }
                }
                answered += expected
            }
        }
        try send(2000)
        let before = server.residentBytes
        try send(8000)
        #expect(server.residentBytes - before < 4 << 20, "it grows")
        try player.step(turn: 0)
        server.signal(SIGTERM)
        #expect(try server.exit() == .code(0))
        #expect(answered > 5000 && dropped > 1000)
        let counted =
            "stopped dropped=\(dropped) executed=3 parked=0 received=10003 refused=\(answered) resent=0"
        #expect(server.standardError.contains(counted), "\(server.standardError.suffix(200))")
    }

    @Test func `closed sessions leak no memory`() throws {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc())
        let peer = try Peer(to: server.endpoints()[0])
        func live(_ count: Int, lanes: Int) throws {
            for _ in 0..<count {
                let player = try Player(peer, lanes: lanes)
                try player.reset(seed: 1)
                try player.step(turn: 0)
                try player.close()
            }
        }
        try live(300, lanes: 1)
        try live(10, lanes: 3000)
        let before = server.residentBytes
        // The memory that a session leaves behind is a few hundred bytes.
        try live(2000, lanes: 1)
        try live(50, lanes: 3000)
        // The server returns the memory a moment after the last session.
        let isBack = eventually { server.residentBytes - before < 6 << 20 }
        #expect(isBack, "it grows")
    }

    /// Returns a random invalid message.
    private func garbage(_ player: Player, _ dice: inout Dice) -> [[UInt8]] {
        switch Int.random(in: 0..<8, using: &dice) {
        case 0: return (0..<Int.random(in: 1...20, using: &dice)).map { _ in dice.bytes(3) }
        case 1: return [[]] + (0..<Int.random(in: 3...20, using: &dice)).map { _ in dice.bytes(5) }
        case 2, 3:
            // Small bytes are small field numbers in protobuf, so that the server can decode a part of them.
            return [[], dice.bytes(.random(in: 1...40, using: &dice)).map { $0 & 0x3f }]
        default:
            let garbage = Garbage.all.randomElement(using: &dice)!
            return [[]] + garbage.frames(player.id, player.seq + 1)
        }
    }
}
