import Testing

@testable import TwofoldCore

/// What every game has for free: seeding, autoreset, step limits, episode lengths, batches, threads.
@Suite struct ToyGameTests {
    private func batch(
        lanes: Int, autoreset: AutoresetMode = .nextStep, maxEpisodeSteps: Int? = nil,
        workers: Workers = Workers(threads: 1)
    ) -> Batch {
        Batch(
            GameEnvironment(
                ToyGame(),
                BatchOptions(
                    lanes: lanes, autoreset: autoreset, maxEpisodeSteps: maxEpisodeSteps, workers: workers)))
    }

    private func expect(_ batch: Batch, tells model: ToyModel, lane: Int) {
        var observation: [UInt8] = [0, 0, 0, 0, 0, 0]
        observation[model.place] = 1
        #expect(batch.observation(lane: lane) == observation)
        #expect(
            batch.mask(lane: lane)
                == (model.isTerminated ? [0, 0, 0, 0] : [model.place > 0 ? 1 : 0, 1, 1, 1]))
        #expect(batch.integer("episode_length", lane: lane) == model.episodeLength)
        #expect(batch.float("half", lane: lane) == Float(model.place) / 2)
        #expect(batch.flag("is_first", lane: lane) == (model.place == 0))
        #expect(batch.byte("place", lane: lane) == model.place)
        let visits = batch.bytes("visits", lane: lane)
        #expect(visits[0] == UInt8(model.visits[0]))
        #expect(visits[4] == UInt8(model.visits[1]))
    }

    @Test func `a game's own infos stand between the common arrays and the outcome`() {
        let batch = batch(lanes: 2)
        let names = [
            "observation", "action_mask", "episode_length", "half", "is_first", "visits", "place",
        ]
        #expect(batch.environment.resetArrays.map(\.name) == names)
        #expect(batch.environment.stepArrays.map(\.name) == names + ["reward", "terminated", "truncated"])
        #expect(batch.environment.resetArrays[0] == ArraySpec("observation", .uint8, shape: [3, 2]))
        #expect(batch.environment.resetArrays[1] == ArraySpec("action_mask", .int8, shape: [4]))
        #expect(batch.environment.afterstateArrays.isEmpty)
        #expect(batch.environment.actions == ["back", "stay", "on", "leap"])
    }

    @Test(arguments: [nil, 1, 6] as [Int?], [1, 2])
    func `any game plays under autoreset and a step limit, on any number of threads`(
        maxEpisodeSteps: Int?, threads: Int
    ) throws {
        let lanes = 130
        let batch = batch(
            lanes: lanes, maxEpisodeSteps: maxEpisodeSteps, workers: Workers(threads: threads, chunk: 64))
        var models = (0..<lanes).map { ToyModel(seed: 50 + UInt64($0), limit: maxEpisodeSteps ?? .max) }
        try batch.reset(seed: 50)
        for lane in 0..<lanes { expect(batch, tells: models[lane], lane: lane) }
        var generator = Generator(seed: 1)
        var ended = 0
        for _ in 0..<40 {
            let actions = (0..<lanes).map { _ in UInt8([0, 1, 2, 2, 3][generator.next(below: 5)]) }
            try batch.step(actions)
            for lane in 0..<lanes {
                let reward = models[lane].step(Int(actions[lane]))
                expect(batch, tells: models[lane], lane: lane)
                #expect(batch.reward(lane: lane) == reward)
                #expect(batch.isTerminated(lane: lane) == models[lane].isTerminated)
                #expect(batch.isTruncated(lane: lane) == models[lane].isTruncated)
                if models[lane].isTerminated { ended += 1 }
            }
        }
        #expect(maxEpisodeSteps == 1 ? ended == 0 : ended > 20, "the test has seen the end of episodes")
    }

    @Test func `any game resets by mask, seed and given board`() throws {
        let batch = batch(lanes: 3, autoreset: .disabled)
        try batch.reset(seed: 9)
        var models = (0..<3).map { ToyModel(seed: 9 + UInt64($0)) }
        let garbage: [UInt8] = [7, 7, 7, 7, 7, 7]
        try batch.reset(mask: [0, 1, 0], boards: [garbage, [0, 0, 0, 0, 1, 0], garbage])
        models[1].start(at: 4)
        for lane in 0..<3 { expect(batch, tells: models[lane], lane: lane) }
        try batch.step([2, 2, 1])
        #expect(batch.isTerminated(lane: 1))
        #expect(batch.reward(lane: 1) == ToyGame.prize)
        #expect(batch.reward(lane: 0) == -0.5)
        #expect(batch.mask(lane: 1) == [0, 0, 0, 0])
        let finished = try #require(throws: EnvironmentError.self) { try batch.step([1, 1, 1]) }
        #expect(finished.lane == 1)
        let bad = try #require(throws: EnvironmentError.self) {
            try batch.reset(
                boards: [[1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]])
        }
        #expect(bad.field == "boards")
        #expect(bad.lane == 2)
        #expect(bad.message.contains("has no marker before the last place"))
        #expect(throws: EnvironmentError.self) { try batch.step([1, 4, 1]) }
        for lane in 0..<3 { _ = models[lane].step([2, 2, 1][lane]) }
        try batch.reset(mask: [0, 1, 0])
        models[1].start()
        for lane in 0..<3 { expect(batch, tells: models[lane], lane: lane) }
    }
}
