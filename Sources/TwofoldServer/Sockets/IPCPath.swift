internal import Platform

/// The socket file of an ipc endpoint. While the server uses the endpoint, it holds a lock file next to the socket.
///
/// libzmq silently takes over an ipc path that already exists. Two checks therefore precede the binding. First, the
/// server must get the lock, which only one server can hold. Second, the path must be free: a live socket of another
/// process, or a file that is not a socket, is an error. A dead socket is removed.
///
/// Release the path only after the context has ended. libzmq removes the socket's file on its own thread, and would
/// otherwise remove the next server's file.
final class IPCPath {
    /// The maximum length in bytes of a Unix socket's path.
    static let maxLength = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    private let path: String
    private let lock: Descriptor

    /// Claims the path. Throws the reason if the path is unavailable.
    init(_ path: String) throws(Reason) {
        guard path.utf8.count <= Self.maxLength else {
            throw Reason(
                "the ipc path '\(path)' has \(path.utf8.count) bytes; a socket's path has at most "
                    + "\(Self.maxLength)")
        }
        let lockPath = Self.lockPath(path)
        guard
            let lock = try explaining(
                "can't create '\(lockPath)'",
                { () throws(SystemError) in try Descriptor.locking(lockPath, mode: 0o600) })
        else { throw Self.served(path) }
        do throws(Reason) {
            try Self.clearAway(path)
        } catch {
            unlink(Self.lockPath(path))
            throw error
        }
        self.path = path
        self.lock = lock
    }

    deinit {
        // Both files are removed while the lock is still held, the socket first. Another process therefore never
        // finds the socket without its lock file.
        unlink(path)
        unlink(Self.lockPath(path))
    }

    private static func lockPath(_ path: String) -> String { path + ".lock" }

    private static func served(_ path: String) -> Reason {
        Reason("another process serves the ipc path '\(path)'; stop it, or choose another path")
    }

    private static func clearAway(_ path: String) throws(Reason) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw Reason("the ipc path '\(path)' exists and is not a socket; choose another path")
        }
        guard !isAnswered(path) else { throw served(path) }
        unlink(path)
    }

    /// Returns true if a process may be using this Unix socket. Only a refused connection proves that no process does:
    /// a connection to a socket of another type, for example, fails even if the socket is in use. Never waits.
    private static func isAnswered(_ path: String) -> Bool {
        do throws(SystemError) {
            let probe = try Descriptor.unixSocket()
            try system { withAddress(path) { connect(probe.number, $0, $1) } }
            return true
        } catch {
            return error.code != ECONNREFUSED
        }
    }

    /// Calls `body` with the address of a Unix socket's path, and the size of the address.
    static func withAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
