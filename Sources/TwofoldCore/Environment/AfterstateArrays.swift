/// The arrays that describe afterstates: the board after each possible action, before the spawn.
public struct AfterstateArrays: Sendable {
    /// The arrays.
    public let specs: [ArraySpec]
    /// The afterstate of each action. An illegal action leaves the board unchanged.
    let boards: ArrayKey<UInt8>
    /// The reward of each action.
    let rewards: ArrayKey<Float>
    /// 1 for each legal action; 0 for all actions once the episode has terminated.
    let mask: ArrayKey<Int8>

    /// Makes the arrays for boards of a shape, with this number of actions.
    init(actions: Int, shape: [Int]) {
        var arrays = ArrayList()
        boards = arrays.add("boards", shape: [actions] + shape)
        rewards = arrays.add("rewards", shape: [actions])
        mask = arrays.add("mask", shape: [actions])
        specs = arrays.specs
    }
}
