/// The arrays of a reset request, each with one row per lane. The rows of lanes that are not reset are ignored. The
/// caller has checked the sizes.
///
/// `@unchecked Sendable` because nothing writes to the memory, and its owner keeps it alive during the call.
public struct ResetInput: @unchecked Sendable {
    /// A new seed for each lane: 8 bytes, little-endian.
    public var seeds: UnsafeRawBufferPointer?
    /// One byte per lane: 0 skips the lane, 1 resets it, and 2 resets it without its new seed. Nil means 1 for all
    /// lanes.
    public var mask: UnsafeRawBufferPointer?
    /// The board of ``Batch/boardSpace`` that each lane starts from. Nil means a random start.
    public var boards: UnsafeRawBufferPointer?

    public init(
        seeds: UnsafeRawBufferPointer? = nil, mask: UnsafeRawBufferPointer? = nil,
        boards: UnsafeRawBufferPointer? = nil
    ) {
        self.seeds = seeds
        self.mask = mask
        self.boards = boards
    }

    @inline(__always)
    public func resets(_ lane: Int) -> Bool { mask.map { $0[lane] != 0 } ?? true }

    /// Returns a lane's new seed; nil if the lane's random stream continues.
    @inline(__always)
    public func seed(_ lane: Int) -> UInt64? {
        if let mask, mask[lane] == 2 { return nil }
        return seeds?.number(at: lane * 8)
    }

    /// Returns the board that a lane starts from; nil for a random start.
    @inline(__always)
    func board(_ lane: Int, bytes: Int) -> UnsafeRawBufferPointer? {
        boards.map { UnsafeRawBufferPointer(rebasing: $0[lane * bytes..<(lane + 1) * bytes]) }
    }
}
