import Foundation
import Testing
import TwofoldCore
import TwofoldOptimum
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

/// Returns a service with these limits and tables, which distributes batches over this many threads.
func service(
    threads: Int = 1, limits: Limits = Limits(), tables: String = "/nowhere"
) -> EnvironmentService {
    EnvironmentService(limits: limits, workers: Workers(threads: threads), tables: tables)
}

/// A session and the memory for its replies. It checks how the service uses the memory.
///
/// The memory starts at an odd address. Before each call, the session fills it with a new byte. The margins must not
/// change:
///
///     fill × 3 | the requested size | fill × 8
final class Session {
    let created: CreateReply
    let session: ServedEnvironment
    /// The service's phase, which can end a request in progress early.
    let phase: CurrentPhase
    private var fill: UInt8 = 0x5a

    private static let margin = (before: 3, behind: 8)

    /// Creates a session of four 4x4 boards of the game 2048, unless `change` changes that.
    init(
        threads: Int = 1, limits: Limits = Limits(), tables: String = "/nowhere",
        _ change: (inout CreateRequest) -> Void = { _ in }
    ) throws {
        let service = service(threads: threads, limits: limits, tables: tables)
        phase = service.phase
        session = try ServedEnvironment(createRequest(lanes: 4, change), service)
        created = session.createReply
    }

    var lanes: Int { session.lanes }

    /// Executes a request and returns the answer. Its payload is nil if the service requested no memory.
    @discardableResult
    func call(_ op: Request.OneOf_Op, _ payload: [UInt8]? = nil) throws -> Answer {
        fill = ~fill
        var memory: UnsafeMutableRawBufferPointer?
        defer { memory?.deallocate() }
        func lend(_ size: Int) -> UnsafeMutableRawBufferPointer {
            if memory != nil { Issue.record("memory was requested twice") }
            let room = UnsafeMutableRawBufferPointer.allocate(
                byteCount: Self.margin.before + size + Self.margin.behind, alignment: 64)
            room.initializeMemory(as: UInt8.self, repeating: fill)
            memory = room
            return UnsafeMutableRawBufferPointer(
                rebasing: room[Self.margin.before..<Self.margin.before + size])
        }
        let outcome = try withBytes(payload) { try session.execute(op, payload: $0, replyMemory: lend) }
        guard let memory else {
            #expect(outcome.payloadSize == 0)
            return Answer(result: outcome.result, payload: nil, fill: fill)
        }
        let bytes = memory[Self.margin.before..<memory.count - Self.margin.behind]
        try #require(outcome.payloadSize <= bytes.count)
        #expect(memory[..<Self.margin.before].allSatisfy { $0 == fill }, "a write before the payload")
        #expect(memory[bytes.endIndex...].allSatisfy { $0 == fill }, "a write after the payload")
        return Answer(
            result: outcome.result, payload: Array(bytes.prefix(outcome.payloadSize)), fill: fill)
    }

    /// Resets all lanes; lane i gets the seed `seed + i`.
    @discardableResult
    func reset(seed: UInt64 = 0) throws -> Answer {
        try call(.reset(announcing(seeds: true)), seeds((0..<lanes).map { seed &+ UInt64($0) }))
    }

    @discardableResult
    func step(_ actions: [UInt8]) throws -> Answer { try call(.step(.init()), actions) }

    func observe() throws -> Answer { try call(.observe(.init())) }

    func afterstates() throws -> Answer { try call(.afterstates(.init())) }

    /// Returns the error of a refused request. Records an issue if the request is not refused.
    func refusal(_ op: Request.OneOf_Op, _ payload: [UInt8]? = nil) throws -> EnvironmentError {
        try #require(throws: EnvironmentError.self) { try self.call(op, payload) }
    }

    // MARK: a reply's arrays

    /// Returns one array of a reply, with a layout from the create reply.
    func array(_ name: String, of answer: Answer, in layout: PayloadLayoutMessage) throws -> [UInt8] {
        let array = try #require(layout.arrays.first { $0.name == name })
        let payload = try #require(answer.payload)
        return Array(payload[Int(array.offset)..<Int(array.offset) + array.byteCount])
    }

    /// Returns a lane's row of an array in a step reply.
    func stepped(_ name: String, lane: Int, of answer: Answer) throws -> [UInt8] {
        let bytes = try array(name, of: answer, in: created.step)
        let row = bytes.count / lanes
        return Array(bytes[lane * row..<(lane + 1) * row])
    }

    /// Returns a lane's row of an array in a reset reply.
    func observed(_ name: String, lane: Int, of answer: Answer) throws -> [UInt8] {
        let bytes = try array(name, of: answer, in: created.reset)
        let row = bytes.count / lanes
        return Array(bytes[lane * row..<(lane + 1) * row])
    }
}

/// The answer to a request.
struct Answer {
    let result: Reply.OneOf_Result
    let payload: [UInt8]?
    /// The byte that filled the memory before the call.
    let fill: UInt8
}

// MARK: requests

func announcing(seeds: Bool = false, mask: Bool = false, boards: Bool = false) -> ResetRequest {
    var request = ResetRequest()
    request.seeds = seeds
    request.mask = mask
    request.boards = boards
    return request
}

/// Returns seeds in the protocol's encoding: 8 bytes each, little-endian.
func seeds(_ seeds: [UInt64]) -> [UInt8] {
    seeds.flatMap { seed in (0..<8).map { UInt8(truncatingIfNeeded: seed >> ($0 * 8)) } }
}

/// Joins arrays into the payload of a reset.
func packed(_ arrays: [UInt8]...) -> [UInt8] { Array(arrays.joined()) }

/// A 4x4 board without legal actions.
let stuckBoard: [UInt8] = [1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 1]

/// A 4x4 board with one tile.
let loneTile: [UInt8] = [1] + [UInt8](repeating: 0, count: 15)

private func withBytes<Result>(
    _ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) throws -> Result
) rethrows -> Result {
    guard let bytes else { return try body(nil) }
    // An empty array has no address, but an empty frame does. Only its presence matters.
    return try (bytes + [0]).withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0.dropLast())) }
}
