internal import Platform
public import TwofoldCore

/// A solver for a small board. It finds all reachable boards, computes their optimal values, and writes the table.
///
///     forward ──► boards of each layer (log) ──► backward ──► table
///
/// A solver that was interrupted reads the boards in its log, which is in a folder next to the table, and computes all
/// values again. The solver's memory holds one bit for each possible board, then the table and one number for each board
/// in it.
public struct OptimumSolver: Sendable {
    /// The stages of solving a board, in order.
    public enum Stage: String, Sendable {
        case forward
        case backward
        case play
    }

    public struct Progress: Sendable {
        public let stage: Stage
        /// The tile sum of the last finished layer.
        public let tileSum: Int
        /// The number of boards finished in this stage.
        public let states: Int
    }

    private let problem: OptimumProblem
    private let workers: Workers

    public init(_ problem: OptimumProblem, workers: Workers) {
        self.problem = problem
        self.workers = workers
    }

    /// Returns the checked table in `directory`. A missing table is computed and written first, and `report` gets the
    /// progress.
    public func solve(
        in directory: TableDirectory, _ report: (Progress) -> Void
    ) throws(OptimumFailure) -> OptimumTable {
        let path = directory.path(of: problem)
        let logs = path + ".part"
        if !directory.hasTable(of: problem) {
            do { try solve(to: path, logs: logs, report) } catch let failure as OptimumFailure {
                throw failure
            } catch {
                throw OptimumFailure("can't write '\(path)': \(error)")
            }
        }
        let table = try directory.table(of: problem)
        // because: a solver may have been killed before it could remove the folder.
        if access(logs, F_OK) == 0, let lock = try? claim(logs) { remove(logs, lock) }
        return table
    }

    /// Creates and locks the log folder. Returns nil if another solver holds the lock.
    private func claim(_ logs: String) throws(SystemError) -> Descriptor? {
        while true {
            try makeDirectories(logs, mode: 0o755)
            do throws(SystemError) { return try Descriptor.locking(logs + "/lock", mode: 0o644) } catch {
                // Another solver has just removed the folder.
                guard error.code == ENOENT else { throw error }
            }
        }
    }

    /// Removes a locked log folder.
    private func remove(_ logs: String, _ lock: borrowing Descriptor) {
        for name in ["boards", "table", "lock"] { unlink(logs + "/" + name) }
        rmdir(logs)
    }

    private func solve(to path: String, logs: String, _ report: (Progress) -> Void) throws {
        guard let lock = try claim(logs) else {
            throw OptimumFailure(
                "another process is solving this board and has locked '\(logs)/lock'. Wait for its table")
        }
        defer { withExtendedLifetime(lock) {} }
        let rules = OptimumRules(problem)
        let log = try openLog(logs + "/boards", limit: rules.numbers.count)
        let forward = try ForwardPass(rules, workers, log)
        try forward.run { report(Progress(stage: .forward, tileSum: $0, states: $1)) }
        var header = TableHeader(problem)
        header.records = forward.playable.count
        let table = try OptimumTable(header, rules, forward.playable)
        let value = try BackwardPass(rules: rules, workers: workers, log: log, table: table)
            .run { report(Progress(stage: .backward, tileSum: $0, states: $1)) }
        header.checksum = table.bodyChecksum
        let play = try PlayPass(rules: rules, log: log, table: table)
            .run { report(Progress(stage: .play, tileSum: $0, states: $1)) }
        header.results = play.results
        header.results.states = forward.states
        header.results.terminal = forward.terminal
        header.results.value = value
        // The value of a new game is a sum, too: over the start boards.
        header.results.errorBound = Self.errorBound(table.largestValue, sums: log.layers.count + 1)
        // Choosing actions by the rounded values changes the result by at most one rounding per move.
        guard abs(play.value - value) <= header.results.errorBound * Double(log.layers.count) else {
            throw OptimumFailure(
                "optimal play has the value \(play.value) instead of \(value), so the log in '\(logs)' is "
                    + "damaged. Remove it and start again")
        }
        try table.finish(header, at: logs + "/table", then: path)
    }

    /// Opens or creates a log. Its errors name the log, not the table.
    private func openLog(_ path: String, limit: Int) throws(OptimumFailure) -> LayerLog {
        do { return try LayerLog(path, limit: limit) } catch {
            let isIrregular = (error as? SystemError)?.code == EINVAL
            throw OptimumFailure(
                "can't use the log '\(path)': \(isIrregular ? "it is not a regular file" : "\(error)")")
        }
    }

    /// Returns the maximum error of a value: half a unit in the last place of a Float, plus the rounding errors of the
    /// sums in Double that the value depends on. Each sum adds at most 18 products, so each product is rounded fewer
    /// than 32 times.
    private static func errorBound(_ largest: Double, sums: Int) -> Double {
        largest * (0x1p-24 + Double(sums) * 32 * 0x1p-53)
    }
}
