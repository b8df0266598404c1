import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

/// A request that a session of four 4 x 4 boards refuses.
struct WrongRequest: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let op: Request.OneOf_Op
    let payload: [UInt8]?
    let field: String
    let lane: Int?
    let kind: EnvironmentError.Kind

    init(
        _ name: String, _ op: Request.OneOf_Op, _ payload: [UInt8]?, _ field: String, lane: Int? = nil,
        _ kind: EnvironmentError.Kind = .invalidArgument
    ) {
        testDescription = name
        self.op = op
        self.payload = payload
        self.field = field
        self.lane = lane
        self.kind = kind
    }

    private static let step = Request.OneOf_Op.step(.init())

    private static func reset(seeds: Bool = false, mask: Bool = false, boards: Bool = false)
        -> Request.OneOf_Op
    {
        .reset(announcing(seeds: seeds, mask: mask, boards: boards))
    }

    private static let zeros = [UInt8](repeating: 0, count: 64)

    /// Requests that are always wrong.
    static let always =
        [
            WrongRequest("a step without payload", step, nil, "actions"),
            WrongRequest("a step with an empty payload", step, [], "actions"),
            WrongRequest("a step with one action too few", step, [0, 0, 0], "actions"),
            WrongRequest("a step with one action too many", step, [0, 0, 0, 0, 0], "actions"),
            WrongRequest("actions of four bytes each", step, [UInt8](repeating: 0, count: 16), "actions"),
            WrongRequest("action 4", step, [4, 0, 0, 0], "actions", lane: 0),
            WrongRequest("action 7", step, [0, 0, 7, 0], "actions", lane: 2),
            WrongRequest("action 255", step, [0, 0, 0, 255], "actions", lane: 3),
            WrongRequest("two wrong actions: the first is reported", step, [0, 9, 8, 0], "actions", lane: 1),
            WrongRequest("seeds announced, none sent", reset(seeds: true), nil, "payload"),
            WrongRequest("seeds too short", reset(seeds: true), [UInt8](zeros.prefix(31)), "payload"),
            WrongRequest("seeds too long", reset(seeds: true), [UInt8](zeros.prefix(33)), "payload"),
            WrongRequest("a payload that is not announced", reset(), [1], "payload"),
            WrongRequest("mask announced, none sent", reset(mask: true), [], "payload"),
            WrongRequest(
                "seeds and mask announced, only seeds sent", reset(seeds: true, mask: true),
                [UInt8](zeros.prefix(32)), "payload"),
            WrongRequest(
                "boards too short", reset(seeds: true, boards: true), [UInt8](repeating: 1, count: 95),
                "payload"),
            WrongRequest(
                "mask 3", reset(seeds: true, mask: true), packed(seeds([1, 2, 3, 4]), [1, 1, 3, 1]),
                "reset_mask", lane: 2),
            WrongRequest(
                "exponent 21", reset(seeds: true, boards: true),
                packed(seeds([1, 2, 3, 4]), loneTile, loneTile, loneTile, [21], Array(loneTile.dropFirst())),
                "boards", lane: 3),
            WrongRequest(
                "a board without a legal action", reset(seeds: true, boards: true),
                packed(seeds([1, 2, 3, 4]), loneTile, stuckBoard, loneTile, stuckBoard), "boards", lane: 1),
            WrongRequest(
                "an empty board", reset(seeds: true, boards: true),
                packed(seeds([1, 2, 3, 4]), zeros), "boards", lane: 0),
            WrongRequest("an observe with a payload", .observe(.init()), [0], "payload"),
            WrongRequest("an observe with an empty payload", .observe(.init()), [], "payload"),
            WrongRequest("afterstates with a payload", .afterstates(.init()), [0, 0, 0, 0], "payload"),
            WrongRequest("a close with a payload", .close(.init()), [0], "payload"),
            WrongRequest("create inside a session", .create(lanes: 4), nil, "op"),
            WrongRequest("hello inside a session", .hello(.init()), nil, "op"),
        ]

    /// Requests that are wrong before the first reset.
    static let beforeReset = [
        WrongRequest("a step", step, [0, 0, 0, 0], "reset", lane: 0, .failedPrecondition),
        WrongRequest("an observe", .observe(.init()), nil, "reset", lane: 0, .failedPrecondition),
        WrongRequest("afterstates", .afterstates(.init()), nil, "reset", lane: 0, .failedPrecondition),
        WrongRequest("a reset without seeds", reset(), nil, "seed", lane: 0, .failedPrecondition),
        WrongRequest(
            "a reset of some lanes", reset(seeds: true, mask: true),
            packed(seeds([1, 2, 3, 4]), [1, 1, 0, 1]),
            "reset_mask", lane: 2, .failedPrecondition),
        WrongRequest(
            "a reset without seeds, with boards", reset(boards: true),
            packed(loneTile, loneTile, loneTile, loneTile), "seed", lane: 0, .failedPrecondition),
    ]
}

