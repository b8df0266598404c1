import ArgumentParser
import TwofoldService

/// The executable `twofold-server`, with the commands `serve`, `ping`, `keygen`, `bench`, `solve` and `version`.
@main
struct TwofoldServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "twofold-server",
        abstract: "Serves reinforcement-learning environments over ZeroMQ.",
        version: EnvironmentService.version,
        subcommands: [Serve.self, Ping.self, Keygen.self, Bench.self, Solve.self, Version.self])
}

/// The command `twofold-server version`.
struct Version: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Print the version.")

    func run() { print(EnvironmentService.version) }
}
