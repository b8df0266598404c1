import Foundation
import Testing

@testable import TwofoldCore

extension RewardSpec {
    /// A reward with every 2048 term, for 4 x 4 boards. Its weights and tables have no exact binary representation.
    static let everyTerm: RewardSpec = {
        var spec = RewardSpec([
            .init("merge_score", weight: 0.1), .init("merge_exponent", weight: -0.7),
            .init("merge_count", weight: 1.3),
            .init("merge_table", weight: 0.3, parameters: [.init("table", table)]),
            .init("new_max_tile", weight: 7.7), .init("goal", weight: 100), .init("survival", weight: 0.01),
            .init("illegal_action", weight: -1.1), .init("game_over", weight: -33.3),
            .init("empty_cells", weight: 0.2, gamma: 0.99),
            .init("monotonicity", weight: 0.17, gamma: 0.95), .init("smoothness", weight: 0.13, gamma: 0.9),
            .init("corner", weight: -0.6, gamma: 1),
            .init("cell_weights", weight: 0.003, gamma: 0.999, table: cellWeights),
            .init("tile_sum", weight: 0.0001, gamma: 0),
        ])
        spec.scale = 1.0 / 3
        return spec
    }()

    static let table = (0..<32).map { 0.37 * Double($0) - 3.3 }
    static let cellWeights: [Double] = [
        10_000, 7, 6, 5, -9_999, 1, 2, 3, 40, 30, 20, 10, -4, -300, 0, 1,
    ]
    static let everyInfo = ["reward_terms", "merges", "chance", "afterstates"]
}

/// Tests declared rewards and extra infos of 2048 on hand-made boards.
@Suite(.everyEngine) struct RewardTests {
    /// Plays one step from a given board, in a batch that reports every term with weight 1 and every info.
    private func step(
        _ values: [[Int]], _ action: Direction, config: Game2048.Config = .init(), gamma: Double = 1,
        maxEpisodeSteps: Int? = nil, fours: Double = 0
    ) throws -> TestBatch {
        var config = config
        (config.rows, config.columns, config.fourProbability) = (values.count, values[0].count, fours)
        var spec = RewardSpec.everyTerm
        spec.scale = 1
        let cells = config.rows * config.columns
        for index in spec.terms.indices {
            spec.terms[index].weight = 1
            if spec.terms[index].parameters.first?.name == "gamma" {
                spec.terms[index].parameters[0] = .init("gamma", [gamma])
            }
            if spec.terms[index].name == "cell_weights" {
                spec.terms[index].parameters[1] = .init("table", (0..<cells).map { Double($0 * $0 - 5) })
            }
        }
        let batch = try TestBatch(
            config, lanes: 3, maxEpisodeSteps: maxEpisodeSteps, reward: spec,
            extraInfos: RewardSpec.everyInfo)
        let board = exponentList(values)
        try batch.reset(seeds: [1, 2, 3], boards: [board, board, board])
        try batch.step([action.rawValue, action.rawValue, action.rawValue])
        return batch
    }

    private func terms(_ batch: TestBatch, lane: Int = 0) -> [String: Float] {
        var terms: [String: Float] = [:]
        for (index, name) in batch.environment.rewardTerms.enumerated() {
            terms[name] = batch.float("reward_terms", lane: lane, at: index)
        }
        return terms
    }

