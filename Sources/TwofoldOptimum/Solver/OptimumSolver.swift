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

    /// Returns the directory's table after checking it, or solves the problem and writes the table there; `report` is
    /// called during that.
    public func solve(
        in directory: TableDirectory, _ report: (Progress) -> Void
    ) throws(OptimumFailure) -> OptimumTable {
        let path = directory.path(of: problem)
        let logs = path + ".part"
        if directory.hasTable(of: problem) {
            let table = try directory.table(of: problem)
            // because: its solver may have been killed before it could remove them.
            if access(logs, F_OK) == 0, let lock = try? claim(logs) { remove(logs, lock) }
            return table
        }
        do {
            guard let lock = try claim(logs) else {
                throw OptimumFailure(
                    "another process is solving this board: it has locked '\(logs)/lock'. Wait for its table")
            }
            let table = try solve(to: path, logs: logs, report)
            remove(logs, lock)
            return table
        } catch let failure as OptimumFailure {
            throw failure
        } catch {
            throw OptimumFailure("can't write '\(path)': \(error)")
        }
    }

    /// Makes the folder of the logs and locks it; nil if another solver has it locked.
    private func claim(_ logs: String) throws(SystemError) -> Descriptor? {
        while true {
            try makeDirectories(logs, mode: 0o755)
            do throws(SystemError) { return try Descriptor.locking(logs + "/lock", mode: 0o644) } catch {
                // Another solver has just removed the folder.
                guard error.code == ENOENT else { throw error }
            }
        }
    }

    /// Removes a folder of logs that is locked.
    private func remove(_ logs: String, _ lock: borrowing Descriptor) {
        for name in ["boards", "values", "table", "lock"] { unlink(logs + "/" + name) }
        rmdir(logs)
    }

    private func solve(
        to path: String, logs: String, _ report: (Progress) -> Void
    ) throws -> OptimumTable {
        let rules = OptimumRules(problem)
        let limit = rules.numbers.count
        let boards = try LayerLog(logs + "/boards", rowBytes: 8, limit: limit)
        let forward = ForwardPass(rules, workers, boards)
        try forward.run { report(Progress(stage: .forward, tileSum: $0, states: $1)) }
        let values = try LayerLog(logs + "/values", rowBytes: BackwardPass.rowBytes, limit: limit)
        let value = try BackwardPass(rules, workers, boards: boards, log: values, forward.playable)
            .run { report(Progress(stage: .backward, tileSum: $0, states: $1)) }

        var header = TableHeader(problem)
        header.records = forward.playable.count
        report(Progress(stage: .table, tileSum: 0, states: 0))
        let writer = try TableWriter(logs + "/table", header, rules, forward.playable)
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
        guard abs(play.value - value) <= header.results.errorBound * Double(boards.layers.count) else {
            throw OptimumFailure(
                "optimal play has the value \(play.value), and the optimum \(value): the logs in '\(logs)' are "
                    + "damaged; remove them, and start again")
        }
        return try writer.finish(header, at: path)
    }

    /// Half a unit in the last place of a Float, and what the sums of all layers lose in Double: each adds at most 18
    /// products, so fewer than 32 roundings.
    private static func errorBound(_ largest: Double, layers: Int) -> Double {
        largest * (0x1p-24 + Double(layers) * 32 * 0x1p-53)
    }
}

/// Why there is no optimum: one sentence.
public struct OptimumFailure: Error, CustomStringConvertible {
    /// The sentence.
    public let description: String
    /// The cause, where it makes a difference to callers.
    public let kind: Kind

    /// The causes.
    public enum Kind: Sendable {
        /// The file of a table, and it stays so until the file changes.
        case damagedTable
        /// The memory of this process.
        case outOfMemory
        /// Any other.
        case other
    }

    init(kind: Kind = .other, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
