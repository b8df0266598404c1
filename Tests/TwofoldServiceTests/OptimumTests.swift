import Foundation
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService

@testable import TwofoldOptimum

/// Compares the infos about optimal play on 2 x 2 boards with the values in the table.
@Suite struct OptimumTests {
    /// A directory with the table for 2 x 2 boards. The deinitialiser removes it.
    final class Solved {
        let path: String
        private let table: OptimumTable

        init() throws {
            path =
                FileManager.default.temporaryDirectory.path
                + "/twofold-service-\(UInt64.random(in: 0 ... .max))"
            var config = Game2048.Config()
            (config.rows, config.columns) = (2, 2)
            table = try OptimumSolver(OptimumProblem(config, .score), workers: Workers(threads: 1))
                .solve(in: TableDirectory(path)) { _ in }
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        /// Returns the table's values for a board's actions; -infinity for an action outside the mask.
        func actions(_ board: [UInt8], _ mask: [UInt8]) -> [Float] {
            var values = [Float](repeating: .nan, count: 4)
            table.values(of: board, masks: mask, count: 1, into: &values)
            return values
        }

        /// Returns a session with 2 x 2 boards and the infos about optimal play.
        func session(_ change: (inout CreateRequest) -> Void = { _ in }) throws -> Session {
            try Session(tables: path) {
                ($0.game2048.rows, $0.game2048.columns) = (2, 2)
                $0.extraInfos = ["optimal_value", "action_values", "regret"]
                change(&$0)
            }
        }
    }

    /// Returns the highest of a board's action values; 0 if no action is legal.
    private func best(_ actions: [Float]) -> Float {
        let best = actions.max()!
        return best == -.infinity ? 0 : best
    }

    @Test(arguments: [Twofold_V1_AutoresetMode.nextStep, .sameStep, .disabled])
    func `each step reports the table's values of its boards and the regret of its actions`(
        mode: Twofold_V1_AutoresetMode
    ) throws {
        let solved = try Solved()
        let session = try solved.session {
            $0.numEnvs = 100
            $0.autoresetMode = mode
            $0.maxEpisodeSteps = 9
        }
        let lanes = session.lanes
        let started = try session.reset(seed: 5)
        var known = try (0..<lanes).map { lane in
            solved.actions(
                try session.observed("observation", lane: lane, of: started),
                try session.observed("action_mask", lane: lane, of: started))
        }
        var over = [UInt8](repeating: 0, count: lanes)
        var wrong: [String] = []
        var (costly, ended) = (0, 0)
        for step in 0..<60 {
            let actions = (0..<lanes).map { UInt8(($0 &* 7 &+ step &* step) % 11 % 4) }
            let answer = try session.step(actions)
            for lane in 0..<lanes {
                func row(_ name: String) throws -> [UInt8] {
                    try session.stepped(name, lane: lane, of: answer)
                }
                let values = solved.actions(try row("observation"), try row("action_mask"))
                let ofAction = known[lane][Int(actions[lane])]
                let onlyBegins = mode == .nextStep && over[lane] == 1
                let isPlayed = !onlyBegins && ofAction != -.infinity
                let regret = isPlayed ? best(known[lane]) - ofAction : 0
                let expected = [
                    ("action_values", values), ("optimal_value", [best(values)]), ("regret", [regret]),
                ]
                for (name, info) in expected where floats(try row(name)) != info {
                    wrong.append("\(name) of lane \(lane) in step \(step)")
                }
                if regret > 0 { costly += 1 }
                over[lane] = try row("terminated")[0] | row("truncated")[0]
                ended += Int(over[lane])
                known[lane] = values
            }
            guard mode == .disabled else { continue }
            let restarted = try session.call(.reset(announcing(mask: true)), over)
            for lane in 0..<lanes where over[lane] == 1 {
                known[lane] = solved.actions(
                    try session.observed("observation", lane: lane, of: restarted),
                    try session.observed("action_mask", lane: lane, of: restarted))
            }
        }
        #expect(wrong.isEmpty, "\(wrong.count) infos, the first \(wrong.first ?? "")")
        #expect(costly > 500 && ended > 100)
    }

