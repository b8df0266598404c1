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
}
