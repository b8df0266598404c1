import Foundation
import Testing
import TwofoldProtocol
import TwofoldSessions
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

@Suite struct RepeatTests {
    private let directory = ScratchDirectory()

    @Test func `a repeat over another socket gets the same bytes and is not executed again`() throws {
        let server = try RunningServer(directory.ipc())
        let player = Player(try Peer(to: server.endpoint))
        let second = try Peer(.dealer, to: server.endpoint)
        let seeds = bytes(of: [4, 5, 6])
        let requests: [(Request.OneOf_Op, [UInt8]?)] = [
            (.create(lanes: 3), nil), (.seededReset, seeds), (.step, [3, 2, 1]), (.afterstates, nil),
            (.step, [0, 0, 0]), (.observe, nil), (.step, [1, 1, 1]),
        ]
        var replies: [Answer] = []
        for (op, payload) in requests {
            let answer = try player.ask(op, payload)
            #expect(answer.error == nil)
            for _ in 0..<3 { #expect(try player.repeatLast(over: second) == answer) }
            // Repeat it over the first peer, and over a new one.
            #expect(try player.repeatLast(over: player.peer) == answer)
            #expect(try player.repeatLast(over: Peer(to: server.endpoint)) == answer)
            replies.append(answer)
        }
        // Send the same requests without repeats.
        let plain = Player(player.peer)
        for ((op, payload), reply) in zip(requests, replies) { #expect(try plain.ask(op, payload) == reply) }
        // Repeat the close.
        let close = try player.ask(.close)
        #expect(close.reply.result == .close(.init()))
        for _ in 0..<3 { #expect(try player.repeatLast(over: second) == close) }
        let counters = try server.stop().counters
        #expect(counters.executed == 15)
        #expect(counters.resent == 7 * 5 + 3)
    }

    @Test func `a used seq with other bytes is a conflict, over any socket`() throws {
        let server = try RunningServer(directory.ipc())
        let player = try Player(try Peer(to: server.endpoint), lanes: 3)
        let second = try Peer(to: server.endpoint)
        try player.reset(seed: 1)
        let step = try player.ask(.step, [0, 1, 2])
        for (op, payload) in [(.step, [0, 1, 3]), (.step, nil), (.observe, nil), (.close, nil)]
            as [(Request.OneOf_Op, [UInt8]?)]
        {
            let answer = try second.ask(Request(op, session: player.id, seq: player.seq), payload)
            #expect(answer.error?.code == .conflict)
            #expect(answer.error?.field == "seq")
            #expect(answer.reply.seq == player.seq)
        }
        #expect(try player.repeatLast(over: second) == step)
        try player.step(turn: 0)
    }

    @Test func `a wrong seq is refused with the expected one`() throws {
        let server = try RunningServer(directory.ipc())
        let player = try Player(try Peer(to: server.endpoint), lanes: 3)
        try player.reset(seed: 1)
        for seq: UInt64 in [0, 1, 4, 5, 1_000_000, .max] {
            let answer = try player.peer.ask(Request(.step, session: player.id, seq: seq), [0, 0, 0])
            #expect(answer.reply.seq == seq)
            #expect(answer.error?.code == .outOfSequence)
            #expect(answer.error?.hasExpectedSeq == true)
            #expect(answer.error?.expectedSeq == 3)
        }
        try player.step(turn: 0)
    }

    @Test func `a refused request uses no seq and changes nothing`() throws {
        let server = try RunningServer(directory.ipc())
        let peer = try Peer(to: server.endpoint)
        let player = try Player(peer, lanes: 3)
        let twin = try Player(peer, lanes: 3)
        try player.reset(seed: 1)
        try twin.reset(seed: 1)
        for turn in 0..<10 {
            let refused = try player.ask(.step, [0, 1, 4])
            #expect(refused.error?.code == .invalidArgument)
            #expect(refused.error?.field == "actions")
            #expect(refused.error?.lane == 2)
            #expect(refused.payload == nil)
            #expect(try player.step(turn: turn) == twin.step(turn: turn))
        }
        #expect(player.seq == 12)
    }

    @Test func `a refused create leaves its id free`() throws {
        let server = try RunningServer(directory.ipc())
        let player = Player(try Peer(to: server.endpoint))
        let refused = try player.ask(.create(lanes: 3) { $0.game2048.goal = 3 })
        #expect(refused.error?.field == "goal")
        #expect(try player.ask(.observe).error?.code == .notFound)
        let withPayload = try player.ask(.create(lanes: 3), [1])
        #expect(withPayload.error?.field == "payload")
        // This create is large, and is refused on another thread.
        let large = try player.ask(.create(lanes: 5000) { $0.game2048.goal = 3 })
        #expect(large.error?.field == "goal")
        try player.create(lanes: 3)
        try player.reset(seed: 1)
    }

    @Test func `a repeat of a request in progress is parked, and the newest socket gets the reply`()
        throws
    {
        let latch = Latch()
        let server = try RunningServer(directory.ipc()) { $0.jobDidBegin = latch.pass }
        let player = try Player(try Peer(.dealer, to: server.endpoint), lanes: queuedBatch)
        let twin = try Player(player.peer, lanes: queuedBatch)
        try player.reset(seed: 1)
        try twin.reset(seed: 1)
        let expected = try twin.step(turn: 0)
        let others = try (0..<3).map { _ in try Peer(.dealer, to: server.endpoint) }
        latch.close()
        try player.sendAndWaitUntilTaken(.step, player.actions(turn: 0))
        for other in others {
            try other.sendAndWaitUntilTaken(player.last.request, player.last.payload)
        }
        let conflict = try Peer(to: server.endpoint).ask(player.last.request)
        #expect(conflict.error?.code == .conflict)
        latch.open()
        let newest = try others[2].receive()
        #expect(newest.reply.result == .step(.init()))
        #expect(newest.payload == expected)
        for peer in [player.peer, others[0], others[1]] { try peer.expectNothing() }
        // The step was executed once, and its reply is stored now.
        player.peer = others[2]
        #expect(try player.repeatLast(over: player.peer) == newest)
        let counters = try server.stop().counters
        #expect(counters.parked == 3)
        #expect(counters.resent == 1)
    }
}
