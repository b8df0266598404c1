internal import FoundationEssentials
internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol

/// The directory where a server saves its sessions when it stops, and from which the next one restores them: all in one
/// file, for the server's user only, because it holds the sessions' secret ids.
///
/// A file is a sequence of records, one for each session. Each is checked by itself, so a server that is killed while it
/// saves leaves the records that it has written.
///
///     0          8         12             16     24            28           28 + size
///     ┌──────────┬─────────┬──────────────┬──────┬─────────────┬────────────┐
///     │ TWOFOLDT │ version │ CRC of the   │ size │ CRC of      │ protobuf   │  SavedSession, in
///     │          │ 2       │ SavedSession │      │ bytes 0-23  │            │  proto/twofold/v1/state.proto
///     └──────────┴─────────┴──────────────┴──────┴─────────────┴────────────┘
///
/// In a file of version 1 a single SavedSession begins at byte 16 and ends with the file. Such files are read, never
/// written. A directory belongs to one server at a time.
package final class StateDirectory {
    fileprivate static let magic = Array("TWOFOLDT".utf8)
    fileprivate static let version: UInt32 = 2
    fileprivate static let headSize = 28
    /// The same of version 1.
    fileprivate static let oldHeadSize = 16
    private static let suffix = ".sessions"
    private static let oldSuffix = ".session"
    /// Bytes that are copied at a time.
    private static let copySize = 1 << 20

    private let files: any StateFiles

    /// Removes what a server of version 1 left when it was killed while it wrote.
    package init(_ files: any StateFiles) {
        self.files = files
        for name in files.names where name.hasSuffix(Self.oldSuffix + ".partial") { files.remove(name) }
    }

    /// The names of the files with sessions.
    var fileNames: [String] {
        files.names.filter { $0.hasSuffix(Self.suffix) || $0.hasSuffix(Self.oldSuffix) }
    }

    /// A name that no file has yet.
    var newName: String {
        let names = files.names
        return (1...).lazy.map { "\($0)\(Self.suffix)" }.first { !names.contains($0) }!
    }

    /// The records of a file, the first to the last.
    func records(of name: String) -> Records { Records(files, name) }

    /// One session's place in a file, and the session.
    struct Record {
        let file: String
        let range: Range<Int>
        let session: Result<SavedSession, Reason>
    }

    /// Reads one record after another, so that a large file never has to fit into memory.
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
                // Without a head nothing says where the next record begins.
                hasEnded = true
                return Record(file: name, range: offset..<(size ?? offset), session: .failure(error))
            }
        }

        /// The next record's head, and the place of its message.
        private func nextRange() throws(Reason) -> (head: Data, message: Range<Int>) {
            guard let size, let head = files.read(name, at: offset, count: StateDirectory.headSize) else {
                throw Reason("it can't be read")
            }
            guard head.count >= StateDirectory.oldHeadSize, head.starts(with: StateDirectory.magic) else {
                throw Reason("it is not a session of a Twofold server")
            }
            let version = head.number(at: 8, as: UInt32.self)
            if version == 1, offset == 0 { return (head, StateDirectory.oldHeadSize..<size) }
            guard version == StateDirectory.version else {
                throw Reason(
                    "it is of version \(version); this server reads 1 and \(StateDirectory.version)")
            }
            guard head.count == StateDirectory.headSize,
                checksum(head.prefix(24)) == head.number(at: 24, as: UInt32.self)
            else { throw Reason("it is damaged, and so is all that follows in its file") }
            let begin = offset + StateDirectory.headSize
            guard let count = Int(exactly: head.number(at: 16, as: UInt64.self)), count <= size - begin else {
                throw Reason("it was not written to its end")
            }
            return (head, begin..<begin + count)
        }

        private func read(_ range: Range<Int>, checkedBy head: Data) -> Result<SavedSession, Reason> {
            guard let message = files.read(name, at: range.lowerBound, count: range.count) else {
                return .failure(Reason("it can't be read, or memory can't hold it"))
            }
            guard checksum(message) == head.number(at: 12, as: UInt32.self),
                let session = message.withUnsafeBytes({ SavedSession(bytes: $0) })
            else { return .failure(Reason("it is damaged")) }
            return .success(session)
        }
    }

    // MARK: writing

    /// Appends a session to a file; it is there for good once the file is settled.
    ///
    /// - Throws: ``Reason``, or what ``StateFiles`` throw; nothing is left behind then.
    func append(_ session: SavedSession, to file: String) throws {
        guard let message = session.bytes else { throw Reason("it is too large for a file") }
        var record = Data(Self.magic)
        record.append(number: Self.version)
        record.append(number: message.withUnsafeBytes(Checksum.of))
        record.append(number: UInt64(message.count))
        record.append(number: checksum(record))
        record.append(contentsOf: message)
        try files.append(record, to: file)
    }

    /// Makes what was appended to a file outlive a loss of power.
    func settle(_ file: String) throws {
        try files.flush(file)
        files.settle()
    }

    /// Removes files whose sessions were restored, all but these records, which go to a new file. Returns the names of
    /// the files that can't be removed.
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
    /// The little-endian number at an offset from its beginning.
    fileprivate func number<Number: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as _: Number.Type
    ) -> Number {
        withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }

    fileprivate mutating func append(number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}