@Suite struct RequestTests {
    @Test(arguments: WrongRequest.always)
    func `the error for a wrong request has field and lane, and nothing changes`(wrong: WrongRequest) throws {
        let session = try Session()
        let twin = try Session()
        for one in [session, twin] {
            try one.reset(seed: 40)
            try one.step([0, 1, 2, 3])
        }
        let before = try session.observe().payload
        let error = try session.refusal(wrong.op, wrong.payload)
        #expect(error.kind == wrong.kind)
        #expect(error.field == wrong.field)
        #expect(error.lane == wrong.lane)
        #expect(!error.message.isEmpty)
        if let lane = wrong.lane { #expect(error.message.contains("lane \(lane)")) }
        #expect(try session.observe().payload == before)
        // The random streams are the hidden part of the state.
        for _ in 0..<5 {
            #expect(try session.step([0, 1, 2, 3]).payload == twin.step([0, 1, 2, 3]).payload)
        }
        #expect(try session.call(.reset(.init())).payload == twin.call(.reset(.init())).payload)
    }

    @Test(arguments: WrongRequest.beforeReset)
    func `before the first reset there is no state to report or continue from`(wrong: WrongRequest) throws {
        let session = try Session()
        let error = try session.refusal(wrong.op, wrong.payload)
        #expect(error.kind == wrong.kind)
        #expect(error.field == wrong.field)
        #expect(error.lane == wrong.lane)
        // The session is like new.
        #expect(try session.reset(seed: 3).payload == Session().reset(seed: 3).payload)
    }

    @Test func `the error for a payload's length contains the expected length`() throws {
        let session = try Session()
        let step = try session.refusal(.step(.init()), [0, 0, 0])
        #expect(step.message.contains("3 bytes") && step.message.contains("[4]"), "\(step.message)")
        let reset = try session.refusal(.reset(announcing(seeds: true, mask: true)), [0])
        #expect(reset.message.contains("1 bytes") && reset.message.contains("36"), "\(reset.message)")
        #expect(reset.message.contains("seeds") && reset.message.contains("mask"), "\(reset.message)")
    }

    @Test func `with autoreset disabled the first finished lane is named`() throws {
        let session = try Session {
            $0.autoresetMode = .disabled
            $0.maxEpisodeSteps = 1
        }
        try session.reset()
        try session.step([0, 1, 2, 3])
        try session.call(.reset(announcing(mask: true)), [1, 1, 0, 0])
        let before = try session.observe().payload
        let error = try session.refusal(.step(.init()), [0, 1, 2, 3])
        #expect(error.kind == .failedPrecondition)
        #expect(error.field == "actions")
        #expect(error.lane == 2)
        #expect(try session.observe().payload == before)
        try session.call(.reset(announcing(mask: true)), [0, 0, 1, 1])
        try session.step([0, 1, 2, 3])
    }

    // MARK: results and payloads

    @Test func `each request gets its own result and the payload that create has announced`() throws {
        let session = try Session()
        let created = session.created
        let reset = try session.reset()
        #expect(reset.result == .reset(.init()))
        #expect(reset.payload?.count == Int(created.reset.size))
        let step = try session.step([0, 1, 2, 3])
        #expect(step.result == .step(.init()))
        #expect(step.payload?.count == Int(created.step.size))
        let observe = try session.observe()
        #expect(observe.result == .observe(.init()))
        #expect(observe.payload?.count == Int(created.reset.size))
        let afterstates = try session.afterstates()
        #expect(afterstates.result == .afterstates(.init()))
        #expect(afterstates.payload?.count == Int(created.afterstates.size))
        let close = try session.call(.close(.init()))
        #expect(close.result == .close(.init()))
        #expect(close.payload == nil)
    }

    @Test(arguments: [1, 5, 64, 65])
    func `the gaps between arrays are zero, and the arrays are complete`(lanes: UInt64) throws {
        let session = try Session { $0.numEnvs = lanes }
        let other = try Session { $0.numEnvs = lanes }
        // The memory of the two sessions is filled with different bytes, so that unwritten bytes differ.
        try session.reset(seed: 9)
        try other.reset(seed: 9)
        _ = try other.observe()
        let actions = [UInt8](repeating: 2, count: Int(lanes))
        let pairs = [
            (try session.step(actions), try other.step(actions), session.created.step),
            (try session.observe(), try other.observe(), session.created.reset),
            (try session.afterstates(), try other.afterstates(), session.created.afterstates),
            (try session.call(.reset(.init())), try other.call(.reset(.init())), session.created.reset),
        ]
        for (mine, theirs, layout) in pairs {
            #expect(mine.fill != theirs.fill)
            #expect(mine.payload == theirs.payload)
            let payload = try #require(mine.payload)
            var end = 0
            for array in layout.arrays {
                #expect(payload[end..<Int(array.offset)].allSatisfy { $0 == 0 })
                end = Int(array.offset) + array.byteCount
            }
        }
    }

    @Test func `afterstates are the boards before the spawn, and change nothing`() throws {
        let session = try Session()
        let row: [UInt8] = [1, 1, 0, 2]
        let board = row + [UInt8](repeating: 0, count: 12)
        try session.call(
            .reset(announcing(seeds: true, boards: true)),
            packed(seeds([1, 2, 3, 4]), board, board, board, board))
        let before = try session.observe().payload
        let answer = try session.afterstates()
        #expect(try session.observe().payload == before)
        let zeros = [UInt8](repeating: 0, count: 12)
        // Up moves nothing; right, down and left do.
        let expected = packed(board, [0, 0, 2, 2], zeros, zeros, row, [2, 2, 0, 0], zeros)
        #expect(
            try session.array("boards", of: answer, in: session.created.afterstates)
                == packed(expected, expected, expected, expected))
        #expect(
            try session.array("mask", of: answer, in: session.created.afterstates).prefix(4) == [0, 1, 1, 1])
        let rewards = try session.array("rewards", of: answer, in: session.created.afterstates)
        let four = withUnsafeBytes(of: Float(4)) { Array($0) }
        #expect(Array(rewards.prefix(16)) == packed([0, 0, 0, 0], four, [0, 0, 0, 0], four))
    }

    // MARK: what a reset announces

    @Test func `the arrays of a reset are in the order seeds, mask, boards`() throws {
        let session = try Session { $0.numEnvs = 2 }
        try session.call(
            .reset(announcing(seeds: true, boards: true)), packed(seeds([7, 8]), loneTile, loneTile))
        let board: [UInt8] = [0, 0, 3] + [UInt8](repeating: 0, count: 13)
        let answer = try session.call(
            .reset(announcing(seeds: true, mask: true, boards: true)),
            packed(seeds([1, 1 << 40]), [0, 1], stuckBoard, board))
        // Lane 0 is outside the mask, so its row of boards is ignored, even though it has no legal action.
        #expect(try session.observed("observation", lane: 0, of: answer) == loneTile)
        #expect(try session.observed("observation", lane: 1, of: answer) == board)
        // Only lane 1 has received its seed, 2^40, so its next episode is the first one of that seed.
        let next = try session.call(.reset(.init()))
        let fresh = try Session { $0.numEnvs = 2 }
        let expected = try fresh.call(.reset(announcing(seeds: true)), seeds([7, 1 << 40]))
        #expect(next.payload == expected.payload)
    }

    @Test func `without new seeds the streams continue`() throws {
        let session = try Session()
        let first = try session.reset(seed: 5).payload
        let second = try session.call(.reset(.init())).payload
        #expect(first != second)
        let twin = try Session()
        #expect(try twin.reset(seed: 5).payload == first)
        #expect(try twin.call(.reset(.init()), []).payload == second, "an empty payload counts as none")
        #expect(try twin.reset(seed: 5).payload == first)
        #expect(try twin.reset(seed: 6).payload != first)
    }

    @Test func `a lane depends only on its seed, not on its index, the batch or the threads`() throws {
        let large = try Session(threads: 2) { $0.numEnvs = 1000 }
        let small = try Session { $0.numEnvs = 7 }
        try large.reset(seed: 100)
        try small.call(.reset(announcing(seeds: true)), seeds([1099, 100, 700, 101, 500, 612, 164]))
        for turn in 0..<20 {
            // The action depends on the seed, so that the two batches agree.
            let one = try large.step((0..<1000).map { UInt8((100 + $0 + turn) % 4) })
            let two = try small.step([1099, 100, 700, 101, 500, 612, 164].map { UInt8(($0 + turn) % 4) })
            for (lane, seed) in [1099, 100, 700, 101, 500, 612, 164].enumerated() {
                for array in large.created.step.arrays {
                    #expect(
                        try large.stepped(array.name, lane: seed - 100, of: one)
                            == small.stepped(array.name, lane: lane, of: two))
                }
            }
        }
    }
}
