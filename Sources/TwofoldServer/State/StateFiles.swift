package import FoundationEssentials
internal import Platform

/// The files of one state directory: the system's, or a simulation's.
package protocol StateFiles: AnyObject {
    /// The names of all files, sorted.
    var names: [String] { get }
    /// The bytes of a file; nil when they can't be read.
    func read(_ name: String) -> Data?
    /// Makes a file of these bytes, which are on the disk when this returns; none stays behind when it throws.
    func make(_ name: String, _ bytes: Data) throws
    /// Renames a file; in its place there is always either that file or the other.
    func rename(_ name: String, _ other: String) throws
    /// Removes a file; false when that can't be done.
    @discardableResult func remove(_ name: String) -> Bool
    /// Makes the names as they are now outlive a loss of power.
    func settle()
}

/// A directory of the system, locked for this process.
final class SystemStateFiles: StateFiles {
    private let path: String
    private let lock: Descriptor

    /// Makes the directory if it is not there; throws when it can't be used, or another server uses it.
    init(_ path: String) throws(ServerError) {
        try explaining("can't make the state directory '\(path)'") { () throws(SystemError) in
            do throws(SystemError) { try system { mkdir(path, 0o700) } } catch {
                if error.code != EEXIST { throw error }
            }
        }
        lock = try explaining("can't use the state directory '\(path)'") { () throws(SystemError) in
            try Descriptor(opening: path + "/lock", O_RDWR | O_CREAT, mode: 0o600)
        }
        self.path = path
        do throws(SystemError) { try lock.lock() } catch {
            throw ServerError("the state directory '\(path)' is used by another process")
        }
    }

    /// Whether users other than its owner can look into it.
    var isOpenToOthers: Bool { CurveFiles.isReadableByOthers(path) }

    var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
    }

    func read(_ name: String) -> Data? { try? Data(contentsOf: URL(filePath: path + "/" + name)) }

    func make(_ name: String, _ bytes: Data) throws {
        try bytes.withUnsafeBytes { try Descriptor.makeFile(at: path + "/" + name, mode: 0o600, $0) }
    }

    func rename(_ name: String, _ other: String) throws {
        try system { Platform.rename(path + "/" + name, path + "/" + other) }
    }

    func remove(_ name: String) -> Bool { unlink(path + "/" + name) == 0 }

    func settle() {
        // because: without it a session may be lost or restored twice after a loss of power, and nothing can be done. The
        // dot, since the directory itself may be named by a link.
        try? Descriptor(opening: path + "/.", O_RDONLY | O_DIRECTORY).flush()
    }
}
