/// The arrays that every game has, and their indices among all arrays:
///
///     observation, action_mask, episode_length, the game's infos …, reward, terminated, truncated
///     └───────────────────── reset arrays ────────────────────────┘
///     └───────────────────────────────── step arrays ─────────────────────────────────────┘
///
/// Requested extra infos follow the step arrays.
enum StandardArrays {
    static let observation = 0
    static let actionMask = 1
    static let episodeLength = 2
    static let firstInfo = 3

    static func reset(_ game: some Game) -> [ArraySpec] {
        [
            ArraySpec("observation", .uint8, shape: game.observationSpace.shape),
            ArraySpec("action_mask", .int8, shape: [game.actions.count]),
            ArraySpec("episode_length", .int32),
        ] + game.infos
    }

    static func step(_ game: some Game) -> [ArraySpec] {
        reset(game) + [
            ArraySpec("reward", .float32),
            ArraySpec("terminated", .bool),
            ArraySpec("truncated", .bool),
        ]
    }
}
