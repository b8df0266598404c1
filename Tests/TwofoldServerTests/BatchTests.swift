import Testing
import TwofoldProtocol
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

@Suite struct BatchTests {
    private let directory = ScratchDirectory()

    @Test func `one thread and several threads give the same bytes`() throws {
        let servers = try [1, 2, 5].map { threads in
            try RunningServer(directory.ipc("threads-\(threads)"), threads: threads)
        }
        let replies = try servers.map { server in
            // A queue processes this many boards in many chunks.
            let player = try Player(try Peer(to: server.endpoint), lanes: 5000)
            var replies = [try player.reset(seed: 99)]
            for turn in 0..<5 { replies.append(try player.step(turn: turn)) }
            replies.append(try player.execute(.afterstates))
            return replies
        }
        #expect(replies[0].count == 7)
        #expect(replies[0] == replies[1])
        #expect(replies[0] == replies[2])
    }

    @Test(arguments: [255, 256, 257, 320, 321])
    func `batches just below and above the limit of the socket thread get the same answers`(lanes: Int) throws
    {
        let server = try RunningServer(directory.ipc())
        let peer = try Peer(to: server.endpoint)
        let player = try Player(peer, lanes: lanes)
        let all = try Player(peer, lanes: 400)
        try player.reset(seed: 5)
        try all.reset(seed: 5)
        for turn in 0..<3 {
            let mine = player.created.step.rows(0..<lanes, of: try player.step(turn: turn))
            let theirs = all.created.step.rows(0..<lanes, of: try all.step(turn: turn))
            #expect(mine == theirs)
        }
        let refused = try player.ask(.step, [UInt8](repeating: 0, count: lanes - 1) + [4])
        #expect(refused.error?.lane == UInt64(lanes - 1))
        #expect(try player.ask(.step, player.actions(turn: 9)).error == nil)
    }

    @Test func `large batches of several sessions are executed in parallel`() throws {
        let latch = Latch()
        let server = try RunningServer(directory.ipc()) { $0.clock = latch.clock }
        let players = try (0..<2).map { _ in try Player(try Peer(to: server.endpoint), lanes: queuedBatch) }
        for player in players { try player.reset(seed: 11) }
        latch.close()
        for player in players { try player.send(.randomStep) }
        let areInParallel = eventually { latch.held == players.count }
        latch.open()
        #expect(areInParallel)
        let answers = try players.map { try $0.receive() }
        #expect(answers[0].error == nil && answers[0].payload == answers[1].payload)
    }

    @Test func `a client that sends several requests ahead gets its replies in order`() throws {
        let server = try RunningServer(directory.ipc())
        let player = try Player(try Peer(.dealer, to: server.endpoint), lanes: 4)
        let twin = try Player(try Peer(to: server.endpoint), lanes: 4)
        try player.reset(seed: 1)
        try twin.reset(seed: 1)
        // The server executes small steps as they arrive.
        for turn in 0..<50 {
            try player.peer.send(
                Request(.step, session: player.id, seq: player.seq + 1 + UInt64(turn)),
                player.actions(turn: turn))
        }
        for turn in 0..<50 { #expect(try player.receive().payload == twin.step(turn: turn)) }
    }
}
