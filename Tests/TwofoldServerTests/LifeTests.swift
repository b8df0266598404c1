import Foundation
import Testing
import TwofoldProtocol
import TwofoldService
import TwofoldSessions
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

/// The transport of a server's endpoint.
enum Transport: CaseIterable {
    case ipc, tcp
}

/// The kind of a client's socket.
enum Manner: CaseIterable {
    case req, reqWithIDs, dealer

    func peer(to endpoint: String) throws -> Peer {
        switch self {
        case .req: try Peer(.req, to: endpoint)
        case .reqWithIDs: try Peer(.req, to: endpoint, correlated: true)
        case .dealer: try Peer(.dealer, to: endpoint)
        }
    }
}

@Suite struct LifeTests {
    private let directory = ScratchDirectory()

    @Test(arguments: Transport.allCases, Manner.allCases)
    func `a session lives from hello to close`(transport: Transport, manner: Manner) throws {
        let server = try RunningServer(transport == .ipc ? directory.ipc() : "tcp://127.0.0.1:0")
        let peer = try manner.peer(to: server.endpoint)

        let hello = try peer.ask(Request(.hello, seq: 77))
        #expect(hello.reply.seq == 77, "the reply repeats the seq, which a hello does not use")
        #expect(hello.payload == nil)
        #expect(hello.reply.hello.protocolVersion == 1)
        #expect(hello.reply.hello.serverVersion == EnvironmentService.version)
        #expect(
            hello.reply.hello.environments.map(\.id) == ["twofold/Game2048-v0", "twofold/Concentration-v0"])
        #expect(hello.reply.hello.environments.first?.actions == ["up", "right", "down", "left"])
        #expect(hello.reply.hello.threads == 2)

        let player = Player(peer)
        let create = try player.ask(.create(lanes: 10))
        #expect(create.reply.seq == 1)
        let created = create.reply.create
        #expect(created.epoch == 1)
        #expect(created.actionSpace.discrete.n == 4)

        let reset = try player.ask(.seededReset, bytes(of: Array(0..<10)))
        #expect(reset.reply.seq == 2)
        #expect(reset.reply.result == .reset(.init()))
        #expect(reset.payload?.count == Int(created.reset.size))

