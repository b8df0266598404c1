import Foundation

/// Calls `body` with the path of a new root directory that contains these files.
func withRoot<Result>(_ files: [String: String], _ body: (String) throws -> Result) throws -> Result {
    let root = FileManager.default.temporaryDirectory.appending(path: "twofold-\(UUID())")
    defer { try? FileManager.default.removeItem(at: root) }
    for (path, text) in files {
        let file = root.appending(path: path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try text.write(to: file, atomically: false, encoding: .utf8)
    }
    return try body(root.path(percentEncoded: false))
}
