import Foundation
import Testing

@testable import TwofoldCore

/// Complete games of Concentration played by an independent Python reference
/// (`Tests/Fixtures/golden/README.md`).
struct ConcentrationGoldenFile: GoldenGames {
    var name = ""
    let environmentID: String
    let config: Config
    let lanes: [Lane]

    struct Config: Decodable {
        let rows: Int
        let columns: Int
        let symbols: Int
        let peeks: Int?
        let matchedCards: String
        let illegalAction: String
        let observeLastAction: Bool
        let maxEpisodeSteps: Int?
        let autoresetMode: String?
    }

    struct Lane: Decodable {
        let seed: UInt64
        let initial: State
        let actions: [UInt8]
        let steps: Steps
        let generator: [UInt32]
    }

    /// The arrays that describe the cards, which resets and steps both return.
    struct State: Decodable, Equatable {
        let observation: [UInt8]
        let actionMask: [UInt8]
        let episodeLength: Int
        let pairs: Int
        let turns: Int
        let peeks: Int
        let openCard: Int
    }

    struct Steps: Decodable {
        let observation: [[UInt8]]
        let actionMask: [[UInt8]]
        let episodeLength: [Int]
        let pairs: [Int]
        let turns: [Int]
        let peeks: [Int]
        let openCard: [Int]
        let reward: [Float]
        let terminated: [Int]
        let truncated: [Int]

        func state(_ step: Int) -> State {
            State(
                observation: observation[step], actionMask: actionMask[step],
                episodeLength: episodeLength[step], pairs: pairs[step], turns: turns[step],
                peeks: peeks[step], openCard: openCard[step])
        }
    }

    enum CodingKeys: String, CodingKey { case environmentID = "environmentId", config, lanes }

    static func all() throws -> [ConcentrationGoldenFile] { try all(in: "golden/concentration") }

    func game() throws -> Concentration {
        try Concentration(
            Concentration.Config(
                rows: config.rows, columns: config.columns, symbols: config.symbols, peeks: config.peeks,
                matchedCards: config.matchedCards == "removed" ? .removed : .faceUp,
                illegalAction: try #require(
                    ["noop": .noop, "end_turn": .endTurn, "terminate": .terminate][config.illegalAction]),
                observesLastAction: config.observeLastAction))
    }
}

@Suite struct ConcentrationGoldenTests {
    @Test func `there are golden games for each of the arguments`() throws {
        let files = try ConcentrationGoldenFile.all()
        #expect(files.count >= 8)
        #expect(files.allSatisfy { $0.environmentID == "twofold/Concentration-v0" })
        #expect(Set(files.map(\.config.illegalAction)).count == 3)
        #expect(Set(files.map(\.config.matchedCards)).count == 2)
        #expect(Set(files.map(\.config.peeks)).count >= 3)
        #expect(files.contains { $0.config.observeLastAction })
        #expect(files.contains { $0.config.maxEpisodeSteps != nil })
        #expect(files.contains { $0.config.autoresetMode == "same_step" })
        let steps = files.flatMap(\.lanes).map(\.steps)
        #expect(steps.contains { $0.terminated.contains(1) })
        #expect(steps.contains { $0.truncated.contains(1) })
    }

    @Test(arguments: try ConcentrationGoldenFile.all(), [1, 64])
    func `the environment reproduces every field of every step of the golden games`(
        file: ConcentrationGoldenFile, copies: Int
    ) throws {
        let golden = (0..<copies).flatMap { _ in file.lanes }
        let batch = TestBatch(
            try Batch(
                file.game(),
                BatchOptions(
                    lanes: golden.count,
                    autoreset: ConcentrationGoldenFile.autoreset(file.config.autoresetMode),
                    maxEpisodeSteps: file.config.maxEpisodeSteps,
                    workers: Workers(threads: 2, chunk: 64))))
        try batch.reset(seeds: golden.map(\.seed))
        for (lane, golden) in golden.enumerated() { #expect(state(batch, lane) == golden.initial) }
        for step in file.lanes[0].actions.indices {
            try batch.step(golden.map { $0.actions[step] })
            for (lane, golden) in golden.enumerated() {
                let results = golden.steps
                try #require(state(batch, lane) == results.state(step), "step \(step) of lane \(lane)")
                #expect(batch.reward(lane: lane) == results.reward[step])
                #expect(batch.isTerminated(lane: lane) == (results.terminated[step] == 1))
                #expect(batch.isTruncated(lane: lane) == (results.truncated[step] == 1))
            }
        }
        for (lane, golden) in golden.enumerated() {
            #expect(try batch.generator(lane: lane) == golden.generator)
        }
    }

    private func state(_ batch: TestBatch, _ lane: Int) -> ConcentrationGoldenFile.State {
        ConcentrationGoldenFile.State(
            observation: batch.observation(lane: lane), actionMask: batch.mask(lane: lane),
            episodeLength: batch.integer("episode_length", lane: lane),
            pairs: batch.integer("pairs", lane: lane), turns: batch.integer("turns", lane: lane),
            peeks: batch.integer("peeks", lane: lane), openCard: batch.integer("open_card", lane: lane))
    }
}
