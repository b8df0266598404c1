import Foundation
import Platform
import Testing

@testable import TwofoldServer

@Suite struct IPCPathTests {
    private let directory = ScratchDirectory()

    private var path: String { directory.path + "/s" }

    private func refusal(of path: String) throws -> String {
        try #require(throws: Reason.self) { _ = try IPCPath(path) }.description
    }

    @Test func `a lock file claims a free path, and no file remains afterwards`() throws {
        do {
            let claim = try IPCPath(path)
            #expect(directory.files == ["s.lock"])
            withExtendedLifetime(claim) {}
        }
        #expect(directory.files == [])
    }

    @Test func `the owner's end removes the file at the path and no other file`() throws {
        try directory.write("s2", "mine")
        try directory.write("s.lock2", "mine")
        do {
            let claim = try IPCPath(path)
            let listener = try UnixSocket(.stream, at: path)
            #expect(directory.files == ["s", "s.lock", "s.lock2", "s2"])
            withExtendedLifetime((claim, listener)) {}
        }
        #expect(directory.files == ["s.lock2", "s2"])
    }

    @Test func `a path of 107 bytes fits, and a path of 108 bytes is refused`() throws {
        let longest = path + String(repeating: "x", count: IPCPath.maxLength - path.utf8.count)
        #expect(longest.utf8.count == 107)
        do {
            let claim = try IPCPath(longest)
            withExtendedLifetime(claim) {}
        }
        #expect(try refusal(of: longest + "x").contains("108 bytes"))
        // The limit counts bytes, not characters.
        let umlauts = path + String(repeating: "ü", count: 53)
        #expect(umlauts.count < 107 && umlauts.utf8.count > 107)
        #expect(try refusal(of: umlauts).contains("107"))
        #expect(directory.files == [])
    }

    @Test func `a claimed path is refused, and its owner keeps it`() throws {
        do {
            let claim = try IPCPath(path)
            try directory.write("s", "")
            for _ in 0..<2 { #expect(try refusal(of: path).contains("another process serves the ipc path")) }
            #expect(directory.files == ["s", "s.lock"])
            withExtendedLifetime(claim) {}
        }
        // The path is available once its owner is gone.
        withExtendedLifetime(try IPCPath(path)) {}
    }

    @Test func `another spelling of a claimed path is refused too`() throws {
        let claim = try IPCPath(path)
        #expect(try refusal(of: directory.path + "/./s").contains("another process serves the ipc path"))
        withExtendedLifetime(claim) {}
    }

    @Test(arguments: UnixSocket.Kind.allCases)
    func `a live socket without our lock is refused and left alone`(kind: UnixSocket.Kind) throws {
        let listener = try UnixSocket(kind, at: path)
        let error = try? refusal(of: path)
        #expect(error?.contains("another process serves the ipc path") == true, "\(error ?? "claimed")")
        #expect(directory.files == ["s"])
        withExtendedLifetime(listener) {}
    }

    @Test(arguments: UnixSocket.Kind.allCases)
    func `a dead socket is removed`(kind: UnixSocket.Kind) throws {
        do { withExtendedLifetime(try UnixSocket(kind, at: path)) {} }
        #expect(directory.files == ["s"])
        let claim = try IPCPath(path)
        #expect(directory.files == ["s.lock"])
        withExtendedLifetime(claim) {}
    }

    @Test func `a regular file is refused and left alone`() throws {
        try directory.write("s", "something dear")
        #expect(try refusal(of: path).contains("not a socket"))
        #expect(directory.files == ["s"])
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "something dear")
    }

    @Test func `a directory and a link are refused and left alone`() throws {
        #expect(mkdir(path, 0o700) == 0)
        #expect(try refusal(of: path).contains("not a socket"))
        #expect(directory.files == ["s"])
        #expect(rmdir(path) == 0)
        let listener = try UnixSocket(.stream, at: directory.path + "/real")
        #expect(symlink(directory.path + "/real", path) == 0)
        #expect(try refusal(of: path).contains("not a socket"))
        #expect(directory.files == ["real", "s"])
        withExtendedLifetime(listener) {}
    }

    @Test func `a lock file without an owner is taken over`() throws {
        try directory.write("s.lock", "")
        do { withExtendedLifetime(try IPCPath(path)) {} }
        #expect(directory.files == [])
    }

    @Test func `a lock file that is a link is refused, so nothing is written elsewhere`() throws {
        #expect(symlink(directory.path + "/elsewhere", path + ".lock") == 0)
        #expect(try refusal(of: path).contains("s.lock"))
        #expect(directory.files == ["s.lock"])
    }

    @Test func `the error names a missing directory`() throws {
        let error = try refusal(of: directory.path + "/none/s")
        #expect(error.contains("/none/s") && error.contains("No such file or directory"))
    }
}
