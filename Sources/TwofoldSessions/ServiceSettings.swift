public import Platform
public import TwofoldCore
internal import TwofoldOptimum
public import TwofoldService

/// The settings that a server shares with the library in a process, each by the same `TWOFOLD_` variable.
public struct ServiceSettings: Sendable {
    /// Threads that one batch is spread over.
    public var threads: Int
    /// Threads that a search for actions may use.
    public var searchThreads: Int
    /// Limits of requests and sessions.
    public var limits = Limits()
    /// Limits of each session's policies.
    public var policyBudget = PolicyBudget()
    /// The directory of the tables of optimal values; see `twofold-server solve`.
    public var tables = TableDirectory.standard
    /// Which implementation of the rules runs; for tests and debugging.
    public var engine = Engine.automatic

    /// The defaults, with this many threads.
    public init(threads: Int) {
        self.threads = threads
        searchThreads = max(1, threads - 1)
    }

    /// The settings that were given, and the defaults of all others.
    ///
    /// - Parameters:
    ///   - options: The flags that were given: numbers by names as "max-sessions". They win.
    ///   - engine: The flag for the engine, where it was given.
    ///   - variable: The text of a variable by its name without TWOFOLD_, as "MAX_SESSIONS"; nil where unset or empty.
    public init(
        options: [String: Int] = [:], engine: Engine? = nil,
        variable: @escaping (String) -> String? = Self.variable
    ) throws(Reason) {
        let reader = Reader(options: options, variable: variable)
        self.init(threads: try reader.number("threads", atMost: 1024) ?? availableProcessors())
        if let given = try reader.number("search-threads", atMost: 1024) { searchThreads = given }
        limits.maxBytes = availableMemory() / 2
        if let left = memoryLeft() {
            guard prepareForMemoryLimit(left) else {
                throw Reason(
                    "the limits on this process's memory (ulimit -v, ulimit -d) leave it \(left) bytes; Twofold "
                        + "needs \(MemoryPromise.kept): raise them")
            }
            // because: libzmq has three copies of a frame while it decrypts it, and ends the process without memory.
            limits.maxMessageBytes = min(limits.maxMessageBytes, availableMemory() / 8)
        }
        try reader.read("max-bytes", atMost: 1 << 50, into: &limits.maxBytes)
        try reader.read("max-message-bytes", atMost: 1 << 40, into: &limits.maxMessageBytes)
        try reader.read("max-boards-per-session", atMost: 1 << 26, into: &limits.maxBoardsPerSession)
        try reader.read("max-sessions", atMost: 1 << 24, into: &limits.maxSessions)
        try reader.read("max-sessions-per-client", atMost: 1 << 24, into: &limits.maxSessionsPerClient)
        try reader.read("max-boards", atMost: 1 << 40, into: &limits.maxBoards)
        try reader.read("max-policy-bytes", atMost: 1 << 40, into: &policyBudget.maxBytes)
        if let seconds = try reader.number("idle-timeout", atLeast: 0, atMost: 1 << 32) {
            limits.idleTimeout = seconds == 0 ? nil : .seconds(seconds)
        }
        if let limit = try reader.number("max-search-milliseconds", atMost: 3_600_000) {
            policyBudget.maxSearch = .milliseconds(limit)
        }
        if let given = variable("TABLES") { tables = given }
        if let engine {
            self.engine = engine
        } else if let name = variable("ENGINE") {
            guard let engine = Engine(rawValue: name) else {
                throw Reason("TWOFOLD_ENGINE is '\(name)', which is not an engine")
            }
            self.engine = engine
        }
    }

    /// A TWOFOLD_ variable of the environment, nil where unset or empty.
    public static func variable(_ name: String) -> String? {
        guard let value = getenv("TWOFOLD_" + name).map({ String(cString: $0) }), !value.isEmpty else {
            return nil
        }
        return value
    }

    /// The service that these settings describe; its tables are counted in a budget.
    package func service(_ budget: MemoryBudget, clock: Clock = .system) -> EnvironmentService {
        var policyBudget = policyBudget
        policyBudget.workers = Workers(threads: searchThreads)
        return EnvironmentService(
            limits: limits, workers: Workers(threads: threads), engine: engine, policyBudget: policyBudget,
            clock: clock, tables: TableDirectory(tables) { try budget.reserve($0) })
    }

    /// Finds a setting among flags and variables, and checks it.
    private struct Reader {
        let options: [String: Int]
        let variable: (String) -> String?

        /// A number in `least` ... `limit`; nil where none was given.
        func number(
            _ name: String, atLeast least: Int = 1, atMost limit: Int
        ) throws(Reason) -> Int? {
            var source = "--" + name
            var number = options[name]
            if number == nil {
                let name = name.uppercased().replacing("-", with: "_")
                guard let text = variable(name) else { return nil }
                source = "TWOFOLD_" + name
                number = Int(text)
                guard number != nil else { throw Reason("\(source) is '\(text)', which is no Int") }
            }
            guard (least...limit).contains(number!) else {
                throw Reason("\(source) is \(number!); it has to be in \(least)...\(limit)")
            }
            return number
        }

        func read(_ name: String, atMost limit: Int, into setting: inout Int) throws(Reason) {
            if let number = try number(name, atMost: limit) { setting = number }
        }
    }
}
