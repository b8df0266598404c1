import Foundation
import Testing
import TwofoldProtocol

@testable import TwofoldServer

/// Large enough that its steps' payloads are worth sharing.
private let lanes = 2000

// In turns: how many of these there may be in a process is limited.
@Suite(.serialized) struct SharedMemoryTests {
    private let directory = ScratchDirectory()

    // MARK: the memory

    @Test func `others find the payload, and its stamp before it`() throws {
        let memory = try #require(SharedMemory(payload: 3))
        memory.payload.copyBytes(from: [7, 8, 9])
        let place = memory.holding(size: 2)
        #expect(place.size == 2)
        #expect(place.memory.size == 64 + 3)
        let whole = try Data(contentsOf: URL(filePath: path(of: place.memory)))
        #expect(whole.prefix(8) == Data(bytes(of: [place.stamp])))
        #expect(whole.dropFirst(64) == Data([7, 8, 9]))
        let link = try FileManager.default.destinationOfSymbolicLink(atPath: path(of: place.memory))
        #expect(link == "/memfd:twofold-\(String(format: "%016lx", place.memory.name)) (deleted)")
    }

    @Test func `memory that is used again has another stamp`() throws {
        let memory = try #require(SharedMemory(payload: 1))
        let first = memory.holding(size: 1).stamp
        memory.renew()
        #expect(memory.holding(size: 1).stamp != first)
    }

    @Test func `nobody else can write to it or make it shorter`() throws {
        let memory = try #require(SharedMemory(payload: 5000))
        let descriptor = open(path(of: memory.wire), O_RDWR)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        #expect(ftruncate(descriptor, 10) == -1)
        #expect(ftruncate(descriptor, 100_000) == -1)
        #expect(write(descriptor, "x", 1) == -1)
        #expect(mmap(nil, 5064, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) == MAP_FAILED)
    }

    @Test func `there are not so many that no descriptors are left, and they come back`() throws {
        var all: [SharedMemory] = []
        while all.count < 1000, let next = SharedMemory(payload: 10) { all.append(next) }
        #expect((1..<1000).contains(all.count))
        // What can't be shared is had all the same.
        let pool = PayloadPool(MemoryBudget(limit: 0), then: MemoryBudget(limit: .max))
        let buffer = try pool.take(size: 100_000, shared: true)
        #expect(buffer.memory == nil)
        #expect(buffer.bytes.count == 100_000)
        all.removeAll()
        #expect(SharedMemory(payload: 10) != nil)
    }

    @Test func `a pool shares what is large, where that is wanted`() throws {
        let pool = PayloadPool(MemoryBudget(limit: 0), then: MemoryBudget(limit: .max))
        #expect(try pool.take(size: 100_000, shared: true).memory != nil)
        #expect(try pool.take(size: 100_000, shared: false).memory == nil)
        #expect(try pool.take(size: 1000, shared: true).memory == nil)
        let stamp = try pool.take(size: 100_000, shared: true).memory!.holding(size: 1).stamp
        #expect(try pool.take(size: 100_000, shared: true).memory!.holding(size: 1).stamp != stamp)
    }

    // MARK: the server

    @Test func `a client that reads memory gets the bytes that another is sent`() throws {
        let server = try RunningServer(directory.ipc())
        let (reader, plain) = try (player(at: server, readsMemory: true), player(at: server))
        for turn in 0..<20 {
            let actions = (0..<lanes).map { UInt8(($0 + turn) % 4) }
            let told = try reader.ask(.step, actions)
            let sent = try plain.ask(.step, actions)
            #expect(told.payload == nil)
            #expect(try payload(of: told) == sent.payload)
            #expect(!sent.reply.hasPayload)
        }
    }

    @Test func `a repeat tells the same place, where the payload still lies`() throws {
        let server = try RunningServer(directory.ipc())
        let reader = try player(at: server, readsMemory: true)
        let told = try reader.ask(.step, [UInt8](repeating: 1, count: lanes))
        let payload = try payload(of: told)
        for _ in 0..<5 {
            #expect(try reader.repeatLast(over: Peer(to: server.endpoint)) == told)
            #expect(try self.payload(of: told) == payload)
        }
    }

