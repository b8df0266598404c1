internal import Platform
public import TwofoldCore

/// Solves a small board: finds all its boards, computes their optimal values, and writes the table.
///
///     forward ──► boards of each layer (log) ──► backward ──► values of each layer (log) ──► table
///
/// A solver that was stopped goes on behind the last layer of its logs, in a folder beside the table. In memory are a
/// bit for each possible board, one number for each reachable board, and two layers.
public struct OptimumSolver: Sendable {
    /// The parts of the work.
    public enum Stage: String, Sendable {
        case forward
        case backward
        case table
        case play
    }

    /// How far it is.
    public struct Progress: Sendable {
        /// The part.
        public let stage: Stage
        /// The tile sum of the layer that is done; 0 where the part has no layers.
        public let tileSum: Int
        /// Boards that are done in this part.
        public let states: Int
    }

    private let problem: OptimumProblem
    private let workers: Workers

    /// A solver on these threads.
    public init(_ problem: OptimumProblem, workers: Workers) {
        self.problem = problem
        self.workers = workers
    }

    /// Solves it, and writes the table to its place in a directory; `report` is called as it goes on.
    public func solve(
        in directory: TableDirectory, _ report: (Progress) -> Void
    ) throws(OptimumFailure) -> OptimumTable {
        let path = directory.path(of: problem)
        do throws(SystemError) {
            return try solve(to: path, folder: path + ".part", report)
        } catch {
            throw OptimumFailure("can't write '\(path)': \(error)")
        }
    }

    private func solve(
        to path: String, folder: String, _ report: (Progress) -> Void
    ) throws(SystemError) -> OptimumTable {
        for folder in [String(path[..<path.lastIndex(of: "/")!]), folder] { try makeFolder(folder) }
        let lock = try Descriptor(opening: folder + "/lock", O_RDWR | O_CREAT, mode: 0o644)
        try lock.lock()
        let rules = OptimumRules(problem)
        let boards = try LayerLog(folder + "/boards", rowBytes: 8)
        let forward = ForwardPass(rules, workers, boards)
        try forward.run { report(Progress(stage: .forward, tileSum: $0, states: $1)) }
        let values = try LayerLog(folder + "/values", rowBytes: BackwardPass.rowBytes)
        let value = try BackwardPass(rules, workers, boards: boards, log: values, forward.playable)
            .run { report(Progress(stage: .backward, tileSum: $0, states: $1)) }

        var header = TableHeader(problem)
        header.records = forward.playable.count
        report(Progress(stage: .table, tileSum: 0, states: 0))
        let writer = try TableWriter(folder + "/table", header, forward.playable)
        try writer.fill(rules, workers, boards: boards, values: values)
        header.checksum = writer.checksum
        let play = try PlayPass(rules, boards: boards, writer.table)
            .run { report(Progress(stage: .play, tileSum: $0, states: $1)) }
        header.results = play.results
        header.results.states = forward.states
        header.results.terminal = forward.terminal
        header.results.value = value
        header.results.errorBound = Self.errorBound(writer.largestValue, layers: boards.layers.count)
        // Play by the rounded values is at most so far from the optimum, one rounding for each move.
        precondition(
            abs(play.value - value) <= header.results.errorBound * Double(boards.layers.count),
            "optimal play has the value \(play.value), and the optimum \(value)")
        try writer.finish(header, at: path)
        for name in ["boards", "values", "lock"] { unlink(folder + "/" + name) }
        rmdir(folder)
        return OptimumTable(writer.file, header)
    }

    /// Half a unit in the last place of a Float, and what the sums of all layers lose in Double: each adds at most 18
    /// products, so fewer than 32 roundings.
    private static func errorBound(_ largest: Double, layers: Int) -> Double {
        largest * (0x1p-24 + Double(layers) * 32 * 0x1p-53)
    }

    private func makeFolder(_ path: String) throws(SystemError) {
        do throws(SystemError) { try system(named: "mkdir") { mkdir(path, 0o755) } } catch {
            guard error.code == EEXIST else { throw error }
        }
    }
}

/// Why there is no optimum: one sentence.
public struct OptimumFailure: Error, CustomStringConvertible {
    /// The sentence.
    public let description: String

    init(_ description: String) { self.description = description }
}
