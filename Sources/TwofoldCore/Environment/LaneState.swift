/// One board of a batch, whatever its game: everything that its future depends on, and what a snapshot
/// holds of it.
struct LaneState<State: Sendable>: Sendable {
    var state: State
    var generator = Generator(seed: 0)
    var phase = LanePhase.playing
    /// Steps in this episode, illegal actions included.
    var episodeLength: Int32 = 0
}

/// Where a lane is in its episode; the numbers are those of snapshots.
enum LanePhase: UInt8, Sendable {
    case playing = 0
    /// The episode has ended by the rules.
    case terminated = 1
    /// The episode was cut by the step limit only.
    case truncated = 2
}
