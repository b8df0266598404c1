import FoundationEssentials
import Platform
import TwofoldCore

@testable import TwofoldOptimum

/// A temporary directory, which the deinitialiser removes.
final class TemporaryDirectory {
    let path: String

    init() {
        let name =
            "\(FileManager.default.temporaryDirectory.path)/twofold-optimum-\(UInt64.random(in: 0...UInt64.max))"
        path = name
        mkdir(name, 0o700)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var tables: TableDirectory { TableDirectory(path) }

    /// Returns the path of the table with a board's optimal score.
    func path(of config: Game2048.Config) throws -> String {
        tables.path(of: try OptimumProblem(config, .score))
    }
}

/// A random number generator for tests. Its draws depend only on the seed.
struct Draws: RandomNumberGenerator {
    private var generator: Generator
    init(_ seed: UInt64) { generator = Generator(seed: seed) }
    mutating func next() -> UInt64 { UInt64(generator.next()) << 32 | UInt64(generator.next()) }
}

extension Game2048.Config {
    static func board(
        _ rows: Int, _ columns: Int, goal: Int = 2048, stopAtGoal: Bool = false,
        fourProbability: Double = 0.1,
        startTiles: Int = 2
    ) -> Game2048.Config {
        var config = Game2048.Config()
        (config.rows, config.columns, config.goal, config.stopAtGoal) = (rows, columns, goal, stopAtGoal)
        (config.fourProbability, config.startTiles) = (fourProbability, startTiles)
        return config
    }
}

/// Solves a problem, and returns the table that is stored in the directory.
@discardableResult
func solve(
    _ config: Game2048.Config, _ objective: OptimumProblem.Objective = .score,
    in directory: TemporaryDirectory,
    threads: Int = 1, _ report: (OptimumSolver.Progress) -> Void = { _ in }
) throws -> OptimumTable {
    let problem = try OptimumProblem(config, objective)
    // With small chunks, even small layers use all threads.
    let workers = Workers(threads: threads, chunk: 64)
    return try OptimumSolver(problem, workers: workers).solve(in: directory.tables, report)
}

/// Returns the content of the table with a board's optimal score.
func bytes(_ config: Game2048.Config, in directory: TemporaryDirectory) throws -> Data {
    try Data(contentsOf: URL(filePath: directory.path(of: config)))
}
