import ArgumentParser
import Glibc
import Logging
import TwofoldServer
import TwofoldService

/// `twofold-server serve`
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serve environments until SIGTERM or SIGINT.",
        discussion: """
            Prints "listening on <endpoint>" on standard output for each endpoint once it can serve; logs go \
            to standard error. Each option can also be given as an environment variable: --max-sessions as \
            TWOFOLD_MAX_SESSIONS. An option on the command line wins.
            """)

    @Option(
        help: ArgumentHelp(
            "Where to listen: tcp://host:port (port 0 picks one) or ipc:///path. May be repeated.",
            discussion: "In TWOFOLD_ENDPOINT, separated by commas. Default: tcp://127.0.0.1:5555."))
    var endpoint: [String] = []

    @Option(help: "Threads that one batch is spread over. Default: the processors it may use.")
    var threads: Int?

    @Option(help: "Bytes in one frame of a request. Default: 268435456.")
    var maxMessageBytes: Int?

    @Option(help: "Boards in one session. Default: 1048576.")
    var maxBoardsPerSession: Int?

    @Option(help: "Sessions at a time. Default: 10000.")
    var maxSessions: Int?

    @Option(help: "End when the parent process is not this one any more.")
    var parentPid: Int32?

    @Option(help: "How much to log: debug, info, warning or error. Default: info.")
    var logLevel: Logger.Level?

    @Option(help: "How to log: text or json, one line each. Default: text.")
    var logFormat: LogFormat?

    func run() throws {
        let signals = try StopSignals()
        // Whoever read the log may be gone: that is no reason to end.
        signal(SIGPIPE, SIG_IGN)
        raiseDescriptorLimit()
        let format = try setting(logFormat, "LOG_FORMAT") ?? .text
        let level = try setting(logLevel, "LOG_LEVEL") ?? .info
        let logger = Logger(label: "twofold-server") { _ in
            StandardErrorLogHandler(format: format, logLevel: level)
        }
        let configuration = try makeConfiguration()
        logger.info("starting", metadata: ["version": "\(ServerConfiguration.version)"])
        let statistics = try serve(configuration, stopDescriptor: signals.descriptor, logger: logger) {
            // Unbuffered: whoever started the server waits for this line.
            let line = Array("listening on \($0)\n".utf8)
            write(STDOUT_FILENO, line, line.count)
        }
        logger.info(
            "stopped",
            metadata: [
                "received": "\(statistics.received)", "executed": "\(statistics.executed)",
                "refused": "\(statistics.refused)", "resent": "\(statistics.resent)",
                "parked": "\(statistics.parked)", "dropped": "\(statistics.dropped)",
            ])
    }

    private func makeConfiguration() throws -> ServerConfiguration {
        var endpoints = endpoint
        if endpoints.isEmpty {
            endpoints = variable("ENDPOINT")?.split(separator: ",").map(String.init) ?? []
        }
        if endpoints.isEmpty { endpoints = ["tcp://127.0.0.1:5555"] }
        var configuration = ServerConfiguration(
            endpoints: endpoints,
            threads: try positive(threads, "threads") ?? availableProcessors())
        configuration.parentProcess = try setting(parentPid, "PARENT_PID")
        if let limit = try positive(maxMessageBytes, "max-message-bytes") {
            configuration.limits.maxMessageBytes = limit
        }
        if let limit = try positive(maxBoardsPerSession, "max-boards-per-session") {
            configuration.limits.maxBoardsPerSession = limit
        }
        if let limit = try positive(maxSessions, "max-sessions") {
            configuration.limits.maxSessions = limit
        }
        return configuration
    }

    private func positive(_ flag: Int?, _ name: String) throws -> Int? {
        let value = try setting(flag, name.uppercased().replacing("-", with: "_"))
        if let value, value < 1 { throw ValidationError("--\(name) is \(value); it has to be at least 1") }
        return value
    }

    /// Each connection takes a descriptor, and the usual soft limit is 1024.
    private func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
