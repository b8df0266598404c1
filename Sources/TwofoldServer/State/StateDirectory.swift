internal import FoundationEssentials
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol

/// The directory where a server saves its sessions when it stops, and from which the next server restores them. A
/// server saves all its sessions in one file. Only the server's user can read the file, because it contains the
/// sessions' secret ids.
///
/// A file is a sequence of records, one for each session. Each record has its own checksums. If a server is killed
/// while it saves, the records written so far are therefore still valid.
///
///     0          8         12             16     24            28           28 + size
///     ┌──────────┬─────────┬──────────────┬──────┬─────────────┬────────────┐
///     │ TWOFOLDT │ version │ CRC of the   │ size │ CRC of      │ protobuf   │  SavedSession, in
///     │          │ 2       │ SavedSession │      │ bytes 0-23  │            │  proto/twofold/v1/state.proto
///     └──────────┴─────────┴──────────────┴──────┴─────────────┴────────────┘
///
/// In a file of version 1, a single SavedSession starts at byte 16 and extends to the end of the file. The server
/// reads such files but never writes them. Only one server at a time may use a directory.
package final class StateDirectory {
    fileprivate static let magic = Array("TWOFOLDT".utf8)
    fileprivate static let version: UInt32 = 2
    fileprivate static let headSize = 28
    /// The size of a record's head in version 1, in bytes.
    fileprivate static let oldHeadSize = 16
    private static let suffix = ".sessions"
    private static let oldSuffix = ".session"
    /// The maximum size of a saved session in bytes, which is protobuf's limit. If the head of a record is damaged,
    /// up to this many bytes are kept.
    private static let maxSize = Int(Int32.max)
    /// The maximum number of bytes to keep from a file whose content is not a saved session.
    private static let maxForeignSize = 1 << 20
    /// The number of bytes to copy at a time.
    private static let copySize = 1 << 20

    private let files: any StateFiles

    /// Opens the directory. Removes incomplete files, which a server with version 1 left behind if it was killed
    /// while writing.
    package init(_ files: any StateFiles) {
        self.files = files
        for name in files.names where name.hasSuffix(Self.oldSuffix + ".partial") { files.remove(name) }
    }

    /// The names of the files that contain sessions.
    var fileNames: [String] {
        files.names.filter { $0.hasSuffix(Self.suffix) || $0.hasSuffix(Self.oldSuffix) }
    }

    /// A name that no file has yet.
    var newName: String {
        let names = files.names
        return (1...).lazy.map { "\($0)\(Self.suffix)" }.first { !names.contains($0) }!
    }

    /// Returns the records of a file, in the order of the file.
    func records(of name: String) -> Records { Records(files, name) }

    /// A saved session and its location in a file.
    struct Record {
        let file: String
        let range: Range<Int>
        let session: Result<SavedSession, Reason>
    }

    /// The records of a file. They are read one at a time, so that a large file does not have to fit into memory.
    struct Records: Sequence, IteratorProtocol {
        private let files: any StateFiles
        private let name: String
        private let size: Int?
        private var offset = 0
        private var hasEnded = false

        fileprivate init(_ files: any StateFiles, _ name: String) {
            self.files = files
            self.name = name
            size = files.size(name)
        }

        mutating func next() -> Record? {
            guard !hasEnded else { return nil }
            do throws(Reason) {
                let (head, message) = try nextRange()
                defer { offset = message.upperBound }
                hasEnded = message.upperBound == size
                return Record(
                    file: name, range: offset..<message.upperBound, session: read(message, checkedBy: head))
            } catch {
                // Without a valid head, the start of the next record is unknown.
                hasEnded = true
                let begin = files.read(name, at: offset, count: StateDirectory.magic.count)
                let isSession = begin?.elementsEqual(StateDirectory.magic) ?? false
                let limit = isSession ? StateDirectory.maxSize : StateDirectory.maxForeignSize
                let end = Swift.min(size ?? offset, offset + limit)
                return Record(file: name, range: offset..<end, session: .failure(error))
            }
        }

        /// Reads the head of the next record. Returns the head and the byte range of the saved session.
        private func nextRange() throws(Reason) -> (head: Data, message: Range<Int>) {
            guard let size, let head = files.read(name, at: offset, count: StateDirectory.headSize) else {
                throw Reason("it can't be read")
            }
            guard head.count >= StateDirectory.oldHeadSize, head.starts(with: StateDirectory.magic) else {
                throw Reason("it is not a saved session of a Twofold server")
            }
            let version = head.number(at: 8, as: UInt32.self)
            if version == 1, offset == 0 { return (head, StateDirectory.oldHeadSize..<size) }
            guard version == StateDirectory.version else {
                throw Reason(
                    "it has version \(version); this server reads versions 1 and \(StateDirectory.version)")
            }
            guard head.count == StateDirectory.headSize,
                checksum(head.prefix(24)) == head.number(at: 24, as: UInt32.self)
            else { throw Reason("it is damaged, so the rest of its file can't be read either") }
            let begin = offset + StateDirectory.headSize
            guard let count = Int(exactly: head.number(at: 16, as: UInt64.self)),
                count <= StateDirectory.maxSize
            else { throw Reason("it is larger than a session can be") }
            guard count <= size - begin else { throw Reason("it is incomplete") }
            return (head, begin..<begin + count)
        }

        private func read(_ range: Range<Int>, checkedBy head: Data) -> Result<SavedSession, Reason> {
            guard let message = files.read(name, at: range.lowerBound, count: range.count) else {
                return .failure(Reason("it can't be read, or does not fit into memory"))
            }
            guard checksum(message) == head.number(at: 12, as: UInt32.self),
                let session = message.withUnsafeBytes({ SavedSession(bytes: $0) })
            else { return .failure(Reason("it is damaged")) }
            return .success(session)
        }
    }

    // MARK: writing

    /// Appends a session to a file. The session survives a power failure only after `settle`.
    ///
    /// - Throws: ``Reason``, or an error of ``StateFiles``. In either case, the file is unchanged.
    func append(_ session: SavedSession, to file: String) throws {
        guard let message = session.bytes else { throw Reason("it is too large to be saved") }
        var record = Data(Self.magic)
        record.append(number: Self.version)
        record.append(number: message.withUnsafeBytes(Checksum.of))
        record.append(number: UInt64(message.count))
        record.append(number: checksum(record))
        record.append(contentsOf: message)
        try files.append(record, to: file)
    }

    /// Forces the appended sessions to disk, so that they survive a power failure.
    func settle(_ file: String) throws {
        try files.flush(file)
        files.settle()
    }

    /// Removes files whose sessions have been restored. First copies the given records to a new file, because they
    /// must be kept. Returns the names of the files that cannot be removed.
    func remove(_ names: [String], keeping records: [Record]) throws -> [String] {
        let failure = Result { try keep(records) }
        let remaining = names.filter { !files.remove($0) }
        files.settle()
        try failure.get()
        return remaining
    }

    private func keep(_ records: [Record]) throws {
        guard !records.isEmpty else { return }
        let name = newName
        for record in records {
            var offset = record.range.lowerBound
            while let bytes = files.read(
                record.file, at: offset, count: min(Self.copySize, record.range.upperBound - offset)),
                !bytes.isEmpty
            {
                try files.append(bytes, to: name)
                offset += bytes.count
            }
        }
        try files.flush(name)
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
