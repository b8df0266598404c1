package import FoundationEssentials
internal import Platform

/// The files of one state directory, either the system's or a simulation's.
package protocol StateFiles: AnyObject {
    /// The names of all files, sorted.
    var names: [String] { get }
    /// Returns the size of a file in bytes; nil if it cannot be read.
    func size(_ name: String) -> Int?
    /// Reads `count` bytes from `offset` on, fewer at the end of the file; nil if they cannot be read.
    func read(_ name: String, at offset: Int, count: Int) -> Data?
    /// Appends bytes to a file, and creates it if necessary. If not all bytes fit, the file is unchanged.
    func append(_ bytes: Data, to name: String) throws
    /// Writes a file to the disk, so that its content survives a loss of power.
    func flush(_ name: String) throws
    /// Removes a file. Returns false if that fails.
    @discardableResult func remove(_ name: String) -> Bool
    /// Writes the names of the files to the disk, so that they survive a loss of power.
    func settle()
}

/// A directory of the file system, locked for this process.
final class SystemStateFiles: StateFiles {
    private let path: String
    private let lock: Descriptor

    /// Creates the directory if necessary. Throws if it cannot be used, or if another server uses it.
    init(_ path: String) throws(Reason) {
        try explaining("can't create the state directory '\(path)'") { () throws(SystemError) in
            try makeDirectories(path, mode: 0o700)
        }
        guard
            let lock = try explaining(
                "can't use the state directory '\(path)'",
                { () throws(SystemError) in try Descriptor.locking(path + "/lock", mode: 0o600) })
        else {
            throw Reason("another process uses the state directory '\(path)'; stop it, or choose another one")
        }
        self.path = path
        self.lock = lock
    }

    /// Whether users other than its owner can read the directory.
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
        // A damaged file may state a size larger than memory, and Data ends the process if it can't allocate.
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
        // because: nothing can be done about a failure; a session may then be lost or restored twice after a
        // loss of power. The dot follows a link, in case the directory is named by one.
        try? Descriptor(opening: path + "/.", O_RDONLY | O_DIRECTORY).flush()
    }
}
