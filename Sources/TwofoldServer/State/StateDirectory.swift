internal import FoundationEssentials
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
package final class StateDirectory {
    private static let magic = Array("TWOFOLDT".utf8)
    private static let version: UInt32 = 1
    private static let headSize = 16
    private static let suffix = ".session"

    private let files: any StateFiles

    /// Whatever a server has left that was killed while it wrote is removed.
    package init(_ files: any StateFiles) {
        self.files = files
        for name in files.names where name.hasSuffix(Self.suffix + ".partial") { files.remove(name) }
    }

    /// The names of the sessions' files.
    var names: [String] { files.names.filter { $0.hasSuffix(Self.suffix) } }

    /// The session in a file.
    func read(_ name: String) throws(ServerError) -> SavedSession {
        guard let data = files.read(name) else {
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

    /// Removes a file for good; false when that can't be done.
    func remove(_ name: String) -> Bool {
        guard files.remove(name) else { return false }
        settle()
        return true
    }

    /// Makes the last changes outlive a loss of power.
    func settle() { files.settle() }

    /// Writes a session's file; it is there for good once the directory is settled.
    ///
    /// - Throws: ``ServerError``, or what ``StateFiles`` throw; nothing is left behind then.
    func write(_ saved: SavedSession) throws {
        guard let message = saved.bytes else { throw ServerError("it is too large for a file") }
        var data = Data(Self.magic)
        for number in [Self.version, message.withUnsafeBytes(Checksum.of)] {
            withUnsafeBytes(of: number.littleEndian) { data.append(contentsOf: $0) }
        }
        data.append(contentsOf: message)
        let digits = saved.id.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let final = digits + Self.suffix
        let partial = final + ".partial"
        files.remove(partial)
        try files.make(partial, data)
        do { try files.rename(partial, final) } catch {
            files.remove(partial)
            throw error
        }
    }
}
