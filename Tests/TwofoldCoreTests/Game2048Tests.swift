import Testing

@testable import TwofoldCore

@Suite(.everyEngine) struct Game2048Tests {
    // MARK: arguments

    @Test func `the defaults are as documented`() {
        let config = Game2048.Config()
        #expect(config.rows == 4)
        #expect(config.columns == 4)
        #expect(config.goal == 2048)
        #expect(!config.stopAtGoal)
        #expect(config.fourProbability == 0.1)
        #expect(config.startTiles == 2)
        #expect(config.illegalAction == .noop)
    }

    @Test(arguments: [
        ("size", Game2048.Config(rows: 1)),
        ("size", Game2048.Config(rows: 9)),
        ("size", Game2048.Config(columns: 1)),
        ("size", Game2048.Config(columns: 9)),
        ("size", Game2048.Config(rows: 0, columns: 0)),
        ("size", Game2048.Config(rows: -4, columns: -4)),
        ("size", Game2048.Config(rows: .max, columns: .max)),
        ("goal", Game2048.Config(goal: 0)),
        ("goal", Game2048.Config(goal: 2)),
        ("goal", Game2048.Config(goal: 6)),
        ("goal", Game2048.Config(goal: 2047)),
        ("goal", Game2048.Config(goal: -8)),
        ("goal", Game2048.Config(goal: 1 << 32)),
        ("goal", Game2048.Config(goal: .min)),
        ("four_probability", Game2048.Config(fourProbability: -0.1)),
        ("four_probability", Game2048.Config(fourProbability: 1.0.nextUp)),
        ("four_probability", Game2048.Config(fourProbability: .nan)),
        ("four_probability", Game2048.Config(fourProbability: .infinity)),
        ("start_tiles", Game2048.Config(startTiles: 0)),
        ("start_tiles", Game2048.Config(startTiles: -1)),
        ("start_tiles", Game2048.Config(startTiles: 16)),
        ("start_tiles", Game2048.Config(rows: 2, columns: 2, startTiles: 4)),
    ])
    func `an argument out of range is refused with its name`(field: String, config: Game2048.Config) throws {
        let error = try #require(throws: EnvironmentError.self) { try Game2048(config) }
        #expect(error.kind == .invalidArgument)
        #expect(error.field == field)
        #expect(error.lane == nil)
        #expect(error.message.contains(field))
    }

    @Test(arguments: [
        Game2048.Config(rows: 2, columns: 8),
        Game2048.Config(rows: 8, columns: 2),
        Game2048.Config(goal: 4),
        Game2048.Config(goal: 1 << 31),
        Game2048.Config(fourProbability: 0),
        Game2048.Config(fourProbability: 1),
        Game2048.Config(startTiles: 1),
        Game2048.Config(startTiles: 15),
        Game2048.Config(rows: 2, columns: 2, startTiles: 3),
    ])
    func `an argument at the end of its range is accepted`(config: Game2048.Config) throws {
        #expect(try Game2048(config).config == config)
    }

    // MARK: declarations

