import ArgumentParser
import TwofoldServer

/// The command `twofold-server keygen`.
struct Keygen: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make a pair of CURVE keys, for a server or for a client.",
        discussion: """
            Writes PATH.key_secret, readable by its owner only, and PATH.key, the public key, in the format of \
            ZeroMQ certificates; prints the public key and the file's name, as a line of the list of clients \
            that a server lets in (serve --curve-clients).
            """)

    @Argument(help: "Where to write the keys, without the files' extensions.")
    var path: String

    func run() throws {
        let key = try CurveFiles.generate(path)
        print("\(key) \(path.split(separator: "/").last ?? "")")
    }
}