    /// Returns the indices of the final rows whose values differ from the table's; `finals` is the layout of the final
    /// rows.
    private func wrongFinals(
        _ session: Session, _ solved: Solved, _ answer: Answer, _ finals: PayloadLayoutMessage
    ) throws -> [Int] {
        func rows(_ name: String) throws -> [[UInt8]] {
            let bytes = try session.array(name, of: answer, in: finals)
            let size = bytes.count / Int(finals.arrays[0].shape[0])
            return stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<$0 + size]) }
        }
        let boards = zip(try rows("observation"), try rows("action_mask")).map(solved.actions)
        let found = zip(try rows("action_values"), try rows("optimal_value")).map { floats($0 + $1) }
        return found.indices.filter { found[$0] != boards[$0] + [best(boards[$0])] }
    }

    @Test func `in SAME_STEP the finals have the values of the final boards`() throws {
        let solved = try Solved()
        let session = try solved.session {
            $0.numEnvs = 100
            $0.autoresetMode = .sameStep
            $0.maxEpisodeSteps = 9
        }
        let names = ["lanes"] + session.created.reset.arrays.map(\.name) + ["optimal_value", "action_values"]
        #expect(session.created.finals.arrays.map(\.name) == names)
        try session.reset(seed: 5)
        var ended = 0
        for step in 0..<60 {
            let answer = try session.step((0..<100).map { UInt8(($0 &* 7 &+ step &* step) % 11 % 4) })
            guard case .step(let reply) = answer.result, reply.hasFinals else { continue }
            #expect(try wrongFinals(session, solved, answer, reply.finals) == [])
            ended += Int(reply.finals.arrays[0].shape[0])
        }
        #expect(ended > 100)
        var rollout = RolloutRequest()
        rollout.steps = 30
        rollout.maxPayloadBytes = 1 << 24
        rollout.random = .init()
        let answer = try session.call(.rollout(rollout))
        guard case .rollout(let reply) = answer.result else { fatalError("no rollout's reply") }
        #expect(reply.finals.arrays.map(\.name) == ["steps"] + names)
        #expect(try wrongFinals(session, solved, answer, reply.finals) == [])
    }

    @Test func `finals contain the requested infos of the optimum`() throws {
        let session = try Solved().session {
            $0.autoresetMode = .sameStep
            $0.maxEpisodeSteps = 1
            $0.extraInfos = ["regret", "action_values", "chance"]
        }
        let names = ["lanes"] + session.created.reset.arrays.map(\.name)
        #expect(session.created.finals.arrays.map(\.name) == names + ["action_values"])
    }

    /// A simple player, which chooses one of the legal actions.
    enum Play: CaseIterable {
        case uniform, lowestLegal, highestLegal

        /// Returns the probabilities with which the player chooses these legal actions.
        func chances(of legal: [Int]) -> [Double] {
            switch self {
            case .uniform: legal.map { _ in 1 / Double(legal.count) }
            case .lowestLegal: legal.map { $0 == legal.first ? 1 : 0 }
            case .highestLegal: legal.map { $0 == legal.last ? 1 : 0 }
            }
        }
    }

    @Test(arguments: Play.allCases)
    func `the score and the regrets of a game add up to the optimum on average for every player`(
        play: Play
    ) throws {
        let games = Games()
        // Play each action on each board of all games in a separate lane.
        let boards = games.playable()
        let session = try Solved().session { $0.numEnvs = UInt64(4 * boards.count) }
        try session.call(
            .reset(announcing(seeds: true, boards: true)),
            packed(seeds((0..<session.lanes).map { UInt64($0) }), boards.flatMap { $0 + $0 + $0 + $0 }))
        let answer = try session.step((0..<session.lanes).map { UInt8($0 % 4) })
        let scores = floats(try session.array("reward", of: answer, in: session.created.step))
        let regrets = floats(try session.array("regret", of: answer, in: session.created.step))

        let number = Dictionary(uniqueKeysWithValues: zip(boards, boards.indices))
        let score = games.mean(play) { Double(scores[4 * number[$0]! + $1]) }
        let regret = games.mean(play) { Double(regrets[4 * number[$0]! + $1]) }
        #expect(abs(score + regret - 66.96414946) < 1e-4)
        #expect(regret > 10)
        if play == .uniform { #expect(abs(score - 19.65654018) < 1e-8) }
    }

    @Test func `without a table the error names the command that makes it`() throws {
        let solved = try Solved()
        let infos = try #require(throws: EnvironmentError.self) {
            try solved.session { $0.game2048.startTiles = 1 }
        }
        #expect(infos.kind == .failedPrecondition && infos.field == "extra_infos")
        #expect(
            infos.message.contains("`twofold solve --size 2x2 --start-tiles 1 --tables '"), "\(infos.message)"
        )
        let session = try solved.session {
            $0.game2048.startTiles = 1
            $0.extraInfos = []
        }
        try session.reset()
        var rollout = RolloutRequest()
        rollout.steps = 1
        rollout.maxPayloadBytes = 1 << 20
        rollout.optimal = .init()
        let policy = try session.refusal(.rollout(rollout))
        #expect(policy.kind == .failedPrecondition && policy.field == "policy")
        #expect(
            policy.message.contains("`twofold solve --size 2x2 --start-tiles 1 --tables '"),
            "\(policy.message)")
    }
}