    @Test func `the arrays' names, types, shapes and order are frozen`() throws {
        let batch = try TestBatch(Game2048.Config(rows: 3, columns: 5), lanes: 7)
        let resetArrays = [
            ArraySpec("observation", .uint8, shape: [3, 5]),
            ArraySpec("action_mask", .int8, shape: [4]),
            ArraySpec("episode_length", .int32),
            ArraySpec("score", .int32),
            ArraySpec("max_exponent", .uint8),
            ArraySpec("moves", .int32),
            ArraySpec("goal_reached", .bool),
        ]
        let outcome = [
            ArraySpec("reward", .float32), ArraySpec("terminated", .bool), ArraySpec("truncated", .bool),
        ]
        #expect(batch.environment.resetArrays == resetArrays)
        #expect(batch.environment.stepArrays == resetArrays + outcome)
        #expect(
            batch.environment.afterstateArrays == [
                ArraySpec("boards", .uint8, shape: [4, 3, 5]),
                ArraySpec("rewards", .float32, shape: [4]),
                ArraySpec("mask", .int8, shape: [4]),
            ])
        #expect(batch.environment.observationSpace == ObservationSpace(shape: [3, 5], range: 0...31))
        #expect(batch.environment.actions.count == 4)
        #expect(batch.environment.lanes == 7)
    }

    @Test func `an array's bytes follow from its type and shape`() {
        #expect(ArraySpec("a", .bool).bytesPerLane == 1)
        #expect(ArraySpec("a", .float32).bytesPerLane == 4)
        #expect(ArraySpec("a", .int32, shape: [3]).bytesPerLane == 12)
        #expect(ArraySpec("a", .int8, shape: [4, 2]).bytesPerLane == 8)
        #expect(ArraySpec("a", .uint8, shape: [4, 3, 5]).bytesPerLane == 60)
    }

    // MARK: start

    @Test(arguments: [1, 2, 5, 15])
    func `a new board has exactly the start tiles, each a 2 or a 4`(startTiles: Int) throws {
        let game = try Game2048(Game2048.Config(fourProbability: 0.5, startTiles: startTiles))
        var generator = Generator(seed: 1)
        for _ in 0..<200 {
            var words = generator
            var state = game.makeState()
            state.board[3] = 9
            state.score = 100
            state.moves = 100
            game.start(&state, generator: &generator)
            let tiles = state.board.exponents.filter { $0 != 0 }
            #expect(tiles.count == startTiles)
            #expect(tiles.allSatisfy { $0 == 1 || $0 == 2 })
            #expect(state.score == 0)
            #expect(state.moves == 0)
            for _ in 0..<2 * startTiles { _ = words.next() }
            #expect(generator == words, "two words for each tile")
        }
    }

    // MARK: step

    /// Plays one action on a board of tile values.
    private func play(
        _ action: Direction, on values: [[Int]], _ config: Game2048.Config = Game2048.Config(),
        seed: UInt64 = 0
    ) throws -> (state: Game2048.State, outcome: Game2048.Transition, generator: Generator) {
        var config = config
        (config.rows, config.columns) = (values.count, values[0].count)
        let game = try Game2048(config)
        var state = game.makeState()
        try exponentList(values).withUnsafeBytes { try game.start(&state, from: $0) }
        var generator = Generator(seed: seed)
        let outcome = game.step(&state, action: Int(action.rawValue), generator: &generator)
        return (state, outcome, generator)
    }

    @Test func `a legal action slides, scores and adds one tile in a cell that the slide left empty`() throws
    {
        for seed in 0..<100 as Range<UInt64> {
            let (state, outcome, generator) = try play(
                .left, on: [[2, 2, 4, 4], [0, 0, 0, 8], [2, 4, 2, 4], [0, 0, 0, 0]], seed: seed)
            #expect(state.score == 12)
            #expect(state.moves == 1)
            #expect(outcome.reward == 12)
            #expect(!outcome.isTerminated)
            var expected = exponentList([[4, 8, 0, 0], [8, 0, 0, 0], [2, 4, 2, 4], [0, 0, 0, 0]])
            let spawned = try #require(expected.indices.first { expected[$0] != state.board[$0] })
            #expect(expected[spawned] == 0)
            #expect([1, 2].contains(state.board[spawned]))
            expected[spawned] = state.board[spawned]
            #expect(state.board.exponents == expected)
            var words = Generator(seed: seed)
            for _ in 0..<2 { _ = words.next() }
            #expect(generator == words)
        }
    }

    /// PufferLib's 2048 spawned nothing after a merge on a full board.
    @Test func `a merge on a full board makes room for a tile`() throws {
        let full = [[2, 2, 4, 8], [16, 32, 16, 32], [32, 16, 32, 16], [16, 32, 16, 32]]
        let (state, outcome, _) = try play(.left, on: full)
        #expect(state.board.emptyCount == 0)
        #expect(outcome.reward == 4)
        #expect(state.board.exponents[..<3] == [2, 2, 3])
    }

    @Test(arguments: [false, true])
    func `a goal ends the episode only with stop_at_goal`(stopAtGoal: Bool) throws {
        let config = Game2048.Config(goal: 64, stopAtGoal: stopAtGoal)
        let (_, below, _) = try play(
            .left, on: [[16, 16, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], config)
        #expect(!below.isTerminated)
        let (_, reached, _) = try play(
            .left, on: [[32, 32, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], config)
        #expect(reached.isTerminated == stopAtGoal)
        #expect(reached.reward == 64)
    }

    @Test(arguments: [32768, 65536], Direction.allCases)
    func `two large tiles merge in an environment like small ones`(value: Int, direction: Direction) throws {
        let batch = try TestBatch(Game2048.Config(rows: 2, columns: 2))
        let tile = UInt8(value.trailingZeroBitCount)
        let isRow = direction == .left || direction == .right
        try batch.reset(seeds: [3], boards: [isRow ? [tile, tile, 0, 0] : [tile, 0, tile, 0]])
        try batch.step([direction.rawValue])
        #expect(batch.reward() == Float(2 * value))
        #expect(batch.integer("score") == 2 * value)
        #expect(batch.byte("max_exponent") == Int(tile) + 1)
        let wall = [Direction.up: 0, .left: 0, .right: 1, .down: 2][direction]!
        #expect(batch.observation()[wall] == tile + 1)
        #expect(batch.observation().filter { $0 != 0 }.count == 2)
    }

    @Test func `the largest given tiles still merge and score`() throws {
        let batch = try TestBatch(Game2048.Config(rows: 2, columns: 8))
        try batch.reset(
            seeds: [3], boards: [[UInt8](repeating: 20, count: 16)])
        try batch.step([3])
        #expect(batch.reward() == 16_777_216)
        #expect(batch.integer("score") == 16_777_216)
        try batch.step([0])
        #expect(batch.reward() == 16_777_216)
        #expect(batch.integer("score") == 33_554_432)
        #expect(batch.byte("max_exponent") == 22)
    }

    // MARK: afterstates

    @Test func `afterstates are the boards after the four slides`() throws {
        let (rows, columns) = (3, 4)
        let batch = try TestBatch(Game2048.Config(rows: rows, columns: columns), lanes: 50)
        var generator = Generator(seed: 1)
        let boards = (0..<50).map { lane in
            var board = randomExponents(rows * columns, generator: &generator)
            (board[0], board[1]) = (1, 1)
            return lane == 0 ? [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2] : board
        }
        try batch.reset(seeds: [UInt64](repeating: 0, count: 50), boards: boards)
        let before = batch.reply
        try batch.afterstates()
        #expect(batch.names == ["boards", "rewards", "mask"])
        for lane in 0..<50 {
            for action in 0..<4 {
                let naive = NaiveSlide(boards[lane], rows: rows, columns: columns, action: action)
                let afterstate = batch.bytes("boards", lane: lane)[action * 12..<(action + 1) * 12]
                #expect(Array(afterstate) == naive.exponents)
                #expect(batch.float("rewards", lane: lane, at: action) == Float(naive.score))
                #expect(batch.bytes("mask", lane: lane)[action] == (naive.moved ? 1 : 0))
            }
        }
        // Lane 0 cannot move right, so this afterstate is the board itself.
        #expect(batch.bytes("mask", lane: 0) == [1, 0, 1, 1])
        #expect(Array(batch.bytes("boards", lane: 0)[12..<24]) == boards[0])
        try batch.observe()
        #expect(batch.reply == before, "an afterstates request changes nothing")
    }

    @Test func `a terminated lane has no legal afterstate, but a truncated lane does`() throws {
        let batch = try TestBatch(Game2048.Config(rows: 2, columns: 2), lanes: 2, maxEpisodeSteps: 1)
        try batch.reset(seeds: [0, 0], boards: [[3, 4, 5, 0], [1, 0, 0, 0]])
        try batch.step([1, 1])
        #expect(batch.isTerminated(lane: 0))
        #expect(!batch.isTerminated(lane: 1))
        let masks = [batch.mask(lane: 0), batch.mask(lane: 1)]
        #expect(masks[0] == [0, 0, 0, 0])
        #expect(masks[1] != [0, 0, 0, 0])
        try batch.afterstates()
        #expect([batch.bytes("mask", lane: 0), batch.bytes("mask", lane: 1)] == masks)
    }

    @Test func `a lane that has reached its goal has no legal action, even if its tiles could move`() throws {
        let batch = try TestBatch(Game2048.Config(rows: 2, columns: 3, goal: 8, stopAtGoal: true))
        try batch.reset(seeds: [0], boards: [exponentList([[4, 4, 2], [0, 0, 2]])])
        try batch.step([3])
        #expect(batch.isTerminated())
        #expect(batch.flag("goal_reached"))
        #expect(batch.mask() == [0, 0, 0, 0])
        try batch.afterstates()
        #expect(batch.bytes("mask") == [0, 0, 0, 0])
    }
}
