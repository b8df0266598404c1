import Foundation
import Testing

@testable import TwofoldCore

/// A file of golden games in `Tests/Fixtures`.
protocol GoldenGames: Decodable, CustomTestStringConvertible {
    var name: String { get set }
}

extension GoldenGames {
    var testDescription: String { name }

    /// Returns the files in a folder of `Tests/Fixtures`.
    static func all(in folder: String) throws -> [Self] {
        let fixtures = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Fixtures")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try FileManager.default
            .contentsOfDirectory(at: fixtures.appending(path: folder), includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "json" }
            .sorted { $0.lastPathComponent < $1.lastPathComponent }
            .map { url in
                var file = try decoder.decode(Self.self, from: Data(contentsOf: url))
                file.name = url.lastPathComponent
                return file
            }
    }

    /// Returns the mode that a config names; NEXT_STEP if it names none.
    static func autoreset(_ name: String?) -> AutoresetMode {
        switch name {
        case nil: .nextStep
        case "same_step": .sameStep
        case "disabled": .disabled
        case let mode?: preconditionFailure("unknown autoreset mode \(mode)")
        }
    }
}

/// Complete games played by an independent Python reference (`Tests/Fixtures/golden/README.md`).
struct GoldenFile: GoldenGames {
    var name = ""
    let environmentID: String
    let config: Config
    let lanes: [Lane]

    struct Config: Decodable {
        let rows: Int
        let columns: Int
        let goal: Int
        let stopAtGoal: Bool
        let fourProbability: Double
        let startTiles: Int
        let illegalAction: String
        let maxEpisodeSteps: Int?
        let autoresetMode: String?
    }

    struct Lane: Decodable {
        let seed: UInt64
        let initial: Results
        let actions: [UInt8]
        let steps: Steps
        let finals: [Results]?
        let resets: [Results]?
        let generator: [UInt32]
    }

    /// The arrays of a reset, or the final arrays of an episode.
    struct Results: Decodable {
        /// The step to which the arrays belong; nil for the first reset.
        let step: Int?
        let observation: [UInt8]
        let actionMask: [UInt8]
        let score: Int
        let maxExponent: Int
        let episodeLength: Int
        let moves: Int
        let goalReached: Int
    }

    struct Steps: Decodable {
        let observation: [[UInt8]]
        let actionMask: [[UInt8]]
        let score: [Int]
        let maxExponent: [Int]
        let episodeLength: [Int]
        let moves: [Int]
        let goalReached: [Int]
        let reward: [Int]
        let terminated: [Int]
        let truncated: [Int]
    }

    enum CodingKeys: String, CodingKey { case environmentID = "environmentId", config, lanes }

    static func all() throws -> [GoldenFile] { try all(in: "golden") }

    var autoreset: AutoresetMode { Self.autoreset(config.autoresetMode) }

    func gameConfig() throws -> Game2048.Config {
        var config = Game2048.Config(
            rows: self.config.rows, columns: self.config.columns, goal: self.config.goal,
            stopAtGoal: self.config.stopAtGoal, fourProbability: self.config.fourProbability,
            startTiles: self.config.startTiles)
        switch self.config.illegalAction {
        case "noop": config.illegalAction = .noop
        case "terminate": config.illegalAction = .terminate
        default: throw EnvironmentError.invalid("illegal_action", "unknown: \(self.config.illegalAction)")
        }
        return config
    }
}

extension GoldenFile.Lane {
    /// Returns the file's values for a step.
    func results(_ step: Int) -> Model.Results {
        Model.Results(
            observation: steps.observation[step], mask: steps.actionMask[step],
            episodeLength: steps.episodeLength[step], score: steps.score[step],
            maxExponent: steps.maxExponent[step], moves: steps.moves[step],
            isGoalReached: steps.goalReached[step] == 1, reward: Float(steps.reward[step]),
            isTerminated: steps.terminated[step] == 1, isTruncated: steps.truncated[step] == 1)
    }

    /// Returns the file's final values of the episode that a step ended.
    func final(_ step: Int) -> Model.Results? { finals?.first { $0.step == step }?.results }

    /// Returns the file's values for the reset before a step.
    func reset(_ step: Int) -> Model.Results? { resets?.first { $0.step == step }?.results }
}

