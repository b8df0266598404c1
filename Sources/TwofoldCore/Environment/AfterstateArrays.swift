/// The arrays of a board's afterstates. An afterstate is the board after an action, before the spawn.
public struct AfterstateArrays: Sendable {
    public let specs: [ArraySpec]
    let actions: Int
    /// The afterstate of each action. An illegal action leaves the board unchanged.
    let boards: ArrayKey<UInt8>
    /// The default reward of the game for each action.
    let rewards: ArrayKey<Float>
    /// 1 for each legal action; 0 for all actions once the episode has terminated.
    let mask: ArrayKey<Int8>

    /// Makes the arrays for a game with this number of actions and boards of this shape.
    init(actions: Int, shape: [Int]) {
        self.actions = actions
        var arrays = ArrayList()
        boards = arrays.add("boards", shape: [actions] + shape)
        rewards = arrays.add("rewards", shape: [actions])
        mask = arrays.add("mask", shape: [actions])
        specs = arrays.specs
    }
}
