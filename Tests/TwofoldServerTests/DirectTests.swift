import Foundation
import Glibc
import Testing
import TwofoldProtocol
import TwofoldService

@testable import TwofoldServer

// In turns: how many connections a process may have is limited.
@Suite(.serialized) struct DirectTests {
    private let directory = ScratchDirectory()

    private let requests: [(Request.OneOf_Op, [UInt8]?)] = [
        (.create(lanes: 3), nil), (.seededReset, bytes(of: [4, 5, 6])), (.step, [3, 2, 1]),
        (.afterstates, nil),
        (.step, [0, 0, 7]), (.step, nil), (.step, []), (.step, [0, 0, 0]), (.observe, nil), (.close, nil),
    ]

    @Test func `a packet gets what a message gets`() throws {
        let server = try RunningServer(directory.ipc())
        let direct = try DirectPeer(beside: server.endpoint)
        #expect(try direct.ask(Request(.hello)).reply == Peer(to: server.endpoint).ask(Request(.hello)).reply)
        let (id, otherID) = (newSessionID(), newSessionID())
        let peer = try Peer(to: server.endpoint)
        var seq: UInt64 = 1
        for (op, payload) in requests {
            let told = try direct.ask(Request(op, session: id, seq: seq), payload)
            #expect(try peer.ask(Request(op, session: otherID, seq: seq), payload) == told)
            if told.error == nil { seq += 1 }
        }
        #expect(seq == 8)
        let statistics = try server.stop()
        #expect(statistics.received == statistics.executed + statistics.refused)
        #expect(statistics.refused == 6)
    }

    @Test func `a repeat may come over either, and is applied once`() throws {
        let server = try RunningServer(directory.ipc())
        let peer = try Peer(to: server.endpoint)
        let id = newSessionID()
        var seq: UInt64 = 1
        for (op, payload) in requests {
            let request = Request(op, session: id, seq: seq)
            let direct = try DirectPeer(beside: server.endpoint)
            let first = seq % 2 == 0 ? try direct.ask(request, payload) : try peer.ask(request, payload)
            guard first.error == nil else { continue }
            #expect(try peer.ask(request, payload) == first)
            #expect(try direct.ask(request, payload) == first)
            #expect(try DirectPeer(beside: server.endpoint).ask(request, payload) == first)
            seq += 1
        }
        #expect(try server.stop().resent == 3 * 7)
    }

    @Test func `what a connection asked for that has ended can be had over ZeroMQ`() throws {
        let server = try RunningServer(directory.ipc())
        let create = Request(.create(lanes: 500_000), session: newSessionID(), seq: 1)
        do {
            let direct = try DirectPeer(beside: server.endpoint)
            try direct.send(create)
            withExtendedLifetime(direct) {}
        }
        #expect(try Peer(to: server.endpoint).ask(create).error == nil)
        let statistics = try server.stop()
        #expect(statistics.executed == 1)
        #expect(statistics.resent + statistics.parked == 1)
    }

    // MARK: what is no request

    /// A packet by its first bytes and its size, the rest being zeroes.
    @Test(
        arguments: [
            ([0], 1), ([1], 3), ([5], 4), ([255, 255, 255, 255], 4), ([0, 0, 0, 128], 4),
            ([1, 0, 0, 0, 1], 6),
            ([1, 0, 0, 128, 255], 5), ([0], 4), ([255], 131_072), ([255], 131_073), ([1, 1, 1, 1], 200_000),
        ] as [([UInt8], Int)])
    func `what is no request is refused, and the connection goes on`(begin: [UInt8], size: Int) throws {
        let packet = begin + [UInt8](repeating: 0, count: size - begin.count)
        let server = try RunningServer(directory.ipc())
        let direct = try DirectPeer(beside: server.endpoint)
        try direct.send(raw: packet)
        let error = try #require(try direct.receive().error)
        #expect(error.code == .invalidArgument)
        #expect(["frames", "request", "op"].contains(error.field))
        #expect(try direct.ask(Request(.hello)).error == nil)
        let statistics = try server.stop()
        #expect(statistics.received == 2)
        #expect(statistics.refused == 1)
    }

