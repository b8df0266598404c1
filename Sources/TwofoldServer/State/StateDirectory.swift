internal import FoundationEssentials
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol

/// The directory where a server saves its sessions when it stops, and from which the next server restores them. A
/// server saves all its sessions in one file. Only the server's user can read the file, because it contains the
/// sessions' secret ids.
///
/// A file is a sequence of records, one for each session. Each record has its own checksums. If a server is killed
/// while it saves, the records written so far are therefore still valid. After a restart, a file stays only if some of
/// its sessions can't be restored. The records of the restored sessions then begin with TWOFOLDR, and later servers
/// skip them.
///
///     0          8         12             16     24            28           28 + size
///     ┌──────────┬─────────┬──────────────┬──────┬─────────────┬────────────┐
///     │ TWOFOLDT │ version │ CRC of the   │ size │ CRC of      │ protobuf   │  SavedSession, in
///     │          │ 2       │ SavedSession │      │ bytes 0-23  │            │  proto/twofold/v1/state.proto
///     └──────────┴─────────┴──────────────┴──────┴─────────────┴────────────┘
///
/// Only one server at a time may use a directory.
package final class StateDirectory {
    private static let magic = Array("TWOFOLDT".utf8)
    /// The first bytes of a record whose session a server has restored. The record's checksum still assumes ``magic``.
    private static let restoredMagic = Array("TWOFOLDR".utf8)
    private static let version: UInt32 = 2
    private static let headSize = 28
    private static let suffix = ".sessions"
    /// The maximum size of a saved session in bytes, which is protobuf's limit.
    private static let maxSize = Int(Int32.max)

    private let files: any StateFiles

    package init(_ files: any StateFiles) { self.files = files }

    /// The names of the files that contain sessions.
    var fileNames: [String] { files.names.filter { $0.hasSuffix(Self.suffix) } }

    /// An unused name for a new file.
    var newName: String {
        let names = files.names
        return (1...).lazy.map { "\($0)\(Self.suffix)" }.first { !names.contains($0) }!
    }

    /// The location of a saved session in a file, and the checksum of its protobuf message.
    struct Record {
        let range: Range<Int>
        fileprivate let checksum: UInt32
    }

    /// Returns the records of a file in order, without the records of restored sessions. If the file or the rest of it
    /// can't be read, the last element is the reason.
    func records(of name: String) -> [Result<Record, Reason>] {
        var records: [Result<Record, Reason>] = []
        do throws(Reason) {
            guard let size = files.size(name) else { throw Reason("it can't be read") }
            var offset = 0
            // A server that found the disk full leaves an empty file behind.
            while offset < size {
                let (record, isRestored) = try record(in: name, at: offset, fileSize: size)
                if !isRestored { records.append(.success(record)) }
                offset = record.range.upperBound
            }
        } catch {
            // Without a valid head, the start of the next record is unknown.
            records.append(.failure(error))
        }
        return records
    }

    private func record(
        in name: String, at offset: Int, fileSize: Int
    ) throws(Reason) -> (Record, isRestored: Bool) {
        guard var head = files.read(name, at: offset, count: Self.headSize) else {
            throw Reason("it can't be read")
        }
        let isRestored = head.starts(with: Self.restoredMagic)
        if isRestored { head.replaceSubrange(..<Self.magic.count, with: Self.magic) }
        guard head.starts(with: Self.magic) else {
            throw Reason("it is not a saved session of a Twofold server")
        }
        guard head.count == Self.headSize else { throw Reason("it is incomplete") }
        let version = head.number(at: 8, as: UInt32.self)
        guard version == Self.version else {
            throw Reason("it has version \(version); this server reads version \(Self.version)")
        }
        guard checksum(head.prefix(24)) == head.number(at: 24, as: UInt32.self) else {
            throw Reason("it is damaged, so the rest of its file can't be read either")
        }
        let count = head.number(at: 16, as: UInt64.self)
        guard count <= fileSize - offset - Self.headSize else { throw Reason("it is incomplete") }
        let range = offset..<offset + Self.headSize + Int(count)
        return (Record(range: range, checksum: head.number(at: 12, as: UInt32.self)), isRestored)
    }

    /// Reads a saved session. Only one session at a time has to fit into memory.
    func session(at record: Record, in name: String) throws(Reason) -> SavedSession {
        let count = record.range.count - Self.headSize
        guard count <= Self.maxSize else { throw Reason("it is larger than a session can be") }
        // The file's bytes, the decoded session, and the session that is made from it. A failed allocation of the first
        // two ends the process.
        guard 3 * count <= availableMemory() else {
            throw Reason("this process has too little memory for its \(count) bytes")
        }
        guard let message = files.read(name, at: record.range.lowerBound + Self.headSize, count: count) else {
            throw Reason("it can't be read")
        }
        guard checksum(message) == record.checksum, let session = SavedSession(bytes: message) else {
            throw Reason("it is damaged")
        }
        return session
    }

    // MARK: writing

    /// Appends a session to a file. The session survives a power failure only after `settle`.
    ///
    /// - Throws: ``Reason``, or an error of ``StateFiles``. In either case, the file is unchanged.
    func append(_ session: SavedSession, to file: String) throws {
        guard let message = session.bytes else { throw Reason("it is too large to be saved") }
        var head = Data(Self.magic)
        head.append(number: Self.version)
        head.append(number: checksum(message))
        head.append(number: UInt64(message.count))
        head.append(number: checksum(head))
        try files.append([head, message], to: file)
    }

    /// Forces the appended sessions to disk, so that they survive a power failure.
    func settle(_ file: String) throws {
        try files.flush(file)
        files.settle()
    }

    /// Removes restored sessions from a file, so that no later server restores them again. Removes the whole file if
    /// `isEmptied` is true, or else marks the sessions' records, which needs no disk space.
    func remove(_ sessions: [Range<Int>], from file: String, isEmptied: Bool) throws {
        guard !isEmptied else {
            guard files.remove(file) else { throw Reason("the file can't be removed") }
            return files.settle()
        }
        for record in sessions {
            try files.overwrite(Data(Self.restoredMagic), at: record.lowerBound, in: file)
        }
        try files.flush(file)
    }
}

private func checksum(_ bytes: Data) -> UInt32 { bytes.withUnsafeBytes(Checksum.of) }

extension Data {
    /// Reads a little-endian number at an offset from the start of the data.
    fileprivate func number<Number: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as _: Number.Type
    ) -> Number {
        withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }

    fileprivate mutating func append(number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}
