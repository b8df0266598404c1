import Dispatch
import Foundation
import Platform
import Testing
import TwofoldProtocol
import TwofoldSessions
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

@Suite struct StopTests {
    private let directory = ScratchDirectory()

    @Test(arguments: Transport.allCases)
    func `a rollout in progress at the stop is still answered`(transport: Transport) throws {
        let latch = Latch()
        let server = try RunningServer(transport == .ipc ? directory.ipc() : "tcp://127.0.0.1:0") {
            $0.clock = latch.clock
        }
        let players = try (0..<2).map { _ in
            try Player(try Peer(.dealer, to: server.endpoint), lanes: queuedBatch)
        }
        for player in players { try player.reset(seed: 1) }
        latch.close()
        for player in players { try player.send(.randomStep) }
        let isHeld = eventually { latch.held == players.count }
        #expect(isHeld)
        server.ring()
        latch.open()
        for player in players {
            let answer = try player.receive()
            #expect(answer.reply.rollout.steps == 1)
            #expect(answer.payload?.count == Int(answer.reply.rollout.arrays.size))
        }
        #expect(try server.stop().counters.executed == 6)
        #expect(directory.files == [])
    }

    @Test func `requests that arrived before the stop are answered`() throws {
        /// Sends 200 requests to a server that is asked to stop before it starts to serve. Checks that each request
        /// that the server takes gets an answer, and returns the number of executed requests.
        func taken() throws -> Int {
            let endpoint = directory.ipc()
            let gate = DispatchSemaphore(value: 0)
            let server = try RunningServer(endpoint, gate: gate)
            let peer = try Peer(.dealer, to: endpoint)
            // These are more messages than the loop takes from one socket in one turn, or libzmq from one connection.
            for number: UInt8 in 1...200 {
                let session = Data(repeating: number, count: 16)
                try peer.send(Request(.create(lanes: 1), session: session, seq: 1))
            }
            server.ring()
            gate.signal()
            let counters = try server.stop().counters
            for number in 0..<counters.executed + counters.refused {
                let error = try peer.receive().error
                #expect((error == nil) == (number < counters.executed), "\(number)")
                #expect(error == nil || error?.code == .shuttingDown)
            }
            return Int(counters.executed)
        }
        // The server cannot know that more messages are in transit, and the system decides when they arrive.
        let tookAll = try eventually { try taken() == 200 }
        #expect(tookAll)
    }

    @Test func `a request after the stop is refused with a retry time and uses no seq`() throws {
        let latch = Latch()
        let server = try RunningServer(directory.ipc()) { $0.clock = latch.clock }
        let slow = try Player(try Peer(.dealer, to: server.endpoint), lanes: queuedBatch)
        let late = try Player(try Peer(to: server.endpoint), lanes: 1)
        try slow.reset(seed: 1)
        try late.reset(seed: 1)
        latch.close()
        try slow.send(.randomStep)
        let isHeld = eventually { latch.held == 1 }
        #expect(isHeld)
        server.ring()
        // Requests that arrived before the server saw the stop are still executed.
        var answer = try late.ask(.step, [0])
        while answer.error == nil { answer = try late.ask(.step, [0]) }
        #expect(answer.error?.code == .shuttingDown)
        #expect(answer.error?.retryAfterMs == 1000)
        let before = late.seq
        #expect(try late.ask(.step, [0]).error?.code == .shuttingDown)
        #expect(late.seq == before)
        latch.open()
        #expect(try slow.receive().reply.rollout.steps == 1)
        try server.stop()
    }

