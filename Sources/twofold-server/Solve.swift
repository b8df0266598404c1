import ArgumentParser
import FoundationEssentials
import TwofoldCore
import TwofoldOptimum
import TwofoldSessions

/// The command `twofold-server solve`.
struct Solve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Compute optimal play on a small 2048 board, for optimal policies and regrets.",
        discussion: """
            Finds all reachable boards of a game on at most nine cells, computes their optimal values, and \
            writes them to a table (docs/reference/optimum.md). 3 x 3 takes minutes, 2 GB of memory and 1.1 GB of \
            disk, of which the table keeps 0.7 GB. A new run uses the boards that a stopped one has found. An existing \
            table is only checked. With --json, the last line on standard output is JSON.
            """)

    @Option(help: "Cells along each side, or rows x columns: 3 or 2x4.")
    var size = BoardSize(rows: 3, columns: 3)

    @Option(
        help: ArgumentHelp(
            "Quantity to maximise: score, moves or goal.",
            discussion: """
                The expected score or number of moves, or the probability of reaching --goal. With goal, all printed \
                figures describe games that end at the goal.
                """
        ))
    var objective = OptimumProblem.Objective.score

    @Option(help: "Goal tile, a power of two of at least 8.")
    var goal: Int?

    @Flag(help: "End the game when the goal tile is reached.")
    var stopAtGoal = false

    @Option(help: "Probability that a new tile is a 4.")
    var fourProbability = 0.1

    @Option(help: "Number of tiles on a new board.")
    var startTiles = 2

    @Option(help: "Directory for the tables. Default: TWOFOLD_TABLES, or twofold in the user's cache folder.")
    var tables: String?

    @Option(help: "Number of threads. Default: the number of available processors.")
    var threads: Int?

    @Flag(help: "Print the result as one line of JSON.")
    var json = false

    @Flag(help: "Do not print progress to standard error.")
    var quiet = false

    private struct Report: Encodable {
        let size: [Int]
        let objective: String
        let goal: Int?
        let stopAtGoal: Bool
        let fourProbability: Double
        let startTiles: Int
        let states: Int
        let terminal: Int
        let value: Double
        let errorBound: Double
        let score: Double
        let moves: Double
        /// For each tile value, the probability that the highest tile reaches at least this value.
        let reached: [String: Double]
        let path: String
        let bytes: Int
        let seconds: Double
    }

    func validate() throws {
        guard objective != .goal || goal != nil else {
            throw ValidationError("--objective goal requires --goal TILE")
        }
        guard !stopAtGoal || goal != nil else { throw ValidationError("--stop-at-goal requires --goal TILE") }
        guard (1...1024).contains(threads ?? 1) else {
            throw ValidationError("--threads is \(threads!); it must be in 1...1024")
        }
    }

    func run() throws {
        var config = Game2048.Config()
        (config.rows, config.columns) = (size.rows, size.columns)
        if let goal { config.goal = goal }
        config.stopAtGoal = stopAtGoal
        (config.fourProbability, config.startTiles) = (fourProbability, startTiles)
        let problem: OptimumProblem
        do throws(EnvironmentError) {
            _ = try Game2048(config)
            problem = try OptimumProblem(config, objective)
        } catch { throw ValidationError(error.message) }
        let settings = try serviceSettings()
        let directory = TableDirectory(tables ?? settings.tables)
        let begin = Moment.now
        var shown = Moment(nanoseconds: 0)
        let table = try OptimumSolver(problem, workers: Workers(threads: threads ?? settings.threads))
            .solve(in: directory) { progress in
                guard !quiet, Moment.now - shown >= .seconds(1) else { return }
                shown = .now
                report(progress, after: shown - begin)
            }
        try print(table, directory.path(of: problem), seconds: (Moment.now - begin) / .seconds(1))
    }

    private func report(_ progress: OptimumSolver.Progress, after time: Duration) {
        let line =
            "\(progress.stage.rawValue): \(progress.states) boards, tile sum \(progress.tileSum), "
            + "\(Int(time / .seconds(1))) s"
        StandardError.shared.write(line) { "\($0) lines dropped" }
    }

    private func print(_ table: OptimumTable, _ path: String, seconds: Double) throws {
        let results = table.results
        let exponents = results.highestTiles.indices.filter { $0 >= 2 && results.reaching(exponent: $0) > 0 }
        let reached = exponents.map { (1 << $0, results.reaching(exponent: $0)) }
        if json {
            let report = Report(
                size: [size.rows, size.columns], objective: objective.rawValue, goal: goal,
                stopAtGoal: stopAtGoal, fourProbability: fourProbability, startTiles: startTiles,
                states: results.states, terminal: results.terminal, value: results.value,
                errorBound: results.errorBound, score: results.score, moves: results.moves,
                reached: Dictionary(uniqueKeysWithValues: reached.map { ("\($0.0)", $0.1) }), path: path,
                bytes: table.bytes, seconds: seconds)
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            Swift.print(String(decoding: try encoder.encode(report), as: UTF8.self))
            return
        }
        Swift.print(
            """
            \(size.rows) x \(size.columns), maximising \(objective.rawValue)
            expected value   \(results.value)
            score            \(results.score)
            moves            \(results.moves)
            """)
        for (tile, probability) in reached {
            let name = "\(tile)"
            Swift.print(
                "reaches \(name)\(String(repeating: " ", count: max(1, 9 - name.count)))\(probability)")
        }
        Swift.print(
            """
            boards           \(results.states) up to symmetry, \(results.terminal) of them terminal
            error bound      \(results.errorBound)
            table            \(path), \(table.bytes) bytes
            seconds          \(seconds)
            """)
    }
}

/// A board size given on the command line, such as "3" or "2x4".
struct BoardSize: ExpressibleByArgument {
    let rows: Int
    let columns: Int

    init(rows: Int, columns: Int) { (self.rows, self.columns) = (rows, columns) }

    init?(argument: String) {
        let sides = argument.split(separator: "x", omittingEmptySubsequences: false).map { Int($0) }
        guard (1...2).contains(sides.count), let rows = sides[0], let columns = sides.last! else {
            return nil
        }
        self.init(rows: rows, columns: columns)
    }

    var defaultValueDescription: String { "\(rows)x\(columns)" }
}
