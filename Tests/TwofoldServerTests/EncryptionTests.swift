import Foundation
import Logging
import Platform
import Synchronization
import Testing
import TwofoldCore
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer

@Suite struct EncryptionTests {
    private let directory = ScratchDirectory()
    private let server = try! CurveKeyPair()
    private let alice = try! CurveKeyPair()
    private let eve = try! CurveKeyPair()

    // MARK: the list of clients

    @Test func `a list has a key and a name on each line, and comments`() throws {
        let (one, other) = (alice.publicKey, eve.publicKey)
        let text =
            "# a comment\n\n#\(server.publicKey) not this one\n\(one)   Alice of the first floor  \n\(other)\n"
        for lineBreak in ["\n", "\r\n"] {
            let path = try directory.write("clients", text.replacing("\n", with: lineBreak))
            #expect(
                try CurveFiles.readAllowed(path) == [
                    one.description: "Alice of the first floor",
                    other.description: String(other.description.prefix(8)),
                ])
        }
    }

    @Test func `a file that is too long is not read completely`() throws {
        let text = String(repeating: "#\n", count: CurveFiles.maxBytes / 2 + 1)
        let path = try directory.write("clients", text)
        let error = try #require(throws: Reason.self) { try CurveFiles.readAllowed(path) }
        #expect(error.description.contains("'\(path)' has more than \(CurveFiles.maxBytes) bytes"))
        #expect(throws: Reason.self) { try CurveFiles.readAllowed("/dev/zero") }
        truncate(path, CurveFiles.maxBytes)
        #expect(try CurveFiles.readAllowed(path).isEmpty)
    }

    @Test func `the error for a line without a key has its number, but not its text`() throws {
        let path = try directory.write("clients", "\(alice.publicKey) alice\nnonsense here\n")
        let error = try #require(throws: Reason.self) { try CurveFiles.readAllowed(path) }
        #expect(error.description.contains("line 2 of '\(path)'"))
        #expect(!error.description.contains("nonsense"))
    }

    @Test func `the error for a key file instead of a list says that it is a key file`() throws {
        let path = directory.path + "/alice"
        _ = try CurveFiles.generate(path)
        let error = try #require(throws: Reason.self) { try CurveFiles.readAllowed(path + ".key") }
        #expect(error.description.contains("'\(path).key' is a key file"))
    }

    @Test func `a missing file is reported`() {
        let error = #expect(throws: Reason.self) { try CurveFiles.readAllowed("/no/such/list") }
        #expect(error?.description.contains("/no/such/list") == true)
    }

    // MARK: key files

    @Test func `a written pair of keys can be read, and no file is overwritten`() throws {
        let path = directory.path + "/key"
        let key = try CurveFiles.generate(path)
        #expect(try CurveFiles.readPublic(path + ".key") == key)
        #expect(try CurveFiles.readSecret(path + ".key_secret").publicKey == key)
        #expect(try CurveFiles.readPublic(path + ".key_secret") == key)
        #expect(CurveFiles.isReadableByOthers(path + ".key"))
        #expect(!CurveFiles.isReadableByOthers(path + ".key_secret"))
        #expect(throws: Reason.self) { try CurveFiles.generate(path) }
        #expect(throws: Reason.self) { try CurveFiles.readSecret(path + ".key") }
        unlink(path + ".key_secret")
        #expect(throws: Reason.self) { try CurveFiles.generate(path) }
        #expect(access(path + ".key_secret", F_OK) != 0, "an incomplete pair is removed")
        #expect(try CurveFiles.readPublic(path + ".key") == key)
    }

    // MARK: the server

    @Test func `with encryption, tcp accepts the listed clients, and ipc accepts all`() throws {
        let clients = try directory.write("clients", "\(alice.publicKey) alice\n")
        let (keys, alice, eve) = (server, alice, eve)
        let running = try RunningServer("tcp://127.0.0.1:0", directory.ipc()) {
            $0.encryption = (keys, clients)
        }
        let (tcp, ipc) = (running.endpoints[0], running.endpoints[1])
        let ready = ProbeResult.ready(version: EnvironmentService.version)
        #expect(try probe(tcp, curve: (keys.publicKey, alice), timeout: patience) == ready)
        #expect(try probe(ipc, timeout: patience) == ready)
        let short = Duration.milliseconds(500)
        #expect(try probe(tcp, timeout: short) == .silent)
        #expect(try probe(tcp, curve: (eve.publicKey, alice), timeout: short) == .silent)
        var counters = StatsReply().counters
        var asked: UInt64 = 0
        let isRefused = try eventually {
            #expect(try probe(tcp, curve: (keys.publicKey, eve), timeout: short) == .silent)
            asked += 1
            counters = try Peer(to: ipc).ask(Request(.stats(.init()))).reply.stats.counters
            return counters.keysRefused > 0
        }
        #expect(isRefused)
        #expect(counters.received == 2 + asked, "no other request was received")
    }

    @Test func `a refused key is logged once a minute, and again after the list was reread`() throws {
        let lines = Mutex<[String]>([])
        let logger = Logger(label: "test") { _ in Lines { line in lines.withLock { $0.append(line) } } }
        func key(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 32) }
        let (alice, bob, eve) = (key(1), key(2), key(3))
        func line(_ key: [UInt8]) throws -> String { "\(try #require(CurvePublicKey(bytes: key)))\n" }
        let path = try directory.write("clients", line(alice))
        let context = try Context()
        let authenticator = try Authenticator(path, in: context, logger: logger)
        let client = try Socket(.req, in: context)
        try client.connect("inproc://zeromq.zap.01")
        /// Asks the authenticator about a client, like libzmq. Returns true if the client is authorised.
        func ask(_ key: [UInt8], at second: Int) throws -> Bool {
            var message = Multipart()
            let texts = ["1.0", "7", Authenticator.domain, "10.0.0.1", "", "CURVE"]
            for frame in texts.map({ Array($0.utf8) }) + [key] {
                message.append(try Message(copying: frame))
            }
            try client.send(&message, within: patience)
            try authenticator.answer(at: Moment(nanoseconds: 0) + .seconds(second))
            var reply = Multipart()
            try client.receive(into: &reply, within: patience)
            return reply[2].withUnsafeBytes { Array($0) == Array("200".utf8) }
        }
        func count(_ text: String) -> Int { lines.withLock { $0.count { $0.contains(text) } } }
        let report = "refused a client whose key is not authorised"
        for (second, reports) in [(0, 1), (59, 1), (60, 2), (61, 2)] {
            #expect(try !ask(eve, at: second) && ask(alice, at: second))
            #expect(count(report) == reports)
        }
        // A list that can't be read changes nothing.
        try directory.write("clients", "nonsense\n")
        func reload(until text: String) {
            authenticator.reload()
            let isReread = eventually {
                authenticator.replaceList()
                return count(text) > 0
            }
            #expect(isReread)
        }
        reload(until: "can't reread the list of client keys")
        #expect(try !ask(eve, at: 62) && ask(alice, at: 62))
        #expect(count(report) == 2)
        try directory.write("clients", line(bob))
        reload(until: "the list of client keys was reread")
        #expect(count("reread added=1 keys=1 removed=1") == 1)
        #expect(try ask(bob, at: 63) && !ask(alice, at: 63) && !ask(eve, at: 63))
        #expect(count(report) == 4 && authenticator.refused == 7)
        // A list without keys is read, too.
        try directory.write("clients", "# nobody\n")
        reload(until: "the list of client keys is empty")
        #expect(try !ask(bob, at: 64))
    }

    @Test func `lists that are reloaded one after another are applied in order`() throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let path = try directory.write("clients", "")
        let authenticator = try Authenticator(path, in: Context(), logger: logger)
        authenticator.reload()
        // The first list must have been read before the second one is written.
        #expect(eventually { isReadable(authenticator.lists.descriptor) })
        try directory.write("clients", "\(alice.publicKey) alice\n")
        authenticator.reload()
        let isReread = eventually {
            authenticator.replaceList()
            return !authenticator.names.isEmpty
        }
        #expect(isReread)
    }

    @Test func `a server whose list can't be read does not start`() throws {
        let keys = server
        #expect(throws: Reason.self) {
            try RunningServer("tcp://127.0.0.1:0") {
                $0.encryption = (keys, "/no/such/list")
            }
        }
    }

    @Test(arguments: [
        ("tcp://0.0.0.0:0", true), ("tcp://*:0", true), ("tcp://127.0.0.1:0", false),
        ("tcp://lo:0", false),
    ])
    func `listening to all hosts without encryption logs a warning`(endpoint: String, isLoud: Bool) throws {
        let process = try ServerProcess("serve", "--endpoint", endpoint)
        _ = try process.endpoints()
        try process.stop()
        #expect(
            process.standardError.contains(/\ warning ANYBODY WHO REACHES tcp:\/\/\S+ CAN USE THIS SERVER/)
                == isLoud, "\(process.standardError)")
    }

    @Test func `with encryption there is no warning`() throws {
        let path = directory.path + "/server"
        _ = try CurveFiles.generate(path)
        let clients = try directory.write("clients", "\(alice.publicKey) alice\n")
        let process = try ServerProcess(
            "serve", "--endpoint", "tcp://0.0.0.0:0", "--curve-secret-key", path + ".key_secret",
            variables: ["CURVE_CLIENTS": clients])
        _ = try process.endpoints()
        try process.stop()
        #expect(!process.standardError.contains("warning"), "\(process.standardError)")
        #expect(process.standardError.contains(/listening on tcp:\S+ encrypted=yes/))
    }

    @Test func `a key without a list and a list without a key are usage errors`() throws {
        for option in ["--curve-secret-key", "--curve-clients"] {
            let process = try ServerProcess("serve", "--endpoint", directory.ipc(), option, "/a/file")
            #expect(try process.exit() == .code(64))
            #expect(process.standardError.contains("pass both --curve-secret-key and --curve-clients"))
        }
    }

    @Test(arguments: [0o640, 0o604] as [mode_t])
    func `a secret key that other users can read is reported`(mode: mode_t) throws {
        let path = directory.path + "/server"
        _ = try CurveFiles.generate(path)
        chmod(path + ".key_secret", mode)
        let clients = try directory.write("clients", "")
        let process = try ServerProcess(
            "serve", "--endpoint", directory.ipc(), "--curve-secret-key", path + ".key_secret",
            "--curve-clients", clients)
        _ = try process.endpoints()
        try process.stop()
        #expect(process.standardError.contains("other users can read the secret key"))
        #expect(process.standardError.contains("the list of client keys is empty"))
        #expect(process.standardError.contains(/listening on ipc:\S+ encrypted=no/))
    }

    @Test func `a file without a secret key is reported once`() throws {
        let path = directory.path + "/server"
        _ = try CurveFiles.generate(path)
        let process = try ServerProcess(
            "serve", "--endpoint", directory.ipc(), "--curve-secret-key", path + ".key",
            "--curve-clients", path + ".key")
        #expect(try process.exit() != .code(0))
        #expect(process.standardError.contains("has no secret key"))
        #expect(!process.standardError.contains("other users can read"))
    }
}
