// What the kernel works on: the memory of 64 boards, the arrays that it fills, the rules as numbers.

/// What the rules take, in the form in which the loops use it.
public struct KernelRules: Sendable {
    /// A new tile is a 4 when a 32-bit word is below this; 0 ... 2^32.
    public var fourThreshold: UInt64
    /// Tiles on a new board.
    public var startTiles: Int
    /// `goal_reached` from this exponent on.
    public var goalExponent: UInt8
    /// Whether reaching the goal ends the episode.
    public var stopAtGoal: Bool
    /// Whether an action that moves nothing ends the episode.
    public var illegalTerminates: Bool
    /// Steps after which an episode is truncated.
    public var maxEpisodeSteps: Int32

    public init(
        fourThreshold: UInt64, startTiles: Int, goalExponent: UInt8, stopAtGoal: Bool,
        illegalTerminates: Bool, maxEpisodeSteps: Int32
    ) {
        self.fourThreshold = fourThreshold
        self.startTiles = startTiles
        self.goalExponent = goalExponent
        self.stopAtGoal = stopAtGoal
        self.illegalTerminates = illegalTerminates
        self.maxEpisodeSteps = maxEpisodeSteps
    }
}

/// Where the parts of a block lie, in bytes from its start. (Inlinable properties and not constants:
/// the loops of both modules must see the numbers.)
///
///     cells   16 rows of 64 bytes       exponents, row by row of the board
///     words    4 rows of 64 UInt32      the generators' states
///     score, length, moves              64 Int32 each
///     phase   64 bytes                  see KernelPhase
public enum KernelBlock {
    /// Boards in a block.
    @inlinable public static var lanes: Int { 64 }
    /// The generators' states.
    @inlinable public static var words: Int { 1024 }
    /// Sums of merged values in this episode.
    @inlinable public static var score: Int { 2048 }
    /// Steps in this episode.
    @inlinable public static var length: Int { 2304 }
    /// Legal moves in this episode.
    @inlinable public static var moves: Int { 2560 }
    /// Where each lane is in its episode.
    @inlinable public static var phase: Int { 2816 }
    /// Bytes of a block, a multiple of 64.
    @inlinable public static var size: Int { 2880 }
    /// Bytes of scratch memory that an operation needs.
    @inlinable public static var scratchSize: Int { 12_288 }
}

/// Where a lane is in its episode: the values of a block's phase bytes. Finished ones have bit 7 set.
public enum KernelPhase {
    /// Never reset: there is no stream to draw from.
    @inlinable public static var unseeded: UInt8 { 0 }
    /// In an episode.
    @inlinable public static var playing: UInt8 { 1 }
    /// The episode has ended by the rules.
    @inlinable public static var terminated: UInt8 { 0x81 }
    /// The episode was cut by the step limit only.
    @inlinable public static var truncated: UInt8 { 0x82 }
}

/// The arrays of 64 lanes that a step or a reset tells, each from the block's first lane on. Nothing is
/// assumed of their alignment.
public struct KernelOutputs {
    /// uint8 [64, 16]
    public var observation: UnsafeMutableRawPointer
    /// int8 [64, 4]
    public var actionMask: UnsafeMutableRawPointer
    /// int32 [64]
    public var episodeLength: UnsafeMutableRawPointer
    /// int32 [64]
    public var score: UnsafeMutableRawPointer
    /// uint8 [64]
    public var maxExponent: UnsafeMutableRawPointer
    /// int32 [64]
    public var moves: UnsafeMutableRawPointer
    /// bool [64]
    public var goalReached: UnsafeMutableRawPointer

    public init(
        observation: UnsafeMutableRawPointer, actionMask: UnsafeMutableRawPointer,
        episodeLength: UnsafeMutableRawPointer, score: UnsafeMutableRawPointer,
        maxExponent: UnsafeMutableRawPointer, moves: UnsafeMutableRawPointer,
        goalReached: UnsafeMutableRawPointer
    ) {
        self.observation = observation
        self.actionMask = actionMask
        self.episodeLength = episodeLength
        self.score = score
        self.maxExponent = maxExponent
        self.moves = moves
        self.goalReached = goalReached
    }
}

/// The arrays of 64 lanes that only a step tells.
public struct KernelStepOutputs {
    /// float32 [64]
    public var reward: UnsafeMutableRawPointer
    /// bool [64]
    public var terminated: UnsafeMutableRawPointer
    /// bool [64]
    public var truncated: UnsafeMutableRawPointer

    public init(
        reward: UnsafeMutableRawPointer, terminated: UnsafeMutableRawPointer,
        truncated: UnsafeMutableRawPointer
    ) {
        self.reward = reward
        self.terminated = terminated
        self.truncated = truncated
    }
}