    @Test func `a busy server stops in time, and its sessions continue at the next server`()
        throws
    {
        let state = directory.path + "/state"
        func start() throws -> ServerProcess {
            try ServerProcess(
                "serve", "--endpoint", directory.ipc(), "--threads", "1", "--state-dir", state,
                "--max-search-milliseconds", "600000", "--max-bytes", "\(2 << 30)")
        }
        let server = try start()
        let endpoint = try server.endpoints()[0]
        func player(lanes: Int) throws -> Player {
            let player = try Player(Peer(.dealer, to: endpoint), lanes: lanes)
            try player.reset(seed: 1)
            return player
        }
        let steppers = try (0..<2).map { _ in try player(lanes: queuedBatch) }
        let rollers = try (0..<20).map { _ in try player(lanes: 1) }
        let searchers = try (0..<3).map { _ in try player(lanes: 64) }
        for player in searchers {
            try player.send(
                .rollout(steps: .max, maxPayloadBytes: 1 << 30) { $0.expectimax.depth = 8 })
        }
        // These requests have no session. Each is answered in parts after a tenth of a second.
        let board: [UInt8] = [1, 1] + [UInt8](repeating: 0, count: 14)
        let next: [UInt8] = [1, 0, 0, 2] + [UInt8](repeating: 0, count: 12)
        let boards =
            (0..<5000).flatMap { _ in board } + [UInt8](repeating: 1, count: 5000)
            + (0..<5000).flatMap { _ in next }
        let asker = try Peer(.dealer, to: endpoint)
        for seq: UInt64 in 1...300 {
            try asker.send(Request(.expand(.explain, boards: 5000), seq: seq), boards)
        }
        for player in rollers {
            try player.send(.rollout(steps: .max, maxPayloadBytes: 1 << 30) { $0.random = .init() })
        }
        for player in steppers { try player.send(.step, player.actions(turn: 0)) }
        // The server has taken all requests.
        while try asker.receive().reply.seq != 300 {}
        #expect(!(try Peer(to: endpoint).ask(Request(.stats(.init()))).reply.stats.draining))

        // The server stops long before the searches would end.
        try server.stop()
        let players = steppers + rollers + searchers
        for player in players {
            let answer = try player.receive()
            #expect(answer.error == nil || answer.error?.code == .shuttingDown, "\(answer.reply)")
        }
        #expect(searchers.allSatisfy { $0.seq == 2 })

        let second = try start()
        _ = try second.endpoints()
        for player in players { try player.step(turn: 1) }
        try second.stop()
    }

    @Test func `an ipc endpoint has a socket and a lock file while it is served, and no file afterwards`()
        throws
    {
        let server = try RunningServer(directory.ipc(), directory.ipc("t"))
        #expect(directory.files == ["s", "s.lock", "t", "t.lock"])
        try Peer(to: server.endpoint).ask(Request(.hello))
        try server.stop()
        #expect(directory.files == [])
    }

    @Test func `a second server on the same path is refused while the first one runs`() throws {
        let first = try RunningServer(directory.ipc())
        let peer = try Peer(to: first.endpoint)
        for _ in 0..<2 {
            let error = try #require(throws: Reason.self) { try RunningServer(directory.ipc()) }
            #expect(error.description.contains("another process serves the ipc path"))
            #expect(error.description.contains(directory.path))
        }
        // The first server has noticed nothing.
        #expect(directory.files == ["s", "s.lock"])
        #expect(try peer.ask(Request(.hello)).error == nil)
        #expect(try Peer(to: first.endpoint).ask(Request(.hello)).error == nil)
        try first.stop()
        // A client waits for the next server there.
        let second = try RunningServer(directory.ipc())
        #expect(try peer.ask(Request(.hello)).error == nil)
        try second.stop()
        #expect(directory.files == [])
    }

    @Test func `if one endpoint is unavailable, the server does not start and releases the others`() throws {
        let taken = try RunningServer("tcp://127.0.0.1:0")
        for wrong in [
            taken.endpoint, "udp://127.0.0.1:5", "ipc://relative", "tcp://127.0.0.1", "tcp://127.0.0.1:65536",
            "tcp://127.0.0.1:99999999999", "tcp://127.0.0.1:-1", "tcp://127.0.0.1:1x", "inproc://here", "",
            directory.ipc(), "ipc:///", "ipc://" + directory.path + "/none/s",
        ] {
            let error = try #require(throws: Reason.self, "\(wrong)") {
                try RunningServer(directory.ipc(), wrong)
            }
            let reported = wrong.hasPrefix("ipc:///") ? String(wrong.dropFirst(6)) : wrong
            #expect(error.description.contains("'\(reported)"), "\(error.description)")
            #expect(directory.files == [], "after \(wrong)")
        }
        try RunningServer(directory.ipc()).stop()
    }

    @Test func `a stop before the start ends the server at once`() throws {
        for _ in 0..<5 { #expect(try RunningServer(directory.ipc()).stop() == ServerStatistics()) }
        #expect(directory.files == [])
    }
}

/// Checks `condition` repeatedly until it holds. Returns false if it does not hold within `patience`.
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = ContinuousClock.now + patience
    while try !condition() {
        if ContinuousClock.now > deadline { return false }
        Thread.sleep(forTimeInterval: 0.01)
    }
    return true
}
