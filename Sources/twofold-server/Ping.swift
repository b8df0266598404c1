import ArgumentParser
import TwofoldServer
import ZeroMQ

/// The command `twofold-server ping`.
struct Ping: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask a server whether it serves: a probe for liveness and readiness.",
        discussion: """
            Exits with 0 when it serves, with 1 when nothing answers in time or keys are not accepted, and \
            with 2 when it answers but is about to stop; with --live only the answer counts.
            """)

    @Argument(help: "The same as --endpoint.")
    var address: String?

    @Option(help: "The server's endpoint. Default: the first of TWOFOLD_ENDPOINT, or tcp://127.0.0.1:5555.")
    var endpoint: String?

    @Option(help: "Seconds that the answer may take.")
    var timeout = 2.0

    @Option(help: "File with the server's public key; with --curve-client, for an encrypted endpoint.")
    var curveServer: String?

    @Option(help: "File with the keys to show.")
    var curveClient: String?

    @Flag(help: "Any answer will do, also that of a server which is about to stop.")
    var live = false

    mutating func validate() throws {
        endpoint = address ?? endpoint
        guard timeout > 0, timeout <= 86_400 else {
            throw ValidationError("--timeout is \(timeout); it has to be more than 0 and at most 86400")
        }
    }

    func run() throws {
        let endpoint = endpoints(endpoint.map { [$0] } ?? [])[0]
        // Over ipc nothing is encrypted, so the variables for tcp endpoints don't apply.
        let curve = endpoint.hasPrefix("ipc://") ? nil : try curve()
        switch try probe(endpoint, curve: curve, timeout: .seconds(timeout)) {
        case .ready(let version):
            print("ready: twofold-server \(version) at \(endpoint)")
        case .notReady(let reason):
            print("not ready: \(endpoint): \(reason)")
            if !live { throw ExitCode(2) }
        case .rejected(let reason):
            print("no answer from \(endpoint): \(reason), or something else listens there")
            throw ExitCode(1)
        case .unreachable:
            print("no answer from \(endpoint): nothing accepts connections there; is a server running?")
            throw ExitCode(1)
        case .silent:
            // because: if the server closes the connection early, libzmq may not learn why.
            let mayRequireKey = curve == nil && endpoint.hasPrefix("tcp://")
            let advice = mayRequireKey ? "; if it requires a key, pass --curve-server and --curve-client" : ""
            print("no answer from \(endpoint) in \(timeout) s\(advice)")
            throw ExitCode(1)
        }
    }

    private func curve() throws -> (server: CurvePublicKey, client: CurveKeyPair)? {
        switch (try setting(curveServer, "CURVE_SERVER"), try setting(curveClient, "CURVE_CLIENT")) {
        case (let server?, let client?):
            return (try CurveFiles.readPublic(server), try CurveFiles.readSecret(client))
        case (nil, nil): return nil
        default: throw ValidationError("--curve-server and --curve-client belong together")
        }
    }
}
