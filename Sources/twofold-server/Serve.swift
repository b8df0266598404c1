import ArgumentParser
import Dispatch
import Logging
import Platform
import TwofoldProtocol
import TwofoldServer
import TwofoldService
import TwofoldSessions
import ZeroMQ

/// The command `twofold-server serve`.
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serve environments until SIGTERM or SIGINT.",
        discussion: """
            Prints "listening on <endpoint>" on standard output for each endpoint once it can serve. Logs to \
            standard error. Each option can also be given as an environment variable, for example --max-sessions \
            as TWOFOLD_MAX_SESSIONS. An option overrides its variable.
            """)

    @Option(
        help: ArgumentHelp(
            "Endpoint to listen on: tcp://host:port (port 0 picks a free one) or ipc:///path. May be repeated.",
            discussion: "Commas separate endpoints in TWOFOLD_ENDPOINT. Default: tcp://127.0.0.1:5555."))
    var endpoint: [String] = []

    @Option(help: .number("threads")) var threads: Int?
    @Option(help: .number("max-message-bytes")) var maxMessageBytes: Int?
    @Option(help: .number("max-boards-per-session")) var maxBoardsPerSession: Int?
    @Option(help: .number("max-sessions")) var maxSessions: Int?
    @Option(help: .number("max-sessions-per-client")) var maxSessionsPerClient: Int?
    @Option(help: .number("max-boards")) var maxBoards: Int?
    @Option(help: .number("max-bytes")) var maxBytes: Int?
    @Option(help: .number("idle-timeout")) var idleTimeout: Int?

    @Option(
        help: ArgumentHelp(
            "File with the server's keys (see keygen). Encrypts all tcp endpoints with CURVE.",
            discussion: "Requires --curve-clients."))
    var curveSecretKey: String?

    @Option(
        help: ArgumentHelp(
            "File with the public keys of the clients that may use encrypted endpoints, one per line.",
            discussion: "SIGHUP reloads it."))
    var curveClients: String?

    @Option(
        help: ArgumentHelp(
            "Directory in which a stopping server saves its sessions for the next server.",
            discussion: "Created if missing. Without this option, sessions end with the server."))
    var stateDir: String?

    @Option(help: .number("max-policy-bytes")) var maxPolicyBytes: Int?
    @Option(help: .number("max-search-milliseconds")) var maxSearchMilliseconds: Int?
    @Option(help: .number("search-threads")) var searchThreads: Int?

    @Option(
        help: ArgumentHelp(
            "Directory with the tables that the command solve makes.",
            discussion: "Default: twofold in the user's cache folder."))
    var tables: String?

    @Option(help: "Stop when the parent process no longer has this id.")
    var parentPid: Int32?

    @Option(help: "Least severe level to log, from trace to critical. Default: info.")
    var logLevel: Logger.Level?

    @Option(help: "Format of log lines: text or json. Default: text.")
    var logFormat: LogFormat?

    func run() throws {
        try ConnectionLimit.install()
        let format = try setting(logFormat, "LOG_FORMAT") ?? .text
        let level = try setting(logLevel, "LOG_LEVEL") ?? .info
        let logger = Logger(label: "twofold-server") { _ in
            StandardErrorLogHandler(format: format, logLevel: level)
        }
        // Only the server's user may access its files, such as the sockets of ipc endpoints.
        umask(0o077)
        // Before signals are caught, because a key file may be a FIFO that nobody writes to.
        let configuration = try makeConfiguration(logger)
        try checkThreads(configuration.service.threads)
        let stopSignals = try Signals(SIGTERM, unlessIgnored: SIGINT)
        let reloadSignals =
            try configuration.encryption == nil ? Signals(unlessIgnored: SIGHUP) : Signals(SIGHUP)
        logger.info("starting", metadata: ["version": "\(EnvironmentService.version)"])
        let announcements = DispatchQueue(label: "twofold.announcements")
        let statistics = try withExtendedLifetime(stopSignals) {
            try serve(
                configuration, stopDescriptor: stopSignals.descriptor, reloadSignals: reloadSignals,
                logger: logger
            ) {
                // The line is unbuffered, because the process that started the server waits for it. It is written on
                // another thread, because the write blocks if the pipe is full and nothing reads it.
                let line = Array("listening on \($0)\n".utf8)
                announcements.async { write(STDOUT_FILENO, line, line.count) }
            }
        }
        let counters = statistics.counters
        logger.info(
            "stopped",
            metadata: [
                "received": .stringConvertible(counters.received),
                "executed": .stringConvertible(counters.executed),
                "refused": .stringConvertible(counters.refused),
                "resent": .stringConvertible(counters.resent),
                "parked": .stringConvertible(counters.parked),
                "dropped": .stringConvertible(counters.dropped),
            ])
        if statistics.sessionsLost > 0 { throw ExitCode.failure }
    }

    /// Throws if the process can't start the threads that its queues need. Without this check, the server would
    /// accept requests but never answer them.
    private func checkThreads(_ threads: Int) throws {
        // Two of libzmq, one of Dispatch, and one for each queue that runs one job at a time.
        let needed = 8 + max(threads, availableProcessors())
        guard canStartThreads(needed) else {
            throw Reason(
                "this process can't start the \(needed) threads that a server may need: raise its limits (ulimit -u, "
                    + "ulimit -v, or pids.max of its container)")
        }
    }

    private func makeConfiguration(_ logger: Logger) throws -> ServerConfiguration {
        let settings = try serviceSettings(options: numbers)
        // because: a session that has ended must leave its memory to the steps and the saving of others. The library
        // does not do this, because the steps of 100,000 boards in a Python process would take nearly twice as long.
        if memoryLeft() != nil { mapLargeBlocks() }
        var configuration = ServerConfiguration(endpoints: try endpoints(endpoint), settings)
        if let tables { configuration.service.tables = tables }
        configuration.parentProcess = try setting(parentPid, "PARENT_PID")
        configuration.stateDirectory = try setting(stateDir, "STATE_DIR")
        configuration.encryption = try encryption(logger)
        let saysIdleTimeout = try idleTimeout != nil || ServiceSettings.variable("IDLE_TIMEOUT") != nil
        if configuration.parentProcess != nil, !saysIdleTimeout {
            configuration.service.limits.idleTimeout = nil
        }
        return configuration
    }

    private func encryption(_ logger: Logger) throws -> (keys: CurveKeyPair, clients: String)? {
        switch (try setting(curveSecretKey, "CURVE_SECRET_KEY"), try setting(curveClients, "CURVE_CLIENTS")) {
        case (let keys?, let clients?):
            let pair = try CurveFiles.readSecret(keys)
            if CurveFiles.isReadableByOthers(keys) {
                logger.warning("other users can read the secret key in '\(keys)': run chmod 600 on it")
            }
            return (pair, clients)
        case (nil, nil): return nil
        default: throw ValidationError("pass both --curve-secret-key and --curve-clients")
        }
    }

    /// The numeric options that were given, by name. The embedded library reads the same settings from environment
    /// variables.
    private var numbers: [String: Int] {
        [
            "threads": threads, "search-threads": searchThreads, "max-bytes": maxBytes,
            "max-message-bytes": maxMessageBytes, "max-boards-per-session": maxBoardsPerSession,
            "max-sessions": maxSessions, "max-sessions-per-client": maxSessionsPerClient,
            "max-boards": maxBoards, "max-policy-bytes": maxPolicyBytes, "idle-timeout": idleTimeout,
            "max-search-milliseconds": maxSearchMilliseconds,
        ].compactMapValues(\.self)
    }
}

extension ArgumentHelp {
    /// Returns the help text for a setting in ``ServiceSettings/numbers``, given its name. A long default gets a
    /// separate line.
    static func number(_ name: String) -> ArgumentHelp {
        let number = ServiceSettings.numbers.first { $0.name == name }!
        let standard = number.standard ?? "\(ServiceSettings(threads: 1)[keyPath: number.property])"
        let text = "\(number.help) Default: \(standard)."
        return text.count <= 100
            ? ArgumentHelp("\(text)") : ArgumentHelp("\(number.help)", discussion: "Default: \(standard).")
    }
}
