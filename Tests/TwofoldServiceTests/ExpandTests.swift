import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

@Suite struct ExpandTests {
    private func request(
        _ operation: ExpandOperation, count: UInt64, _ change: (inout ExpandRequest) -> Void = { _ in }
    ) -> ExpandRequest {
        var request = ExpandRequest()
        request.environmentID = "twofold/Game2048-v0"
        request.count = count
        request.operation = operation
        change(&request)
        return request
    }

    /// Returns the reply and its payload, which is nil if the service requested no memory.
    private func expand(
        _ request: ExpandRequest, _ payload: [UInt8]?, limits: Limits = Limits()
    ) throws -> (ExpandReply, [UInt8]?) {
        var memory: UnsafeMutableRawBufferPointer?
        defer { memory?.deallocate() }
        let expansion = try service(limits: limits).expansion(request)
        func perform(_ payload: UnsafeRawBufferPointer?) throws -> ExpandReply {
            try expansion.perform(payload: payload) { size in
                if memory != nil { Issue.record("memory was requested twice") }
                memory = .allocate(byteCount: size, alignment: 64)
                return memory!
            }
        }
        let reply = try payload.map { try $0.withUnsafeBytes { try perform($0) } } ?? perform(nil)
        return (reply, memory.map { Array($0) })
    }

    private func refusal(
        _ request: ExpandRequest, _ payload: [UInt8]?, limits: Limits = Limits()
    ) throws -> EnvironmentError {
        try #require(throws: EnvironmentError.self) {
            try self.expand(request, payload, limits: limits)
        }
    }

    private func array(_ name: String, of reply: (ExpandReply, [UInt8]?)) throws -> [UInt8] {
        let array = try #require(reply.0.arrays.arrays.first { $0.name == name })
        return Array(try #require(reply.1)[Int(array.offset)..<Int(array.offset) + array.byteCount])
    }

    private static let pair: [UInt8] = [1, 1, 0, 0] + [UInt8](repeating: 0, count: 12)

    @Test func `a reply lists its own arrays`() throws {
        let reply = try expand(request(.afterstates, count: 2), Self.pair + stuckBoard)
        #expect(reply.0.arrays.arrays.map(\.name) == ["boards", "rewards", "mask"])
        #expect(reply.0.arrays.arrays.map(\.shape) == [[2, 4, 4, 4], [2, 4], [2, 4]])
        #expect(reply.0.arrays.size == UInt64(reply.1!.count))
        #expect(try array("mask", of: reply) == [0, 1, 1, 1, 0, 0, 0, 0])
        let left = Array(try array("boards", of: reply)[48..<64])
        #expect(left == [2] + [UInt8](repeating: 0, count: 15))
    }

    @Test func `a long request is answered in parts, the first boards first`() throws {
        // Each board has two slides, a merge and a spawn. On every second board, the new tile is in another cell.
        let next: [[UInt8]] = [8, 15].map { cell in
            var board: [UInt8] = [0, 0, 0, 2] + [UInt8](repeating: 0, count: 12)
            board[cell] = 1
            return board
        }
        func rows(_ boards: Range<Int>) throws -> (ExpandReply, [UInt8]?) {
            let payload =
                boards.flatMap { _ in Self.pair } + boards.map { _ in 1 }
                + boards.flatMap { next[$0 % 2] }
            return try expand(request(.explain, count: UInt64(boards.count)), payload)
        }
        let first = try rows(0..<7000)
        let done = Int(first.0.count)
        #expect((1..<7000).contains(done))
        #expect(first.0.arrays.arrays.allSatisfy { $0.shape == [UInt64(4 * done)] })
        let rest = try rows(done..<7000)
        #expect(Int(rest.0.count) == 7000 - done)
        let targets = try array("target", of: first) + array("target", of: rest)
        let isRight = (0..<7000).allSatisfy { targets[16 * $0 + 12] == [8, 15][$0 % 2] }
        #expect(targets.count == 7000 * 16 && isRight)
    }

    @Test func `the config sets the size of the boards`() throws {
        let reply = try expand(
            request(.move, count: 1) {
                $0.game2048.rows = 2
                $0.game2048.columns = 3
            }, [1, 1, 1, 0, 0, 0] + [3])
        #expect(try array("boards", of: reply) == [2, 1, 0, 0, 0, 0])
        #expect(try array("legal", of: reply) == [1])
    }

    @Test func `an explanation has one row for each event`() throws {
        let payload = Self.pair + stuckBoard + [3, 0] + [2, 0, 0, 1] + Self.pair[4...] + stuckBoard
        let reply = try expand(request(.explain, count: 2), payload)
        // The second tile slides, the two merge, and a 2 appears; nothing happens on the other board.
        let numbers = try reply.0.arrays.arrays.map { array -> [Int32] in
            let bytes = try self.array(array.name, of: reply)
            return stride(from: 0, to: bytes.count, by: 4).map { at in
                bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: at, as: Int32.self) }
            }
        }
        #expect(
            numbers == [
                [0, 0, 0], [0, 1, 2], [2, 1, 4], [-1, 2, -1], [-1, 3, -1], [1, -1, -1], [0, 0, 3], [2, 4, 2],
            ])
        let nothing = try expand(request(.explain, count: 1), stuckBoard + [2] + stuckBoard)
        #expect(nothing.1 == nil && nothing.0.arrays.size == 0)
    }

    @Test func `a wrong request names the field and the row`() throws {
        let good = Self.pair
        func expect(
            _ request: ExpandRequest, _ payload: [UInt8]?, _ kind: EnvironmentError.Kind, _ field: String,
            lane: Int? = nil,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let error = try refusal(request, payload)
            #expect(error.kind == kind, sourceLocation: sourceLocation)
            #expect(error.field == field, sourceLocation: sourceLocation)
            #expect(error.lane == lane, sourceLocation: sourceLocation)
        }
        try expect(
            request(.legal, count: 1) { $0.environmentID = "x" }, good, .notFound, "environment_id")
        try expect(request(.legal, count: 0), nil, .invalidArgument, "count")
        try expect(request(.unspecified, count: 1), good, .invalidArgument, "operation")
        try expect(request(.UNRECOGNIZED(99), count: 1), good, .invalidArgument, "operation")
        try expect(
            request(.legal, count: 1) { $0.game2048.rows = 9 }, good, .invalidArgument, "size")
        try expect(
            request(.spawn, count: 1) { $0.game2048.fourProbability = 2 }, good, .invalidArgument,
            "four_probability")
        try expect(request(.legal, count: 1), nil, .invalidArgument, "payload")
        try expect(request(.legal, count: 1), [], .invalidArgument, "payload")
        try expect(request(.legal, count: 2), good, .invalidArgument, "payload")
        try expect(request(.move, count: 1), good, .invalidArgument, "payload")
        try expect(request(.spawn, count: 1), good + [1], .invalidArgument, "payload")
        try expect(request(.move, count: 2), good + good + [0, 4], .invalidArgument, "actions", lane: 1)
        try expect(request(.legal, count: 2), good + [27] + good[1...], .invalidArgument, "boards", lane: 1)
        let unreachable: [UInt8] = [2, 1] + good[2...]
        try expect(
            request(.explain, count: 2), good + good + [3, 3] + unreachable + good, .invalidArgument,
            "next_board",
            lane: 1)
        var limits = Limits()
        limits.maxBoardsPerSession = 1
        #expect(
            try refusal(request(.legal, count: 2), good + good, limits: limits).kind == .resourceExhausted)
        // With this count, any multiplication overflows.
        #expect(try refusal(request(.legal, count: .max), good).kind == .resourceExhausted)
    }
}
