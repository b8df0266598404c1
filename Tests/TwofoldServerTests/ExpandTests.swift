import Testing
import TwofoldProtocol
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

/// Tests expand requests over a socket. They apply the rules to arrays of boards, without a session.
@Suite struct ExpandTests {
    private static func legal(of boards: Int) -> (Request, [UInt8]) {
        var dice = Dice(seed: UInt64(boards))
        let request = Request(.expand(.legal, boards: boards), epoch: 0)
        return (request, dice.bytes(16 * boards).map { $0 % 4 })
    }

    /// A slow request: its 8 x 8 boards use the readable rules.
    private static let slow: (Request, [UInt8]) = {
        let request = Request(
            .expand(.afterstates, boards: 20_000) { ($0.game2048.rows, $0.game2048.columns) = (8, 8) },
            epoch: 0)
        return (request, [UInt8](repeating: 1, count: 64 * 20_000))
    }()

    private static let slowReplyBytes = 20_000 * (4 * 64 + 4 * 4 + 4)

    @Test func `small and large requests are answered, and a repeat gets the same answer`() throws {
        let server = try RunningServer("tcp://127.0.0.1:0")
        let peer = try Peer(to: server.endpoint)
        for boards in [1, 100, 300_000] {
            let (request, payload) = Self.legal(of: boards)
            let answer = try peer.ask(request, payload)
            #expect(answer.error == nil)
            #expect(answer.payload?.count == 4 * boards)
            #expect(try peer.ask(request, payload) == answer)
        }
        try server.stop()
    }

    @Test func `a large request does not keep the socket thread from answering others`() throws {
        let latch = Latch()
        let server = try RunningServer("tcp://127.0.0.1:0") { $0.jobDidBegin = latch.pass }
        let peer = try Peer(.dealer, to: server.endpoint)
        let (large, payload) = Self.slow
        latch.close()
        try peer.sendAndWaitUntilTaken(large, payload)
        latch.open()
        #expect(try peer.receive().payload?.count == Self.slowReplyBytes)
        try server.stop()
    }

    @Test func `requests in progress at the stop are answered`() throws {
        let latch = Latch()
        let server = try RunningServer("tcp://127.0.0.1:0") { $0.jobDidBegin = latch.pass }
        let peer = try Peer(.dealer, to: server.endpoint)
        let (large, payload) = Self.slow
        latch.close()
        try peer.sendAndWaitUntilTaken(large, payload)
        server.ring()
        latch.open()
        try server.stop()
        #expect(try peer.receive().payload?.count == Self.slowReplyBytes)
    }
}
