import ArgumentParser
import TwofoldServer
import ZeroMQ

/// The command `twofold-server ping`.
struct Ping: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check whether a server is alive and ready.",
        discussion: """
            Exits with 0 if the server is ready, with 1 if no answer arrives in time, and with 2 after any other \
            answer, for example if the server is about to stop. With --live, any answer means exit status 0.
            """)

    @Argument(help: "The same as --endpoint.")
    var address: String?

    @Option(help: "Server endpoint. Default: the first one in TWOFOLD_ENDPOINT, or tcp://127.0.0.1:5555.")
    var endpoint: String?

    @Option(help: "Seconds to wait for the answer.")
    var timeout = 2.0

    @Option(help: "File with the server's public key, for an encrypted endpoint. Requires --curve-client.")
    var curveServer: String?

    @Option(help: "File with this client's keys. Requires --curve-server.")
    var curveClient: String?

    @Flag(help: "Accept any answer, even from a server that is about to stop.")
    var live = false

    func validate() throws {
        guard address == nil || endpoint == nil else { throw ValidationError("pass the endpoint only once") }
        guard timeout > 0, timeout <= 86_400 else {
            throw ValidationError("--timeout is \(timeout); it must be more than 0 and at most 86400")
        }
    }

    func run() throws {
        let endpoint = try endpoints((address ?? endpoint).map { [$0] } ?? [])[0]
        guard !endpoint.hasPrefix("ipc://") || curveServer == nil && curveClient == nil else {
            throw ValidationError("--curve-server and --curve-client require a tcp endpoint")
        }
        // Ipc endpoints are never encrypted, so the variables for tcp endpoints don't apply.
        let curve = endpoint.hasPrefix("ipc://") ? nil : try curve()
        switch try probe(endpoint, curve: curve, timeout: .seconds(timeout)) {
        case .ready(let version):
            print("ready: twofold-server \(version) at \(endpoint)")
        case .notReady(let reason):
            print("not ready: \(endpoint): \(reason)")
            if !live { throw ExitCode(2) }
        case .silent:
            print("no answer from \(endpoint) in \(timeout) s; `twofold doctor \(endpoint)` finds the reason")
            throw ExitCode(1)
        }
    }

    private func curve() throws -> (server: CurvePublicKey, client: CurveKeyPair)? {
        switch (try setting(curveServer, "CURVE_SERVER"), try setting(curveClient, "CURVE_CLIENT")) {
        case (let server?, let client?):
            return (try CurveFiles.readPublic(server), try CurveFiles.readSecret(client))
        case (nil, nil): return nil
        default: throw ValidationError("pass both --curve-server and --curve-client")
        }
    }
}