extension GoldenFile.Results {
    var results: Model.Results {
        Model.Results(
            observation: observation, mask: actionMask, episodeLength: episodeLength, score: score,
            maxExponent: maxExponent, moves: moves, isGoalReached: goalReached == 1)
    }
}

@Suite struct GoldenTests {
    @Test func `there are golden games for each of the arguments`() throws {
        let files = try GoldenFile.all()
        #expect(files.count >= 24)
        for mode in [AutoresetMode.nextStep, .sameStep, .disabled] {
            #expect(files.contains { $0.autoreset == mode })
        }
        #expect(files.allSatisfy { $0.environmentID == "twofold/Game2048-v0" })
        #expect(files.allSatisfy { !$0.lanes.isEmpty && $0.lanes.allSatisfy { $0.actions.count >= 100 } })
        #expect(Set(files.map { "\($0.config.rows)x\($0.config.columns)" }).count >= 4)
        #expect(files.contains { $0.config.stopAtGoal })
        #expect(files.contains { $0.config.illegalAction == "terminate" })
        #expect(files.contains { $0.config.maxEpisodeSteps != nil })
        #expect(files.contains { $0.config.fourProbability != 0.1 })
        #expect(files.contains { $0.config.startTiles != 2 })
        let steps = files.flatMap(\.lanes).map(\.steps)
        #expect(steps.contains { $0.terminated.contains(1) })
        #expect(steps.contains { $0.truncated.contains(1) })
        #expect(steps.contains { zip($0.terminated, $0.truncated).contains { $0 == (1, 1) } })
    }

    @Test(.everyEngine, arguments: try GoldenFile.all())
    func `the environment reproduces every field of every step of the golden games`(file: GoldenFile) throws {
        let batch = try TestBatch(
            file.gameConfig(), lanes: file.lanes.count, autoreset: file.autoreset,
            maxEpisodeSteps: file.config.maxEpisodeSteps)
        try batch.reset(seeds: file.lanes.map(\.seed))
        for (lane, golden) in file.lanes.enumerated() {
            #expect(batch.stateResults(lane: lane) == golden.initial.results, "reset of lane \(lane)")
        }
        let steps = file.lanes[0].actions.count
        for golden in file.lanes {
            try #require(golden.actions.count == steps && golden.steps.observation.count == steps)
        }
        for step in 0..<steps {
            let resets = file.lanes.map { $0.reset(step) }
            if resets.contains(where: { $0 != nil }) {
                try batch.reset(mask: resets.map { $0 == nil ? 0 : 1 })
                for case (let lane, let results?) in resets.enumerated() {
                    try #require(
                        batch.stateResults(lane: lane) == results, "reset of lane \(lane) at \(step)")
                }
            }
            try batch.step(file.lanes.map { $0.actions[step] })
            for (lane, golden) in file.lanes.enumerated() {
                try #require(
                    batch.results(lane: lane) == golden.results(step), "step \(step) of lane \(lane)")
                try #require(batch.final(lane: lane) == golden.final(step), "step \(step) of lane \(lane)")
            }
        }
        for (lane, golden) in file.lanes.enumerated() {
            #expect(try batch.generator(lane: lane) == golden.generator)
        }
    }

    /// Checks that the tests' model also agrees with the files.
    @Test(arguments: try GoldenFile.all())
    func `the tests' model plays the golden games`(file: GoldenFile) throws {
        for golden in file.lanes {
            var model = Model(
                try file.gameConfig(), maxEpisodeSteps: file.config.maxEpisodeSteps, seed: golden.seed)
            #expect(model.results == golden.initial.results)
            for (step, action) in golden.actions.enumerated() {
                switch file.autoreset {
                case .nextStep:
                    try #require(model.step(Int(action)) == golden.results(step), "step \(step)")
                case .sameStep:
                    let (results, final) = model.sameStep(Int(action))
                    try #require(results == golden.results(step), "step \(step)")
                    try #require(final == golden.final(step), "step \(step)")
                case .disabled:
                    if model.isFinished {
                        model.reset()
                        try #require(model.results == golden.reset(step), "reset at \(step)")
                    }
                    try #require(model.step(Int(action)) == golden.results(step), "step \(step)")
                }
            }
            #expect(model.generator.wordArray == golden.generator)
        }
    }
}
