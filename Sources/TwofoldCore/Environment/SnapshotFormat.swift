/// The format of a snapshot, which stores any number of lanes of one game. All numbers are little-endian.
/// `docs/reference/formats.md` describes every field.
///
///     0          8         12      16      24      28
///     ┌──────────┬─────────┬───────┬───────┬───────┬─────────┬───────────┬───────────┬───────────┬───────┐
///     │ TWOFOLDS │ version │ rules │ lanes │ bytes │ rules … │ records … │ streams … │ returns … │ CRC   │
///     │          │ 1 or 2  │ bytes │ k     │ each  │ text    │ k x bytes │ k x 16    │ 2: k x 8  │       │
///     └──────────┴─────────┴───────┴───────┴───────┴─────────┴───────────┴───────────┴───────────┴───────┘
///
/// `streams` holds the random stream that each lane's policy uses in rollouts. `returns` holds each lane's return so
/// far in its episode. Only version 2 has `returns`. Environments that track episode returns write version 2, others
/// version 1. All environments read both versions.
public struct SnapshotFormat: Sendable {
    private static let magic = Array("TWOFOLDS".utf8)
    private static let headSize = 28
    private static let checksumSize = 4
    private static let streamSize = 16
    private static let returnSize = 8
    /// The maximum size of the rules text in a snapshot. The text of any game is much smaller.
    private static let maxRulesSize = 4096

    /// The environment's id and the rules of its game, as lines of the form `name=value`.
    private let rules: [UInt8]
    /// The size of one lane's record in bytes.
    public let recordSize: Int
    /// Whether the environment tracks the returns of episodes.
    private let hasReturns: Bool

    public init(environmentID: String, rules: [Rule], recordSize: Int, hasReturns: Bool = false) {
        let lines = [Rule("environment_id", environmentID)] + rules
        self.rules = Array(lines.map { "\($0.name)=\($0.value)\n" }.joined().utf8)
        self.recordSize = recordSize
        self.hasReturns = hasReturns
    }

    /// The offset of the first record.
    private var start: Int { Self.headSize + rules.count }

    /// Returns the size in bytes of a snapshot of `lanes` lanes.
    public func size(lanes: Int) -> Int {
        let bytesPerLane = recordSize + Self.streamSize + (hasReturns ? Self.returnSize : 0)
        return start + lanes * bytesPerLane + Self.checksumSize
    }

