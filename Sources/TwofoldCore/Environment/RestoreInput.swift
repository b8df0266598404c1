/// The lanes of a restore request and the records to put there; the caller has checked numbers and sizes.
///
/// `@unchecked Sendable` because it is only read, and the carrier keeps the memory for the call.
public struct RestoreInput: @unchecked Sendable {
    /// The lanes to restore, all different.
    public var lanes: [Int]
    /// The number of the record for each of them.
    public var rows: [Int]
    /// The seed of a new stream for each of them, 8 bytes, little-endian; nil to continue the streams of the
    /// records.
    public var seeds: UnsafeRawBufferPointer?
    /// The records, one after the other.
    public var records: UnsafeRawBufferPointer
    /// Bytes of one record.
    public var recordSize: Int
    /// The return of each record's episode; nil where the snapshot has none.
    public var returns: SavedReturns?

    /// A restore of these lanes from these records.
    public init(
        lanes: [Int], rows: [Int], seeds: UnsafeRawBufferPointer?, records: UnsafeRawBufferPointer,
        recordSize: Int, returns: SavedReturns? = nil
    ) {
        self.lanes = lanes
        self.rows = rows
        self.seeds = seeds
        self.records = records
        self.recordSize = recordSize
        self.returns = returns
    }

    /// The record for the index-th of the lanes.
    func record(_ index: Int) -> UnsafeRawBufferPointer {
        let start = rows[index] * recordSize
        return UnsafeRawBufferPointer(rebasing: records[start..<start + recordSize])
    }

    /// The return of the episode of the index-th of the lanes.
    func episodeReturn(_ index: Int) -> Double { returns?[rows[index]] ?? 0 }

    /// The new seed for the index-th of the lanes; nil if its stream continues.
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
