internal import Platform
internal import Synchronization

/// A directory of tables, each read into memory once and then kept.
public final class TableDirectory: Sendable {
    /// Reserves memory in a budget for as long as the result lives; throws if too little is left.
    public typealias Reserve = @Sendable (_ bytes: Int) throws -> any Sendable

    private let directory: String
    private let reserve: Reserve
    private let known = Mutex(Known())

    private struct Known {
        var tables: [OptimumProblem: OptimumTable] = [:]
        /// Files that are not worth another look until they change.
        var damaged: [OptimumProblem: (version: TableSource.Version, failure: OptimumFailure)] = [:]
        var turn = Turn()
    }

    /// One table is read at a time: of several callers that want it the first reads it, and the others wait for that.
    private final class Turn: Sendable {
        /// A forked child has another one: nothing there would end a turn of its parent's threads.
        let process = getpid()
        let lock = Mutex<Void>(())
    }

    /// The tables in this directory, which need not be there; their memory is reserved before it is used.
    public init(_ directory: String, reserve: @escaping Reserve = { _ in () }) {
        self.directory = directory
        self.reserve = reserve
    }

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

    /// The table of a problem; throws if it is missing or damaged, or does not fit into memory.
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
