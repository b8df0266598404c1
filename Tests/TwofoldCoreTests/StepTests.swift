import Testing

@testable import TwofoldCore

@Suite(.everyEngine) struct StepTests {
    /// The board 8 16 / 32 . on which the 32 can slide right. No further move is possible, regardless of the new tile.
    private let lastMove: [UInt8] = [3, 4, 5, 0]
    private let config = Game2048.Config(rows: 2, columns: 2)

    // MARK: one step

    @Test func `a step reports the new board, the reward and the counts`() throws {
        let batch = try TestBatch(config)
        try batch.reset(seeds: [1], boards: [[1, 1, 2, 2]])
        try batch.step([3])
        #expect(batch.observation()[0] == 2)
        #expect(batch.observation()[2] == 3)
        #expect(batch.reward() == 12)
        #expect(batch.integer("score") == 12)
        #expect(batch.integer("moves") == 1)
        #expect(batch.integer("episode_length") == 1)
        #expect(!batch.isTerminated())
        #expect(!batch.isTruncated())
        try batch.step([0])
        #expect(batch.integer("score") == 12 + Int(batch.reward()), "the score accumulates")
    }

    @Test func `an illegal action counts as a step but not as a move, and draws nothing`() throws {
        let batch = try TestBatch(config)
        let twin = try TestBatch(config)
        for one in [batch, twin] { try one.reset(seeds: [1], boards: [[1, 0, 2, 0]]) }
        try batch.step([3])
        #expect(batch.observation() == [1, 0, 2, 0])
        #expect(batch.reward() == 0)
        #expect(batch.integer("episode_length") == 1)
        #expect(batch.integer("moves") == 0)
        #expect(!batch.isTerminated())
        // The next spawn is the same as without the illegal action.
        try batch.step([1])
        try twin.step([1])
        #expect(batch.observation() == twin.observation())
        #expect(batch.integer("episode_length") == 2)
        #expect(twin.integer("episode_length") == 1)
    }

    @Test func `with terminate an illegal action ends the episode, and masks all actions`() throws {
        var config = config
        config.illegalAction = .terminate
        let batch = try TestBatch(config)
        try batch.reset(seeds: [1], boards: [[1, 0, 2, 0]])
        #expect(batch.mask() == [0, 1, 0, 0])
        try batch.step([3])
        #expect(batch.observation() == [1, 0, 2, 0])
        #expect(batch.reward() == 0)
        #expect(batch.isTerminated())
        #expect(!batch.isTruncated())
        #expect(batch.mask() == [0, 0, 0, 0])
        #expect(batch.integer("episode_length") == 1)
        #expect(batch.integer("moves") == 0)
    }

    @Test func `observe returns the state after the last step, any number of times`() throws {
        let batch = try TestBatch(config, lanes: 20, maxEpisodeSteps: 9)
        try batch.reset(seed: 0)
        var generator = Generator(seed: 1)
        for _ in 0..<60 {
            try batch.step((0..<20).map { _ in UInt8(generator.next(below: 4)) })
            let results = (0..<20).map { batch.stateResults(lane: $0) }
            for _ in 0..<2 {
                try batch.observe()
                #expect(batch.names == Set(batch.environment.resetArrays.map(\.name)))
                #expect((0..<20).map { batch.stateResults(lane: $0) } == results)
            }
        }
    }

    // MARK: refusals

    @Test(arguments: [4, 5, 127, 128, 255] as [UInt8])
    func `an action outside 0...3 is refused with its lane`(action: UInt8) throws {
        let batch = try TestBatch(lanes: 4)
        try batch.reset(seed: 0)
        let before = batch.reply
        for lane in 0..<4 {
            var actions: [UInt8] = [0, 1, 2, 3]
            actions[lane] = action
            let error = try #require(throws: EnvironmentError.self) { try batch.step(actions) }
            #expect(error.kind == .invalidArgument)
            #expect(error.field == "actions")
            #expect(error.lane == lane)
            #expect(error.message.contains("\(action)"))
            try batch.observe()
            #expect(batch.reply == before)
        }
        let error = try #require(throws: EnvironmentError.self) { try batch.step([0, action, 255, action]) }
        #expect(error.lane == 1, "the error names the first wrong lane")
    }

