/// The keys of the arrays that every batch has:
///
///     observation, action_mask, episode_length, the game's infos …, reward, terminated, truncated
///     └───────────────────── reset arrays ────────────────────────┘
///     └───────────────────────────────── step arrays ─────────────────────────────────────┘
///
/// Requested extra infos follow the step arrays.
public struct BatchKeys: Sendable {
    package let observation: ArrayKey<UInt8>
    package let actionMask: ArrayKey<Int8>
    package let episodeLength: ArrayKey<Int32>
    /// The number of reset arrays.
    let resetCount: Int
    package let reward: ArrayKey<Float>
    package let terminated: ArrayKey<Bool>
    package let truncated: ArrayKey<Bool>

    /// Adds a game's arrays to a list, and sets `infos` to the keys of its infos.
    init<Rules: Game>(_ game: Rules, in arrays: inout ArrayList, infos: inout Rules.Infos?) {
        observation = arrays.add("observation", shape: game.observationSpace.shape)
        actionMask = arrays.add("action_mask", shape: [game.actions.count])
        episodeLength = arrays.add("episode_length")
        infos = game.addInfos(to: &arrays)
        resetCount = arrays.specs.count
        reward = arrays.add("reward")
        terminated = arrays.add("terminated")
        truncated = arrays.add("truncated")
    }
}
