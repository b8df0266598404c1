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
    /// Whether a finished lane waits for its reset, and a step doesn't start its next episode.
    public var holdsFinished: Bool
    /// Whether a step leaves the boards before any restart for `Kernel.report`.
    public var isReported: Bool

    public init(
        fourThreshold: UInt64, startTiles: Int, goalExponent: UInt8, stopAtGoal: Bool,
        illegalTerminates: Bool, maxEpisodeSteps: Int32, holdsFinished: Bool, isReported: Bool
    ) {
        self.fourThreshold = fourThreshold
        self.startTiles = startTiles
        self.goalExponent = goalExponent
        self.stopAtGoal = stopAtGoal
        self.illegalTerminates = illegalTerminates
        self.maxEpisodeSteps = maxEpisodeSteps
        self.holdsFinished = holdsFinished
        self.isReported = isReported
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
    @inlinable public static var scratchSize: Int { 24_576 }
}

/// Where a lane is in its episode: the values of a block's phase bytes, 0 before the first reset. Finished ones have
/// bit 7 set.
public enum KernelPhase {
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

/// What a step leaves in its scratch memory for `Kernel.report`, in bytes from the start: rows of 64 bytes
/// as in a block. Conditions are 0x00 or 0xff.
public enum KernelTrace {
    /// The boards after slide and merge, before the spawn: 16 rows.
    @inlinable public static var afterstate: Int { 0 }
    /// The boards after the spawn, before any restart: 16 rows; only with `KernelRules.isReported`.
    @inlinable public static var after: Int { 1024 }
    /// The exponents that merges made: for each line of the direction two rows, from the wall on.
    @inlinable public static var merges: Int { 2048 }
    /// The actions.
    @inlinable public static var action: Int { 2560 }
    /// Whether the action was legal, and played.
    @inlinable public static var moved: Int { 2624 }
    /// Whether the action was played; the other lanes began a new episode.
    @inlinable public static var played: Int { 2688 }
    /// Whether the episode has ended by the rules.
    @inlinable public static var terminated: Int { 2880 }
    /// What the merges scored, 64 Int32; 0 in a lane that did not play.
    @inlinable public static var earned: Int { 3328 }
    /// The boards before the step, 16 rows: the caller copies the block's cells here before it.
    @inlinable public static var before: Int { 8192 }
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

/// What a reward term counts or measures; TwofoldCore's `Game2048.Term` has the formulas.
public enum KernelTermKind: Sendable {
    case mergeScore, mergeExponent, mergeCount, mergeTable
    case newMaxTile, goal, survival, illegalAction, gameOver
    case emptyCells, monotonicity, smoothness, corner, cellWeights, tileSum
}

/// One term of a compiled reward.
public struct KernelRewardTerm {
    public var kind: KernelTermKind
    public var weight: Double
    /// The discount of a potential.
    public var gamma: Double
    /// 256 entries by exponent, the first of them 0, for `mergeTable`.
    public var table: UnsafePointer<Double>?
    /// 16 integers, row by row, for `cellWeights`.
    public var cellWeights: UnsafePointer<Int16>?

    public init(
        kind: KernelTermKind, weight: Double, gamma: Double, table: UnsafePointer<Double>?,
        cellWeights: UnsafePointer<Int16>?
    ) {
        self.kind = kind
        self.weight = weight
        self.gamma = gamma
        self.table = table
        self.cellWeights = cellWeights
    }
}

/// A compiled reward: the terms in the order in which they are summed, then scale and clip.
public struct KernelRewardProgram {
    public var terms: UnsafePointer<KernelRewardTerm>
    public var count: Int
    public var scale: Double
    public var low: Double
    public var high: Double
    /// From which exponent on the goal is reached.
    public var goalExponent: UInt8

    public init(
        terms: UnsafePointer<KernelRewardTerm>, count: Int, scale: Double, low: Double, high: Double,
        goalExponent: UInt8
    ) {
        self.terms = terms
        self.count = count
        self.scale = scale
        self.low = low
        self.high = high
        self.goalExponent = goalExponent
    }
}

/// The arrays of 64 lanes that a declared reward and the infos on request fill; nil for what is not asked
/// for.
public struct KernelReportOutputs {
    /// float32 [64]
    public var reward: UnsafeMutableRawPointer
    /// float32 [64, terms]
    public var terms: UnsafeMutableRawPointer?
    /// uint8 [64, 16]
    public var merges: UnsafeMutableRawPointer?
    /// int32 [64]
    public var chance: UnsafeMutableRawPointer?
    /// uint8 [64, 16]
    public var afterstates: UnsafeMutableRawPointer?

    public init(reward: UnsafeMutableRawPointer) { self.reward = reward }
}
