import Testing
import TwofoldProtocol
import TwofoldService

/// A create request that is wrong in one place.
struct WrongCreate: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let code: ErrorCode
    let field: String
    let change: @Sendable (inout CreateRequest) -> Void

    init(
        _ name: String, _ field: String, _ code: ErrorCode = .invalidArgument,
        _ change: @escaping @Sendable (inout CreateRequest) -> Void
    ) {
        testDescription = name
        self.code = code
        self.field = field
        self.change = change
    }

    static let all = [
        WrongCreate("num_envs 0", "num_envs") { $0.numEnvs = 0 },
        WrongCreate("num_envs above the limit", "num_envs", .resourceExhausted) { $0.numEnvs = 101 },
        WrongCreate("num_envs 2^64 - 1", "num_envs", .resourceExhausted) { $0.numEnvs = .max },
        WrongCreate("no environment id", "environment_id", .notFound) { $0.environmentID = "" },
        WrongCreate("another environment id", "environment_id", .notFound) {
            $0.environmentID = "twofold/Game2048-v1"
        },
        WrongCreate("an environment id in capitals", "environment_id", .notFound) {
            $0.environmentID = "TWOFOLD/GAME2048-V0"
        },
        WrongCreate("SAME_STEP", "autoreset_mode") { $0.autoresetMode = .sameStep },
        WrongCreate("an unknown autoreset mode", "autoreset_mode") { $0.autoresetMode = .UNRECOGNIZED(4) },
        WrongCreate("max_episode_steps 0", "max_episode_steps") { $0.maxEpisodeSteps = 0 },
        WrongCreate("rows 1", "size") { $0.game2048.rows = 1 },
        WrongCreate("rows 9", "size") { $0.game2048.rows = 9 },
        WrongCreate("rows 2^32 - 1", "size") { $0.game2048.rows = .max },
        WrongCreate("columns 0", "size") { $0.game2048.columns = 0 },
        WrongCreate("columns 9", "size") { $0.game2048.columns = 9 },
        WrongCreate("goal 0", "goal") { $0.game2048.goal = 0 },
        WrongCreate("goal 2", "goal") { $0.game2048.goal = 2 },
        WrongCreate("goal 3", "goal") { $0.game2048.goal = 3 },
        WrongCreate("goal 2^32", "goal") { $0.game2048.goal = 1 << 32 },
        WrongCreate("goal 2^63", "goal") { $0.game2048.goal = 1 << 63 },
        WrongCreate("goal 2^64 - 1", "goal") { $0.game2048.goal = .max },
        WrongCreate("four_probability NaN", "four_probability") { $0.game2048.fourProbability = .nan },
        WrongCreate("four_probability -0.1", "four_probability") { $0.game2048.fourProbability = -0.1 },
        WrongCreate("four_probability 1.5", "four_probability") { $0.game2048.fourProbability = 1.5 },
        WrongCreate("four_probability infinite", "four_probability") {
            $0.game2048.fourProbability = .infinity
        },
        WrongCreate("start_tiles 0", "start_tiles") { $0.game2048.startTiles = 0 },
        WrongCreate("start_tiles on every cell", "start_tiles") { $0.game2048.startTiles = 16 },
        WrongCreate("start_tiles on every cell of 2 x 3", "start_tiles") {
            $0.game2048.rows = 2
            $0.game2048.columns = 3
            $0.game2048.startTiles = 6
        },
        WrongCreate("start_tiles 2^32 - 1", "start_tiles") { $0.game2048.startTiles = .max },
        WrongCreate("an unknown illegal_action", "illegal_action") {
            $0.game2048.illegalAction = .UNRECOGNIZED(3)
        },
    ]
}

