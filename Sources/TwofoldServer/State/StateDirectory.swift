internal import FoundationEssentials
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol

/// The directory to which a server saves its sessions when it stops, and from which the next one restores them: a file
/// for each, for the server's user only, since it holds the session's secret id.
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
        // From a server that was killed while it wrote.
        for name in files(with: Self.suffix + ".partial") { unlink(path + "/" + name) }
    }

    /// Whether users other than its owner can look into it.
    var isOpenToOthers: Bool { CurveFiles.isReadableByOthers(path) }

    /// The names of the sessions' files.
    var names: [String] { files(with: Self.suffix) }

    private func files(with suffix: String) -> [String] {
        let all = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        return all.filter { $0.hasSuffix(suffix) }.sorted()
    }

    /// The session in a file.
    func read(_ name: String) throws(ServerError) -> SavedSession {
        guard let data = try? Data(contentsOf: URL(filePath: path + "/" + name)) else {
            throw ServerError("it can't be read")
        }
        guard data.count >= Self.headSize, data.starts(with: Self.magic) else {
            throw ServerError("it is not a session of a Twofold server")
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
        // because: without it a session may be lost or restored twice after a loss of power, and nothing can be done. The
        // dot, since the directory itself may be named by a link.
        try? Descriptor(opening: path + "/.", O_RDONLY | O_DIRECTORY).flush()
    }

    /// Writes a session's file; it is there for good once the directory is settled.
    ///
    /// - Throws: ``ServerError`` or ``SystemError``; nothing is left behind then.
    func write(_ saved: SavedSession) throws {
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
        try data.withUnsafeBytes { try Descriptor.makeFile(at: partial, mode: 0o600, $0) }
        do throws(SystemError) { try system { rename(partial, final) } } catch {
            unlink(partial)
            throw error
        }
    }
}