        let step = try player.ask(.step, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1])
        #expect(step.reply.seq == 3)
        #expect(step.reply.result == .step(.init()))
        let stepped = try #require(step.payload)
        #expect(stepped.count == Int(created.step.size))
        let ones = (0..<10).flatMap { _ in [1, 0, 0, 0] as [UInt8] }
        #expect(created.step.array("episode_length", of: stepped) == ones)

        let observe = try player.ask(.observe)
        #expect(observe.reply.seq == 4)
        #expect(observe.reply.result == .observe(.init()))
        let observed = try #require(observe.payload)
        for (name, bytes) in created.reset.rows(0..<10, of: observed) {
            #expect(created.step.array(name, of: stepped) == bytes, "\(name)")
        }

        let afterstates = try player.ask(.afterstates)
        #expect(afterstates.reply.seq == 5)
        #expect(afterstates.reply.result == .afterstates(.init()))
        let reported = try #require(afterstates.payload)
        #expect(reported.count == Int(created.afterstates.size))
        #expect(
            created.afterstates.array("mask", of: reported)
                == created.reset.array("action_mask", of: observed))

        let close = try player.ask(.close)
        #expect(close.reply.seq == 6)
        #expect(close.reply.result == .close(.init()))
        #expect(close.payload == nil)

        let late = try player.ask(.step, [UInt8](repeating: 0, count: 10))
        #expect(late.error?.code == .notFound)
        #expect(late.error?.field == "session")

        let counters = try server.stop().counters
        #expect(counters.received == 8)
        #expect(counters.executed == 7)
        #expect(counters.refused == 1)
        #expect(counters.resent == 0 && counters.parked == 0 && counters.dropped == 0)
    }

    @Test func `port 0 or * becomes a real port, and each endpoint is reported with its real address`() throws
    {
        let server = try RunningServer("tcp://127.0.0.1:0", directory.ipc(), "tcp://127.0.0.1:*")
        #expect(server.endpoints.count == 3)
        #expect(server.endpoints[1] == directory.ipc())
        let ports = [server.endpoints[0], server.endpoints[2]].map {
            $0.split(separator: ":").last.flatMap { Int($0) }
        }
        #expect(ports[0] != ports[1])
        for endpoint in server.endpoints { try Peer(to: endpoint).ask(Request(.hello)) }
        #expect(try server.stop().counters.executed == 3)
    }

    @Test func `one session is served at two endpoints`() throws {
        let server = try RunningServer("tcp://127.0.0.1:0", directory.ipc())
        let peers = try server.endpoints.map { try Peer(to: $0) }
        let alone = try Player(peers[0], lanes: 5)
        let player = try Player(peers[0], lanes: 5)
        #expect(try player.reset(seed: 3) == alone.reset(seed: 3))
        for turn in 0..<20 {
            player.peer = peers[turn % 2]
            #expect(try player.step(turn: turn) == alone.step(turn: turn))
            // Repeat the request over the other peer.
            #expect(try player.repeatLast(over: peers[(turn + 1) % 2]).reply.result == .step(.init()))
        }
        #expect(try server.stop().counters.resent == 20)
    }

    @Test func `the configured limits are reported and enforced`() throws {
        let server = try RunningServer(directory.ipc()) {
            $0.service.limits.maxSessions = 2
            $0.service.limits.maxBoardsPerSession = 20
        }
        let peer = try Peer(to: server.endpoint)
        let limits = try peer.ask(Request(.hello)).reply.hello.limits
        #expect(limits.maxSessions == 2)
        #expect(limits.maxBoardsPerSession == 20)
        #expect(limits.maxMessageBytes == 256 << 20)
        let tooMany = try Player(peer).ask(.create(lanes: 21))
        #expect(tooMany.error?.code == .resourceExhausted)
        #expect(tooMany.error?.field == "num_envs")
        let first = try Player(peer, lanes: 20)
        _ = try Player(peer, lanes: 1)
        let third = Player(peer)
        let refused = try third.ask(.create(lanes: 1))
        #expect(refused.error?.code == .resourceExhausted)
        #expect(refused.error?.field == "session")
        try first.close()
        #expect(try third.ask(.create(lanes: 1)).error == nil)
    }

    @Test func `a frame above the limit ends its connection, not the server`() throws {
        let server = try RunningServer(directory.ipc()) { $0.service.limits.maxMessageBytes = 10_000 }
        let player = try Player(try Peer(to: server.endpoint), lanes: 5)
        try player.reset(seed: 1)
        let large = try Peer(.dealer, to: server.endpoint)
        try large.send([player.request(.step).bytes, [UInt8](repeating: 0, count: 10_001)])
        // Messages that are sent over the closing connection are also lost.
        var answer: Answer?
        let isAnswered = try eventually {
            try large.send(Request(.hello, seq: 77))
            answer = try large.receive(within: .milliseconds(50))
            return answer != nil
        }
        #expect(isAnswered && answer?.reply.seq == 77, "the first reply is to a hello")
        try player.step(turn: 0)
        // The largest allowed frame still gets an answer.
        let edge = try Peer(to: server.endpoint)
        let refused = try edge.ask(player.request(.step), [UInt8](repeating: 0, count: 10_000))
        #expect(refused.error?.field == "actions")
    }

    @Test func `several clients in parallel get the same replies as each client alone`() throws {
        let server = try RunningServer(directory.ipc(), "tcp://127.0.0.1:0")
        let endpoints = server.endpoints
        @Sendable func play(_ client: Int) throws -> [[UInt8]] {
            let player = try Player(
                try Manner.allCases[client % 3].peer(to: endpoints[client % 2]), lanes: 20 + 100 * client)
            var replies = [try player.reset(seed: UInt64(client))]
            for turn in 0..<30 { replies.append(try player.step(turn: turn)) }
            try player.close()
            return replies
        }
        let alone = try (0..<5).map(play)
        for _ in 0..<2 {
            let together = (0..<5).map { client in Background { try play(client) } }
            for (client, replies) in zip(together, alone) { #expect(try client.value == replies) }
        }
        let counters = try server.stop().counters
        #expect(counters.executed == 3 * 5 * 33)
        #expect(counters.refused == 0)
    }
}
