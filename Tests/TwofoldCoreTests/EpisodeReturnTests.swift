import Testing

@testable import TwofoldCore

/// Compares the extra info `episode_return` with the sums of the steps' rewards.
@Suite(.everyEngine) struct EpisodeReturnTests {
    /// A shaped, scaled and clipped reward, so that the sums are not round numbers.
    private static let reward: RewardSpec = {
        var spec = RewardSpec([
            .init("merge_score", weight: 0.1), .init("illegal_action", weight: -0.7),
            .init("empty_cells", weight: 0.3, gamma: 0.99),
        ])
        (spec.scale, spec.clipHigh) = (1.0 / 3, 1.7)
        return spec
    }()

    private func batch(
        _ config: Game2048.Config = .init(rows: 4, columns: 4), lanes: Int = 70,
        autoreset: AutoresetMode = .nextStep, threads: Int = 1, isPlain: Bool = false
    ) throws -> TestBatch {
        try TestBatch(
            config, lanes: lanes, autoreset: autoreset, maxEpisodeSteps: 23,
            workers: Workers(threads: threads, chunk: 64), reward: Self.reward,
            extraInfos: isPlain ? [] : ["episode_return"])
    }

    @Test(arguments: [AutoresetMode.nextStep, .sameStep, .disabled], [1, 2])
    func `the return is the sum of the episode's rewards up to each step`(
        mode: AutoresetMode, threads: Int
    ) throws {
        for config in [Game2048.Config(illegalAction: .terminate), .init(rows: 2, columns: 3)] {
            let lanes = 200
            let batch = try batch(config, lanes: lanes, autoreset: mode, threads: threads)
            try batch.reset(seed: 8)
            var sums = [Double](repeating: 0, count: lanes)
            var (ended, episodes) = (Set<Int>(), 0)
            for step in 0..<80 {
                try batch.step(actions(step, lanes: lanes))
                for lane in 0..<lanes {
                    let begins = mode == .nextStep && ended.contains(lane)
                    sums[lane] = begins ? 0 : sums[lane] + Double(batch.reward(lane: lane))
                    #expect(batch.double("episode_return", lane: lane) == sums[lane], "lane \(lane)")
                }
                ended = Set(batch.endedLanes)
                episodes += ended.count
                if mode != .nextStep { for lane in ended { sums[lane] = 0 } }
                if mode == .disabled, !ended.isEmpty {
                    try batch.reset(mask: (0..<lanes).map { ended.contains($0) ? 1 : 0 })
                }
            }
            #expect(episodes > 2 * lanes)
        }
    }

    @Test func `a lane that is reset begins at 0, and the others continue`() throws {
        let batch = try batch(lanes: 3)
        try batch.reset(seed: 8)
        for step in 0..<5 { try batch.step(actions(step, lanes: 3)) }
        let before = (0..<3).map { batch.double("episode_return", lane: $0) }
        #expect(before.allSatisfy { $0 != 0 })
        let board = [1, 1] + [UInt8](repeating: 0, count: 14)
        try batch.reset(
            seeds: [5, 6, 7], mask: [1, 0, 2], boards: [[UInt8]](repeating: board, count: 3))
        try batch.step([3, 3, 3])
        let after = (0..<3).map { batch.double("episode_return", lane: $0) }
        for lane in 0..<3 {
            let sum = lane == 1 ? before[1] : 0
            #expect(after[lane] == sum + Double(batch.reward(lane: lane)))
        }
    }

    @Test func `a lane that waits for its reset keeps the return of its episode`() throws {
        let batch = try batch(lanes: 4, autoreset: .disabled)
        try batch.reset(seed: 8)
        for step in 0..<23 { try batch.step(actions(step, lanes: 4)) }
        let returns = batch.bytes("episode_return")
        let actions = [UInt8](repeating: 0, count: 4)
        try actions.withUnsafeBytes { actions in
            try batch.call(batch.environment.stepArrays) {
                try batch.environment.step(actions: actions, into: $0, skippingFinished: true)
            }
        }
        #expect(batch.bytes("episode_return") == returns)
    }

    @Test func `reporting the return changes no other result`() throws {
        let (batch, plain) = (try batch(), try batch(isPlain: true))
        #expect(plain.environment.returns == nil)
        for one in [batch, plain] { try one.reset(seed: 8) }
        for step in 0..<60 {
            for one in [batch, plain] { try one.step(actions(step, lanes: 70)) }
            #expect(batch.reply.filter { $0.key != "episode_return" } == plain.reply)
        }
        let lanes = Array(0..<70)
        #expect(try batch.snapshot(lanes) == plain.snapshot(lanes))
    }
}

/// Tests the behaviour that all games share.
@Suite struct ToyEpisodeReturnTests {
    @Test func `any game reports the return`() throws {
        var options = BatchOptions(lanes: 130, maxEpisodeSteps: 6)
        options.extraInfos = ["way", "episode_return"]
        let batch = try TestBatch(Batch(ToyGame(), options))
        #expect(batch.environment.stepArrays.suffix(1) == [ArraySpec("episode_return", .float64)])
        try batch.reset(seed: 4)
        var sums = [Double](repeating: 0, count: 130)
        for step in 0..<40 {
            try batch.step((0..<130).map { UInt8(($0 + step) % 4) })
            for lane in 0..<130 {
                let begins = batch.integer("episode_length", lane: lane) == 0
                sums[lane] = begins ? 0 : sums[lane] + Double(batch.reward(lane: lane))
                #expect(batch.double("episode_return", lane: lane) == sums[lane])
            }
        }
    }
}
