/// One rule of a game: lanes of a snapshot go on as they would have gone on only where all are the same.
public struct Rule: Equatable, Sendable {
    /// The argument's name, as users know it.
    public let name: String
    /// Its value as text, on one line.
    public let value: String

    init(_ name: String, _ value: some Any) {
        self.name = name
        self.value = String(describing: value)
    }
}

/// Why bytes of a snapshot are no state of the game; one sentence.
public struct InvalidState: Error, Sendable {
    /// What is wrong with it.
    public let message: String
}

/// The form of a snapshot: any number of lanes of one game, as bytes that can be kept. `docs/snapshots.md`
/// has the whole of it; all numbers are little-endian.
///
///     0          8         12      16      24      28
///     ┌──────────┬─────────┬───────┬───────┬───────┬─────────┬───────────┬───────────┬───────┐
///     │ TWOFOLDS │ version │ rules │ lanes │ bytes │ rules … │ records … │ streams … │ CRC   │
///     │          │ 1       │ bytes │ k     │ each  │ text    │ k x bytes │ k x 16    │       │
///     └──────────┴─────────┴───────┴───────┴───────┴─────────┴───────────┴───────────┴───────┘
///
/// The streams are those that the lanes' policies draw from in rollouts.
public struct SnapshotFormat: Sendable {
    /// The version that is written, and read.
    public static let version: UInt32 = 1

    private static let magic = Array("TWOFOLDS".utf8)
    private static let headSize = 28
    private static let checksumSize = 4
    private static let streamSize = 16
    /// Bytes of rules that are read: many times as many as any game has.
    private static let maxRulesSize = 4096

    /// The environment's id, then the rules of its game: a line each, `name=value`.
    private let rules: [UInt8]
    /// Bytes of one lane.
    public let recordSize: Int

    /// The form for an environment.
    public init(environmentID: String, rules: [Rule], recordSize: Int) {
        let lines = [Rule("environment_id", environmentID)] + rules
        self.rules = Array(lines.map { "\($0.name)=\($0.value)\n" }.joined().utf8)
        self.recordSize = recordSize
    }

    /// Bytes of a snapshot of so many lanes.
    public func size(lanes: Int) -> Int {
        Self.headSize + rules.count + lanes * (recordSize + Self.streamSize) + Self.checksumSize
    }

    /// Where the records lie in the memory of a snapshot.
    public func records(in memory: UnsafeMutableRawBufferPointer) -> UnsafeMutableRawBufferPointer {
        let start = Self.headSize + rules.count
        let lanes = (memory.count - size(lanes: 0)) / (recordSize + Self.streamSize)
        return UnsafeMutableRawBufferPointer(rebasing: memory[start..<start + lanes * recordSize])
    }

    /// Writes the lanes' streams behind the records.
    public func write(
        _ streams: PolicyStreams, of lanes: [Int], into memory: UnsafeMutableRawBufferPointer
    ) {
        var offset = Self.headSize + rules.count + lanes.count * recordSize
        for lane in lanes {
            let words = streams[lane]
            for word in [words.0, words.1, words.2, words.3] {
                memory.storeBytes(of: word.littleEndian, toByteOffset: offset, as: UInt32.self)
                offset += 4
            }
        }
    }

    /// Writes what stands before the records and behind the streams.
    public func seal(_ memory: UnsafeMutableRawBufferPointer, lanes: Int) {
        memory.copyBytes(from: Self.magic)
        memory.storeBytes(of: Self.version.littleEndian, toByteOffset: 8, as: UInt32.self)
        memory.storeBytes(of: UInt32(rules.count).littleEndian, toByteOffset: 12, as: UInt32.self)
        memory.storeBytes(of: UInt64(lanes).littleEndian, toByteOffset: 16, as: UInt64.self)
        memory.storeBytes(of: UInt32(recordSize).littleEndian, toByteOffset: 24, as: UInt32.self)
        UnsafeMutableRawBufferPointer(rebasing: memory[Self.headSize...]).copyBytes(from: rules)
        let end = memory.count - Self.checksumSize
        let checksum = Checksum.of(UnsafeRawBufferPointer(rebasing: memory[..<end]))
        memory.storeBytes(of: checksum.littleEndian, toByteOffset: end, as: UInt32.self)
    }