/// All games on 2 x 2 boards with two start tiles, played by the readable rules.
private struct Games {
    typealias Exponents = [UInt8]

    /// Returns the boards that may result from one spawn, with their probabilities.
    private func spawned(_ board: Exponents) -> [(board: Exponents, probability: Double)] {
        let empty = board.indices.filter { board[$0] == 0 }
        return empty.flatMap { cell in
            [(UInt8(1), 0.9), (2, 0.1)].map { tile, probability in
                var next = board
                next[cell] = tile
                return (next, probability / Double(empty.count))
            }
        }
    }

    private var starts: [(board: Exponents, probability: Double)] {
        spawned([0, 0, 0, 0]).flatMap { one in
            spawned(one.board).map { ($0.board, one.probability * $0.probability) }
        }
    }

    /// Returns the legal actions with their afterstates.
    private func legal(_ board: Exponents) -> [(action: Int, afterstate: Exponents)] {
        Direction.allCases.compactMap { direction in
            let slide = Slide(Board(rows: 2, columns: 2, exponents: board), towards: direction)
            guard slide.moved else { return nil }
            return (Int(direction.rawValue), (0..<4).map { slide.afterstate[$0] })
        }
    }

    /// Returns all boards that have a legal action and occur in a game.
    func playable() -> [Exponents] {
        var found: Set<Exponents> = []
        var open = starts.map(\.board)
        while let board = open.popLast() {
            let legal = legal(board)
            guard !legal.isEmpty, found.insert(board).inserted else { continue }
            open += legal.flatMap { spawned($0.afterstate).map(\.board) }
        }
        return Array(found)
    }

    /// Returns the expected sum of `part` over the moves of a game.
    func mean(_ play: OptimumTests.Play, of part: (Exponents, Int) -> Double) -> Double {
        var known: [Exponents: Double] = [:]
        func rest(_ board: Exponents) -> Double {
            if let rest = known[board] { return rest }
            let legal = legal(board)
            let rest = zip(legal, play.chances(of: legal.map(\.action))).reduce(0) { sum, each in
                let (move, chance) = each
                let later = spawned(move.afterstate).reduce(0) { $0 + $1.probability * rest($1.board) }
                return sum + chance * (part(board, move.action) + later)
            }
            known[board] = rest
            return rest
        }
        return starts.reduce(0) { $0 + $1.probability * rest($1.board) }
    }
}

/// Decodes the floats of a payload.
private func floats(_ bytes: [UInt8]) -> [Float] {
    bytes.withUnsafeBytes { bytes in
        stride(from: 0, to: bytes.count, by: 4).map {
            bytes.loadUnaligned(fromByteOffset: $0, as: Float.self)
        }
    }
}
