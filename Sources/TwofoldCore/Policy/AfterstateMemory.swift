/// The afterstates of a batch, for policies that compare them; filled before workers read them.
public final class AfterstateMemory: Sendable {
    private let memory: ArrayMemory
    private let boards: Int
    private let rewards: Int

    /// Bytes for a batch.
    public static func bytes(_ batch: Batch) -> Int {
        ArrayMemory.size(batch.afterstateArrays, lanes: batch.lanes)
    }

    /// Memory for a batch; throws with the policy's name where the game has no afterstates.
    init(_ batch: Batch, policy: String) throws(EnvironmentError) {
        let specs = batch.afterstateArrays
        guard let boards = specs.firstIndex(where: { $0.name == "boards" }),
            let rewards = specs.firstIndex(where: { $0.name == "rewards" })
        else {
            throw .invalid("policy", "the policy '\(policy)' needs a game that has afterstates")
        }
        self.boards = boards
        self.rewards = rewards
        memory = try ArrayMemory(specs, lanes: batch.lanes, for: "policy")
    }

    func fill(from batch: Batch) throws(EnvironmentError) {
        try batch.afterstates(into: memory.arrays)
    }

    @inline(__always)
    func reward(_ lane: Int, _ action: Int) -> Float {
        memory.arrays.address(array: rewards, lane: lane).load(fromByteOffset: action * 4, as: Float.self)
    }

    /// The exponents of one afterstate of `cells` cells.
    @inline(__always)
    func board(_ lane: Int, _ action: Int, cells: Int) -> UnsafePointer<UInt8> {
        let board = memory.arrays.address(array: boards, lane: lane) + action * cells
        return UnsafePointer(board.assumingMemoryBound(to: UInt8.self))
    }
}
