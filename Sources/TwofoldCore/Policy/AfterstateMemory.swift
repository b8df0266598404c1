/// The afterstates of a batch, for policies that compare afterstates. All afterstates are written before any worker
/// reads them.
public final class AfterstateMemory: Sendable {
    private let memory: ArrayMemory
    private let arrays: AfterstateArrays

    /// Returns the number of bytes that the afterstates of a batch need.
    public static func bytes(_ batch: Batch) -> Int {
        ArrayMemory.size(batch.afterstateArrays, lanes: batch.lanes)
    }

    /// Makes the memory for a batch. Throws an error that names the policy if the game has no afterstates, and one that
    /// names `field` if there is too little memory.
    init(
        _ batch: Batch, policy: String, for field: String, reserve: MemoryReserve = { _ in }
    ) throws(EnvironmentError) {
        guard let arrays = batch.game.afterstates else {
            throw .invalid("policy", "the policy '\(policy)' needs a game that has afterstates")
        }
        self.arrays = arrays
        memory = try ArrayMemory(arrays.specs, lanes: batch.lanes, for: field, reserve: reserve)
    }

    func fill(from batch: Batch) throws(EnvironmentError) {
        try batch.afterstates(into: memory.arrays)
    }

    /// Writes the afterstates of a block of at most 64 lanes, all of which have been reset.
    func fill(_ block: Range<Int>, from batch: Batch, worker: Int) {
        batch.engine.afterstates(block, into: memory.arrays, worker: worker)
    }

    /// Calls `body` for each legal action of a lane, in ascending order.
    @inline(__always)
    func forEachLegal(_ lane: Int, _ body: (_ action: Int) -> Void) {
        let mask = memory.arrays.address(arrays.mask, lane: lane)
        for action in 0..<arrays.actions
        where mask.load(fromByteOffset: action, as: Int8.self) != 0 { body(action) }
    }

    @inline(__always)
    func reward(_ lane: Int, _ action: Int) -> Float {
        memory.arrays.address(arrays.rewards, lane: lane).load(fromByteOffset: action * 4, as: Float.self)
    }

    /// Returns the exponents of one action's afterstate, which has `cells` cells.
    @inline(__always)
    func board(_ lane: Int, _ action: Int, cells: Int) -> UnsafePointer<UInt8> {
        let board = memory.arrays.address(arrays.boards, lane: lane) + action * cells
        return UnsafePointer(board.assumingMemoryBound(to: UInt8.self))
    }
}
