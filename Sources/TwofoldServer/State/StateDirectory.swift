internal import FoundationEssentials
internal import Glibc
internal import TwofoldCore
internal import TwofoldProtocol

/// The directory that a server writes its sessions to when it stops, and takes them up from at its next
/// start: a file for each, for the server's user only, since it has the session's secret id.
///
///     0          8         12     16
///     ┌──────────┬─────────┬──────┬────────────────────────────────┐
///     │ TWOFOLDT │ version │ CRC  │ protobuf SavedSession          │
///     │          │ 1       │      │ (proto/twofold/v1/state.proto) │
///     └──────────┴─────────┴──────┴────────────────────────────────┘
///
/// A file is whole or not there, and belongs to one server at a time.
final class StateDirectory {
    private static let magic = Array("TWOFOLDT".utf8)
    private static let version: UInt32 = 1
    private static let headSize = 16
    private static let suffix = ".session"

    private let path: String
    private let lock: Int32

    /// Makes the directory if it is not there; throws when it can't be used, or another server uses it.
    init(_ path: String) throws(ServerError) {
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
            throw ServerError("can't make the state directory '\(path)': \(ServerError.reason)")
        }
        lock = open(path + "/lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else {
            throw ServerError("can't use the state directory '\(path)': \(ServerError.reason)")
        }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            close(lock)
            throw ServerError("the state directory '\(path)' is used by another process")
        }
        self.path = path
        // Of a server that was killed while it wrote.
        for name in files(with: Self.suffix + ".partial") { unlink(path + "/" + name) }
    }

    deinit { close(lock) }

    /// Whether others than its owner can look into it.
    var isOpenToOthers: Bool { CurveFiles.isReadableByOthers(path) }

    /// The names of the files that are there.
    var names: [String] { files(with: Self.suffix) }

    private func files(with suffix: String) -> [String] {
        let all = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        return all.filter { $0.hasSuffix(suffix) }.sorted()
    }

    /// What a file holds.
    func read(_ name: String) throws(ServerError) -> SavedSession {
        guard let data = try? Data(contentsOf: URL(filePath: path + "/" + name)) else {
            throw ServerError("it can't be read")
        }
        guard data.count >= Self.headSize, data.starts(with: Self.magic) else {
            throw ServerError("it is no session of a Twofold server")
        }
        let (version, checksum) = data.withUnsafeBytes {
            (
                UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt32.self)),
                UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
            )
        }
        guard version == Self.version else {
            throw ServerError("it is of version \(version); this server reads \(Self.version)")
        }
        let message = data.dropFirst(Self.headSize)
        guard message.withUnsafeBytes(Checksum.of) == checksum,
            let saved = message.withUnsafeBytes({ SavedSession(bytes: $0) })
        else { throw ServerError("it is damaged") }
        return saved
    }

    /// Removes a file; false when that can't be done.
    func remove(_ name: String) -> Bool {
        guard unlink(path + "/" + name) == 0 else { return false }
        settle()
        return true
    }

    /// Makes the last changes outlive a loss of power.
    func settle() {
        let directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { return }
        fsync(directory)
        close(directory)
    }

    /// Writes a session's file; it is there for good once the directory is settled.
    func write(_ saved: SavedSession) throws(ServerError) {
        guard let message = saved.bytes else { throw ServerError("it is too large for a file") }
        var data = Data(Self.magic)
        for number in [Self.version, message.withUnsafeBytes(Checksum.of)] {
            withUnsafeBytes(of: number.littleEndian) { data.append(contentsOf: $0) }
        }
        data.append(contentsOf: message)
        let digits = saved.id.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let final = path + "/" + digits + Self.suffix
        let partial = final + ".partial"
        unlink(partial)
        let file = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw ServerError(ServerError.reason) }
        defer { close(file) }
        guard data.withUnsafeBytes({ writeAll($0, to: file) }), fsync(file) == 0,
            rename(partial, final) == 0
        else {
            let error = ServerError(ServerError.reason)
            unlink(partial)
            throw error
        }
    }
}

/// Writes all of it, however many calls that takes; false when that can't be done.
func writeAll(_ bytes: UnsafeRawBufferPointer, to file: Int32) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = write(file, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return false }
        rest = rest.dropFirst(count)
    }
    return true
}
