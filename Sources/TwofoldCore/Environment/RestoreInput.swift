/// The lanes of a restore request and the records from which they are restored. The caller has checked the lanes, the
/// indices and the sizes.
///
/// `@unchecked Sendable` because nothing writes to the memory, and its owner keeps it alive during the call.
public struct RestoreInput: @unchecked Sendable {
    /// The lanes to restore, without duplicates.
    public var lanes: [Int]
    /// The index of the record for each lane.
    public var rows: [Int]
    /// The seed of a new random stream for each lane: 8 bytes, little-endian. If nil, each lane continues the stream in
    /// its record.
    public var seeds: UnsafeRawBufferPointer?
    /// The records, without gaps between them.
    public var records: UnsafeRawBufferPointer
    /// The return so far in each record's episode; nil if the snapshot has no returns.
    public var returns: SavedReturns?

    public init(
        lanes: [Int], rows: [Int], seeds: UnsafeRawBufferPointer?, records: UnsafeRawBufferPointer,
        returns: SavedReturns? = nil
    ) {
        self.lanes = lanes
        self.rows = rows
        self.seeds = seeds
        self.records = records
        self.returns = returns
    }

    /// Returns the record of `bytes` bytes for `lanes[index]`.
    func record(_ index: Int, bytes: Int) -> UnsafeRawBufferPointer {
        let start = rows[index] * bytes
        return UnsafeRawBufferPointer(rebasing: records[start..<start + bytes])
    }

    /// Returns the episode return for `lanes[index]`; 0 if the snapshot has no returns.
    func episodeReturn(_ index: Int) -> Double { returns?[rows[index]] ?? 0 }

    /// Returns the new seed for `lanes[index]`; nil if the lane continues the stream in its record.
    public func seed(_ index: Int) -> UInt64? { seeds?.number(at: index * 8) }
}
