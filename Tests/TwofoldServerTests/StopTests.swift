import Dispatch
import Foundation
import Testing
import TwofoldProtocol
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

@Suite struct StopTests {
    private let directory = ScratchDirectory()

    @Test(arguments: Transport.allCases)
    func `a step that is in progress at the stop is still answered`(transport: Transport) throws {
        let server = try RunningServer(
            transport == .ipc ? directory.ipc() : "tcp://127.0.0.1:0", threads: 1)
        let players = try (0..<2).map { _ in
            try Player(try Peer(.dealer, to: server.endpoint), lanes: slowBatch)
        }
        for player in players { try player.reset(seed: 1) }
        for player in players { try player.sendAndWaitUntilTaken(.step, player.actions(turn: 0)) }
        server.ring()
        for player in players {
            let answer = try player.peer.receive(within: .seconds(5))
            #expect(answer?.reply.result == .step(.init()), "\(answer == nil ? "no answer" : "an error")")
            #expect(answer?.payload?.count == Int(player.created.step.size))
        }
        #expect(try server.stop().executed == 8)
        #expect(directory.files == [])
    }

    @Test func `requests that have arrived before the stop are answered`() throws {
        let endpoint = directory.ipc()
        let gate = DispatchSemaphore(value: 0)
        let server = try RunningServer(endpoint, gate: gate)
        let peer = try Peer(.dealer, to: endpoint)
        // More than the loop takes from one socket in one turn.
        for seq: UInt64 in 1...200 { try peer.send(Request(.hello, seq: seq)) }
        Thread.sleep(forTimeInterval: 0.2)
        server.ring()
        gate.signal()
        for seq: UInt64 in 1...200 {
            let answer = try #require(try peer.receive(within: .seconds(5)), "no answer to \(seq)")
            #expect(answer.reply.seq == seq)
        }
        #expect(try server.stop().executed == 200)
    }

    @Test func `what is asked for after the stop is told to come back, and uses up no seq`() throws {
        let server = try RunningServer(directory.ipc(), threads: 1)
        let slow = try Player(try Peer(.dealer, to: server.endpoint), lanes: slowBatch)
        let late = try Player(try Peer(to: server.endpoint), lanes: 1)
        try slow.reset(seed: 1)
        try late.reset(seed: 1)
        try slow.sendAndWaitUntilTaken(.step, slow.actions(turn: 0))
        server.ring()
        // What had arrived before the stop was seen is still carried out.
        var answer = try late.ask(.step, [0])
        while answer.error == nil { answer = try late.ask(.step, [0]) }
        #expect(answer.error?.code == .shuttingDown)
        #expect(answer.error?.retryAfterMs == 1000)
        let before = late.seq
        #expect(try late.ask(.step, [0]).error?.code == .shuttingDown)
        #expect(late.seq == before)
        #expect(try slow.receive().reply.result == .step(.init()))
        try server.stop()
    }

    @Test func `while it serves, an ipc endpoint is a socket with a lock beside it, and afterwards nothing`()
        throws
    {
        let server = try RunningServer(directory.ipc(), directory.ipc("t"))
        #expect(directory.files == ["s", "s.lock", "t", "t.lock"])
        try Peer(to: server.endpoint).ask(Request(.hello))
        try server.stop()
        #expect(directory.files == [])
    }

    @Test func `a second server on the same path is refused while the first lives`() throws {
        let first = try RunningServer(directory.ipc())
        let peer = try Peer(to: first.endpoint)
        for _ in 0..<2 {
            let error = try #require(throws: ServerError.self) { try RunningServer(directory.ipc()) }
            #expect(error.description.contains("served by another process"))
            #expect(error.description.contains(directory.path))
        }
        // The first has noticed nothing.
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

    @Test func `one endpoint that can't be had stops the start, and the others are given back`() throws {
        let taken = try RunningServer("tcp://127.0.0.1:0")
        for wrong in [
            taken.endpoint, "udp://127.0.0.1:5", "ipc://relative", "tcp://127.0.0.1",
            "inproc://here", "", directory.ipc(), "ipc:///", "ipc://" + directory.path + "/none/s",
        ] {
            let error = try #require(throws: ServerError.self, "\(wrong)") {
                try RunningServer(directory.ipc(), wrong)
            }
            let told = wrong.hasPrefix("ipc:///") ? String(wrong.dropFirst(6)) : wrong
            #expect(error.description.contains("'\(told)"), "\(error.description)")
            #expect(directory.files == [], "after \(wrong)")
        }
        try RunningServer(directory.ipc()).stop()
    }

    @Test(arguments: ["65536", "70000", "99999999999", "-1", "1x"])
    func `a port that is none is refused`(port: String) throws {
        let endpoint = "tcp://127.0.0.1:" + port
        let error = try #require(throws: ServerError.self) { try RunningServer(endpoint) }
        #expect(error.description.contains("'\(endpoint)'"))
    }

    @Test func `a server that was asked to stop before it began stops at once`() throws {
        for _ in 0..<5 { #expect(try RunningServer(directory.ipc()).stop() == ServerStatistics()) }
        #expect(directory.files == [])
    }

    @Test func `a server whose parent is another process ends by itself`() throws {
        let server = try RunningServer(directory.ipc()) { $0.parentProcess = 1 << 22 }
        let isGone = eventually { directory.files == [] }
        #expect(isGone)
        try server.stop()
    }

    @Test func `a server whose parent is there goes on`() throws {
        let server = try RunningServer(directory.ipc()) { $0.parentProcess = getppid() }
        Thread.sleep(forTimeInterval: 0.6)
        #expect(try Peer(to: server.endpoint).ask(Request(.hello)).error == nil)
        try server.stop()
    }
}

/// Looks at `condition` until it holds, for as long as there is patience.
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = ContinuousClock.now + patience
    while try !condition() {
        if ContinuousClock.now > deadline { return false }
        Thread.sleep(forTimeInterval: 0.01)
    }
    return true
}
