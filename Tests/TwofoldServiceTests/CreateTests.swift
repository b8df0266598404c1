import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport

/// A create request with one invalid field.
struct WrongCreate: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let kind: EnvironmentError.Kind
    let field: String
    let change: @Sendable (inout CreateRequest) -> Void

    init(
        _ name: String, _ field: String, _ kind: EnvironmentError.Kind = .invalidArgument,
        _ change: @escaping @Sendable (inout CreateRequest) -> Void
    ) {
        testDescription = name
        self.kind = kind
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
        WrongCreate("a reward without terms", "reward") { $0.reward = .init() },
        WrongCreate("33 reward terms", "reward") {
            $0.reward.terms = (0..<33).map { _ in term("goal") }
        },
        WrongCreate("an unknown reward term", "reward.match") { $0.reward.terms = [term("match")] },
        WrongCreate("a weight that is NaN", "reward.goal.weight") {
            $0.reward.terms = [term("merge_score"), term("goal", weight: .nan)]
        },
        WrongCreate("an infinite weight", "reward.goal.weight") {
            $0.reward.terms = [term("goal", weight: -.infinity)]
        },
        WrongCreate("a weight of 10^10", "reward.goal.weight") {
            $0.reward.terms = [term("goal", weight: 1e10)]
        },
        WrongCreate("a parameter that the term does not take", "reward.goal.gamma") {
            $0.reward.terms = [term("goal", ["gamma": [1]])]
        },
        WrongCreate("a parameter that no term takes", "reward.corner.alpha") {
            $0.reward.terms = [term("corner", ["gamma": [1], "alpha": [1]])]
        },
        WrongCreate("a potential without gamma", "reward.empty_cells.gamma") {
            $0.reward.terms = [term("empty_cells")]
        },
        WrongCreate("gamma 1.01", "reward.empty_cells.gamma") {
            $0.reward.terms = [term("empty_cells", ["gamma": [1.01]])]
        },
        WrongCreate("gamma NaN", "reward.empty_cells.gamma") {
            $0.reward.terms = [term("empty_cells", ["gamma": [.nan]])]
        },
        WrongCreate("two gammas", "reward.empty_cells.gamma") {
            $0.reward.terms = [term("empty_cells", ["gamma": [0.5, 0.6]])]
        },
        WrongCreate("a short table", "reward.merge_table.table") {
            $0.reward.terms = [term("merge_table", ["table": [1, 2, 3]])]
        },
        WrongCreate("no table", "reward.merge_table.table") { $0.reward.terms = [term("merge_table")] },
        WrongCreate("a table with NaN", "reward.merge_table.table") {
            $0.reward.terms = [term("merge_table", ["table": Array(repeating: .nan, count: 32)])]
        },
        WrongCreate("a table for another size", "reward.cell_weights.table") {
            $0.game2048.rows = 3
            $0.reward.terms = [
                term("cell_weights", ["gamma": [1], "table": Array(repeating: 1, count: 16)])
            ]
        },
        WrongCreate("cell weights that are not integers", "reward.cell_weights.table") {
            $0.reward.terms = [
                term("cell_weights", ["gamma": [1], "table": Array(repeating: 0.5, count: 16)])
            ]
        },
        WrongCreate("a scale that is NaN", "reward.scale") {
            $0.reward.terms = [term("goal")]
            $0.reward.scale = .nan
        },
        WrongCreate("a clip whose low is above its high", "reward.clip") {
            $0.reward.terms = [term("goal")]
            $0.reward.clipLow = 1
            $0.reward.clipHigh = 0
        },
        WrongCreate("an infinite clip", "reward.clip") {
            $0.reward.terms = [term("goal")]
            $0.reward.clipHigh = .infinity
        },
        WrongCreate("an unknown extra info", "extra_infos") { $0.extraInfos = ["peeks"] },
        WrongCreate("an extra info twice", "extra_infos") { $0.extraInfos = ["chance", "chance"] },
        WrongCreate("start_tiles 2^32 - 1", "start_tiles") { $0.game2048.startTiles = .max },
        WrongCreate("an unknown illegal_action", "illegal_action") {
            $0.game2048.illegalAction = .UNRECOGNIZED(3)
        },
        WrongCreate("an unknown objective", "objective") { $0.game2048.objective = .UNRECOGNIZED(9) },
        WrongCreate("2048 with another game's config", "config") { $0.concentration.rows = 4 },
        WrongCreate("Concentration with another game's config", "config") {
            $0.environmentID = "twofold/Concentration-v0"
            $0.game2048.rows = 4
        },
        WrongCreate(cards: "rows 0", "size") { $0.rows = 0 },
        WrongCreate(cards: "columns 2^32 - 1", "size") { $0.columns = .max },
        WrongCreate(cards: "an odd number", "size") { ($0.rows, $0.columns) = (3, 3) },
        WrongCreate(cards: "130 of them", "size") { ($0.rows, $0.columns) = (10, 13) },
        WrongCreate(cards: "symbols 0", "symbols") { $0.symbols = 0 },
        WrongCreate(cards: "symbols 3 on 16 cards", "symbols") { $0.symbols = 3 },
        WrongCreate(cards: "symbols 2^32 - 1", "symbols") { $0.symbols = .max },
        WrongCreate(cards: "2^31 peeks", "peeks") { $0.peekBudget = 1 << 31 },
        WrongCreate(cards: "an unknown illegal_action", "illegal_action") {
            $0.illegalAction = .UNRECOGNIZED(4)
        },
        WrongCreate(cards: "unknown matched_cards", "matched_cards") {
            $0.matchedCards = .UNRECOGNIZED(3)
        },
    ]

    /// Creates an invalid create request for Concentration.
    init(
        cards name: String, _ field: String, _ change: @escaping @Sendable (inout ConcentrationConfig) -> Void
    ) {
        self.init("cards: \(name)", field) {
            $0.environmentID = "twofold/Concentration-v0"
            change(&$0.concentration)
        }
    }
}