    /// The generators do not change either: later results are the same as without the refused calls.
    @Test func `a call that throws changes nothing`() throws {
        let batch = try TestBatch(lanes: 3, autoreset: .disabled)
        let twin = try TestBatch(lanes: 3, autoreset: .disabled)
        for one in [batch, twin] { try one.reset(seed: 0) }
        let cells = [UInt8](repeating: 0, count: 16)
        let good = [1] + cells.dropFirst()
        for round in 0..<20 {
            let refused: [() throws -> Void] = [
                { try batch.step([0, 1, 4]) },
                { try batch.step([255, 1, 2]) },
                { try batch.reset(seeds: [7, 8, 9], mask: [1, 1, 3]) },
                { try batch.reset(seeds: [7, 8, 9], boards: [good, good, cells]) },
                { try batch.reset(boards: [good, good, cells]) },
                { try batch.reset(mask: [1, 0, 3]) },
            ]
            for call in refused { #expect(throws: EnvironmentError.self) { try call() } }
            for one in [batch, twin] {
                if round % 10 == 9 { try one.reset() } else { try one.step([0, 1, 2]) }
            }
            #expect(batch.reply == twin.reply)
        }
    }

    // MARK: the end of an episode

    @Test func `the step that ends an episode reports its last board, with no action legal`() throws {
        let batch = try TestBatch(config)
        try batch.reset(seeds: [5], boards: [lastMove])
        #expect(batch.mask() == [0, 1, 1, 0])
        try batch.step([1])
        #expect(batch.isTerminated())
        #expect(!batch.isTruncated())
        #expect(batch.mask() == [0, 0, 0, 0])
        let last = batch.observation()
        #expect(last[0] == 3 && last[1] == 4 && last[3] == 5)
        #expect(last[2] == 1 || last[2] == 2)
        #expect(batch.integer("episode_length") == 1)
        #expect(batch.integer("moves") == 1)
    }

    /// The limit counts steps like Gymnasium's TimeLimit.
    @Test func `an episode is truncated after max_episode_steps steps, including illegal actions`() throws {
        let batch = try TestBatch(maxEpisodeSteps: 4)
        try batch.reset(seed: 3)
        for step in 1...4 {
            // With this seed, only the first slide to the right moves tiles.
            try batch.step([1])
            #expect(batch.integer("episode_length") == step)
            #expect(batch.integer("moves") == 1)
            #expect(batch.isTruncated() == (step == 4))
            #expect(!batch.isTerminated())
        }
        let observation = batch.observation()
        let board = Board(rows: 4, columns: 4, exponents: observation)
        let legal = Direction.allCases.map { board.legalActions.contains($0) ? 1 : 0 as UInt8 }
        #expect(batch.mask() == legal, "a truncated board shows its true mask")
        #expect(legal.contains(1))
        try batch.step([0])
        #expect(batch.integer("episode_length") == 0)
        #expect(!batch.isTruncated())
        for step in 1...4 {
            try batch.step([UInt8(step % 4)])
            #expect(batch.isTruncated() == (step == 4))
        }
    }

    @Test func `an episode that ends by the rules in its last allowed step is terminated and truncated`()
        throws
    {
        let batch = try TestBatch(config, maxEpisodeSteps: 1)
        try batch.reset(seeds: [5], boards: [lastMove])
        try batch.step([1])
        #expect(batch.isTerminated())
        #expect(batch.isTruncated())
        #expect(batch.mask() == [0, 0, 0, 0])
        try batch.step([1])
        #expect(!batch.isTerminated())
        #expect(!batch.isTruncated())
    }

    /// After an illegal action ends the episode, the tiles could still move, but the mask must be zero.
    @Test func `a lane that is terminated and truncated masks all actions`() throws {
        let config = Game2048.Config(rows: 2, columns: 2, illegalAction: .terminate)
        let batch = try TestBatch(config, maxEpisodeSteps: 1)
        try batch.reset(seeds: [5], boards: [[1, 0, 2, 0]])
        try batch.step([3])
        #expect(batch.isTerminated())
        #expect(batch.isTruncated())
        #expect(batch.mask() == [0, 0, 0, 0])
    }

    @Test func `an episode that ends by the rules before its last allowed step is not truncated`() throws {
        let batch = try TestBatch(config, maxEpisodeSteps: 2)
        try batch.reset(seeds: [5], boards: [lastMove])
        try batch.step([1])
        #expect(batch.isTerminated())
        #expect(!batch.isTruncated())
    }

    @Test func `a step limit of one makes every second step an autoreset`() throws {
        let batch = try TestBatch(maxEpisodeSteps: 1)
        try batch.reset(seed: 0)
        for _ in 0..<5 {
            try batch.step([1])
            #expect(batch.isTruncated())
            #expect(batch.integer("episode_length") == 1)
            try batch.step([1])
            #expect(!batch.isTruncated())
            #expect(batch.integer("episode_length") == 0)
            #expect(batch.observation().filter { $0 != 0 }.count == 2)
        }
    }

    // MARK: autoreset NEXT_STEP

    @Test
    func `the step after the end ignores its action, earns nothing and reports the new episode's start`()
        throws
    {
        // One lane for each action: all four get the same new board.
        let batch = try TestBatch(config, lanes: 4)
        try batch.reset(seeds: [5, 5, 5, 5], boards: [lastMove, lastMove, lastMove, lastMove])
        try batch.step([1, 1, 1, 1])
        let last = batch.observation(lane: 0)
        var model = Model(config, seed: 5)
        model.reset(seed: 5, board: lastMove)
        #expect(model.step(1) == batch.results(lane: 3))
        try batch.observe()
        #expect(batch.observation(lane: 0) == last, "the last board stays until the next step")
        #expect(batch.mask(lane: 0) == [0, 0, 0, 0])
        try batch.step([0, 1, 2, 3])
        let start = model.step(0)
        #expect(start.observation.filter { $0 != 0 }.count == 2)
        for lane in 0..<4 {
            #expect(batch.results(lane: lane) == start)
            #expect(batch.reward(lane: lane) == 0)
            #expect(batch.integer("episode_length", lane: lane) == 0)
            #expect(batch.integer("moves", lane: lane) == 0)
            #expect(batch.integer("score", lane: lane) == 0)
            #expect(!batch.isTerminated(lane: lane))
            #expect(batch.mask(lane: lane) != [0, 0, 0, 0])
        }
        // Play continues after only the start tiles have been drawn.
        let next = UInt8(try #require(start.mask.firstIndex(of: 1)))
        try batch.step([next, next, next, next])
        let results = model.step(Int(next))
        #expect(results.episodeLength == 1)
        #expect(results.moves == 1)
        for lane in 0..<4 { #expect(batch.results(lane: lane) == results) }
    }

    @Test func `each lane's episodes end and begin independently`() throws {
        let batch = try TestBatch(config, lanes: 3)
        try batch.reset(seeds: [1, 2, 3], boards: [[1, 0, 0, 0], lastMove, [1, 0, 0, 0]])
        try batch.step([1, 1, 1])
        #expect((0..<3).map { batch.isTerminated(lane: $0) } == [false, true, false])
        try batch.step([2, 2, 2])
        #expect((0..<3).map { batch.integer("episode_length", lane: $0) } == [2, 0, 2])
        #expect((0..<3).map { batch.isTerminated(lane: $0) } == [false, false, false])
    }

    @Test func `a reset of a finished lane replaces its autoreset`() throws {
        let batch = try TestBatch(config, lanes: 2)
        try batch.reset(seeds: [5, 6], boards: [lastMove, lastMove])
        try batch.step([1, 1])
        try batch.reset(mask: [1, 0], boards: [[1, 1, 0, 0], lastMove])
        #expect(batch.mask(lane: 0) == [0, 1, 1, 1])
        #expect(batch.mask(lane: 1) == [0, 0, 0, 0], "lane 1 still shows its last board")
        #expect(batch.observation(lane: 1)[3] == 5)
        try batch.step([3, 3])
        #expect(batch.reward(lane: 0) == 4, "lane 0 plays")
        #expect(batch.integer("episode_length", lane: 0) == 1)
        #expect(batch.integer("episode_length", lane: 1) == 0, "lane 1 starts a new episode")
        #expect(batch.reward(lane: 1) == 0)
    }

    // MARK: autoreset DISABLED

    @Test func `with autoreset disabled a step of a finished lane is refused, and no lane moves`() throws {
        let batch = try TestBatch(config, lanes: 3, autoreset: .disabled)
        try batch.reset(seeds: [1, 2, 3], boards: [[1, 0, 0, 0], lastMove, lastMove])
        try batch.step([1, 1, 1])
        #expect((0..<3).map { batch.isTerminated(lane: $0) } == [false, true, true])
        try batch.observe()
        let before = batch.reply
        for _ in 0..<2 {
            let error = try #require(throws: EnvironmentError.self) { try batch.step([3, 3, 3]) }
            #expect(error.kind == .failedPrecondition)
            #expect(error.lane == 1)
            #expect(error.field == "actions")
            try batch.observe()
            #expect(batch.reply == before)
        }
        try batch.reset(mask: [0, 1, 0])
        #expect(throws: EnvironmentError.self) { try batch.step([3, 3, 3]) }
        try batch.reset(mask: [0, 0, 1])
        try batch.step([3, 3, 3])
        #expect((0..<3).map { batch.integer("episode_length", lane: $0) } == [2, 1, 1])
    }

    // MARK: against the model

    static let configs: [(Game2048.Config, AutoresetMode, Int?)] = [
        (Game2048.Config(), .nextStep, nil),
        (Game2048.Config(rows: 2, columns: 2), .nextStep, nil),
        (Game2048.Config(rows: 2, columns: 2), .disabled, 7),
        (Game2048.Config(rows: 2, columns: 3, illegalAction: .terminate), .nextStep, nil),
        (Game2048.Config(rows: 3, columns: 2, goal: 16, stopAtGoal: true), .nextStep, 20),
        (Game2048.Config(rows: 3, columns: 3, goal: 16, stopAtGoal: true), .disabled, nil),
        (Game2048.Config(rows: 2, columns: 8, fourProbability: 0.5, startTiles: 15), .nextStep, 5),
        (Game2048.Config(rows: 8, columns: 8, fourProbability: 1, startTiles: 40), .disabled, 30),
    ]

    /// Makes steps, resets of all kinds, observations and refused calls in random order. Checks that every field of
    /// every lane agrees with a simple model of one lane.
    @Test(arguments: configs)
    func `any sequence of calls agrees with the model`(
        config: Game2048.Config, autoreset: AutoresetMode, maxEpisodeSteps: Int?
    ) throws {
        let lanes = 6
        let batch = try TestBatch(
            config, lanes: lanes, autoreset: autoreset, maxEpisodeSteps: maxEpisodeSteps)
        var models = (0..<lanes).map {
            Model(config, maxEpisodeSteps: maxEpisodeSteps, seed: 100 + UInt64($0))
        }
        try batch.reset(seed: 100)
        var generator = Generator(seed: 17)
        for _ in 0..<400 {
            switch generator.next(below: 20) {
            case 0:
                try batch.observe()
            case 1, 2:
                try resetSome(batch, &models, &generator)
            case 3:
                #expect(throws: EnvironmentError.self) { try batch.step([0, 1, 2, 3, 0, 9]) }
                try batch.observe()
            default:
                if autoreset == .disabled, models.contains(where: \.isFinished) {
                    try resetSome(batch, &models, &generator, including: models.map(\.isFinished))
                }
                let actions = models.map { model in
                    let legal = (0..<4).filter { model.results.mask[$0] == 1 }
                    let isAny = legal.isEmpty || generator.next(below: 8) == 0
                    return isAny ? generator.next(below: 4) : legal[generator.next(below: legal.count)]
                }
                try batch.step(actions.map { UInt8($0) })
                for lane in 0..<lanes {
                    #expect(batch.results(lane: lane) == models[lane].step(actions[lane]))
                }
                continue
            }
            for lane in 0..<lanes { #expect(batch.stateResults(lane: lane) == models[lane].results.state) }
        }
    }

    private func resetSome(
        _ batch: TestBatch, _ models: inout [Model], _ generator: inout Generator,
        including finished: [Bool]? = nil
    ) throws {
        let mask = models.indices.map { finished?[$0] ?? false || generator.next(below: 3) == 0 }
        let withSeeds = generator.next(below: 2) == 0
        let withBoards = generator.next(below: 2) == 0
        let seeds = models.indices.map { _ in UInt64(generator.next()) << 32 | UInt64(generator.next()) }
        let boards = models.map { model in
            var board = randomExponents(model.board.count, generator: &generator).map { min($0, 2) }
            (board[0], board[1]) = (1, 1)
            return board
        }
        try batch.reset(
            seeds: withSeeds ? seeds : nil, mask: mask.map { $0 ? 1 : 0 }, boards: withBoards ? boards : nil)
        for lane in models.indices where mask[lane] {
            models[lane].reset(
                seed: withSeeds ? seeds[lane] : nil, board: withBoards ? boards[lane] : nil)
        }
    }
}
