import Dispatch
import Foundation
import Platform
import Testing
import TwofoldProtocol
import TwofoldSessions
import TwofoldTestSupport

@testable import TwofoldServer
@testable import ZeroMQ

/// Returns the frames after the delimiter of messages that are not valid requests, for a session of three boards.
private func invalidMessages(_ session: Data, nextSeq: UInt64) -> [[[UInt8]]] {
    func step(_ session: Data, _ seq: UInt64) -> [UInt8] { Request(.step, session: session, seq: seq).bytes }
    let (header, zeros) = (step(session, nextSeq), [0, 0, 0] as [UInt8])
    var notUTF8 = Request(.create(lanes: 1), session: session, seq: nextSeq).bytes
    notUTF8[notUTF8.count - 10] = 0xff
    var noOp = Request(.step, session: session, seq: nextSeq)
    noOp.op = nil
    return [
        [[0xff, 0x00, 0x80, 0x13, 0x37]],
        [Array(header.dropLast()), zeros],
        [notUTF8],
        [[]],
        [noOp.bytes],
        [header, zeros, [0]],
        [header] + [[UInt8]](repeating: zeros, count: 99),
        [header],
        [header, [UInt8](repeating: 0, count: 100_000)],
        [header, [0, 0, 7]],
        [step(Data(session.reversed()), nextSeq), zeros],
        [step(session, nextSeq + 1), zeros],
        [Request(.create(lanes: 1) { $0.environmentID = "x" }, session: newSessionID(), seq: 1).bytes],
        [Request(.hello(HelloRequest()), seq: nextSeq).bytes],
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

    @Test func `the refusal of a message with a wrong number of frames has the number, unless it is large`()
        throws
    {
        let server = try RunningServer(directory.ipc())
        let peer = try Peer(.dealer, to: server.endpoint)
        for (frames, text) in [(0, "0"), (3, "3"), (20, "too many")] {
            try peer.send(raw: [[]] + [[UInt8]](repeating: [1], count: frames))
            let error = try peer.receive().error
            #expect(error?.message.hasPrefix("\(text) frames after the delimiter") == true)
        }
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
        try server.stop()
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
            return [[]] + invalidMessages(player.id, nextSeq: player.seq + 1).randomElement(using: &dice)!
        }
    }
}