    @Test func `random packets are all answered`() throws {
        let server = try RunningServer(directory.ipc())
        let direct = try DirectPeer(beside: server.endpoint)
        var generator = SystemRandomNumberGenerator()
        let id = newSessionID()
        for round in 0..<2000 {
            var packet: [UInt8] = [40, 0, 0, round % 2 == 0 ? 128 : 0]
            packet += Request(.step, session: id, seq: 1).bytes + [0, 1, 2]
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                packet[Int.random(in: packet.indices, using: &generator)] =
                    UInt8.random(in: 0...255, using: &generator)
            }
            if round % 3 == 0 { packet.removeLast(Int.random(in: 0..<packet.count, using: &generator)) }
            try direct.send(raw: packet)
            #expect(try direct.receive().error != nil)
        }
        #expect(try server.stop().received == 2000)
    }

    @Test func `a reply that does not fit has to be asked for over ZeroMQ`() throws {
        let server = try RunningServer(directory.ipc())
        let direct = try DirectPeer(beside: server.endpoint)
        let player = try Player(try Peer(to: server.endpoint), lanes: 5000)
        let reset = player.request(.seededReset)
        let seeds = bytes(of: (0..<5000).map { UInt64($0) })
        try direct.send(reset, seeds)
        #expect(try direct.receiveRaw() == [0, 0, 0, 0])
        #expect(try player.peer.ask(reset, seeds).payload?.count ?? 0 > DirectListener.maxPacketBytes)
        // Who can read it where it lies need not.
        var reading = reset
        reading.readsMemory = true
        try direct.send(reading, seeds)
        #expect(try direct.receiveRaw() == [0, 0, 0, 0], "the stored reply lies in no shared memory")
        #expect(try server.stop().resent == 2)
    }

    @Test func `a frame beyond the limit is refused`() throws {
        let server = try RunningServer(directory.ipc()) { $0.limits.maxMessageBytes = 4096 }
        let direct = try DirectPeer(beside: server.endpoint)
        let step = Request(.step, session: newSessionID(), seq: 2)
        let refusal = try #require(try direct.ask(step, [UInt8](repeating: 0, count: 4097)).error)
        #expect(refusal.code == .resourceExhausted)
        #expect(refusal.message.contains("max_message_bytes = 4096"))
        #expect(try direct.ask(step, [UInt8](repeating: 0, count: 4096)).error?.field == "session")
    }

    // MARK: who comes and goes

    @Test func `who does not take its replies is shut out, and nobody else notices`() throws {
        let server = try RunningServer(directory.ipc())
        let deaf = try DirectPeer(beside: server.endpoint)
        var sent = 0
        while sent < 1_000_000, (try? deaf.send(Request(.hello))) != nil { sent += 1 }
        #expect(sent < 1_000_000)
        let other = try DirectPeer(beside: server.endpoint)
        #expect(try other.ask(Request(.hello)).error == nil)
        #expect(throws: (any Error).self) { while true { _ = try deaf.receiveRaw() } }
        #expect(try other.ask(Request(.hello)).error == nil)
    }

    @Test func `a client may go at any time`() throws {
        let server = try RunningServer(directory.ipc(), threads: 1)
        let before = ProcessUsage.descriptors
        for round in 0..<200 {
            let direct = try DirectPeer(beside: server.endpoint)
            if round % 2 == 0 { try direct.send(Request(.hello)) }
            if round % 4 == 0 {
                try direct.send(Request(.create(lanes: 70_000), session: newSessionID(), seq: 1))
            }
        }
        let last = try DirectPeer(beside: server.endpoint)
        // Those before it have been looked at by then.
        for _ in 0..<3 { #expect(try last.ask(Request(.hello)).error == nil) }
        #expect(ProcessUsage.descriptors <= before + 10)
    }

    @Test func `requests of many connections all get their turn`() throws {
        let server = try RunningServer(directory.ipc())
        let peers = try (0..<100).map { _ in try DirectPeer(beside: server.endpoint) }
        for turn in 1...20 {
            for (index, peer) in peers.enumerated() {
                var hello = Request(.hello)
                hello.seq = UInt64(1000 * index + turn)
                try peer.send(hello)
            }
        }
        for turn in 1...20 {
            for (index, peer) in peers.enumerated() {
                #expect(try peer.receive().reply.seq == UInt64(1000 * index + turn))
            }
        }
        #expect(try server.stop().received == 2000)
    }

    @Test func `what has arrived before the end is answered`() throws {
        let gate = DispatchSemaphore(value: 0)
        let endpoint = directory.ipc()
        let server = Background {
            try RunningServer(endpoint, gate: gate)
        }
        // It listens, and does not serve yet.
        while access(directory.path + "/s.direct", F_OK) != 0 { usleep(1000) }
        let peers = try (0..<20).map { _ in try DirectPeer(beside: endpoint) }
        for peer in peers { try peer.send(Request(.hello)) }
        gate.signal()
        let running = try server.value
        try running.stop()
        for peer in peers { #expect(try peer.receive().error == nil) }
        #expect(throws: DirectPeer.Ended.self) { _ = try peers[0].receiveRaw() }
        #expect(directory.files == [])
    }

    // MARK: the file

    @Test func `the socket goes with the server, and a dead one is cleared away`() throws {
        withExtendedLifetime(try UnixSocket(.packets, at: directory.path + "/s.direct")) {}
        #expect(directory.files == ["s.direct"])
        let server = try RunningServer(directory.ipc())
        #expect(directory.files == ["s", "s.direct", "s.lock"])
        #expect(try DirectPeer(beside: server.endpoint).ask(Request(.hello)).error == nil)
        try server.stop()
        #expect(directory.files == [])
    }

    @Test func `what somebody else has there is left alone, and everything goes over ZeroMQ`() throws {
        try directory.write("s.direct", "mine")
        let server = try RunningServer(directory.ipc())
        #expect(try Peer(to: server.endpoint).ask(Request(.hello)).error == nil)
        try server.stop()
        #expect(directory.files == ["s.direct"])

        let other = try UnixSocket(.packets, at: directory.path + "/t.direct")
        let second = try RunningServer(directory.ipc("t"))
        #expect(try Peer(to: second.endpoint).ask(Request(.hello)).error == nil)
        try second.stop()
        #expect(directory.files == ["s.direct", "t.direct"])
        withExtendedLifetime(other) {}
    }

    @Test func `an endpoint whose path is as long as can be has none`() throws {
        let name = String(repeating: "x", count: IPCPath.maxLength - directory.path.utf8.count - 1)
        let server = try RunningServer(directory.ipc(name))
        #expect(try Peer(to: server.endpoint).ask(Request(.hello)).error == nil)
        #expect(throws: DirectPeer.Failure.self) { _ = try DirectPeer(beside: server.endpoint) }
    }
}
