/// The arrays of a reset request, each with one row per lane. Rows outside the mask are ignored. The caller has checked
/// the sizes.
///
/// `@unchecked Sendable` because nothing writes to them, and the carrier keeps the memory during the call.
public struct ResetInput: @unchecked Sendable {
    /// A new seed for each lane: 8 bytes, little-endian.
    public var seeds: UnsafeRawBufferPointer?
    /// One byte per lane: 1 to reset it, 2 to reset it without its new seed, 0 to skip it. Nil means 1 for all lanes.
    public var mask: UnsafeRawBufferPointer?
    /// The board of ``Batch/boardSpace`` that each lane starts from. Nil means a random start.
    public var boards: UnsafeRawBufferPointer?

    /// Makes a reset with these arrays.
    public init(
        seeds: UnsafeRawBufferPointer? = nil, mask: UnsafeRawBufferPointer? = nil,
        boards: UnsafeRawBufferPointer? = nil
    ) {
        self.seeds = seeds
        self.mask = mask
        self.boards = boards
    }

    /// Returns true if a lane is reset.
    @inline(__always)
    public func resets(_ lane: Int) -> Bool { mask.map { $0[lane] != 0 } ?? true }

    /// Returns a lane's new seed; nil if its stream continues.
    @inline(__always)
    public func seed(_ lane: Int) -> UInt64? {
        if let mask, mask[lane] == 2 { return nil }
        return seeds.map { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: lane * 8, as: UInt64.self)) }
    }

    /// Returns the board that a lane starts from; nil for a random start.
    @inline(__always)
    func board(_ lane: Int, bytes: Int) -> UnsafeRawBufferPointer? {
        boards.map { UnsafeRawBufferPointer(rebasing: $0[lane * bytes..<(lane + 1) * bytes]) }
    }
}
