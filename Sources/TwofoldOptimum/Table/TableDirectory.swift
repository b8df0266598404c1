internal import Platform
internal import Synchronization

/// A directory of tables, each opened once and then kept.
public final class TableDirectory: Sendable {
    private let directory: String
    private let tables = Mutex<[OptimumProblem: OptimumTable]>([:])

    /// The tables in this directory, which need not be there.
    public init(_ directory: String) { self.directory = directory }

    /// The cache folder of the user: $XDG_CACHE_HOME/twofold, or ~/.cache/twofold.
    public static var standard: String {
        func variable(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        let cache = variable("XDG_CACHE_HOME") ?? (variable("HOME") ?? "") + "/.cache"
        return cache + "/twofold"
    }

    /// Whether there is a file for a problem, whatever is in it.
    public func hasTable(of problem: OptimumProblem) -> Bool { access(path(of: problem), F_OK) == 0 }

    /// Where the table of a problem is.
    public func path(of problem: OptimumProblem) -> String { "\(directory)/\(problem.name).table" }

    /// The table of a problem; throws if it is missing or damaged.
    public func table(of problem: OptimumProblem) throws(OptimumFailure) -> OptimumTable {
        if let table = tables.withLock({ $0[problem] }) { return table }
        let table = try OptimumTable(path(of: problem), problem)
        tables.withLock { $0[problem] = table }
        return table
    }
}