    @Test func `a move with three merges earns the value of each term`() throws {
        let batch = try step(
            [
                [2, 2, 4, 4],
                [0, 8, 0, 8],
                [2, 0, 0, 0],
                [16, 4, 2, 4],
            ], .left, config: .init(goal: 32))
        for lane in 0..<3 {
            // 4 8 . .   16 . . .   2 . . .   16 4 2 4
            #expect(
                batch.bytes("afterstates", lane: lane)
                    == exponentList([[4, 8, 0, 0], [16, 0, 0, 0], [2, 0, 0, 0], [16, 4, 2, 4]]))
            #expect(
                batch.bytes("merges", lane: lane)
                    == exponentList([[4, 8, 0, 0], [16, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))
            let spawned = batch.integer("chance", lane: lane)
            let board = batch.observation(lane: lane)
            #expect([2, 3, 5, 6, 7, 9, 10, 11].contains(spawned) && board[spawned] == 1)
            let terms = terms(batch, lane: lane)
            #expect(terms["merge_score"] == 28)
            #expect(terms["merge_exponent"] == 9)
            #expect(terms["merge_count"] == 3)
            let entries = [2, 3, 4].map { RewardSpec.table[$0] }
            #expect(terms["merge_table"] == Float(entries[0] + entries[1] + entries[2]))
            #expect(terms["new_max_tile"] == 0 && terms["goal"] == 0 && terms["game_over"] == 0)
            #expect(terms["survival"] == 1 && terms["illegal_action"] == 0)
            // 5 empty cells before; 8 minus the spawn after.
            #expect(terms["empty_cells"] == 2)
            // 16 was in a corner and still is.
            #expect(terms["corner"] == 0)
            #expect(terms["tile_sum"] == 2)
            #expect(abs(batch.reward(lane: lane) - terms.values.reduce(0, +)) < 1e-3)
        }
    }

    @Test func `the potentials of a board match values counted by hand`() {
        let board = Board([
            [8, 2, 0, 4],
            [2, 2, 2, 2],
            [4, 0, 4, 2],
        ])
        // Rows: 3 1 0 2 falls 3, rises 2. 1 1 1 1. 2 0 2 1 falls 3, rises 2.
        // Columns: 3 1 2 falls 2, rises 1. 1 1 0. 0 1 2. 2 1 1.
        #expect(board.monotonicity == -(2 + 0 + 2 + 1))
        // Rows: 3-1, then none, then 2-1. Columns: 3-1, 1-2, then 1-1, then 1-2, then 2-1, 1-1.
        #expect(board.smoothness == -(2 + 0 + 1 + 2 + 1 + 0 + 1 + 1 + 0))
        #expect(board.cornerExponent == 3)
        #expect(board.emptyCount == 2 && board.tileSum == 32)
        #expect(board.weighted(by: (0..<12).map(Double.init)) == 1 + 6 + 4 + 5 + 6 + 7 + 16 + 20 + 11)
        #expect(Board([[2, 8], [2, 4]]).cornerExponent == 3)
        #expect(Board([[2, 8, 2], [2, 4, 2]]).cornerExponent == 0)
    }

    @Test func `an action that moves nothing earns its own term and the potentials' discount`() throws {
        let batch = try step([[2, 0, 0], [4, 0, 0]], .left, gamma: 0.5)
        let terms = terms(batch)
        #expect(terms["illegal_action"] == 1 && terms["survival"] == 0 && terms["game_over"] == 0)
        #expect(terms["empty_cells"] == -0.5 * 4 && terms["tile_sum"] == -0.5 * 6)
        #expect(batch.integer("chance") == -1)
        #expect(batch.bytes("merges", lane: 2) == [0, 0, 0, 0, 0, 0])
        #expect(batch.bytes("afterstates", lane: 2) == [1, 0, 0, 2, 0, 0])
    }

    @Test func `a terminated state has no potential, but a truncated state keeps it`() throws {
        // After the action right, one cell is empty, and a 2 appears in it. Then no move is possible.
        let terminated = try step([[8, 2, 2], [16, 32, 64]], .right, gamma: 0.5)
        #expect(terminated.isTerminated() && !terminated.isTruncated())
        #expect(terms(terminated)["tile_sum"] == -124)
        #expect(terms(terminated)["game_over"] == 1 && terms(terminated)["survival"] == 0)
        let truncated = try step([[4, 2, 2], [16, 32, 64]], .left, gamma: 0.5, maxEpisodeSteps: 1)
        #expect(truncated.isTruncated() && !truncated.isTerminated())
        #expect(terms(truncated)["tile_sum"] == 0.5 * 122 - 120)
        #expect(terms(truncated)["survival"] == 1)
    }

