import TwofoldCore

@testable import TwofoldOptimum

/// A recursive search for the optimum over all boards. It uses the readable rules, without packed boards, symmetries
/// or layers.
final class BruteForce {
    private let config: Game2048.Config
    private let objective: OptimumProblem.Objective
    /// The values of the boards evaluated so far, keyed by their exponents.
    private(set) var values: [[UInt8]: Double] = [:]

    init(_ config: Game2048.Config, _ objective: OptimumProblem.Objective) {
        self.config = config
        self.objective = objective
    }

    /// Returns the boards that may result from one spawn, with their probabilities.
    private func spawned(_ exponents: [UInt8]) -> [(board: [UInt8], probability: Double)] {
        let empty = exponents.indices.filter { exponents[$0] == 0 }
        return empty.flatMap { cell in
            [(UInt8(1), 1 - config.fourProbability), (2, config.fourProbability)].compactMap {
                tile, probability in
                guard probability > 0 else { return nil }
                var next = exponents
                next[cell] = tile
                return (next, probability / Double(empty.count))
            }
        }
    }

    private func isOver(_ exponents: [UInt8]) -> Bool {
        (config.stopAtGoal || objective == .goal) && 1 << Int(exponents.max()!) >= config.goal
    }

    /// Returns the value of each action; nil for an illegal one.
    func actions(_ exponents: [UInt8]) -> [Double?] {
        let board = Board(rows: config.rows, columns: config.columns, exponents: exponents)
        return Direction.allCases.map { direction in
            let slide = Slide(board, towards: direction)
            guard slide.moved else { return nil }
            let after = (0..<exponents.count).map { slide.afterstate[$0] }
            let ends = isOver(after)
            let reward: Double =
                switch objective {
                case .score: Double(slide.mergeScore)
                case .moves: 1
                case .goal: ends ? 1 : 0
                }
            return reward + (ends ? 0 : spawned(after).reduce(0) { $0 + $1.probability * value($1.board) })
        }
    }

    func value(_ exponents: [UInt8]) -> Double {
        if let value = values[exponents] { return value }
        let value = actions(exponents).compactMap { $0 }.max() ?? 0
        values[exponents] = value
        return value
    }

    /// The value of a new game.
    var start: Double {
        var boards: [[UInt8]: Double] = [[UInt8](repeating: 0, count: config.rows * config.columns): 1]
        for _ in 0..<config.startTiles {
            var more: [[UInt8]: Double] = [:]
            for (board, probability) in boards {
                for next in spawned(board) { more[next.board, default: 0] += probability * next.probability }
            }
            boards = more
        }
        return boards.reduce(0) { $0 + $1.value * value($1.key) }
    }
}
