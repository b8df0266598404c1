import Testing

@testable import TwofoldCore

@Suite(.everyEngine) struct ResetTests {
    // MARK: seeds

    @Test func `each lane starts from the seed at its index`() throws {
        let seeds: [UInt64] = [0, 1, 42, 1 << 32, 1 << 63, .max, 0]
        let batch = try TestBatch(lanes: seeds.count)
        try batch.reset(seeds: seeds)
        for (lane, seed) in seeds.enumerated() {
            #expect(batch.stateResults(lane: lane) == Model(Game2048.Config(), seed: seed).results)
        }
        #expect(batch.observation(lane: 0) == batch.observation(lane: 6))
        #expect(Set((0..<6).map { batch.observation(lane: $0) }).count == 6)
    }

    @Test func `a reset zeroes the counts of the episode`() throws {
        let batch = try TestBatch(lanes: 3)
        try batch.reset(seed: 5)
        for _ in 0..<20 { try batch.step([0, 1, 2]) }
        try batch.reset()
        for lane in 0..<3 {
            #expect(batch.integer("episode_length", lane: lane) == 0)
            #expect(batch.integer("score", lane: lane) == 0)
            #expect(batch.integer("moves", lane: lane) == 0)
            #expect(batch.byte("max_exponent", lane: lane) <= 2)
            #expect(batch.observation(lane: lane).filter { $0 != 0 }.count == 2)
        }
    }

    @Test func `a reset without seeds continues the streams, and a reset with seeds restarts them`() throws {
        let batch = try TestBatch(lanes: 2)
        var models = [Model(Game2048.Config(), seed: 7), Model(Game2048.Config(), seed: 8)]
        try batch.reset(seed: 7)
        let first = batch.reply
        for _ in 0..<20 {
            try batch.reset()
            for lane in 0..<2 {
                models[lane].reset()
                #expect(batch.stateResults(lane: lane) == models[lane].results)
            }
        }
        #expect(batch.reply != first)
        try batch.reset(seed: 7)
        #expect(batch.reply == first)
    }

    @Test func `the first reset needs seeds`() throws {
        let batch = try TestBatch(lanes: 3)
        let error = try #require(throws: EnvironmentError.self) { try batch.reset() }
        #expect(error.kind == .failedPrecondition)
        #expect(error.field == "seed")
        #expect(error.lane == 0)
        let masked = try #require(throws: EnvironmentError.self) { try batch.reset(mask: [1, 1, 1]) }
        #expect(masked.field == "seed")
    }

    // MARK: before the first reset

    @Test func `step, observe and afterstates before the first reset are refused`() throws {
        let batch = try TestBatch(lanes: 2)
        for call in [{ try batch.step([0, 0]) }, { try batch.observe() }, { try batch.afterstates() }] {
            let error = try #require(throws: EnvironmentError.self) { try call() }
            #expect(error.kind == .failedPrecondition)
            #expect(error.lane == 0)
            #expect(error.message.contains("reset"))
        }
    }

    // MARK: masks

