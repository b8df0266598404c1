import ArgumentParser
import FoundationEssentials
import Platform
import TwofoldService

/// The executable `twofold-server`, with the commands `serve`, `ping`, `keygen`, `bench` and `solve`.
@main
struct TwofoldServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        // The name by which the user has called it: `twofold serve` runs this program as "twofold".
        commandName: CommandLine.arguments.first?.split(separator: "/").last.map(String.init),
        abstract: "Serves reinforcement-learning environments over ZeroMQ.",
        version: EnvironmentService.version,
        subcommands: [Serve.self, Ping.self, Keygen.self, Bench.self, Solve.self])

    /// Runs the command. With --json, an error is also printed on standard output, as in all commands of `twofold`.
    static func main() {
        // If the process that reads the log or the output ends first, this process must not end as well.
        signal(SIGPIPE, SIG_IGN)
        // A write beyond the limit on file size must fail like a full disk, not end the process.
        signal(SIGXFSZ, SIG_IGN)
        // Linux sends the first process of a container only signals with a handler. `serve` replaces these handlers.
        if getpid() == 1 { for number in [SIGINT, SIGTERM] { signal(number) { _exit(128 + $0) } } }
        do {
            try openStandardDescriptors()
            try checkEncoding()
            do {
                var command = try parseAsRoot()
                try command.run()
            } catch let error where exitCode(for: error).isSuccess {
                let text = fullMessage(for: error)  // help, or the version
                if !text.isEmpty { print(text) }
            }
            // `print` ignores errors, such as a full disk.
            try explaining("can't write to standard output") { () throws(SystemError) in
                try system { fflush(nil) }
            }
        } catch {
            let code = exitCode(for: error)
            if CommandLine.arguments.contains("--json"), !code.isSuccess {
                let type = code == .validationFailure ? "UsageError" : "TwofoldError"
                let report = ["error": ["type": type, "message": message(for: error)]]
                let json = try? JSONEncoder().encode(report)
                print(String(decoding: json ?? Data(), as: UTF8.self))
            }
            exit(withError: error)
        }
    }

    /// Opens /dev/null for each standard descriptor that is closed. Otherwise, the next pipe or file would get that
    /// number, and the lines that this process prints would go there.
    private static func openStandardDescriptors() throws {
        while true {
            let descriptor = try system(named: "open") { open("/dev/null", O_RDWR) }
            if descriptor > STDERR_FILENO {
                close(descriptor)
                return
            }
        }
    }

    /// Throws if an argument is not valid UTF-8. Swift would silently replace its invalid bytes, so that a path
    /// would lead to another file.
    private static func checkEncoding() throws {
        for index in 0..<Int(CommandLine.argc) {
            guard let argument = CommandLine.unsafeArgv[index] else { continue }
            guard String(validatingCString: argument) != nil else {
                throw ValidationError("the argument '\(String(cString: argument))' is not valid UTF-8")
            }
        }
    }
}
