import Testing

@testable import TwofoldCore

/// Tests the behaviour that all games share: seeding, autoreset, step limits, episode lengths, batches and threads.
@Suite struct ToyGameTests {
    private func batch(
        lanes: Int, autoreset: AutoresetMode = .nextStep, maxEpisodeSteps: Int? = nil,
        workers: Workers = Workers(threads: 1), reward: RewardSpec? = nil, extraInfos: [String] = []
    ) throws -> TestBatch {
        var options = BatchOptions(
            lanes: lanes, autoreset: autoreset, maxEpisodeSteps: maxEpisodeSteps, workers: workers)
        options.reward = reward
        options.extraInfos = extraInfos
        return TestBatch(try Batch(ToyGame(), options))
    }

    private func expect(_ batch: TestBatch, equals model: ToyModel, lane: Int) {
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

    @Test func `a game's infos come after the common arrays and before the reward and flags`() throws {
        let batch = try batch(lanes: 2)
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
        let batch = try batch(
            lanes: lanes, maxEpisodeSteps: maxEpisodeSteps, workers: Workers(threads: threads, chunk: 64))
        var models = (0..<lanes).map { ToyModel(seed: 50 + UInt64($0), limit: maxEpisodeSteps ?? .max) }
        try batch.reset(seed: 50)
        for lane in 0..<lanes { expect(batch, equals: models[lane], lane: lane) }
        var generator = Generator(seed: 1)
        var ended = 0
        for _ in 0..<40 {
            let actions = (0..<lanes).map { _ in UInt8([0, 1, 2, 2, 3][generator.next(below: 5)]) }
            try batch.step(actions)
            for lane in 0..<lanes {
                let reward = models[lane].step(Int(actions[lane]))
                expect(batch, equals: models[lane], lane: lane)
                #expect(batch.reward(lane: lane) == reward)
                #expect(batch.isTerminated(lane: lane) == models[lane].isTerminated)
                #expect(batch.isTruncated(lane: lane) == models[lane].isTruncated)
                if models[lane].isTerminated { ended += 1 }
            }
        }
        #expect(maxEpisodeSteps == 1 ? ended == 0 : ended > 20, "the test has seen the end of episodes")
    }

    @Test(arguments: [nil, 1, 6] as [Int?], [1, 2])
    func `with SAME_STEP any game restarts in the step, and reports the final rows`(
        maxEpisodeSteps: Int?, threads: Int
    ) throws {
        let lanes = 130
        let batch = try batch(
            lanes: lanes, autoreset: .sameStep, maxEpisodeSteps: maxEpisodeSteps,
            workers: Workers(threads: threads, chunk: 64))
        var models = (0..<lanes).map { ToyModel(seed: 50 + UInt64($0), limit: maxEpisodeSteps ?? .max) }
        try batch.reset(seed: 50)
        var generator = Generator(seed: 1)
        var ended = 0
        for _ in 0..<40 {
            let actions = (0..<lanes).map { _ in UInt8([0, 1, 2, 2, 3][generator.next(below: 5)]) }
            try batch.step(actions)
            for lane in 0..<lanes {
                #expect(models[lane].step(Int(actions[lane])) == batch.reward(lane: lane))
                let last = models[lane]
                #expect(batch.isTerminated(lane: lane) == last.isTerminated)
                #expect(batch.isTruncated(lane: lane) == last.isTruncated)
                let final = batch.finals[lane]
                #expect((final != nil) == (last.isTerminated || last.isTruncated))
                if let final {
                    ended += 1
                    #expect(final["place"] == [UInt8(last.place)])
                    #expect(final["episode_length"]?[0] == UInt8(last.episodeLength))
                    #expect(final["visits"]?[4] == UInt8(last.visits[1]))
                    #expect(final["action_mask"]?[1] == (last.isTerminated ? 0 : 1))
                    models[lane].start()
                }
                expect(batch, equals: models[lane], lane: lane)
            }
        }
        #expect(ended > 20, "the test has seen the end of episodes")
    }

    @Test(arguments: [1, 7, 8, 9, 63, 64, 65, 1000, 65_600])
    func `ended lanes are found in all positions`(lanes: Int) throws {
        let batch = try batch(lanes: lanes, autoreset: .sameStep, maxEpisodeSteps: 2)
        try batch.reset(seed: 0)
        let late = Set((0..<lanes).filter { $0 % 3 == 1 || $0 == lanes - 1 })
        try batch.step([UInt8](repeating: 1, count: lanes))
        #expect(batch.finals.lanes.isEmpty)
        try batch.reset(mask: (0..<lanes).map { late.contains($0) ? 1 : 0 })
        try batch.step([UInt8](repeating: 1, count: lanes))
        #expect(Set(batch.finals.lanes) == Set(0..<lanes).subtracting(late))
        try batch.step([UInt8](repeating: 1, count: lanes))
        #expect(Set(batch.finals.lanes) == late)
    }

    @Test func `any game resets by mask, seed and given board`() throws {
        let batch = try batch(lanes: 3, autoreset: .disabled)
        try batch.reset(seed: 9)
        var models = (0..<3).map { ToyModel(seed: 9 + UInt64($0)) }
        let garbage: [UInt8] = [7, 7, 7, 7, 7, 7]
        try batch.reset(mask: [0, 1, 0], boards: [garbage, [0, 0, 0, 0, 1, 0], garbage])
        models[1].start(at: 4)
        for lane in 0..<3 { expect(batch, equals: models[lane], lane: lane) }
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
        for lane in 0..<3 { expect(batch, equals: models[lane], lane: lane) }
    }

    // MARK: rewards and extra infos

    private static let reward = RewardSpec([
        .init("prize", weight: 2), .init("distance", weight: -1.5, gamma: 0.75),
        .init("landing", parameters: [.init("table", [0, 1, 2, 4, 8, 16])]),
    ])

    @Test func `any game reports declared rewards, their terms and its extra infos`() throws {
        let lanes = 70
        var reward = Self.reward
        reward.scale = 0.5
        reward.clipLow = -2
        let batch = try batch(
            lanes: lanes, maxEpisodeSteps: 9, workers: Workers(threads: 2, chunk: 64), reward: reward,
            extraInfos: ["way", "reward_terms"])
        #expect(batch.environment.rewardTerms == ["prize", "distance", "landing"])
        #expect(
            batch.environment.stepArrays.suffix(2)
                == [ArraySpec("way", .int32, shape: [2]), ArraySpec("reward_terms", .float32, shape: [3])])
        #expect(!batch.environment.resetArrays.contains { $0.name == "way" })
        var models = (0..<lanes).map { ToyModel(seed: 50 + UInt64($0), limit: 9) }
        try batch.reset(seed: 50)
        var generator = Generator(seed: 4)
        var ends = (terminated: 0, truncated: 0)
        for _ in 0..<60 {
            let actions = (0..<lanes).map { _ in UInt8([0, 1, 2, 2, 3][generator.next(below: 5)]) }
            try batch.step(actions)
            for lane in 0..<lanes {
                let before = models[lane]
                let plays = !before.isTerminated && !before.isTruncated
                _ = models[lane].step(Int(actions[lane]))
                let after = models[lane]
                // A truncated state keeps its potential; a terminated state has none.
                let potential = after.isTerminated ? 0 : Double(5 - after.place)
                let terms: [Double] =
                    plays
                    ? [
                        after.isTerminated ? 2 : 0, -1.5 * (0.75 * potential - Double(5 - before.place)),
                        [0, 1, 2, 4, 8, 16][after.place],
                    ] : [0, 0, 0]
                for (term, value) in terms.enumerated() {
                    #expect(batch.float("reward_terms", lane: lane, at: term) == Float(value))
                }
                #expect(batch.reward(lane: lane) == Float(max(-2, terms.reduce(0, +) / 2)))
                let way = plays ? [Int32(before.place), Int32(after.place)] : [-1, -1]
                #expect(batch.bytes("way", lane: lane) == way.flatMap { withUnsafeBytes(of: $0, Array.init) })
                ends.terminated += plays && after.isTerminated ? 1 : 0
                ends.truncated += plays && after.isTruncated && !after.isTerminated ? 1 : 0
            }
        }
        #expect(ends.terminated > 10 && ends.truncated > 10)
    }

