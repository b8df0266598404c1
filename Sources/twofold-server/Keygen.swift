import ArgumentParser
import TwofoldServer

/// The command `twofold-server keygen`.
struct Keygen: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make a CURVE key pair for a server or a client.",
        discussion: """
            Writes the secret key to PATH.key_secret, which only its owner can read, and the public key to \
            PATH.key, both in the format of ZeroMQ certificates. Prints the public key and the file's name, \
            as a line for a server's list of authorised clients (serve --curve-clients).
            """)

    @Argument(help: "Path of the key files, without their extensions.")
    var path: String

    func run() throws {
        let key = try CurveFiles.generate(path)
        print("\(key) \(path.split(separator: "/").last ?? "")")
    }
}
