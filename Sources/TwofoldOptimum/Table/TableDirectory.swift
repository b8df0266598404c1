internal import Platform

/// A directory of tables. It reads each table into memory once and keeps it.
public final class TableDirectory: Sendable {
    /// A function that reserves memory in a budget for as long as its result lives. Throws if the budget is too small.
    public typealias Reserve = @Sendable (_ bytes: Int) throws -> any Sendable

    private let directory: String
    private let reserve: Reserve
    private let known = Locked(Known())

    private struct Known {
        var tables: [OptimumProblem: OptimumTable] = [:]
        /// The damaged files, which are not read again until they change.
        var damaged: [OptimumProblem: (version: [Int], failure: OptimumFailure)] = [:]
        var turn = Turn()
    }

    /// A lock that lets one caller at a time read a table. The others wait.
    private final class Turn: Sendable {
        /// The id of the process that made the turn. A forked child has a different id and makes a new turn, because
        /// none of its threads would ever release the parent's lock.
        let process = getpid()
        let lock = Locked(())
    }

    /// Makes a table directory for a path, which need not exist. It calls `reserve` before it reads a table.
    public init(_ directory: String, reserve: @escaping Reserve = { _ in () }) {
        self.directory = directory
        self.reserve = reserve
    }

    /// The user's cache folder: $XDG_CACHE_HOME/twofold, or ~/.cache/twofold.
    public static var standard: String {
        func variable(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        let cache = variable("XDG_CACHE_HOME") ?? (variable("HOME") ?? "") + "/.cache"
        return cache + "/twofold"
    }

    /// Returns true if a file exists for the problem. Does not check the file's content.
    public func hasTable(of problem: OptimumProblem) -> Bool { access(path(of: problem), F_OK) == 0 }

    /// Returns the path of a problem's table.
    public func path(of problem: OptimumProblem) -> String { "\(directory)/\(problem.name).table" }

    /// Returns the table of a problem. Throws if it is missing, damaged or too large for the available memory.
    public func table(of problem: OptimumProblem) throws(OptimumFailure) -> OptimumTable {
        let (table, turn) = known.withLock { known in
            if known.turn.process != getpid() { known.turn = Turn() }
            return (known.tables[problem], known.turn)
        }
        if let table { return table }
        return try turn.lock.withLock { _ throws(OptimumFailure) in
            if let table = known.withLock({ $0.tables[problem] }) { return table }
            let table = try read(problem)
            known.withLock { $0.tables[problem] = table }
            return table
        }
    }

    private func read(_ problem: OptimumProblem) throws(OptimumFailure) -> OptimumTable {
        let source = try TableSource(path(of: problem), of: problem)
        let version = source.version
        if let damaged = known.withLock({ $0.damaged[problem] }), damaged.version == version {
            throw damaged.failure
        }
        do throws(OptimumFailure) { return try OptimumTable(reading: source, reserve) } catch {
            if error.kind == .damagedTable { known.withLock { $0.damaged[problem] = (version, error) } }
            throw error
        }
    }
}
