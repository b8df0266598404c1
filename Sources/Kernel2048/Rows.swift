// Names for the rows of the scratch memory. A row has a byte or a number for each of 64 lanes.

#if KERNEL_AVX2
internal import Kernel2048
#endif

typealias Bytes = UnsafeMutablePointer<UInt8>
typealias Words = UnsafeMutablePointer<UInt32>
typealias Ints = UnsafeMutablePointer<Int32>
typealias Floats = UnsafeMutablePointer<Float>
typealias Doubles = UnsafeMutablePointer<Double>

extension UnsafeMutableRawPointer {
    fileprivate func bytes(_ offset: Int) -> Bytes { (self + offset).assumingMemoryBound(to: UInt8.self) }
    fileprivate func words(_ offset: Int) -> Words { (self + offset).assumingMemoryBound(to: UInt32.self) }
    fileprivate func ints(_ offset: Int) -> Ints { (self + offset).assumingMemoryBound(to: Int32.self) }
    fileprivate func floats(_ offset: Int) -> Floats { (self + offset).assumingMemoryBound(to: Float.self) }
    fileprivate func doubles(_ offset: Int) -> Doubles {
        (self + offset).assumingMemoryBound(to: Double.self)
    }
}

/// The rows of the scratch memory. Conditions are 0x00 or 0xff.
extension KernelScratch {
    // Results of a move, which a step also keeps for its report.

    /// The boards after slide and merge, before the spawn: one row for each cell, at most 16 rows.
    var afterstate: Bytes { memory.bytes(0) }
    /// The exponents of the merged tiles. Each line along the direction has one row; a line of four cells has
    /// two rows, because it can have two merges. The first of the two belongs to the cell at the wall.
    var merges: Bytes { memory.bytes(1024) }
    /// The merge score; after a step, 0 in a lane that did not play.
    var earned: Ints { memory.ints(1536) }
    var action: Bytes { memory.bytes(1792) }
    /// Whether the action was legal; after a step, whether it was legal and played.
    var moved: Bytes { memory.bytes(1856) }
    /// Whether the action was played. The other lanes started a new episode or wait for a reset.
    var played: Bytes { memory.bytes(1920) }
    /// Whether the rules have ended the episode.
    var terminated: Bytes { memory.bytes(1984) }
    /// The boards before the step; only with `KernelRules.isReported`.
    var before: Bytes { memory.bytes(2048) }
    /// The boards after the spawn, before any restart; only with `KernelRules.isReported`.
    var after: Bytes { memory.bytes(3072) }

    // Data that one phase of an operation passes to the next.

    /// The number of empty cells.
    var empties: Bytes { memory.bytes(4096) }
    /// Two rows: the number of the empty cell for the new tile, and the tile's exponent, 0 for no tile.
    var place: Bytes { memory.bytes(4160) }
    var tile: Bytes { memory.bytes(4224) }
    /// Whether the episode has reached the step limit.
    var isLast: Bytes { memory.bytes(4288) }
    /// Four rows (up, right, down, left): 1 where the action is legal.
    var legal: Bytes { memory.bytes(4352) }
    /// `place` and `tile` as 32-bit numbers.
    var placeWords: Words { memory.words(4608) }
    var tileWords: Words { memory.words(4864) }
    /// The merge scores of the four actions: four rows.
    var scores: Ints { memory.ints(5120) }
    /// The rewards of the four actions, lane by lane.
    var rewards: Floats { memory.floats(6144) }
    /// Three buffers of 1024 bytes each, for boards that are being transposed for a reply.
    var boards: Bytes { memory.bytes(7168) }
    var shuffled: Bytes { memory.bytes(8192) }
    var halfShuffled: Bytes { memory.bytes(9216) }
    var wide: Bytes { memory.bytes(13_312) }

    // Rows that only the report uses.

    /// Four rows of bytes, which add up to a term's value.
    var part: Bytes { memory.bytes(10_240) }
    /// The counts of an event; 0 in a lane that did not play.
    var counts: Ints { memory.ints(10_496) }
    /// A potential before the step; 0 in a lane that did not play.
    var phi: Ints { memory.ints(10_752) }
    /// A potential after the step; 0 in a lane that did not play or has terminated.
    var nextPhi: Ints { memory.ints(11_008) }
    /// The values of a term, if they are not integers.
    var values: Doubles { memory.doubles(11_264) }
    /// The sum of the terms so far.
    var total: Doubles { memory.doubles(11_776) }
    /// `weighted` has the current weighted term; `terms` has all weighted terms, lane by lane.
    var weighted: Floats { memory.floats(12_288) }
    var terms: Floats { memory.floats(16_384) }
}
