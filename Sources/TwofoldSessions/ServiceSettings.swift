public import Platform
public import TwofoldCore
internal import TwofoldOptimum
public import TwofoldService

/// The settings that servers and the embedded library share. Both read them from the same environment variables,
/// whose names start with `TWOFOLD_`.
public struct ServiceSettings: Sendable {
    /// The number of threads that execute one batch.
    public var threads: Int
    /// The limits on requests and sessions.
    public var limits = Limits()
    /// The directory with the tables of optimal values, which `twofold-server solve` writes.
    public var tables = TableDirectory.standard
    /// The implementation of the rules. Values other than `automatic` are for tests and debugging.
    public var engine = Engine.automatic

    private var givenSearchThreads: Int?

    /// The number of threads that a search may use.
    public var searchThreads: Int {
        get { givenSearchThreads ?? max(1, threads - 1) }
        set { givenSearchThreads = newValue }
    }

    /// Creates the default settings, with this number of threads.
    public init(threads: Int) { self.threads = threads }

    /// Reads the settings from command-line flags and environment variables. Settings that are not given get their
    /// defaults.
    ///
    /// - Parameters:
    ///   - options: The values of the given flags, by the names in ``numbers``. A flag overrides its variable.
    ///   - variable: Returns the text of an environment variable; nil if it is unset or empty. The argument
    ///     "MAX_SESSIONS" means TWOFOLD_MAX_SESSIONS.
    public init(
        options: [String: Int] = [:], variable: (String) throws(Reason) -> String? = Self.variable
    ) throws(Reason) {
        self.init(threads: availableProcessors())
        limits.maxBytes = availableMemory() / 2
        if let left = memoryLeft() {
            guard prepareForMemoryLimit(left) else {
                throw Reason(
                    "the limits on this process's memory (ulimit -v, ulimit -d) leave it \(left) bytes; Twofold "
                        + "needs \(MemoryPromise.kept): raise the limits")
            }
            // because: libzmq holds three copies of a frame while decrypting it, and ends the process if memory runs
            // out.
            limits.maxMessageBytes = min(limits.maxMessageBytes, availableMemory() / 8)
        }
        for number in Self.numbers {
            if let value = try Self.value(of: number, options, variable) {
                self[keyPath: number.property] = value
            }
        }
        if let given = try variable("TABLES") { tables = given }
        if let name = try variable("ENGINE") {
            guard let engine = Engine(rawValue: name) else {
                throw Reason("TWOFOLD_ENGINE is '\(name)', which is not an engine; leave it unset")
            }
            self.engine = engine
        }
    }

    /// Returns the text of the environment variable TWOFOLD_`name`; nil if it is unset or empty. Throws if it is not
    /// valid UTF-8, because a path with other bytes would lead to another file.
    public static func variable(_ name: String) throws(Reason) -> String? {
        guard let bytes = getenv("TWOFOLD_" + name), bytes.pointee != 0 else { return nil }
        guard let value = String(validatingCString: bytes) else {
            throw Reason("TWOFOLD_\(name) is '\(String(cString: bytes))', which is not valid UTF-8")
        }
        return value
    }

    /// Creates a service with these settings. If `budget` is nil, the service has its own.
    package func service(_ budget: MemoryBudget? = nil, clock: Clock = .system) -> EnvironmentService {
        EnvironmentService(
            limits: limits, workers: Workers(threads: threads),
            searchWorkers: Workers(threads: searchThreads), engine: engine, clock: clock, tables: tables,
            budget: budget)
    }

    // MARK: numbers

    /// A numeric setting: its name, allowed range, property, help text and default.
    public typealias Number = (
        name: String, range: ClosedRange<Int>, property: WritableKeyPath<ServiceSettings, Int>,
        help: String, standard: String?
    )

    /// All numeric settings. The name "max-sessions", for example, means --max-sessions and TWOFOLD_MAX_SESSIONS.
    /// `standard` describes the default if it is not the property's initial value.
    public static var numbers: [Number] {
        [
            (
                "threads", 1...1024, \.threads, "Number of threads that execute one batch.",
                "the number of available processors"
            ),
            (
                "search-threads", 1...1024, \.searchThreads, "Number of threads for one search.",
                "one fewer than --threads"
            ),
            (
                "max-message-bytes", 512...1 << 40, \.limits.maxMessageBytes,
                "Maximum size of one request frame, in bytes.",
                "\(Limits().maxMessageBytes), or less under ulimit -v"
            ),
            (
                "max-boards-per-session", 1...1 << 26, \.limits.maxBoardsPerSession,
                "Maximum number of boards in one session.", nil
            ),
            ("max-sessions", 1...1 << 24, \.limits.maxSessions, "Maximum number of open sessions.", nil),
            (
                "max-sessions-per-client", 1...1 << 24, \.limits.maxSessionsPerClient,
                "Maximum number of open sessions per client key; applies to encrypted endpoints only.", nil
            ),
            (
                "max-boards", 1...1 << 40, \.limits.maxBoards,
                "Maximum number of boards in all sessions together.", nil
            ),
            (
                "max-bytes", 1...1 << 50, \.limits.maxBytes,
                "Maximum memory of all sessions, in bytes: boards, replies, stored requests, policies.",
                "half of the memory available to the process"
            ),
            (
                "idle-timeout", 0...1 << 32, \.idleSeconds,
                "Seconds without a request after which a session ends; 0 means never.",
                "86400, a day; never with --parent-pid"
            ),
            (
                "max-policy-bytes", 1...1 << 40, \.limits.maxPolicyBytes,
                "Maximum memory of a session's policy, in bytes: its network and tables.", nil
            ),
            (
                "max-search-milliseconds", 1...3_600_000, \.searchMilliseconds,
                "Maximum time that a request may search for actions, in milliseconds.", nil
            ),
        ]
    }

    private var idleSeconds: Int {
        get { limits.idleTimeout.map { Int($0.components.seconds) } ?? 0 }
        set { limits.idleTimeout = newValue == 0 ? nil : .seconds(newValue) }
    }

    private var searchMilliseconds: Int {
        get { Int(limits.maxSearch / .milliseconds(1)) }
        set { limits.maxSearch = .milliseconds(newValue) }
    }

    /// Returns a setting's value from its flag, or otherwise from its variable; nil if neither is given.
    private static func value(
        of number: Number, _ options: [String: Int], _ variable: (String) throws(Reason) -> String?
    ) throws(Reason) -> Int? {
        var source = "--" + number.name
        var value = options[number.name]
        if value == nil {
            let name = number.name.uppercased().replacing("-", with: "_")
            guard let text = try variable(name) else { return nil }
            source = "TWOFOLD_" + name
            value = Int(text)
            guard value != nil else { throw Reason("\(source) is '\(text)'; it must be an integer") }
        }
        guard number.range.contains(value!) else {
            let range = number.range
            throw Reason("\(source) is \(value!); it must be in \(range.lowerBound)...\(range.upperBound)")
        }
        return value
    }
}