    @Test func `a chance outcome is the cell, plus the number of cells if the tile is a 4`() throws {
        for (fours, offset) in [(0.0, 0), (1.0, 16)] {
            let batch = try step(
                [[2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], .right, fours: fours)
            for lane in 0..<3 {
                let cell = batch.integer("chance", lane: lane) - offset
                let board = batch.observation(lane: lane)
                #expect(cell != 3 && board[cell] == (fours == 0 ? 1 : 2) && board[3] == 1)
            }
        }
    }

    @Test func `a lane that waits for its autoreset earns nothing, clipped or not`() throws {
        var spec = RewardSpec.everyTerm
        (spec.clipLow, spec.clipHigh) = (5, 6)
        let batch = try TestBatch(
            lanes: 70, maxEpisodeSteps: 2, reward: spec, extraInfos: RewardSpec.everyInfo)
        try batch.reset(seed: 1)
        for step in 1...9 {
            try batch.step((0..<70).map { UInt8(($0 + step) % 4) })
            for lane in 0..<70 {
                #expect((5...6).contains(batch.reward(lane: lane)) == (step % 3 != 0))
                guard step % 3 == 0 else { continue }
                #expect(batch.reward(lane: lane) == 0)
                #expect(batch.bytes("reward_terms", lane: lane).allSatisfy { $0 == 0 })
                #expect(batch.bytes("merges", lane: lane).allSatisfy { $0 == 0 })
                #expect(batch.bytes("afterstates", lane: lane).allSatisfy { $0 == 0 })
                #expect(batch.integer("chance", lane: lane) == -1)
            }
        }
    }

    @Test func `no reward and no term is a negative zero`() throws {
        var spec = RewardSpec.everyTerm
        for index in spec.terms.indices { spec.terms[index].weight = -1 }
        spec.scale = -0.0
        let batch = try TestBatch(lanes: 64, reward: spec, extraInfos: ["reward_terms"])
        try batch.reset(seed: 1)
        var zeros = 0
        for step in 0..<50 {
            try batch.step((0..<64).map { UInt8(($0 + step) % 4) })
            for lane in 0..<64 {
                #expect(batch.reward(lane: lane).bitPattern == 0)
                for term in spec.terms.indices where batch.float("reward_terms", lane: lane, at: term) == 0 {
                    #expect(batch.float("reward_terms", lane: lane, at: term).bitPattern == 0)
                    zeros += 1
                }
            }
        }
        #expect(zeros > 1000)
    }

    @Test func `a declared reward of merge_score equals the default reward, byte by byte`() throws {
        let plain = try TestBatch(lanes: 100)
        var spec = RewardSpec([.init("merge_score")])
        spec.clipLow = -1
        let declared = try TestBatch(lanes: 100, reward: spec)
        try plain.reset(seed: 5)
        try declared.reset(seed: 5)
        for step in 0..<200 {
            let actions = (0..<100).map { UInt8(($0 + step * step) % 4) }
            try plain.step(actions)
            try declared.step(actions)
            #expect(plain.reply == declared.reply)
        }
    }

    @Test func `infos come in the requested order`() throws {
        for names in [["chance"], ["afterstates", "chance"], ["merges", "reward_terms", "afterstates"], []] {
            let batch = try TestBatch(lanes: 2, extraInfos: names)
            #expect(
                batch.environment.stepArrays.map(\.name).suffix(names.count + 1) == ["truncated"] + names)
            #expect(batch.environment.rewardTerms == ["merge_score"])
            try batch.reset(seed: 1)
            try batch.step([0, 1])
            #expect(batch.names.isSuperset(of: names))
        }
    }
}

/// Compares the rewards and extra infos of the kernel with those of the readable rules.
@Suite struct KernelReportTests {
    private func engines(
        _ size: (Int, Int), lanes: Int, _ change: (inout RewardSpec) -> Void = { _ in }
    ) throws -> KernelTests.Engines {
        var reward = RewardSpec.everyTerm
        let weights = reward.terms.firstIndex { $0.name == "cell_weights" }!
        reward.terms[weights].parameters[1] = .init(
            "table", Array(RewardSpec.cellWeights.prefix(size.0 * size.1)))
        change(&reward)
        return try KernelTests.Engines(
            .init(rows: size.0, columns: size.1, goal: 64, fourProbability: 0.3), lanes: lanes,
            threads: 2, reward: reward, extraInfos: RewardSpec.everyInfo)
    }

