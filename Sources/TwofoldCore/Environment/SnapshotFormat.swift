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

    /// Returns the number of bytes per lane after the records, for the policy stream and, if present, the return.
    private static func tailSize(hasReturns: Bool) -> Int { streamSize + (hasReturns ? returnSize : 0) }

    /// The number of bytes per lane in all parts of a snapshot together.
    private var bytesPerLane: Int { recordSize + Self.tailSize(hasReturns: hasReturns) }

    /// Returns the size in bytes of a snapshot of `lanes` lanes.
    public func size(lanes: Int) -> Int {
        Self.headSize + rules.count + lanes * bytesPerLane + Self.checksumSize
    }

    /// Returns the part of a snapshot's memory that holds the records.
    public func records(in memory: UnsafeMutableRawBufferPointer) -> UnsafeMutableRawBufferPointer {
        let start = Self.headSize + rules.count
        let lanes = (memory.count - size(lanes: 0)) / bytesPerLane
        return UnsafeMutableRawBufferPointer(rebasing: memory[start..<start + lanes * recordSize])
    }

    /// Completes a snapshot of these lanes, whose records have been written. `returns` are nil unless the environment
    /// tracks the returns of episodes.
    public func seal(
        _ memory: UnsafeMutableRawBufferPointer, of lanes: [Int], _ streams: PolicyStreams,
        _ returns: EpisodeReturns?
    ) {
        memory.copyBytes(from: Self.magic)
        let version: UInt32 = hasReturns ? 2 : 1
        memory.storeBytes(of: version.littleEndian, toByteOffset: 8, as: UInt32.self)
        memory.storeBytes(of: UInt32(rules.count).littleEndian, toByteOffset: 12, as: UInt32.self)
        memory.storeBytes(of: UInt64(lanes.count).littleEndian, toByteOffset: 16, as: UInt64.self)
        memory.storeBytes(of: UInt32(recordSize).littleEndian, toByteOffset: 24, as: UInt32.self)
        UnsafeMutableRawBufferPointer(rebasing: memory[Self.headSize...]).copyBytes(from: rules)
        var offset = Self.headSize + rules.count + lanes.count * recordSize
        for lane in lanes {
            memory.storeStreamWords(streams[lane], at: offset)
            offset += Self.streamSize
        }
        if let returns {
            for lane in lanes {
                let bits = returns[lane].bitPattern.littleEndian
                memory.storeBytes(of: bits, toByteOffset: offset, as: UInt64.self)
                offset += Self.returnSize
            }
        }
        let end = memory.count - Self.checksumSize
        let checksum = Checksum.of(UnsafeRawBufferPointer(rebasing: memory[..<end]))
        memory.storeBytes(of: checksum.littleEndian, toByteOffset: end, as: UInt32.self)
    }

    /// Returns the parts of a snapshot. Throws unless the snapshot is complete and has this environment's rules. Also
    /// throws if the environment tracks episode returns and the snapshot has none.
    public func open(
        _ blob: UnsafeRawBufferPointer
    ) throws(EnvironmentError) -> (
        records: UnsafeRawBufferPointer, streams: SavedStreams, returns: SavedReturns?
    ) {
        func number<Number: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, as: Number.Type) -> Number {
            Number(littleEndian: blob.loadUnaligned(fromByteOffset: offset, as: Number.self))
        }
        guard blob.count >= 12, blob.prefix(8).elementsEqual(Self.magic) else {
            throw .invalid("blob", "the blob is not a snapshot made by Twofold")
        }
        let version = number(8, as: UInt32.self)
        guard version == 1 || version == 2 else {
            throw .invalid(
                "blob", "the blob is a snapshot of version \(version); this server reads versions 1 and 2")
        }
        let tailSize = UInt64(Self.tailSize(hasReturns: version == 2))
        guard blob.count >= Self.headSize + Self.checksumSize else { throw Self.wrongSize(blob.count, nil) }
        let rulesSize = UInt64(number(12, as: UInt32.self))
        let (recordsSize, overflows) = number(16, as: UInt64.self)
            .multipliedReportingOverflow(by: UInt64(number(24, as: UInt32.self)) + tailSize)
        let (size, tooLarge) = recordsSize.addingReportingOverflow(
            UInt64(Self.headSize + Self.checksumSize) + rulesSize)
        guard !overflows, !tooLarge, size == UInt64(blob.count) else {
            throw Self.wrongSize(blob.count, overflows || tooLarge ? nil : size)
        }
        guard rulesSize <= Self.maxRulesSize else {
            throw .invalid(
                "blob", "the blob has \(rulesSize) bytes of rules; at most \(Self.maxRulesSize) are allowed")
        }
        let end = blob.count - Self.checksumSize
        guard number(end, as: UInt32.self) == Checksum.of(UnsafeRawBufferPointer(rebasing: blob[..<end]))
        else {
            throw .invalid("blob", "the blob is damaged: its checksum does not match its bytes")
        }
        let start = Self.headSize + Int(rulesSize)
        try check(blob[Self.headSize..<start])
        guard Int(number(24, as: UInt32.self)) == recordSize else {
            throw .invalid(
                "blob",
                "the blob has \(number(24, as: UInt32.self)) bytes per lane; expected \(recordSize)")
        }
        guard version == 2 || !hasReturns else {
            throw .invalid(
                "extra_infos",
                "the snapshot was taken without the extra info \(EpisodeReturns.name), so it has no returns; "
                    + "this environment has the extra info and needs them")
        }
        let lanes = Int(number(16, as: UInt64.self))
        let streams = start + lanes * recordSize
        let returns = streams + lanes * Self.streamSize
        func part(_ range: Range<Int>) -> UnsafeRawBufferPointer { .init(rebasing: blob[range]) }
        return (
            part(start..<streams), try SavedStreams(part(streams..<returns)),
            version == 2 ? try SavedReturns(part(returns..<end)) : nil
        )
    }

    private static func wrongSize(_ size: Int, _ expected: UInt64?) -> EnvironmentError {
        .invalid(
            "blob",
            "the blob has \(size) bytes" + (expected.map { "; its header declares \($0)" } ?? "")
                + ": the blob is cut off or has extra bytes")
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

    public subscript(row: Int) -> Double {
        Double(
            bitPattern: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8 * row, as: UInt64.self)))
    }
}

// MARK: streams as bytes, for records and policies alike

extension UnsafeRawBufferPointer {
    func streamWords(at offset: Int) -> Generator.Words {
        func word(_ index: Int) -> UInt32 {
            UInt32(littleEndian: loadUnaligned(fromByteOffset: offset + 4 * index, as: UInt32.self))
        }
        return (word(0), word(1), word(2), word(3))
    }
}

extension UnsafeMutableRawBufferPointer {
    func storeStreamWords(_ words: Generator.Words, at offset: Int) {
        for (index, word) in [words.0, words.1, words.2, words.3].enumerated() {
            storeBytes(of: word.littleEndian, toByteOffset: offset + 4 * index, as: UInt32.self)
        }
    }
}
