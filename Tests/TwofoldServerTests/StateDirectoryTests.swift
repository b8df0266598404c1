import Foundation
import Platform
import Testing
import TwofoldCore
import TwofoldProtocol

@testable import TwofoldServer

@Suite struct StateDirectoryTests {
    private let scratch = ScratchDirectory()
    private let directory: StateDirectory

    init() throws { directory = StateDirectory(try SystemStateFiles(scratch.path)) }

    private func session(_ number: UInt8) -> SavedSession {
        var session = SavedSession()
        session.id = Data(repeating: number, count: 16)
        session.lanes = Data(repeating: number, count: 100 * Int(number))
        return session
    }

    private func write(_ numbers: ClosedRange<UInt8>) throws -> String {
        let name = directory.newName
        for number in numbers { try directory.append(session(number), to: name) }
        try directory.settle(name)
        return name
    }

    private func read(_ name: String) -> [SavedSession?] {
        directory.records(of: name).map { try? directory.session(at: $0.get(), in: name) }
    }

    /// Returns the reasons why sessions can't be read.
    private func reasons(_ name: String) -> [String] {
        directory.records(of: name).compactMap { record in
            do throws(Reason) { _ = try directory.session(at: record.get(), in: name) } catch {
                return error.description
            }
            return nil
        }
    }

    private func path(_ name: String) -> String { scratch.path + "/" + name }

    @Test func `a stop saves all sessions in one file, in order, for its owner only`() throws {
        let name = try write(1...9)
        #expect(directory.fileNames == [name])
        #expect(read(name) == (1...9).map { session($0) })
        var status = stat()
        #expect(stat(path(name), &status) == 0 && status.st_mode & 0o777 == 0o600)
        try directory.remove([], from: name, isEmptied: true)
        #expect(directory.fileNames == [])
    }

    @Test func `all sessions that a truncated file contains completely can be read`() throws {
        let name = try write(1...3)
        let whole = try Data(contentsOf: URL(filePath: path(name)))
        let ends = try directory.records(of: name).map { try $0.get().range.upperBound }
        for size in 1..<whole.count {
            try whole.prefix(size).write(to: URL(filePath: path(name)))
            var expected: [SavedSession?] = zip(1...3, ends).filter { $0.1 <= size }.map { session($0.0) }
            if !ends.contains(size) { expected.append(nil) }
            #expect(read(name) == expected, "\(size) bytes")
            let rest = size - (ends.last { $0 <= size } ?? 0)
            if rest >= 8 { #expect(reasons(name) == ["it is incomplete"], "\(size) bytes") }
        }
    }

    @Test func `a session of another version is not read, and the reason names both versions`() throws {
        let name = try write(1...1)
        var bytes = try Data(contentsOf: URL(filePath: path(name)))
        bytes[8] = 3
        try bytes.write(to: URL(filePath: path(name)))
        #expect(reasons(name) == ["it has version 3; this server reads version 2"])
    }

    @Test func `a flipped bit loses one session and, in a header, also the following sessions`() throws {
        let name = try write(1...3)
        let whole = try Data(contentsOf: URL(filePath: path(name)))
        let second = try directory.records(of: name)[1].get().range
        for offset in second {
            var damaged = whole
            damaged[offset] ^= 4
            try damaged.write(to: URL(filePath: path(name)))
            var expected = [session(1), nil]
            if offset >= second.lowerBound + 28 { expected.append(session(3)) }
            #expect(read(name) == expected, "at \(offset)")
        }
    }

    @Test func `restored sessions are removed from a file that keeps others`() throws {
        let name = try write(1...5)
        let records = try directory.records(of: name).map { try $0.get().range }
        let size = try Data(contentsOf: URL(filePath: path(name))).count
        try directory.remove([records[0], records[2], records[4]], from: name, isEmptied: false)
        #expect(read(name) == [session(2), session(4)])
        #expect(try Data(contentsOf: URL(filePath: path(name))).count == size)
        try directory.remove([records[1], records[3]], from: name, isEmptied: false)
        #expect(read(name) == [])
        try directory.remove([], from: name, isEmptied: true)
        #expect(directory.fileNames == [])
    }

    @Test func `an incomplete session hides no complete one`() throws {
        let (first, second) = (try write(1...2), try write(3...3))
        let whole = try Data(contentsOf: URL(filePath: path(first)))
        try whole.dropLast().write(to: URL(filePath: path(first)))
        let begin = try #require(directory.records(of: first).first).get().range
        try directory.remove([begin], from: first, isEmptied: false)
        #expect(read(first) == [nil])
        #expect(read(second) == [session(3)])
    }

    @Test func `a session that does not fit on the disk leaves its file unchanged`() async {
        await #expect(processExitsWith: .success) {
            let tests = try StateDirectoryTests()
            let name = try tests.write(1...1)
            // With a limit on the size of files, larger writes fail as on a full disk.
            signal(SIGXFSZ, SIG_IGN)
            var limit = rlimit(rlim_cur: 1000, rlim_max: 1000)
            try system { setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) }
            #expect(throws: SystemError.self) { try tests.directory.append(tests.session(20), to: name) }
            try tests.directory.append(tests.session(2), to: name)
            #expect(tests.read(name) == [tests.session(1), tests.session(2)])
        }
    }

    @Test func `an empty file has no sessions`() throws {
        try Data().write(to: URL(filePath: path("1.sessions")))
        #expect(directory.fileNames == ["1.sessions"])
        #expect(read("1.sessions") == [])
    }

    @Test func `a FIFO or a folder with a session's name does not block the start`() throws {
        #expect(mkfifo(path("1.sessions"), 0o600) == 0)
        #expect(mkdir(path("2.sessions"), 0o700) == 0)
        #expect(read("1.sessions") == [nil])
        #expect(read("2.sessions") == [nil])
    }
}