    @Test func `declaring the terms of the default reward gives the default reward`() throws {
        let plain = try batch(lanes: 20)
        let declared = try batch(
            lanes: 20, reward: ToyGame().defaultReward, extraInfos: ["reward_terms"])
        try plain.reset(seed: 3)
        try declared.reset(seed: 3)
        for step in 0..<50 {
            let actions = (0..<20).map { UInt8(($0 + step) % 4) }
            try plain.step(actions)
            try declared.step(actions)
            #expect(plain.bytes("reward") == declared.bytes("reward"))
        }
    }

    @Test func `errors for terms and infos that a game does not have contain their names`() throws {
        let wrong: [(String, RewardSpec?, [String])] = [
            ("reward.merge_score", RewardSpec([.init("merge_score")]), []),
            ("reward.prize.gamma", RewardSpec([.init("prize", gamma: 1)]), []),
            ("reward.landing.table", RewardSpec([.init("landing")]), []),
            ("extra_infos", nil, ["merges"]), ("extra_infos", nil, ["way", "way"]),
        ]
        for (field, reward, infos) in wrong {
            let error = #expect(throws: EnvironmentError.self) {
                _ = try batch(lanes: 1, reward: reward, extraInfos: infos)
            }
            #expect(error?.field == field && error?.kind == .invalidArgument)
        }
        let unknown = #expect(throws: EnvironmentError.self) {
            _ = try batch(lanes: 1, reward: RewardSpec([.init("prise")]))
        }
        #expect(unknown?.message.contains("prize, effort, distance, landing") == true)
    }
}
