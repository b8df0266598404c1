public import Platform
public import TwofoldCore
internal import TwofoldOptimum
public import TwofoldService

/// The settings that a server shares with the library in a process, each by the same `TWOFOLD_` variable.
public struct ServiceSettings: Sendable {
    /// Threads that one batch is spread over.
    public var threads: Int
    /// Limits of requests and sessions.
    public var limits = Limits()
    /// Limits of each session's policies.
    public var policyBudget = PolicyBudget()
    /// The directory of the tables of optimal values; see `twofold-server solve`.
    public var tables = TableDirectory.standard
    /// Which implementation of the rules runs; for tests and debugging.
    public var engine = Engine.automatic

    private var givenSearchThreads: Int?

    /// Threads that a search for actions may use.
    public var searchThreads: Int {
        get { givenSearchThreads ?? max(1, threads - 1) }
        set { givenSearchThreads = newValue }
    }

    /// The defaults, with this many threads.
    public init(threads: Int) { self.threads = threads }

    /// The settings that were given, and the defaults of all others.
    ///
    /// - Parameters:
    ///   - options: The flags that were given: ``numbers`` by their names. They win.
    ///   - engine: The flag for the engine, where it was given.
    ///   - variable: The text of a variable by its name without TWOFOLD_, as "MAX_SESSIONS"; nil where unset or empty.
    public init(
        options: [String: Int] = [:], engine: Engine? = nil,
        variable: @escaping (String) -> String? = Self.variable
    ) throws(Reason) {
        self.init(threads: availableProcessors())
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
        for number in Self.numbers {
            if let value = try Self.value(of: number, options, variable) {
                self[keyPath: number.property] = value
            }
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

    // MARK: numbers

    /// A number among the settings.
    public typealias Number = (
        name: String, range: ClosedRange<Int>, property: WritableKeyPath<ServiceSettings, Int>,
        help: String, standard: String?
    )

    /// All numbers: the name (the flag --max-sessions, the variable TWOFOLD_MAX_SESSIONS), what is allowed, what it
    /// sets, its meaning, and its default in words unless it is the property's.
    public static var numbers: [Number] {
        [
            (
                "threads", 1...1024, \.threads, "Threads that one batch is spread over.",
                "the processors it may use"
            ),
            (
                "search-threads", 1...1024, \.searchThreads, "Threads that a search may use.",
                "all but one of --threads"
            ),
            (
                "max-message-bytes", 1...1 << 40, \.limits.maxMessageBytes,
                "Bytes in one frame of a request.",
                "\(Limits().maxMessageBytes), or less under ulimit -v"
            ),
            (
                "max-boards-per-session", 1...1 << 26, \.limits.maxBoardsPerSession, "Boards in one session.",
                nil
            ),
            ("max-sessions", 1...1 << 24, \.limits.maxSessions, "Sessions at a time.", nil),
            (
                "max-sessions-per-client", 1...1 << 24, \.limits.maxSessionsPerClient,
                "Sessions at a time of one client key; without encryption there are none.", nil
            ),
            ("max-boards", 1...1 << 40, \.limits.maxBoards, "Boards of all sessions together.", nil),
            (
                "max-bytes", 1...1 << 50, \.limits.maxBytes,
                "Bytes of all sessions: boards, replies, kept requests, policies.",
                "half of the memory that is left to the process"
            ),
            (
                "idle-timeout", 0...1 << 32, \.idleSeconds,
                "Seconds without a request after which a session ends; 0 for never.",
                "86400, a day; never with --parent-pid"
            ),
            (
                "max-policy-bytes", 1...1 << 40, \.policyBudget.maxBytes,
                "Bytes that a session's policy may take: its network and tables.", nil
            ),
            (
                "max-search-milliseconds", 1...3_600_000, \.searchMilliseconds,
                "How long a request may search for actions, in milliseconds.", nil
            ),
        ]
    }

    private var idleSeconds: Int {
        get { limits.idleTimeout.map { Int($0.components.seconds) } ?? 0 }
        set { limits.idleTimeout = newValue == 0 ? nil : .seconds(newValue) }
    }

    private var searchMilliseconds: Int {
        get { Int(policyBudget.maxSearch / .milliseconds(1)) }
        set { policyBudget.maxSearch = .milliseconds(newValue) }
    }

    /// The value that the flag, or else the variable, gives a number; nil without either.
    private static func value(
        of number: Number, _ options: [String: Int], _ variable: (String) -> String?
    ) throws(Reason) -> Int? {
        var source = "--" + number.name
        var value = options[number.name]
        if value == nil {
            let name = number.name.uppercased().replacing("-", with: "_")
            guard let text = variable(name) else { return nil }
            source = "TWOFOLD_" + name
            value = Int(text)
            guard value != nil else { throw Reason("\(source) is '\(text)', which is no Int") }
        }
        guard number.range.contains(value!) else {
            let range = number.range
            throw Reason("\(source) is \(value!); it has to be in \(range.lowerBound)...\(range.upperBound)")
        }
        return value
    }
}