    /// The records and streams of a snapshot that fits this environment.
    public func open(
        _ blob: UnsafeRawBufferPointer
    ) throws(EnvironmentError) -> (records: UnsafeRawBufferPointer, streams: SavedStreams) {
        func number<Number: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, as: Number.Type) -> Number {
            Number(littleEndian: blob.loadUnaligned(fromByteOffset: offset, as: Number.self))
        }
        guard blob.count >= 12, blob.prefix(8).elementsEqual(Self.magic) else {
            throw .invalid("blob", "the blob is no snapshot of twofold's")
        }
        let version = number(8, as: UInt32.self)
        guard version == Self.version else {
            throw .invalid(
                "blob", "the blob is a snapshot of version \(version); this server reads \(Self.version)")
        }
        guard blob.count >= Self.headSize + Self.checksumSize else { throw Self.wrongSize(blob.count, nil) }
        let rulesSize = UInt64(number(12, as: UInt32.self))
        let (recordsSize, overflows) = number(16, as: UInt64.self)
            .multipliedReportingOverflow(by: UInt64(number(24, as: UInt32.self)) + UInt64(Self.streamSize))
        let (size, tooLarge) = recordsSize.addingReportingOverflow(
            UInt64(Self.headSize + Self.checksumSize) + rulesSize)
        guard !overflows, !tooLarge, size == UInt64(blob.count) else {
            throw Self.wrongSize(blob.count, overflows || tooLarge ? nil : size)
        }
        guard rulesSize <= Self.maxRulesSize else {
            throw .invalid(
                "blob", "the blob has \(rulesSize) bytes of rules; at most \(Self.maxRulesSize) are read")
        }
        let end = blob.count - Self.checksumSize
        guard number(end, as: UInt32.self) == Checksum.of(UnsafeRawBufferPointer(rebasing: blob[..<end]))
        else {
            throw .invalid("blob", "the blob is damaged: its checksum is not that of its bytes")
        }
        let start = Self.headSize + Int(rulesSize)
        try check(blob[Self.headSize..<start])
        guard Int(number(24, as: UInt32.self)) == recordSize else {
            throw .invalid(
                "blob",
                "the blob has \(number(24, as: UInt32.self)) bytes for a lane; expected are \(recordSize)")
        }
        let streams = start + Int(number(16, as: UInt64.self)) * recordSize
        return (
            UnsafeRawBufferPointer(rebasing: blob[start..<streams]),
            try SavedStreams(UnsafeRawBufferPointer(rebasing: blob[streams..<end]))
        )
    }

    private static func wrongSize(_ size: Int, _ expected: UInt64?) -> EnvironmentError {
        .invalid(
            "blob",
            "the blob has \(size) bytes" + (expected.map { " and says that it has \($0)" } ?? "")
                + ": a part of it is missing, or too much")
    }

    /// Refuses other rules by the name of the first that differs.
    private func check(_ theirs: Slice<UnsafeRawBufferPointer>) throws(EnvironmentError) {
        if theirs.elementsEqual(rules) { return }
        func lines(_ bytes: some Collection<UInt8>) -> [(name: Substring, value: Substring)] {
            String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { line in
                let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                return (parts[0], parts.count == 2 ? parts[1] : "")
            }
        }
        let (mine, other) = (lines(rules), lines(theirs))
        for (name, value) in mine {
            let theirs = other.first { $0.name == name }?.value
            guard theirs != value else { continue }
            throw .invalid(
                String(name),
                "the snapshot was taken with \(name) \(theirs?.prefix(100) ?? "unknown"); this environment has "
                    + "\(value)")
        }
        throw .invalid("blob", "the blob has rules that this server does not know")
    }
}

/// The policies' streams in a snapshot, a row of four words for each of its lanes.
public struct SavedStreams {
    private let bytes: UnsafeRawBufferPointer

    fileprivate init(_ bytes: UnsafeRawBufferPointer) throws(EnvironmentError) {
        self.bytes = bytes
        for row in 0..<bytes.count / 16 where self[row] == (0, 0, 0, 0) {
            throw .invalid("blob", "row \(row) of the blob has a policy's stream of zeros")
        }
    }

    /// The words of a row.
    public subscript(row: Int) -> (UInt32, UInt32, UInt32, UInt32) {
        func word(_ index: Int) -> UInt32 {
            UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 16 * row + 4 * index, as: UInt32.self))
        }
        return (word(0), word(1), word(2), word(3))
    }
}