private func term(
    _ name: String, weight: Double? = nil, _ parameters: [String: [Double]] = [:]
) -> Twofold_V1_RewardTerm {
    var term = Twofold_V1_RewardTerm()
    term.name = name
    if let weight { term.weight = weight }
    term.parameters = parameters.map { name, values in
        var parameter = Twofold_V1_RewardParameter()
        (parameter.name, parameter.values) = (name, values)
        return parameter
    }
    return term
}

@Suite struct CreateTests {
    @Test(arguments: WrongCreate.all)
    func `the error for a wrong argument names the argument`(wrong: WrongCreate) throws {
        var limits = Limits()
        limits.maxBoardsPerSession = 100
        let error = try #require(throws: EnvironmentError.self) {
            try ServedEnvironment(createRequest(lanes: 4, wrong.change), service(limits: limits))
        }
        #expect(error.kind == wrong.kind)
        #expect(error.field == wrong.field)
        #expect(!error.message.isEmpty)
    }

    @Test func `the message repeats the goal of the request`() throws {
        let error = try #require(throws: EnvironmentError.self) {
            try ServedEnvironment(createRequest(lanes: 4) { $0.game2048.goal = 1 << 63 }, service())
        }
        #expect(error.message.contains("9223372036854775808"), "\(error.message)")
    }

    @Test func `the error for an unknown environment id shortens it and lists the known ids`() throws {
        let name = String(repeating: "x", count: 1000)
        let error = try #require(throws: EnvironmentError.self) {
            try ServedEnvironment(createRequest(lanes: 4) { $0.environmentID = name }, service())
        }
        #expect(error.message.contains("xxx"))
        #expect(error.message.contains("twofold/Game2048-v0"))
        #expect(error.message.count < 300)
    }

    @Test(arguments: [
        WrongCreate("the maximum number of boards", "") { $0.numEnvs = 100 },
        WrongCreate("one board", "") { $0.numEnvs = 1 },
        WrongCreate("NEXT_STEP", "") { $0.autoresetMode = .nextStep },
        WrongCreate("SAME_STEP", "") { $0.autoresetMode = .sameStep },
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
        WrongCreate(cards: "all defaults", "") { _ in },
        WrongCreate(cards: "two", "") { ($0.rows, $0.columns) = (1, 2) },
        WrongCreate(cards: "128", "") { ($0.rows, $0.columns) = (8, 16) },
        WrongCreate(cards: "one symbol", "") { $0.symbols = 1 },
        WrongCreate(cards: "without peeks", "") { $0.unlimitedPeeks = false },
        WrongCreate(cards: "a peek", "") { $0.peekBudget = 1 },
        WrongCreate(cards: "that terminate", "") { $0.illegalAction = .terminate },
    ])
    func `an argument at the edge of its range is accepted, and the boards play`(right: WrongCreate) throws {
        var limits = Limits()
        limits.maxBoardsPerSession = 100
        let session = try Session(limits: limits, right.change)
        try session.reset()
        try session.step([UInt8](repeating: 1, count: session.lanes))
    }

    // MARK: the effects of each argument

    @Test func `without arguments a board is 4 x 4 with two tiles and continues after the goal`() throws {
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

    @Test func `rows and columns set the board's size`() throws {
        let session = try Session { ($0.game2048.rows, $0.game2048.columns) = (3, 5) }
        #expect(try session.observed("observation", lane: 0, of: session.reset()).count == 15)
        #expect(session.created.observationSpace.box.shape == [3, 5])
    }

    @Test func `start_tiles and four_probability determine the first board`() throws {
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

    @Test func `a declared reward and extra infos are reported`() throws {
        let session = try Session {
            $0.reward.terms = [term("merge_count", weight: 3), term("empty_cells", ["gamma": [0.5]])]
            $0.reward.scale = 2
            $0.extraInfos = ["merges", "reward_terms"]
        }
        #expect(session.created.rewardTerms == ["merge_count", "empty_cells"])
        #expect(session.created.step.arrays.map(\.name).suffix(2) == ["merges", "reward_terms"])
        #expect(!session.created.reset.arrays.contains { $0.name == "merges" })
        let board: [UInt8] = [1, 1] + [UInt8](repeating: 0, count: 14)
        try session.call(
            .reset(announcing(seeds: true, boards: true)),
            packed(seeds([1, 2, 3, 4]), board, board, board, board))
        let answer = try session.step([3, 3, 3, 3])
        func floats(_ values: Float...) -> [UInt8] {
            values.flatMap { value in withUnsafeBytes(of: value) { Array($0) } }
        }
        // There is one merge, and 14 cells are empty before and after the move.
        #expect(try session.stepped("reward_terms", lane: 3, of: answer) == floats(3, -7))
        #expect(try session.stepped("reward", lane: 3, of: answer) == floats(-8))
        #expect(try session.stepped("merges", lane: 3, of: answer).prefix(2) == [2, 0])
        #expect(try Session().created.rewardTerms == ["merge_score"])
    }

    @Test func `max_episode_steps truncates the episode`() throws {
        let session = try Session { $0.maxEpisodeSteps = 2 }
        try session.reset()
        for expected: UInt8 in [0, 1] {
            let answer = try session.step([0, 1, 2, 3])
            #expect(try session.stepped("truncated", lane: 3, of: answer) == [expected])
        }
    }

    @Test func `NEXT_STEP, which is the default, starts the next episode, and DISABLED does not`() throws {
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
        #expect(try session.refusal(.step(.init()), [0, 1, 2, 3]).kind == .failedPrecondition)
    }

    // MARK: spaces and layouts

    @Test func `create reports epoch and spaces`() throws {
        let created = try Session { ($0.game2048.rows, $0.game2048.columns) = (2, 3) }.created
        #expect(created.epoch == 1)
        #expect(created.observationSpace.box.dtype == .uint8)
        #expect(created.observationSpace.box.shape == [2, 3])
        #expect(created.observationSpace.box.low == 0)
        #expect(created.observationSpace.box.high == 31)
        #expect(created.actionSpace.discrete.n == 4)
        #expect(created.boardSpace == created.observationSpace)
    }

    @Test func `the shape of boards may differ from that of observations`() throws {
        let session = try Session {
            $0.environmentID = "twofold/Concentration-v0"
            $0.numEnvs = 2
            $0.concentration.rows = 2
            $0.concentration.columns = 2
            $0.concentration.observeLastAction = true
        }
        #expect(session.created.observationSpace.box.shape == [5])
        #expect(session.created.observationSpace.box.high == 5)
        #expect(session.created.boardSpace.box.shape == [2, 2])
        #expect(session.created.boardSpace.box.high == 1)
        #expect(session.created.actionSpace.discrete.n == 5)
        let decks: [UInt8] = [0, 1, 0, 1, 1, 1, 0, 0]
        try session.call(
            .reset(announcing(seeds: true, boards: true)), packed(seeds([1, 2]), decks))
        let answer = try session.step([4, 4])
        #expect(try session.stepped("observation", lane: 0, of: answer) == [0, 1, 0, 1, 4])
        #expect(try session.stepped("observation", lane: 1, of: answer) == [1, 1, 0, 0, 4])
        let short = try session.refusal(
            .reset(announcing(seeds: true, boards: true)), packed(seeds([1, 2]), decks, [0, 0]))
        #expect(short.field == "payload")
    }

    @Test(arguments: [1, 7, 64, 300], [(2, 2), (4, 4), (3, 5), (8, 8)])
    func `create reports names, types, shapes and places of all arrays`(
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
