import Foundation
import Platform
import Testing

/// A process of twofold-server. It runs the executable that `swift test` builds next to the tests.
final class ServerProcess {
    let pid: pid_t
    private let files = ScratchDirectory()
    private var status: Int32?

    /// The way in which a process ended.
    enum Exit: Equatable {
        case code(Int32)
        case signal(Int32)
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The server's executable: in the folder of the tests' executable, or else in the checkout's builds.
    static let program: String? = {
        let tests = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
        let checkout = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let candidates = [
            tests, checkout.appending(path: ".build/debug"), checkout.appending(path: ".build/release"),
        ]
        return candidates.map { $0.appending(path: "twofold-server").path(percentEncoded: false) }
            .first { access($0, X_OK) == 0 }
    }()

    /// Starts the server with these arguments and TWOFOLD_ variables. `limit` is an argument of `ulimit`. `output` and
    /// `errors` replace the server's standard output and error.
    convenience init(
        _ arguments: String..., limit: String? = nil, variables: [String: String] = [:], output: Pipe? = nil,
        errors: Pipe? = nil
    ) throws {
        let program = try #require(Self.program, "no twofold-server next to the tests: build it first")
        let shell = limit.map { limit in ["/bin/sh", "-c", "ulimit \(limit); exec \"$0\" \"$@\""] } ?? []
        try self.init(
            command: shell + [program] + arguments, variables: variables, output: output, errors: errors)
    }

    /// Starts any command.
    init(
        command: [String], variables: [String: String] = [:], output: Pipe? = nil, errors: Pipe? = nil
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        for (number, pipe, name) in [(Int32(1), output, "out"), (2, errors, "err")] {
            guard let pipe else {
                posix_spawn_file_actions_addopen(
                    &actions, number, files.path + "/" + name, O_WRONLY | O_CREAT, 0o600)
                continue
            }
            posix_spawn_file_actions_adddup2(&actions, pipe.fileHandleForWriting.fileDescriptor, number)
            // The child inherits only this end of the pipe.
            for end in [pipe.fileHandleForReading, pipe.fileHandleForWriting] {
                _ = fcntl(end.fileDescriptor, F_SETFD, FD_CLOEXEC)
            }
        }
        // Set the signals to the state that a shell sets, because the threads of a test block some of them.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("TWOFOLD_") }
        for (name, value) in variables { environment["TWOFOLD_" + name] = value }
        var pid: pid_t = 0
        let result = Self.withCStrings(command) { command in
            Self.withCStrings(environment.map { "\($0)=\($1)" }) { environment in
                posix_spawn(&pid, command[0]!, &actions, &attributes, command, environment)
            }
        }
        guard result == 0 else { throw Failure(description: String(cString: strerror(result))) }
        self.pid = pid
    }

    deinit {
        guard status == nil else { return }
        kill(pid, SIGKILL)
        waitpid(pid, nil, 0)
    }

    var standardOutput: String { text("out") }
    var standardError: String { text("err") }

    private func text(_ name: String) -> String {
        (try? String(contentsOfFile: files.path + "/" + name, encoding: .utf8)) ?? ""
    }

    /// Waits until the server listens at this many endpoints, and returns them.
    func endpoints(_ count: Int = 1) throws -> [String] {
        let isUp = eventually {
            standardOutput.split(separator: "\n").count >= count && standardOutput.hasSuffix("\n") || hasEnded
        }
        let lines = standardOutput.split(separator: "\n")
        guard isUp, lines.count == count, lines.allSatisfy({ $0.hasPrefix("listening on ") }) else {
            throw Failure(description: "it printed '\(standardOutput)' and '\(standardError)'")
        }
        return lines.map { String($0.dropFirst("listening on ".count)) }
    }

    func signal(_ signal: Int32) { kill(pid, signal) }

    /// Asks the server to stop, and checks that it ends with status 0.
    func stop(sourceLocation: SourceLocation = #_sourceLocation) throws {
        signal(SIGTERM)
        #expect(try exit() == .code(0), sourceLocation: sourceLocation)
    }

    /// The bytes of resident memory.
    var residentBytes: Int {
        let pages = (try? String(contentsOfFile: "/proc/\(pid)/statm", encoding: .utf8))?.split(
            separator: " ")
        return (pages.flatMap { Int($0[1]) } ?? 0) * sysconf(Int32(_SC_PAGESIZE))
    }

    /// Waits for the process to end.
    func exit() throws -> Exit {
        guard eventually({ hasEnded }), let status else { throw Failure(description: "it did not end") }
        return status & 0x7f == 0 ? .code(status >> 8 & 0xff) : .signal(status & 0x7f)
    }

    private var hasEnded: Bool {
        if status != nil { return true }
        var status: Int32 = 0
        if waitpid(pid, &status, WNOHANG) == pid { self.status = status }
        return self.status != nil
    }

    private static func withCStrings<Result>(
        _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let copies = strings.map { strdup($0) } + [nil]
        defer { for copy in copies { free(copy) } }
        return body(copies)
    }
}
