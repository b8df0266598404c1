import Foundation
import Testing

@testable import Platform

@Suite struct DirectoriesTests {
    /// Calls `body` with the path of an empty directory.
    private func inDirectory(_ body: (String) throws -> Void) throws {
        let path = FileManager.default.temporaryDirectory.path + "/twofold-\(UUID())"
        try #require(mkdir(path, 0o700) == 0)
        defer { try? FileManager.default.removeItem(atPath: path) }
        try body(path)
    }

    private func mode(_ path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode : nil
    }

    @Test(arguments: ["/a", "/a/b/c", "/a/b/", "/a//b/./c//"])
    func `all missing directories of a path are created with its mode`(path: String) throws {
        try inDirectory { root in
            try makeDirectories(root + path, mode: 0o700)
            #expect(mode(root + path) == S_IFDIR | 0o700)
            #expect(mode(root + "/a") == S_IFDIR | 0o700)
        }
    }

    @Test func `existing directories stay unchanged`() throws {
        try inDirectory { root in
            try #require(mkdir(root + "/a", 0o711) == 0 && symlink("a", root + "/link") == 0)
            try makeDirectories(root + "/link/b", mode: 0o700)
            try makeDirectories(root + "/link", mode: 0o700)
            #expect(mode(root + "/a") == S_IFDIR | 0o711)
            #expect(mode(root + "/a/b") == S_IFDIR | 0o700)
        }
    }

    @Test func `a file in place of a directory is an error`() throws {
        try inDirectory { root in
            try #require(symlink("nowhere", root + "/link") == 0)
            close(open(root + "/file", O_CREAT, 0o600))
            for (path, code) in [
                (root + "/file", EEXIST), (root + "/file/a/b", ENOTDIR), (root + "/link", EEXIST),
                ("", ENOENT), ("/proc/twofold/a", ENOENT),
            ] {
                let error = #expect(throws: SystemError.self) { try makeDirectories(path, mode: 0o700) }
                #expect(error?.code == code, "\(path)")
            }
        }
    }
}
