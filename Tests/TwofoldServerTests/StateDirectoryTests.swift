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
        directory.records(of: name).map { try? $0.session.get() }
    }

    private func path(_ name: String) -> String { scratch.path + "/" + name }

    @Test func `a stop saves all sessions in one file, in order, for its owner only`() throws {
        let name = try write(1...9)
        #expect(directory.fileNames == [name])
        #expect(read(name) == (1...9).map { session($0) })
        var status = stat()
        #expect(stat(path(name), &status) == 0 && status.st_mode & 0o777 == 0o600)
        #expect(try directory.remove([name], keeping: []) == [])
        #expect(directory.fileNames == [])
    }

    @Test func `a truncated file has all sessions that were written completely`() throws {
        let name = try write(1...3)
        let whole = try Data(contentsOf: URL(filePath: path(name)))
        let ends = directory.records(of: name).map(\.range.upperBound)
        for size in 0..<whole.count {
            try whole.prefix(size).write(to: URL(filePath: path(name)))
            var expected: [SavedSession?] = zip(1...3, ends).filter { $0.1 <= size }.map { session($0.0) }
            if !ends.contains(size) { expected.append(nil) }
            #expect(read(name) == expected, "\(size) bytes")
        }
    }

    @Test func `a flipped bit costs one session, and in a head also the following ones`() throws {
        let name = try write(1...3)
        let whole = try Data(contentsOf: URL(filePath: path(name)))
        let second = Array(directory.records(of: name))[1].range
        for offset in second {
            var damaged = whole
            damaged[offset] ^= 4
            try damaged.write(to: URL(filePath: path(name)))
            var expected = [session(1), nil]
            if offset >= second.lowerBound + 28 { expected.append(session(3)) }
            #expect(read(name) == expected, "at \(offset)")
        }
    }

    @Test func `sessions that can't be restored are kept in a separate file`() throws {
        let name = try write(1...5)
        let records = Array(directory.records(of: name))
        #expect(try directory.remove([name], keeping: [records[1], records[3]]) == [])
        #expect(directory.fileNames.count == 1)
        #expect(read(directory.fileNames[0]) == [session(2), session(4)])
        #expect(directory.newName != directory.fileNames[0])
    }

    @Test(arguments: [0, 1 << 40])
    func `the unreadable rest of a file is at most as long as a session can be`(size: UInt64) throws {
        let name = try write(1...1)
        let end = try #require(directory.records(of: name).first { _ in true }).range.upperBound
        var head = Data("TWOFOLDT".utf8)
        for number in [UInt32(2), 0] { withUnsafeBytes(of: number) { head.append(contentsOf: $0) } }
        withUnsafeBytes(of: size) { head.append(contentsOf: $0) }
        withUnsafeBytes(of: head.withUnsafeBytes(Checksum.of)) { head.append(contentsOf: $0) }
        let file = try FileHandle(forUpdating: URL(filePath: path(name)))
        try file.seekToEnd()
        try file.write(contentsOf: size == 0 ? Data() : head)
        try file.truncate(atOffset: 2 << 40)  // without blocks on the disk
        #expect(read(name) == [session(1), nil])
        let rest = Array(directory.records(of: name))[1].range
        #expect(rest == end..<end + (size == 0 ? 1 << 20 : Int(Int32.max)))
    }

    @Test func `a FIFO or a folder with a session's name does not block the start`() throws {
        #expect(mkfifo(path("1.sessions"), 0o600) == 0)
        #expect(mkdir(path("2.sessions"), 0o700) == 0)
        #expect(read("1.sessions") == [nil])
        #expect(read("2.sessions") == [nil])
    }
}
