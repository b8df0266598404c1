package import FoundationEssentials
internal import Platform

/// The files of one state directory: the system's, or a simulation's.
package protocol StateFiles: AnyObject {
    /// The names of all files, sorted.
    var names: [String] { get }
    /// Bytes in a file; nil if it can't be read.
    func size(_ name: String) -> Int?
    /// Reads `count` bytes from `offset` on, fewer at the file's end; nil if they can't be read.
    func read(_ name: String, at offset: Int, count: Int) -> Data?
    /// Appends bytes to a file, which it makes if necessary. A file that can't take all of them stays as it was.
    func append(_ bytes: Data, to name: String) throws
    /// Returns once everything in the file outlives a loss of power.
    func flush(_ name: String) throws
    /// Removes a file; false if that fails.
    @discardableResult func remove(_ name: String) -> Bool
    /// Makes the names as they are now outlive a loss of power.
    func settle()
}

/// A directory of the system, locked for this process.
final class SystemStateFiles: StateFiles {
    private let path: String
    private let lock: Descriptor

    /// Makes the directory if necessary; throws if it can't be used, or another server uses it.
    init(_ path: String) throws(Reason) {
        try explaining("can't make the state directory '\(path)'") { () throws(SystemError) in
            try makeDirectories(path, mode: 0o700)
        }
        guard
            let lock = try explaining(
                "can't use the state directory '\(path)'",
                { () throws(SystemError) in try Descriptor.locking(path + "/lock", mode: 0o600) })
        else { throw Reason("the state directory '\(path)' is used by another process") }
        self.path = path
        self.lock = lock
    }

    /// Whether users other than its owner can look into it.
    var isOpenToOthers: Bool { CurveFiles.isReadableByOthers(path) }

    var names: [String] { (try? fileNames(in: path))?.sorted() ?? [] }

    func size(_ name: String) -> Int? {
        guard let file = try? Descriptor(opening: path + "/" + name, O_RDONLY | O_NONBLOCK) else {
            return nil
        }
        return try? file.regularFileSize
    }

    func read(_ name: String, at offset: Int, count: Int) -> Data? {
        guard let file = try? Descriptor(opening: path + "/" + name, O_RDONLY | O_NONBLOCK) else {
            return nil
        }
        // A damaged file may be larger than memory, and Data ends the process for want of it.
        guard count <= availableMemory() else { return nil }
        var bytes = Data(count: count)
        guard let read = try? bytes.withUnsafeMutableBytes({ try file.read(into: $0, at: offset) }) else {
            return nil
        }
        return bytes.prefix(read)
    }

    func append(_ bytes: Data, to name: String) throws {
        let file = try Descriptor(opening: path + "/" + name, O_WRONLY | O_CREAT | O_APPEND, mode: 0o600)
        let size = try file.regularFileSize
        do { try bytes.withUnsafeBytes { try file.write($0) } } catch {
            try system(named: "ftruncate") { ftruncate(file.number, size) }
            throw error
        }
    }

    func flush(_ name: String) throws {
        try Descriptor(opening: path + "/" + name, O_RDONLY).flush()
    }

    func remove(_ name: String) -> Bool { unlink(path + "/" + name) == 0 }

    func settle() {
        // because: without it a session may be lost or restored twice after a loss of power, and nothing can be done. The
        // dot, since the directory itself may be named by a link.
        try? Descriptor(opening: path + "/.", O_RDONLY | O_DIRECTORY).flush()
    }
}