    /// Returns the part of a snapshot's memory that holds the records of `lanes` lanes.
    public func records(
        of lanes: Int, in memory: UnsafeMutableRawBufferPointer
    ) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: memory[start..<start + lanes * recordSize])
    }

    /// Completes a snapshot of these lanes: writes the head and the rules before the records, and everything after
    /// them. `returns` must not be nil if the environment tracks returns.
    public func complete(
        _ memory: UnsafeMutableRawBufferPointer, _ lanes: [Int], _ streams: PolicyStreams,
        _ returns: EpisodeReturns?
    ) {
        memory.copyBytes(from: Self.magic)
        memory.store(UInt32(hasReturns ? 2 : 1), at: 8)
        memory.store(UInt32(rules.count), at: 12)
        memory.store(UInt64(lanes.count), at: 16)
        memory.store(UInt32(recordSize), at: 24)
        UnsafeMutableRawBufferPointer(rebasing: memory[Self.headSize...]).copyBytes(from: rules)
        var end = start + lanes.count * recordSize
        for lane in lanes {
            memory.storeStreamWords(streams[lane], at: end)
            end += Self.streamSize
        }
        if hasReturns {
            for lane in lanes {
                memory.store(returns![lane].bitPattern, at: end)
                end += Self.returnSize
            }
        }
        memory.store(Checksum.of(UnsafeRawBufferPointer(rebasing: memory[..<end])), at: end)
    }

    /// Returns the parts of a snapshot. Throws unless the snapshot is complete and has this environment's rules. Also
    /// throws if the environment tracks episode returns and the snapshot has none.
    public func open(
        _ blob: UnsafeRawBufferPointer
    ) throws(EnvironmentError) -> (
        records: UnsafeRawBufferPointer, streams: SavedStreams, returns: SavedReturns?
    ) {
        guard blob.count >= 12, blob.prefix(8).elementsEqual(Self.magic) else {
            throw .invalid("blob", "the blob is not a snapshot made by Twofold")
        }
        let version = blob.number(at: 8, as: UInt32.self)
        guard version == 1 || version == 2 else {
            throw .invalid(
                "blob", "the blob is a snapshot of version \(version); this server reads versions 1 and 2")
        }
        let wrongSize = EnvironmentError.invalid(
            "blob",
            "the blob has \(blob.count) bytes, which contradicts its header: it is cut off or has extra bytes"
        )
        guard blob.count >= Self.headSize + Self.checksumSize else { throw wrongSize }
        let (rulesSize, size) = (
            Int(blob.number(at: 12, as: UInt32.self)), Int(blob.number(at: 24, as: UInt32.self))
        )
        let bytesPerLane = size + Self.streamSize + (version == 2 ? Self.returnSize : 0)
        // because: the number of lanes times their size may overflow.
        let lanes = max(0, blob.count - Self.headSize - rulesSize - Self.checksumSize) / bytesPerLane
        guard blob.number(at: 16, as: UInt64.self) == lanes,
            Self.headSize + rulesSize + lanes * bytesPerLane + Self.checksumSize == blob.count
        else { throw wrongSize }
        guard rulesSize <= Self.maxRulesSize else {
            throw .invalid(
                "blob", "the blob has \(rulesSize) bytes of rules; at most \(Self.maxRulesSize) are allowed")
        }
        let end = blob.count - Self.checksumSize
        guard
            blob.number(at: end, as: UInt32.self)
                == Checksum.of(UnsafeRawBufferPointer(rebasing: blob[..<end]))
        else {
            throw .invalid("blob", "the blob is damaged: its checksum does not match its bytes")
        }
        let start = Self.headSize + rulesSize
        try check(blob[Self.headSize..<start])
        guard size == recordSize else {
            throw .invalid("blob", "the blob has \(size) bytes per lane; expected \(recordSize)")
        }
        guard version == 2 || !hasReturns else {
            throw .invalid(
                "extra_infos",
                "the snapshot was taken without the extra info \(EpisodeReturns.name), so it has no returns; "
                    + "this environment has the extra info and needs them")
        }
        let streams = start + lanes * recordSize
        let returns = streams + lanes * Self.streamSize
        func part(_ range: Range<Int>) -> UnsafeRawBufferPointer { .init(rebasing: blob[range]) }
        return (
            part(start..<streams), try SavedStreams(part(streams..<returns)),
            version == 2 ? try SavedReturns(part(returns..<end)) : nil
        )
    }

    /// Throws if the snapshot's rules differ from this environment's. The error names the first rule that differs.
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
        throw .invalid("blob", "the blob has rules that this server does not support")
    }
}

/// The random streams of policies in a snapshot: a row of four words for each lane.
public struct SavedStreams {
    private let bytes: UnsafeRawBufferPointer

    fileprivate init(_ bytes: UnsafeRawBufferPointer) throws(EnvironmentError) {
        self.bytes = bytes
        for row in 0..<bytes.count / 16 where self[row] == (0, 0, 0, 0) {
            throw .invalid("blob", "row \(row) of the blob has a policy stream of zeros")
        }
    }

    public subscript(row: Int) -> Generator.Words { bytes.streamWords(at: 16 * row) }
}

/// The episode returns in a snapshot: one row for each lane.
public struct SavedReturns {
    private let bytes: UnsafeRawBufferPointer

    fileprivate init(_ bytes: UnsafeRawBufferPointer) throws(EnvironmentError) {
        self.bytes = bytes
        for row in 0..<bytes.count / 8 where !self[row].isFinite {
            throw .invalid(
                "blob", "row \(row) of the blob has the return \(self[row]), which is not a finite number")
        }
    }

    public subscript(row: Int) -> Double { Double(bitPattern: bytes.number(at: 8 * row)) }
}

// MARK: little-endian numbers, for records and policies alike

extension UnsafeRawBufferPointer {
    @inline(__always)
    func number<Number: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as _: Number.Type = Number.self
    ) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }

    func streamWords(at offset: Int) -> Generator.Words {
        (number(at: offset), number(at: offset + 4), number(at: offset + 8), number(at: offset + 12))
    }
}

extension UnsafeMutableRawBufferPointer {
    @inline(__always)
    func store<Number: FixedWidthInteger & BitwiseCopyable>(_ number: Number, at offset: Int) {
        storeBytes(of: number.littleEndian, toByteOffset: offset, as: Number.self)
    }

    func storeStreamWords(_ words: Generator.Words, at offset: Int) {
        store(words.0, at: offset)
        store(words.1, at: offset + 4)
        store(words.2, at: offset + 8)
        store(words.3, at: offset + 12)
    }
}