    @Test(arguments: KernelTests.sizes)
    func `on many random boards each term and each info equals the reference`(_ size: (Int, Int)) throws {
        try engines(size, lanes: 16_384).stepRandomBoards(size)
    }

    @Test(arguments: KernelTests.sizes)
    func `each term and each info equals the reference in whole episodes`(_ size: (Int, Int)) throws {
        let engines = try engines(size, lanes: 200) {
            ($0.scale, $0.clipLow, $0.clipHigh) = (-0.1, -0.3, 0.4)
        }
        var generator = Generator(seed: 3)
        try engines.each("reset") { try $0.reset(seed: 8) }
        var ended = 0
        for step in 0..<(size == (4, 4) ? 500 : 150) {
            let actions = (0..<200).map { _ in UInt8(generator.next(below: 4)) }
            try engines.each("step \(step)") { try $0.step(actions) }
            ended += (0..<200).count { engines.reference.isTerminated(lane: $0) }
        }
        #expect(ended > 100)
    }
}

/// Complete games under a declared reward, played by an independent Python reference
/// (`Tests/Fixtures/rewards/README.md`).
struct RewardGoldenFile: GoldenGames {
    var name = ""
    let config: Config
    let reward: Spec
    let lanes: [Lane]

    struct Config: Decodable {
        let rows: Int
        let columns: Int
        let maxEpisodeSteps: Int?
    }

    struct Spec: Decodable {
        let terms: [Term]
        let scale: Double
        let clip: [Double]
    }

    struct Term: Decodable {
        let term: String
        let weight: Double
        let gamma: Double?
        let table: [Double]?
    }

    struct Lane: Decodable {
        let seed: UInt64
        let actions: [UInt8]
        let steps: Steps
    }

    struct Steps: Decodable {
        let observation: [[UInt8]]
        let reward: [Float]
        let rewardTerms: [[Float]]
        let merges: [[UInt8]]
        let chance: [Int]
        let afterstates: [[UInt8]]
    }

    enum CodingKeys: CodingKey { case config, reward, lanes }

    static func all() throws -> [RewardGoldenFile] { try all(in: "rewards") }

    var spec: RewardSpec {
        var spec = RewardSpec(
            reward.terms.map { term in
                var parameters: [RewardSpec.Parameter] = []
                if let gamma = term.gamma { parameters.append(.init("gamma", [gamma])) }
                if let table = term.table { parameters.append(.init("table", table)) }
                return .init(term.term, weight: term.weight, parameters: parameters)
            })
        spec.scale = reward.scale
        (spec.clipLow, spec.clipHigh) = (reward.clip[0], reward.clip[1])
        return spec
    }
}

@Suite(.everyEngine) struct RewardGoldenTests {
    @Test(arguments: try RewardGoldenFile.all())
    func `the environment earns the rewards of the golden games, step by step`(file: RewardGoldenFile) throws
    {
        let batch = try TestBatch(
            .init(rows: file.config.rows, columns: file.config.columns), lanes: file.lanes.count,
            maxEpisodeSteps: file.config.maxEpisodeSteps, reward: file.spec, extraInfos: RewardSpec.everyInfo)
        try batch.reset(seeds: file.lanes.map(\.seed))
        for step in file.lanes[0].actions.indices {
            try batch.step(file.lanes.map { $0.actions[step] })
            for (lane, golden) in file.lanes.enumerated() {
                try #require(batch.observation(lane: lane) == golden.steps.observation[step])
                #expect(batch.reward(lane: lane) == golden.steps.reward[step])
                for (term, value) in golden.steps.rewardTerms[step].enumerated() {
                    #expect(batch.float("reward_terms", lane: lane, at: term) == value)
                }
                #expect(batch.bytes("merges", lane: lane) == golden.steps.merges[step])
                #expect(batch.bytes("afterstates", lane: lane) == golden.steps.afterstates[step])
                #expect(batch.integer("chance", lane: lane) == golden.steps.chance[step])
            }
        }
    }
}
