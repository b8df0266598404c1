internal import FoundationEssentials
internal import Glibc

/// The file of an ipc endpoint, held by a lock beside it for as long as it is served.
///
/// libzmq takes over an ipc path silently, whatever is there. So before binding: a lock file that only
/// one server can hold, and a look at what is in the path's place: a live socket of somebody else, or a
/// file that is no socket, is refused; a dead socket is cleared away.
///
/// Let it go only after the context is gone: libzmq removes the socket's file on a thread of its own,
/// and would remove the one of the next server there.
final class IPCPath {
    /// Longest path that fits a Unix socket's address.
    static let maxLength = 107

    private let path: String
    private let lock: Int32

    /// Claims the path; throws a ``ServerError`` that says why it can't be had.
    init(_ path: String) throws(ServerError) {
        guard path.utf8.count <= Self.maxLength else {
            throw ServerError(
                "the ipc path '\(path)' has \(path.utf8.count) bytes; at most \(Self.maxLength) fit a socket")
        }
        let lock = try Self.holdLock(path + ".lock", for: path)
        do throws(ServerError) {
            try Self.clearAway(path)
        } catch {
            unlink(path + ".lock")
            close(lock)
            throw error
        }
        self.path = path
        self.lock = lock
    }

    deinit {
        // The lock file goes first and while it is still held, so that whoever waits for it finds
        // either it or its absence, and never a socket without its lock.
        unlink(path)
        unlink(path + ".lock")
        close(lock)
    }

    private static func holdLock(_ lockPath: String, for path: String) throws(ServerError) -> Int32 {
        while true {
            let lock = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard lock >= 0 else {
                throw ServerError("can't create '\(lockPath)': \(ServerError.reason)")
            }
            guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
                close(lock)
                throw ServerError("the ipc path '\(path)' is served by another process")
            }
            // Between open and flock its owner may have removed the file: then the lock means nothing.
            var held = stat()
            var there = stat()
            if fstat(lock, &held) == 0, stat(lockPath, &there) == 0, held.st_ino == there.st_ino {
                return lock
            }
            close(lock)
        }
    }

    private static func clearAway(_ path: String) throws(ServerError) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw ServerError("the ipc path '\(path)' exists and is not a socket; it is left alone")
        }
        guard !isAnswered(path) else {
            throw ServerError("the ipc path '\(path)' is served by another process")
        }
        unlink(path)
    }

    /// Whether somebody has this Unix socket open. Only a refused connection says that nobody has: a
    /// socket of another type, for instance, is alive and can't be connected to. Never waits.
    private static func isAnswered(_ path: String) -> Bool {
        let probe = socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard probe >= 0 else { return true }
        defer { close(probe) }
        return withAddress(path) { connect(probe, $0, $1) } == 0 || errno != ECONNREFUSED
    }

    /// Calls `body` with a path's address and its size.
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