/// What a restore brings; the caller has checked numbers and sizes.
///
/// `@unchecked Sendable` because it is only read, and the carrier keeps the memory for the call.
public struct RestoreInput: @unchecked Sendable {
    /// The lanes to restore, all different.
    public var lanes: [Int]
    /// For each of them the number of its record.
    public var rows: [Int]
    /// For each of them the seed of a new stream, 8 bytes, little-endian; nil goes on with those of the
    /// records.
    public var seeds: UnsafeRawBufferPointer?
    /// The records, one behind the other.
    public var records: UnsafeRawBufferPointer
    /// Bytes of one record.
    public var recordSize: Int

    /// A restore of these lanes from these records.
    public init(
        lanes: [Int], rows: [Int], seeds: UnsafeRawBufferPointer?, records: UnsafeRawBufferPointer,
        recordSize: Int
    ) {
        self.lanes = lanes
        self.rows = rows
        self.seeds = seeds
        self.records = records
        self.recordSize = recordSize
    }

    /// The record for the index-th of the lanes.
    func record(_ index: Int) -> UnsafeRawBufferPointer {
        let start = rows[index] * recordSize
        return UnsafeRawBufferPointer(rebasing: records[start..<start + recordSize])
    }

    /// The new seed for the index-th of the lanes.
    public func seed(_ index: Int) -> UInt64? {
        seeds.map { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self)) }
    }
}

/// The memory for a snapshot's records.
///
/// `@unchecked Sendable` because workers write different records, and the carrier keeps the memory for
/// the call.
struct RecordOutput: @unchecked Sendable {
    let memory: UnsafeMutableRawBufferPointer
    let recordSize: Int

    subscript(index: Int) -> UnsafeMutableRawBufferPointer {
        let start = index * recordSize
        return UnsafeMutableRawBufferPointer(rebasing: memory[start..<start + recordSize])
    }
}

// MARK: records

/// A record, for any game:
///
///     0               16      17       21
///     ┌───────────────┬───────┬────────┬─────────────────┐
///     │ generator     │ phase │ length │ the game's state│
///     │ 4 words       │ byte  │ Int32  │                 │
///     └───────────────┴───────┴────────┴─────────────────┘
extension Game {
    /// Bytes of a record.
    var recordSize: Int { recordHeadSize + stateSize }

    func encode(_ lane: LaneState<State>, into record: UnsafeMutableRawBufferPointer) {
        let words = lane.generator.words
        record.storeBytes(of: words.0.littleEndian, toByteOffset: 0, as: UInt32.self)
        record.storeBytes(of: words.1.littleEndian, toByteOffset: 4, as: UInt32.self)
        record.storeBytes(of: words.2.littleEndian, toByteOffset: 8, as: UInt32.self)
        record.storeBytes(of: words.3.littleEndian, toByteOffset: 12, as: UInt32.self)
        record.storeBytes(of: lane.phase.rawValue, toByteOffset: 16, as: UInt8.self)
        record.storeBytes(of: lane.episodeLength.littleEndian, toByteOffset: 17, as: Int32.self)
        encode(
            lane.state, into: UnsafeMutableRawBufferPointer(rebasing: record[recordHeadSize...]))
    }

    func decode(_ record: UnsafeRawBufferPointer) throws(InvalidState) -> LaneState<State> {
        func word(_ index: Int) -> UInt32 {
            UInt32(littleEndian: record.loadUnaligned(fromByteOffset: 4 * index, as: UInt32.self))
        }
        let words = (word(0), word(1), word(2), word(3))
        guard words != (0, 0, 0, 0) else { throw InvalidState(message: "has a stream of zeros") }
        guard let phase = LanePhase(rawValue: record[16]) else {
            throw InvalidState(message: "has phase \(record[16]); it has to be in 0...2")
        }
        let length = Int32(littleEndian: record.loadUnaligned(fromByteOffset: 17, as: Int32.self))
        guard (0...maxRecordedCount).contains(length) else {
            throw InvalidState(message: "has episode_length \(length); it has to be in 0...2^30")
        }
        let state = try decode(
            UnsafeRawBufferPointer(rebasing: record[recordHeadSize...]), isPlaying: phase == .playing)
        return LaneState(
            state: state, generator: Generator(words: words), phase: phase, episodeLength: length)
    }
}

private let recordHeadSize = 21

/// The most steps or moves that a record may have: far from where a count would overflow.
let maxRecordedCount: Int32 = 1 << 30