@Suite struct CreateTests {
    @Test(arguments: WrongCreate.all)
    func `a wrong argument is refused by its name`(wrong: WrongCreate) throws {
        var limits = Limits()
        limits.maxBoardsPerSession = 100
        let error = try #require(throws: ServiceError.self) {
            try service(limits: limits).create(createRequest(wrong.change))
        }
        #expect(error.code == wrong.code)
        #expect(error.field == wrong.field)
        #expect(!error.message.isEmpty)
    }

    @Test func `the message tells the goal that was sent`() throws {
        let error = try #require(throws: ServiceError.self) {
            try service().create(createRequest { $0.game2048.goal = 1 << 63 })
        }
        #expect(error.message.contains("9223372036854775808"), "\(error.message)")
    }

    @Test func `an unknown environment id is told, shortened, with those that are served`() throws {
        let name = String(repeating: "x", count: 1000)
        let error = try #require(throws: ServiceError.self) {
            try service().create(createRequest { $0.environmentID = name })
        }
        #expect(error.message.contains("xxx"))
        #expect(error.message.contains("twofold/Game2048-v0"))
        #expect(error.message.count < 300)
    }

    @Test(arguments: [
        WrongCreate("as many boards as are allowed", "") { $0.numEnvs = 100 },
        WrongCreate("one board", "") { $0.numEnvs = 1 },
        WrongCreate("NEXT_STEP", "") { $0.autoresetMode = .nextStep },
        WrongCreate("DISABLED", "") { $0.autoresetMode = .disabled },
        WrongCreate("max_episode_steps 1", "") { $0.maxEpisodeSteps = 1 },
        WrongCreate("max_episode_steps 2^64 - 1", "") { $0.maxEpisodeSteps = .max },
        WrongCreate("2 x 8", "") { ($0.game2048.rows, $0.game2048.columns) = (2, 8) },
        WrongCreate("8 x 2", "") { ($0.game2048.rows, $0.game2048.columns) = (8, 2) },
        WrongCreate("goal 4", "") { $0.game2048.goal = 4 },
        WrongCreate("goal 2^31", "") { $0.game2048.goal = 1 << 31 },
        WrongCreate("four_probability 0", "") { $0.game2048.fourProbability = 0 },
        WrongCreate("four_probability 1", "") { $0.game2048.fourProbability = 1 },
        WrongCreate("start_tiles 1", "") { $0.game2048.startTiles = 1 },
        WrongCreate("start_tiles 15", "") { $0.game2048.startTiles = 15 },
        WrongCreate("illegal_action NOOP", "") { $0.game2048.illegalAction = .noop },
    ])
    func `an argument at the edge of its range is accepted, and the boards play`(right: WrongCreate) throws {
        var limits = Limits()
        limits.maxBoardsPerSession = 100
        let session = try Session(limits: limits, right.change)
        try session.reset()
        try session.step([UInt8](repeating: 1, count: session.lanes))
    }

    // MARK: what each argument does

    @Test func `without arguments a board is 4 x 4 with two tiles and plays on after the goal`() throws {
        let session = try Session()
        let answer = try session.reset()
        #expect(session.lanes == 4)
        for lane in 0..<4 {
            let board = try session.observed("observation", lane: lane, of: answer)
            #expect(board.count == 16)
            #expect(board.filter { $0 > 0 }.count == 2)
        }
        // The goal is 2048 and does not end the episode.
        let row: [UInt8] = [10, 10, 0, 0] + [UInt8](repeating: 0, count: 12)
        try session.call(.reset(announcing(boards: true)), Array([row, row, row, row].joined()))
        let step = try session.step([3, 3, 3, 3])
        #expect(try session.stepped("goal_reached", lane: 0, of: step) == [1])
        #expect(try session.stepped("terminated", lane: 0, of: step) == [0])
        #expect(try session.stepped("truncated", lane: 0, of: step) == [0])
    }

    @Test func `rows and columns are the board's`() throws {
        let session = try Session { ($0.game2048.rows, $0.game2048.columns) = (3, 5) }
        #expect(try session.observed("observation", lane: 0, of: session.reset()).count == 15)
        #expect(session.created.observationSpace.box.shape == [3, 5])
    }

    @Test func `start_tiles and four_probability make the first board`() throws {
        let session = try Session {
            $0.game2048.startTiles = 7
            $0.game2048.fourProbability = 1
        }
        let board = try session.observed("observation", lane: 2, of: session.reset())
        #expect(board.filter { $0 > 0 } == [2, 2, 2, 2, 2, 2, 2])
    }

    @Test func `goal and stop_at_goal end the episode`() throws {
        let session = try Session {
            $0.numEnvs = 1
            $0.game2048.goal = 64
            $0.game2048.stopAtGoal = true
        }
        try session.call(
            .reset(announcing(seeds: true, boards: true)),
            packed(seeds([1]), [5, 5], [UInt8](repeating: 0, count: 14)))
        let answer = try session.step([3])
        #expect(try session.stepped("goal_reached", lane: 0, of: answer) == [1])
        #expect(try session.stepped("terminated", lane: 0, of: answer) == [1])
    }

    @Test func `illegal_action TERMINATE ends the episode`() throws {
        let session = try Session {
            $0.numEnvs = 1
            $0.game2048.illegalAction = .terminate
        }
        try session.call(.reset(announcing(seeds: true, boards: true)), packed(seeds([1]), loneTile))
        let answer = try session.step([0])
        #expect(try session.stepped("terminated", lane: 0, of: answer) == [1])
        #expect(try session.stepped("observation", lane: 0, of: answer) == loneTile)
    }

    @Test func `max_episode_steps cuts the episode`() throws {
        let session = try Session { $0.maxEpisodeSteps = 2 }
        try session.reset()
        for expected: UInt8 in [0, 1] {
            let answer = try session.step([0, 1, 2, 3])
            #expect(try session.stepped("truncated", lane: 3, of: answer) == [expected])
        }
    }

    @Test func `NEXT_STEP goes on by itself, and is what unspecified means; DISABLED does not`() throws {
        for mode in [Twofold_V1_AutoresetMode.unspecified, .nextStep] {
            let session = try Session {
                $0.autoresetMode = mode
                $0.maxEpisodeSteps = 1
            }
            try session.reset()
            try session.step([0, 1, 2, 3])
            let answer = try session.step([0, 1, 2, 3])
            #expect(try session.stepped("episode_length", lane: 0, of: answer) == [0, 0, 0, 0])
        }
        let session = try Session {
            $0.autoresetMode = .disabled
            $0.maxEpisodeSteps = 1
        }
        try session.reset()
        try session.step([0, 1, 2, 3])
        #expect(try session.refusal(.step(.init()), [0, 1, 2, 3]).code == .failedPrecondition)
    }

    // MARK: spaces and layouts

    @Test func `create tells epoch and spaces`() throws {
        let created = try Session { ($0.game2048.rows, $0.game2048.columns) = (2, 3) }.created
        #expect(created.epoch == 1)
        #expect(created.observationSpace.box.dtype == .uint8)
        #expect(created.observationSpace.box.shape == [2, 3])
        #expect(created.observationSpace.box.low == 0)
        #expect(created.observationSpace.box.high == 31)
        #expect(created.actionSpace.discrete.n == 4)
    }

    @Test(arguments: [1, 7, 64, 300], [(2, 2), (4, 4), (3, 5), (8, 8)])
    func `create tells names, types, shapes and places of all arrays`(
        lanes: UInt64, size: (rows: UInt64, columns: UInt64)
    ) throws {
        let created = try Session {
            $0.numEnvs = lanes
            ($0.game2048.rows, $0.game2048.columns) = (UInt32(size.rows), UInt32(size.columns))
        }.created
        let reset: [(String, Twofold_V1_DataType, [UInt64])] = [
            ("observation", .uint8, [lanes, size.rows, size.columns]), ("action_mask", .int8, [lanes, 4]),
            ("episode_length", .int32, [lanes]), ("score", .int32, [lanes]),
            ("max_exponent", .uint8, [lanes]),
            ("moves", .int32, [lanes]), ("goal_reached", .bool, [lanes]),
        ]
        expect(created.reset, has: reset)
        expect(
            created.step,
            has: reset + [
                ("reward", .float32, [lanes]), ("terminated", .bool, [lanes]), ("truncated", .bool, [lanes]),
            ])
        expect(
            created.afterstates,
            has: [
                ("boards", .uint8, [lanes, 4, size.rows, size.columns]), ("rewards", .float32, [lanes, 4]),
                ("mask", .int8, [lanes, 4]),
            ])
    }

    private func expect(
        _ layout: PayloadLayoutMessage,
        has arrays: [(name: String, dtype: Twofold_V1_DataType, shape: [UInt64])]
    ) {
        #expect(layout.arrays.map(\.name) == arrays.map(\.name))
        #expect(layout.arrays.map(\.dtype) == arrays.map(\.dtype))
        #expect(layout.arrays.map(\.shape) == arrays.map(\.shape))
        var end = 0
        for array in layout.arrays {
            #expect(array.offset % 64 == 0)
            #expect(Int(array.offset) >= end, "\(array.name) overlaps the array before it")
            #expect(Int(array.offset) < end + 64, "\(array.name) leaves a gap that alignment doesn't need")
            end = Int(array.offset) + array.byteCount
        }
        #expect(Int(layout.size) == end)
    }
}
