import CTwofold
import Foundation
import Glibc
import Platform
import Testing
import TwofoldEmbedded
import TwofoldProtocol
import TwofoldTestSupport

@Suite struct ShortMemoryTests {
    @Test(arguments: [0, 5, 14])
    func `a request without enough memory is refused, and succeeds with more`(
        mebibytes: Int
    ) async {
        await #expect(processExitsWith: .success) { [mebibytes] in
            leave(MemoryPromise.kept + ample)
            let refused = try play(leaving: mebibytes << 20)
            // Without any memory left, all requests are refused.
            if mebibytes == 0 { #expect(refused == requests, "\(refused)") }
        }
    }

    @Test func `a payload that does not fit in memory is refused, and can be sent again`() async {
        await #expect(processExitsWith: .success) {
            let library = try Library()
            let boards = try Boards(library, lanes: 1)
            let payload = [UInt8](repeating: 0, count: 200 << 20)
            leave(MemoryPromise.kept + 20 << 20)
            var request = RestoreRequest()
            request.count = 1
            let restore = boards.request(.restore(request))
            #expect(library.call(restore, payload).error?.code == .resourceExhausted)
            leave(MemoryPromise.kept + 300 << 20)
            #expect(library.call(restore, payload).error?.code == .invalidArgument)
            try boards.step([0])
        }
    }

    @Test func `a service without enough memory is not created`() async {
        await #expect(processExitsWith: .success) {
            leave(MemoryPromise.kept - 1 << 20)
            var number: UInt64 = 0
            var message = [CChar](repeating: 0, count: 500)
            #expect(create(&number, &message, message.count) == TWOFOLD_FAILED)
            let text = message.withUnsafeBytes { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            #expect(text.contains("ulimit -v"))
        }
    }

    @Test(arguments: [0, 1, 10, 500])
    func `the reason why a service is not created fits into the caller's memory`(capacity: Int) async {
        await #expect(processExitsWith: .success) { [capacity] in
            setenv("TWOFOLD_THREADS", "none", 1)
            var number: UInt64 = 0
            var message = [CChar](repeating: 7, count: 600)
            #expect(create(&number, &message, capacity) == TWOFOLD_FAILED)
            let text = "TWOFOLD_THREADS is 'none'; it must be an integer".utf8.prefix(max(0, capacity - 1))
            let written = text.map { CChar($0) } + (capacity == 0 ? [] : [0])
            #expect(message == written + [CChar](repeating: 7, count: 600 - written.count))
        }
    }
}

/// Limits the process's address space to its current size plus this many bytes.
private func leave(_ bytes: Int) {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
    limit.rlim_cur = rlim_t(ProcessUsage.addressSpaceBytes! + bytes)
    setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
}

/// An amount of memory that is enough for each request.
private let ample = 200 << 20

private let requests = ["expand", "create", "reset", "step", "snapshot", "restore", "random", "greedy"]

/// Sends each request while this many bytes are left, and repeats it with more memory if it is refused. Returns the
/// names of the refused requests.
private func play(leaving bytes: Int) throws -> [String] {
    let lanes = 100_000
    var refused: [String] = []
    let library = try Library()
    // With such a small header buffer, the payload of an expand reply waits in the library's memory.
    (library.headerRoom, library.payloadRoom) = (1000, 16 << 20)
    let id = [UInt8](repeating: 1, count: 16)
    var seq: UInt64 = 1

    func attempt(_ name: String, _ request: () -> Library.Answer) throws -> [UInt8] {
        leave(MemoryPromise.kept + bytes)
        var answer = request()
        leave(MemoryPromise.kept + ample)
        if let error = answer.error {
            #expect(error.code == .resourceExhausted, "\(name): \(error)")
            refused.append(name)
            answer = request()
        }
        try #require(answer.error == nil, "\(name): \(answer.error!)")
        if name != "expand" { seq += 1 }
        return answer.payload
    }
    func ask(_ name: String, _ op: Request.OneOf_Op, _ payload: [UInt8]? = nil) throws -> [UInt8] {
        try attempt(name) { library.call(Request(op, session: .init(id), seq: seq), payload) }
    }

    _ = try ask("expand", .expand(.afterstates, boards: lanes), [UInt8](repeating: 1, count: 16 * lanes))
    _ = try ask("create", .create(lanes: lanes) { $0.autoresetMode = .sameStep })
    _ = try ask("reset", .seededReset, [UInt8](repeating: 1, count: 8 * lanes))
    let actions = [Int64](repeating: 0, count: lanes)
    let step = try attempt("step") { library.step(id, seq: seq, wide: actions) }
    // A repeat needs no memory, regardless of the width of its actions.
    leave(MemoryPromise.kept)
    let repeats = [
        library.step(id, seq: seq - 1, wide: actions),
        library.step(id, seq: seq - 1, wide: [UInt16](repeating: 0, count: lanes)),
        library.step(id, seq: seq - 1, [UInt8](repeating: 0, count: lanes)),
    ]
    // Compare outside the expectation, because a failed comparison inside it needs a lot of memory.
    let areSame = repeats.allSatisfy { $0.payload == step }
    #expect(areSame)
    let others = [Int64](repeating: 256, count: lanes)
    #expect(library.step(id, seq: seq - 1, wide: others).error?.code == .conflict)
    let snapshot = try ask("snapshot", .snapshot(.init()))
    var restore = RestoreRequest()
    restore.count = UInt64(lanes)
    _ = try ask("restore", .restore(restore), snapshot)
    _ = try ask("random", .rollout(steps: 1, maxPayloadBytes: 1 << 20) { $0.random = .init() })
    _ = try ask("greedy", .rollout(steps: 1, maxPayloadBytes: 1 << 20) { $0.greedy = .init() })
    return refused
}