    @Test func `a masked reset does not change the other lanes or their streams`() throws {
        let batch = try TestBatch(lanes: 3)
        let twin = try TestBatch(lanes: 3)
        try batch.reset(seed: 0)
        try twin.reset(seed: 0)
        for _ in 0..<10 {
            try batch.step([0, 1, 2])
            try twin.step([0, 1, 2])
        }
        try batch.reset(seeds: [99, 99, 99], mask: [0, 1, 0])
        try twin.observe()
        for lane in [0, 2] { #expect(batch.stateResults(lane: lane) == twin.stateResults(lane: lane)) }
        #expect(batch.stateResults(lane: 1) == Model(Game2048.Config(), seed: 99).results)
        for _ in 0..<10 {
            try batch.step([3, 3, 0])
            try twin.step([3, 3, 0])
            for lane in [0, 2] { #expect(batch.results(lane: lane) == twin.results(lane: lane)) }
            #expect(batch.results(lane: 1) != twin.results(lane: 1))
        }
    }

    @Test func `a mask of zeros changes nothing, and a mask of ones equals no mask`() throws {
        let (batch, twin) = (try TestBatch(lanes: 2), try TestBatch(lanes: 2))
        try batch.reset(seeds: [1, 2], mask: [1, 1])
        try twin.reset(seeds: [1, 2])
        let first = batch.reply
        #expect(first == twin.reply)
        try batch.reset(seeds: [3, 4], mask: [0, 0])
        #expect(batch.reply == first)
        for each in [batch, twin] { try each.reset() }
        #expect(batch.reply == twin.reply, "the streams continue")
    }

    @Test func `a mask may contain only 0, 1 and 2`() throws {
        let batch = try TestBatch(lanes: 3)
        try batch.reset(seed: 0)
        for wrong in [3, 128, 255] as [UInt8] {
            let error = try #require(throws: EnvironmentError.self) { try batch.reset(mask: [0, 1, wrong]) }
            #expect(error.kind == .invalidArgument)
            #expect(error.field == "reset_mask")
            #expect(error.lane == 2)
        }
    }

    @Test func `the first reset has to include every lane`() throws {
        let batch = try TestBatch(lanes: 3)
        let error = try #require(throws: EnvironmentError.self) {
            try batch.reset(seeds: [0, 1, 2], mask: [1, 0, 1])
        }
        #expect(error.kind == .failedPrecondition)
        #expect(error.field == "reset_mask")
        #expect(error.lane == 1)
        // Lane 0 must not have been reset.
        #expect(throws: EnvironmentError.self) { try batch.observe() }
    }

    // MARK: given boards

    @Test func `an episode starts from a given board unchanged, with score 0 and no draws`() throws {
        let config = Game2048.Config(rows: 2, columns: 3, goal: 1024)
        let batch = try TestBatch(config, lanes: 2)
        let boards: [[UInt8]] = [[20, 1, 0, 2, 0, 0], [0, 0, 0, 0, 0, 3]]
        try batch.reset(seeds: [11, 12], boards: boards)
        for lane in 0..<2 {
            var model = Model(config, seed: 11 + UInt64(lane))
            model.reset(seed: 11 + UInt64(lane), board: boards[lane])
            #expect(batch.stateResults(lane: lane) == model.results)
        }
        #expect(batch.observation(lane: 0) == boards[0])
        #expect(batch.integer("score", lane: 0) == 0)
        #expect(batch.integer("moves", lane: 0) == 0)
        #expect(batch.byte("max_exponent", lane: 0) == 20)
        #expect(batch.flag("goal_reached", lane: 0))
        // The stream is still at its start, so the next random start is the first one of each seed.
        try batch.reset()
        for lane in 0..<2 {
            #expect(batch.stateResults(lane: lane) == Model(config, seed: 11 + UInt64(lane)).results)
        }
    }

    static let badBoards: [(reason: String, board: [UInt8])] = [
        ("an exponent of 21", [21, 0, 0, 0]),
        ("an exponent of 255", [1, 1, 0, 255]),
        ("a full board without equal neighbours", [1, 2, 3, 4]),
        ("a full board whose equal tiles touch only at corners", [1, 2, 2, 1]),
        ("an empty board", [0, 0, 0, 0]),
    ]

    @Test(arguments: badBoards)
    func `a board from which no episode can start is refused with its lane`(reason: String, board: [UInt8])
        throws
    {
        let batch = try TestBatch(Game2048.Config(rows: 2, columns: 2), lanes: 3)
        try batch.reset(seed: 0)
        for _ in 0..<3 { try batch.step([0, 1, 2]) }
        try batch.observe()
        let before = batch.reply
        let good: [UInt8] = [1, 0, 0, 0]
        for lane in 0..<3 {
            // The error names the first bad board.
            let boards = (0..<3).map { $0 < lane ? good : board }
            let error = try #require(throws: EnvironmentError.self) {
                try batch.reset(seeds: [5, 6, 7], boards: boards)
            }
            #expect(error.kind == .invalidArgument)
            #expect(error.field == "boards")
            #expect(error.lane == lane)
            try batch.observe()
            #expect(batch.reply == before, "no lane was reset")
        }
    }

    @Test func `rows of lanes outside the mask are ignored`() throws {
        let batch = try TestBatch(Game2048.Config(rows: 2, columns: 2), lanes: 3)
        try batch.reset(seed: 0)
        let untouched = [batch.stateResults(lane: 0), batch.stateResults(lane: 2)]
        try batch.reset(
            seeds: [99, 5, 99], mask: [0, 1, 0], boards: [[99, 99, 99, 99], [1, 0, 0, 2], [0, 0, 0, 0]])
        #expect(batch.observation(lane: 1) == [1, 0, 0, 2])
        #expect([batch.stateResults(lane: 0), batch.stateResults(lane: 2)] == untouched)
    }

    @Test(arguments: [false, true])
    func `a board with the goal is refused only with stop_at_goal`(stopAtGoal: Bool)
        throws
    {
        let batch = try TestBatch(
            Game2048.Config(rows: 2, columns: 2, goal: 16, stopAtGoal: stopAtGoal), lanes: 2)
        func reset() throws { try batch.reset(seeds: [0, 0], boards: [[1, 3, 0, 0], [4, 0, 0, 0]]) }
        if stopAtGoal {
            let error = try #require(throws: EnvironmentError.self) { try reset() }
            #expect(error.field == "boards")
            #expect(error.lane == 1)
        } else {
            try reset()
            #expect(!batch.flag("goal_reached", lane: 0))
            #expect(batch.flag("goal_reached", lane: 1))
        }
    }

    /// The code of one 2048 tutorial overlooks these pairs when it compares neighbours.
    @Test(arguments: [[1, 1, 2, 3] as [UInt8], [1, 2, 1, 3]])
    func `a full board with a pair in row 0 or column 0 can be played`(board: [UInt8]) throws {
        let batch = try TestBatch(Game2048.Config(rows: 2, columns: 2))
        try batch.reset(seeds: [0], boards: [board])
        #expect(batch.mask() == (board[0] == board[1] ? [0, 1, 0, 1] : [1, 0, 1, 0]))
    }
}
