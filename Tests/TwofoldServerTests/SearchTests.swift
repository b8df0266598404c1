import Testing
import TwofoldProtocol
import TwofoldService
import TwofoldSessions
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

/// Tests that rollouts with a search do not delay other clients.
@Suite struct SearchTests {
    @Test func `other clients step during a search, and the search ends in time`() throws {
        let latch = Latch()
        let server = try RunningServer("tcp://127.0.0.1:0") {
            $0.service.limits.maxSearch = patience
            $0.clock = latch.clock
        }
        let searcher = try Player(Peer(.dealer, to: server.endpoint), lanes: 4)
        let other = try Player(Peer(to: server.endpoint), lanes: 64)
        try searcher.reset(seed: 0)
        try other.reset(seed: 0)
        let search = Request.OneOf_Op.rollout(steps: 1_000_000, maxPayloadBytes: 1 << 20) {
            $0.expectimax.depth = 3
            $0.expectimax.extension = 3
        }
        latch.close()
        try searcher.send(search)
        let isHeld = eventually { latch.held == 1 }
        #expect(isHeld)
        for turn in 0..<20 { try other.step(turn: turn) }
        #expect(try searcher.peer.receive(within: .zero) == nil)
        latch.open()
        let answer = try searcher.receive()
        let reply = answer.reply.rollout
        #expect(reply.steps >= 1 && reply.steps < 1_000_000, "\(answer.reply)")
        #expect(answer.payload?.count == Int(reply.arrays.size))
        try server.stop()
    }
}
