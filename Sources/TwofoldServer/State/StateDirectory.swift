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
    fileprivate static let magic = Array("TWOFOLDT".utf8)
    /// The first bytes of a record whose session a server has restored. The record's checksum still assumes ``magic``.
    fileprivate static let restoredMagic = Array("TWOFOLDR".utf8)
    fileprivate static let version: UInt32 = 2
    fileprivate static let headSize = 28
    private static let suffix = ".sessions"
    /// The maximum size of a saved session in bytes, which is protobuf's limit.
    fileprivate static let maxSize = Int(Int32.max)

    private let files: any StateFiles

    package init(_ files: any StateFiles) { self.files = files }

    /// The names of the files that contain sessions.
    var fileNames: [String] { files.names.filter { $0.hasSuffix(Self.suffix) } }

    /// An unused name for a new file.
    var newName: String {
        let names = files.names
        return (1...).lazy.map { "\($0)\(Self.suffix)" }.first { !names.contains($0) }!
    }

    /// Returns the records of a file, in the order of the file.
    func records(of name: String) -> Records { Records(files, name) }

    /// A saved session and its location in a file.
    struct Record {
        let range: Range<Int>
        let session: SavedSession
    }

    /// The records of a file, or the reasons why they can't be read. Records whose sessions were restored are left
    /// out. The records are read one at a time, so that a large file does not have to fit into memory.
    struct Records: Sequence, IteratorProtocol {
        private let files: any StateFiles
        private let name: String
        private let size: Int?
        private var offset = 0
        private var hasEnded: Bool

        fileprivate init(_ files: any StateFiles, _ name: String) {
            self.files = files
            self.name = name
            size = files.size(name)
            // A server that found the disk full leaves an empty file behind.
            hasEnded = size == 0
        }

        mutating func next() -> Result<Record, Reason>? {
            while !hasEnded {
                do throws(Reason) {
                    let head = try nextHead()
                    let range = offset..<head.message.upperBound
                    offset = range.upperBound
                    hasEnded = offset == size
                    guard !head.isRestored else { continue }
                    return read(head).map { Record(range: range, session: $0) }
                } catch {
                    // Without a valid head, the start of the next record is unknown.
                    hasEnded = true
                    return .failure(error)
                }
            }
            return nil
        }

        private struct Head {
            let isRestored: Bool
            let checksum: UInt32
            /// The location of the saved session.
            let message: Range<Int>
        }

        private func nextHead() throws(Reason) -> Head {
            guard let size, var head = files.read(name, at: offset, count: StateDirectory.headSize) else {
                throw Reason("it can't be read")
            }
            let isRestored = head.starts(with: StateDirectory.restoredMagic)
            if isRestored { head.replaceSubrange(..<StateDirectory.magic.count, with: StateDirectory.magic) }
            guard head.starts(with: StateDirectory.magic) else {
                throw Reason("it is not a saved session of a Twofold server")
            }
            guard head.count == StateDirectory.headSize else { throw Reason("it is incomplete") }
            let version = head.number(at: 8, as: UInt32.self)
            guard version == StateDirectory.version else {
                throw Reason("it has version \(version); this server reads version \(StateDirectory.version)")
            }
            guard checksum(head.prefix(24)) == head.number(at: 24, as: UInt32.self) else {
                throw Reason("it is damaged, so the rest of its file can't be read either")
            }
            let begin = offset + StateDirectory.headSize
            let count = head.number(at: 16, as: UInt64.self)
            guard count <= size - begin else { throw Reason("it is incomplete") }
            let crc = head.number(at: 12, as: UInt32.self)
            return Head(isRestored: isRestored, checksum: crc, message: begin..<begin + Int(count))
        }

        private func read(_ head: Head) -> Result<SavedSession, Reason> {
            let count = head.message.count
            guard count <= StateDirectory.maxSize else {
                return .failure(Reason("it is larger than a session can be"))
            }
            // The file's bytes, the decoded session, and the session that is made from it. A failed allocation of the
            // first two ends the process.
            guard 3 * count <= availableMemory() else {
                return .failure(Reason("this process has too little memory for its \(count) bytes"))
            }
            guard let message = files.read(name, at: head.message.lowerBound, count: count) else {
                return .failure(Reason("it can't be read"))
            }
            guard checksum(message) == head.checksum, let session = SavedSession(bytes: message) else {
                return .failure(Reason("it is damaged"))
            }
            return .success(session)
        }
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