    @Test func `a repeat of who can't read it is sent the payload, and nothing else may differ`() throws {
        let server = try RunningServer(directory.ipc())
        let reader = try player(at: server, readsMemory: true)
        let actions = [UInt8](repeating: 1, count: lanes)
        let told = try reader.ask(.step, actions)
        var request = reader.last.request
        request.readsMemory = false
        let sent = try Peer(to: server.endpoint).ask(request, actions)
        #expect(try sent.payload == payload(of: told))
        #expect(sent.header == told.header)
        request.op = .observe(.init())
        #expect(try Peer(to: server.endpoint).ask(request, nil).error?.code == .conflict)
        let other = [UInt8](repeating: 2, count: lanes)
        request = reader.last.request
        request.readsMemory = false
        #expect(try Peer(to: server.endpoint).ask(request, other).error?.code == .conflict)
        #expect(try server.stop().resent == 1)
    }

    @Test func `over tcp everything is sent`() throws {
        let server = try RunningServer("tcp://127.0.0.1:*", directory.ipc())
        let remote = server.endpoints.first { $0.hasPrefix("tcp") }!
        let reader = try player(at: server, readsMemory: true, endpoint: remote)
        let sent = try reader.ask(.step, [UInt8](repeating: 1, count: lanes))
        #expect(sent.payload != nil)
        #expect(!sent.reply.hasPayload)
        let hello = try reader.peer.ask(Request(.hello))
        #expect(!hello.reply.hello.hasMemory)
        // Also what was told to somebody on this machine.
        let local = server.endpoints.first { $0.hasPrefix("ipc") }!
        let other = try player(at: server, readsMemory: true, endpoint: local)
        let told = try other.ask(.step, [UInt8](repeating: 1, count: lanes))
        #expect(try other.repeatLast(over: Peer(to: remote)).payload == payload(of: told))
    }

    @Test func `hello tells of memory to try`() throws {
        let server = try RunningServer(directory.ipc())
        let hello = try Peer(to: server.endpoint).ask(Request(.hello)).reply.hello
        #expect(hello.hasMemory)
        #expect(try Data(contentsOf: URL(filePath: path(of: hello.memory))).count == hello.memory.size)
    }

    @Test func `who resumes is sent the payload that its last holder was told of`() throws {
        let server = try RunningServer(directory.ipc())
        let reader = try player(at: server, readsMemory: true)
        let told = try reader.ask(.step, [UInt8](repeating: 1, count: lanes))
        var request = ResumeRequest()
        request.holder = newSessionID()
        var resume = Request(.resume(request), session: reader.id, epoch: 0)
        resume.readsMemory = true
        let resumed = try reader.peer.ask(resume)
        #expect(resumed.reply.resume.lastReply == Data(told.header))
        #expect(try resumed.payload == payload(of: told))
    }

    // MARK: parts

    /// A client with boards that were reset.
    private func player(
        at server: RunningServer, readsMemory: Bool = false, endpoint: String? = nil
    ) throws -> Player {
        let player = Player(try Peer(to: endpoint ?? server.endpoint))
        player.readsMemory = readsMemory
        try player.create(lanes: lanes)
        _ = try player.ask(.seededReset, bytes(of: (0..<UInt64(lanes)).map(\.self)))
        return player
    }

    /// What lies where a reply says.
    private func payload(of answer: Answer) throws -> [UInt8] {
        try #require(answer.reply.hasPayload)
        let place = answer.reply.payload
        let whole = try Data(contentsOf: URL(filePath: path(of: place.memory)))
        #expect(whole.prefix(8) == Data(bytes(of: [place.stamp])))
        return [UInt8](whole[64..<64 + Int(place.size)])
    }

    private func path(of memory: SharedMemoryMessage) -> String {
        "/proc/\(memory.process)/fd/\(memory.descriptor)"
    }
}
