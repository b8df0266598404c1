package import FoundationEssentials
internal import Platform

/// The files of one state directory. An implementation uses the file system or a simulation.
package protocol StateFiles: AnyObject {
    /// The names of all files, sorted.
    var names: [String] { get }
    /// Returns the size of a file in bytes; nil if it cannot be read.
    func size(_ name: String) -> Int?
    /// Reads `count` bytes starting at `offset`, or fewer at the end of the file. Returns nil if the file cannot be
    /// read.
    func read(_ name: String, at offset: Int, count: Int) -> Data?
    /// Appends the parts to a file in order. Creates the file if necessary. If not all bytes can be
    /// written, the file is unchanged, or empty if it is new.
    func append(_ parts: [Data], to name: String) throws
    /// Replaces bytes of a file. The file's size stays the same.
    func overwrite(_ bytes: Data, at offset: Int, in name: String) throws
    /// Forces a file's content to disk, so that it survives a power failure.
    func flush(_ name: String) throws
    /// Removes a file. Returns false if the file cannot be removed.
    func remove(_ name: String) -> Bool
    /// Forces the directory's entries to disk, so that they survive a power failure.
    func settle()
}

/// The files of a state directory in the file system. The directory is locked for this process.
final class SystemStateFiles: StateFiles {
    private let path: String
    private let lock: Descriptor

    /// Creates the directory if necessary and locks it. Throws if the directory cannot be used, or if another
    /// server uses it.
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
        // because: an unlisted directory would count as empty, and its sessions as lost.
        try explaining("can't list the state directory '\(path)'") { () throws(SystemError) in
            _ = try Descriptor(opening: path + "/.", O_RDONLY | O_DIRECTORY)
        }
        self.path = path
        self.lock = lock
    }

    var names: [String] { (try? FileManager.default.contentsOfDirectory(atPath: path))?.sorted() ?? [] }

    func size(_ name: String) -> Int? {
        try? Descriptor(opening: path + "/" + name, O_RDONLY | O_NONBLOCK).regularFileSize
    }

    func read(_ name: String, at offset: Int, count: Int) -> Data? {
        guard let file = try? Descriptor(opening: path + "/" + name, O_RDONLY | O_NONBLOCK) else {
            return nil
        }
        var bytes = Data(count: count)
        guard let read = try? bytes.withUnsafeMutableBytes({ try file.read(into: $0, at: offset) }) else {
            return nil
        }
        return bytes.prefix(read)
    }

    func append(_ parts: [Data], to name: String) throws {
        let file = try Descriptor(opening: path + "/" + name, O_WRONLY | O_CREAT, mode: 0o600)
        let size = try file.regularFileSize
        var end = size
        do {
            for part in parts {
                try part.withUnsafeBytes { try file.write($0, at: end) }
                end += part.count
            }
        } catch {
            try system(named: "ftruncate") { ftruncate(file.number, size) }
            throw error
        }
    }

    func overwrite(_ bytes: Data, at offset: Int, in name: String) throws {
        let file = try Descriptor(opening: path + "/" + name, O_WRONLY)
        try bytes.withUnsafeBytes { try file.write($0, at: offset) }
    }

    func flush(_ name: String) throws {
        try Descriptor(opening: path + "/" + name, O_RDONLY).flush()
    }

    func remove(_ name: String) -> Bool { unlink(path + "/" + name) == 0 }

    func settle() {
        // because: nothing can be done about a failure. A power failure may then lose a session, or a session may
        // be restored twice. The dot makes `open` follow the path if it is a symbolic link.
        try? Descriptor(opening: path + "/.", O_RDONLY | O_DIRECTORY).flush()
    }
}
