import Foundation
import Platform
import Testing
import TwofoldProtocol
import TwofoldService
import TwofoldTestSupport
import ZeroMQ

@testable import TwofoldServer
@testable import TwofoldSessions

@Suite struct ExecutableTests {
    private let directory = ScratchDirectory()

    private func hello(_ endpoint: String) throws -> HelloReply {
        try Peer(to: endpoint).ask(Request(.hello)).reply.hello
    }

    /// Shrinks a pipe to 8 KB (two pages).
    private func makeSmall(_ pipe: Pipe) {
        // The number is F_SETPIPE_SZ, which Swift's Glibc module does not declare.
        let setSize: Int32 = 1031
        _ = fcntl(pipe.fileHandleForWriting.fileDescriptor, setSize, 8192)
    }

    /// Fills a pipe.
    private func fill(_ pipe: Pipe) {
        makeSmall(pipe)
        let descriptor = pipe.fileHandleForWriting.fileDescriptor
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        while write(descriptor, "x", 1) == 1 {}
        _ = fcntl(descriptor, F_SETFL, 0)
    }

    // MARK: start and stop

    @Test(arguments: [SIGTERM, SIGINT])
    func `the server prints its endpoints, serves, and a signal stops it with status 0`(signal: Int32) throws
    {
        let server = try ServerProcess(
            "serve", "--endpoint", directory.ipc(), "--endpoint", "tcp://127.0.0.1:0")
        let endpoints = try server.endpoints(2)
        #expect(endpoints[0] == directory.ipc())
        #expect(endpoints[1].wholeMatch(of: /tcp:\/\/127\.0\.0\.1:[1-9]\d*/) != nil, "\(endpoints[1])")
        for endpoint in endpoints {
            let player = try Player(Peer(to: endpoint), lanes: 300)
            try player.reset(seed: 1)
            try player.step(turn: 0)
        }
        #expect(directory.files == ["s", "s.lock"])
        server.signal(signal)
        #expect(try server.exit() == .code(0))
        #expect(directory.files == [])
        #expect(
            server.standardOutput == endpoints.map { "listening on \($0)\n" }.joined(), "and nothing else")
    }

    @Test func `after a kill, the next server on the path takes over`() throws {
        for _ in 0..<2 {
            let server = try ServerProcess("serve", "--endpoint", directory.ipc())
            _ = try hello(server.endpoints()[0])
            server.signal(SIGKILL)
            #expect(try server.exit() == .signal(SIGKILL))
            #expect(directory.files == ["s", "s.lock"])
        }
    }

    @Test func `a path that another process serves is refused`() throws {
        let first = try ServerProcess("serve", "--endpoint", directory.ipc())
        _ = try first.endpoints()
        let second = try ServerProcess("serve", "--endpoint", directory.ipc())
        #expect(try second.exit() == .code(1))
        #expect(second.standardError.contains("another process serves the ipc path"))
        #expect(second.standardOutput.isEmpty)
        _ = try hello(directory.ipc())
        try first.stop()
    }

    @Test func `the server ends if its parent is not the given process`() throws {
        let dead = try ServerProcess(command: ["/bin/true"])
        #expect(try dead.exit() == .code(0))
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), "--parent-pid", "\(dead.pid)")
        #expect(try server.exit() == .code(0))
        #expect(directory.files == [])
    }

    @Test func `the server runs as long as its parent, and ends even if nobody reads its log`() throws {
        let program = try #require(ServerProcess.program)
        // The test closes the pipe with the log when it ends the parent.
        let log = Pipe()
        let script = "\"$0\" serve --endpoint \"$1\" --parent-pid $$ >/dev/null & echo $!; wait"
        let parent = try ServerProcess(
            command: ["/bin/sh", "-c", script, program, directory.ipc()], errors: log)
        let isUp = eventually { directory.files == ["s", "s.lock"] }
        #expect(isUp)
        // The server checks for its parent after each reply.
        for _ in 0..<3 { _ = try hello(directory.ipc()) }
        try log.fileHandleForWriting.close()
        try log.fileHandleForReading.close()
        parent.signal(SIGKILL)
        _ = try parent.exit()
        let isGone = eventually { directory.files == [] }
        #expect(isGone, "it left \(directory.files)")
        // Ends the server even if the test fails.
        if !isGone, let pid = pid_t(parent.standardOutput.prefix { $0.isNumber }) { kill(pid, SIGKILL) }
    }

    @Test func `the server survives the end of the process that reads its log`() throws {
        let log = Pipe()
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), errors: log)
        try log.fileHandleForWriting.close()
        let endpoint = try server.endpoints()[0]
        try log.fileHandleForReading.close()
        // Creating a session is logged.
        let player = try Player(Peer(to: endpoint), lanes: 1)
        try player.reset(seed: 1)
        try server.stop()
        #expect(directory.files == [])
    }

    @Test func `an unread log delays nothing, and later reports the number of dropped lines`() throws {
        let log = Pipe()
        makeSmall(log)
        let server = try ServerProcess(
            "serve", "--endpoint", directory.ipc(), "--log-format", "json", errors: log)
        try log.fileHandleForWriting.close()
        let peer = try Peer(to: server.endpoints()[0])
        let player = try Player(peer, lanes: 1)
        try player.reset(seed: 1)
        for turn in 0..<100 {
            // Each session logs two lines.
            try Player(peer, lanes: 1).close()
            try player.step(turn: turn)
        }
        let before = log.fileHandleForReading.availableData
        #expect(before.count > 4096 && before.count <= 8192)
        try player.close()
        try server.stop()
        let after = try #require(try log.fileHandleForReading.readToEnd())
        let objects = try (before + after).split(separator: UInt8(ascii: "\n")).map {
            try #require(try JSONSerialization.jsonObject(with: $0) as? [String: Any])
        }
        let report = try #require(objects.first { ($0["message"] as? String)?.contains("dropped") == true })
        #expect(report["level"] as? String == "warning")
        #expect(try #require(report["lines"] as? Int) > 100)
        #expect(objects.first?["message"] as? String == "starting")
    }

    @Test func `an unread log does not keep a signal from ending the server`() throws {
        let log = Pipe()
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), errors: log)
        _ = try server.endpoints()
        // The pipe is full from now on, regardless of what the server has logged before.
        fill(log)
        try server.stop()
    }

    @Test func `the server serves and ends even if standard output is full`() throws {
        let output = Pipe()
        fill(output)
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), output: output)
        _ = try hello(directory.ipc())
        try server.stop()
    }

    @Test func `the server prints its endpoints as soon as standard output has room`() throws {
        let output = Pipe()
        fill(output)
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), output: output)
        _ = try hello(directory.ipc())
        try output.fileHandleForWriting.close()
        var text = ""
        while !text.hasSuffix("\n") {
            let bytes = output.fileHandleForReading.availableData
            if bytes.isEmpty { break }
            text += String(decoding: bytes, as: UTF8.self)
        }
        #expect(text.drop { $0 == "x" } == "listening on \(directory.ipc())\n")
        try server.stop()
    }

    @Test func `a state directory is created with its parents, for its user only`() throws {
        let state = directory.path + "/a/b/state"
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), "--state-dir", state)
        _ = try server.endpoints()
        try server.stop()
        let mode = try FileManager.default.attributesOfItem(atPath: state)[.posixPermissions] as? Int
        #expect(mode == 0o700)
        #expect(!server.standardError.contains("warning"), "\(server.standardError)")
    }

    @Test func `a state directory that other users can read is reported`() throws {
        chmod(directory.path, 0o750)
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), "--state-dir", directory.path)
        _ = try server.endpoints()
        try server.stop()
        #expect(server.standardError.contains("other users can read the state directory"))
    }

    @Test func `if a session can't be saved, log and exit status report it, and others are saved`()
        throws
    {
        let state = directory.path + "/state"
        // With a limit of 20 KB for files, larger writes fail as on a full disk.
        let server = try ServerProcess(
            "serve", "--endpoint", directory.ipc(), "--state-dir", state, limit: "-f 40")
        let peer = try Peer(to: server.endpoints()[0])
        let large = try Player(peer, lanes: 5000)
        try large.reset(seed: 1)
        let small = try Player(peer, lanes: 1)
        server.signal(SIGTERM)
        #expect(try server.exit() == .code(1))
        let errors = server.standardError.split(separator: "\n").filter { $0.contains(" error ") }
        #expect(errors.count == 1, "\(server.standardError)")
        #expect(
            errors.first?.contains(/session [0-9a-f]{8} can't be saved: File too large/) == true,
            "\(server.standardError)")
        let second = try ServerProcess("serve", "--endpoint", directory.ipc(), "--state-dir", state)
        _ = try second.endpoints()
        #expect(try large.ask(.step, large.actions(turn: 0)).error?.code == .notFound)
        try small.reset(seed: 1)
        try second.stop()
        let restored = /session [0-9a-f]{8} restored boards=1 environment=twofold\/Game2048-v0\n/
        #expect(second.standardError.contains(restored), "\(second.standardError)")
        let ended = /session [0-9a-f]{8} ended: [^\n]* requests=2 seconds=\d+\.\d+\n/
        #expect(second.standardError.contains(ended), "\(second.standardError)")
    }

    // MARK: options and variables

    @Test func `each option has a variable, and the option overrides it`() throws {
        let variables = [
            "ENDPOINT": directory.ipc("a") + "," + directory.ipc("b"), "THREADS": "3",
            "MAX_MESSAGE_BYTES": "100000", "MAX_BOARDS_PER_SESSION": "1001", "MAX_SESSIONS": "7",
            "MAX_SESSIONS_PER_CLIENT": "5", "MAX_BOARDS": "3003", "MAX_BYTES": "5000000",
            "IDLE_TIMEOUT": "60",
            "LOG_LEVEL": "error", "PARENT_PID": "\(getpid())",
        ]
        do {
            let server = try ServerProcess("serve", variables: variables)
            let endpoints = try server.endpoints(2)
            #expect(endpoints == [directory.ipc("a"), directory.ipc("b")])
            let reply = try hello(endpoints[1])
            #expect(reply.threads == 3)
            #expect(reply.limits.maxMessageBytes == 100_000)
            #expect(reply.limits.maxBoardsPerSession == 1001)
            #expect(reply.limits.maxSessions == 7)
            #expect(reply.limits.maxSessionsPerClient == 5)
            #expect(reply.limits.maxBoards == 3003)
            #expect(reply.limits.maxBytes == 5_000_000)
            #expect(reply.limits.idleTimeout == 60)
            try server.stop()
            #expect(server.standardError == "", "errors only")
        }
        let server = try ServerProcess(
            "serve", "--endpoint", directory.ipc("c"), "--threads", "2", "--max-message-bytes", "200000",
            "--max-boards-per-session", "2002", "--max-sessions", "8", "--log-level", "info", "--parent-pid",
            "\(getpid())", variables: variables.merging(["PARENT_PID": "1"]) { $1 })
        let endpoints = try server.endpoints()
        #expect(endpoints == [directory.ipc("c")])
        let reply = try hello(endpoints[0])
        #expect(reply.threads == 2)
        #expect(reply.limits.maxMessageBytes == 200_000)
        #expect(reply.limits.maxBoardsPerSession == 2002)
        #expect(reply.limits.maxSessions == 8)
        try server.stop()
        #expect(server.standardError.contains("starting"))
    }

    @Test func `a session of a private server never times out`() throws {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), "--parent-pid", "\(getpid())")
        #expect(try hello(server.endpoints()[0]).limits.idleTimeout == 0)
    }

    @Test func `without options the server has the defaults`() throws {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), variables: ["THREADS": ""])
        let reply = try hello(server.endpoints()[0])
        #expect(Int(reply.threads) == availableProcessors())
        #expect(reply.limits.maxMessageBytes == 268_435_456)
        #expect(reply.limits.maxBoardsPerSession == 1_048_576)
        #expect(reply.limits.maxSessions == 10_000)
        #expect(reply.limits.maxSessionsPerClient == 1000)
        #expect(reply.limits.maxBoards == 16_777_216)
        // This process and the server use different parts of the memory.
        #expect(abs(Int(reply.limits.maxBytes) - availableMemory() / 2) < 1 << 30)
        #expect(reply.limits.idleTimeout == 86_400)
        #expect(reply.serverVersion == EnvironmentService.version)
    }

    @Test(arguments: [
        ("THREADS", "x"), ("THREADS", "0"), ("THREADS", "-1"), ("THREADS", "1.5"),
        ("MAX_MESSAGE_BYTES", "1e6"),
        ("MAX_BOARDS_PER_SESSION", "0"), ("MAX_BOARDS", "0"), ("MAX_BYTES", "-1"), ("IDLE_TIMEOUT", "-1"),
        ("MAX_SESSIONS_PER_CLIENT", "0"), ("MAX_SESSIONS", "many"), ("MAX_SESSIONS", "99999999999999999999"),
        ("LOG_LEVEL", "loud"), ("LOG_FORMAT", "yaml"), ("PARENT_PID", "me"),
    ])
    func `an invalid variable is reported, and the server does not start`(name: String, value: String) throws
    {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), variables: [name: value])
        #expect(try server.exit() == .code(64), "wrong usage")
        #expect(server.standardOutput.isEmpty)
        let error = server.standardError
        let option = "--" + name.lowercased().replacing("_", with: "-")
        #expect(error.contains("TWOFOLD_" + name) || error.contains(option), "\(error)")
        #expect(error.contains(value), "\(error)")
        #expect(directory.files == [])
    }

    @Test(arguments: [
        ["--threads", "0"], ["--threads", "x"], ["--max-sessions", "-1"], ["--max-message-bytes", "0"],
        ["--max-boards-per-session", "0"], ["--log-level", "loud"], ["--log-format", "yaml"],
        ["--parent-pid", "me"], ["--no-such-option", "1"], ["--endpoint"],
    ])
    func `an invalid option is reported, and the server does not start`(arguments: [String]) throws {
        let program = try #require(ServerProcess.program)
        let server = try ServerProcess(
            command: [program, "serve", "--endpoint", directory.ipc()] + arguments)
        #expect(try server.exit() == .code(64), "wrong usage")
        #expect(server.standardOutput.isEmpty)
        #expect(server.standardError.contains(arguments[0]), "\(server.standardError)")
        #expect(directory.files == [])
    }

    @Test(arguments: [
        "udp://127.0.0.1:5555", "tcp://nonsense", "tcp://127.0.0.1", "tcp://127.0.0.1:99999",
        "ipc://relative", "5555", "",
    ])
    func `a text that is not an endpoint is wrong usage`(endpoint: String) throws {
        for command in ["serve", "ping"] {
            let process = try ServerProcess(command, "--endpoint", endpoint)
            #expect(try process.exit() == .code(64))
            #expect(process.standardOutput.isEmpty)
            #expect(process.standardError.contains("'\(endpoint)' must "), "\(process.standardError)")
        }
    }

    @Test func `an ipc endpoint that is given twice is wrong usage`() throws {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), "--endpoint", directory.ipc())
        #expect(try server.exit() == .code(64))
        #expect(server.standardError.contains("the endpoint '\(directory.ipc())' is given twice"))
        #expect(directory.files == [])
    }

    @Test(arguments: ["tcp://256.1.1.1:5555", "ipc:///no/such/directory/s"])
    func `an unavailable endpoint is reported in one sentence and gives status 1`(
        endpoint: String
    )
        throws
    {
        let server = try ServerProcess("serve", "--endpoint", endpoint, "--log-level", "error")
        #expect(try server.exit() == .code(1))
        #expect(server.standardOutput.isEmpty)
        let reported = endpoint.hasPrefix("ipc:///") ? String(endpoint.dropFirst(6)) : endpoint
        #expect(server.standardError.contains("'" + reported), "\(server.standardError)")
        #expect(server.standardError.split(separator: "\n").count == 1, "\(server.standardError)")
    }

    @Test func `a port in use is reported`() throws {
        let first = try RunningServer("tcp://127.0.0.1:0")
        let second = try ServerProcess("serve", "--endpoint", first.endpoint)
        #expect(try second.exit() == .code(1))
        #expect(
            second.standardError.contains("can't listen on '\(first.endpoint)': Address already in use"),
            "\(second.standardError)")
    }

    @Test func `the option --version prints the version`() throws {
        let server = try ServerProcess("--version")
        #expect(try server.exit() == .code(0))
        #expect(server.standardOutput == EnvironmentService.version + "\n")
    }

    // MARK: the log

    @Test func `a JSON log has one object per line, numbers as numbers, and no session ids`() throws {
        let server = try ServerProcess("serve", "--endpoint", directory.ipc(), "--log-format", "json")
        let player = try Player(Peer(to: server.endpoints()[0]), lanes: 2)
        try player.close()
        try server.stop()
        let lines = server.standardError.split(separator: "\n")
        var messages: [String] = []
        for line in lines {
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
            let fields = try #require(object as? [String: Any])
            let time = try #require(fields["time"] as? String)
            #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil, "\(time)")
            #expect(fields["level"] as? String == "info")
            let message = try #require(fields["message"] as? String)
            messages.append(message)
            if message == "starting" {
                #expect(fields["version"] as? String == EnvironmentService.version)
            }
            if message.contains("created") { #expect(fields["boards"] as? Int == 2) }
            if message.contains("ended") { #expect(fields["seconds"] as? Double != nil) }
            if message == "stopped" {
                #expect(fields["executed"] as? Int == 2 && fields["received"] as? Int == 2)
                #expect(fields["dropped"] as? Int == 0)
            }
        }
        #expect(messages.first == "starting" && messages.last == "stopped")
        #expect(messages.contains { $0.wholeMatch(of: /session [0-9a-f]{8} created/) != nil })
        #expect(messages.contains { $0.wholeMatch(of: /session [0-9a-f]{8} ended: closed/) != nil })
        let hex = player.id.map { String(format: "%02x", $0) }.joined()
        #expect(
            !server.standardError.contains(hex.prefix(8)) && !server.standardError.contains(hex.suffix(8)))
    }

    @Test func `a text log has time, level, message and fields`() throws {
        let server = try ServerProcess(
            "serve", variables: ["ENDPOINT": directory.ipc(), "LOG_FORMAT": "text"])
        _ = try server.endpoints()
        server.signal(SIGINT)
        #expect(try server.exit() == .code(0))
        let lines = server.standardError.split(separator: "\n")
        #expect(lines.first?.wholeMatch(of: /\S+Z info starting version=\S+/) != nil, "\(lines)")
        #expect(lines.last?.contains(" info stopped dropped=0 executed=0 ") == true, "\(lines)")
    }
}
