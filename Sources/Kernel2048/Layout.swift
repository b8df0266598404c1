// The kernel's data: the memory of 64 boards, the arrays that it fills, and the rules as numbers.

/// The parameters of the rules, in the form that the kernel's loops use.
public struct KernelRules: Sendable {
    /// The threshold for new tiles, in 0 ... 2^32. A 32-bit word below it makes a 4; any other word makes a 2.
    public var fourThreshold: UInt64
    /// The number of tiles on a new board.
    public var startTiles = 2
    /// The smallest exponent for which `goal_reached` is true.
    public var goalExponent: UInt8
    /// Whether reaching the goal ends the episode.
    public var stopAtGoal = false
    /// Whether an action that moves nothing ends the episode.
    public var illegalTerminates = false
    /// The number of steps after which an episode is truncated.
    public var maxEpisodeSteps = Int32.max
    /// Whether a finished lane waits for a reset instead of starting a new episode in the next step.
    public var holdsFinished = false
    /// Whether a step keeps copies of the boards from before and after it, for `KernelOperations.report`.
    public var isReported = false

    public init(fourThreshold: UInt64, goalExponent: UInt8) {
        (self.fourThreshold, self.goalExponent) = (fourThreshold, goalExponent)
    }
}

/// The memory of 64 boards side by side, aligned to 64 bytes. Offsets and sizes are inlinable properties, not
/// constants, so that both modules compile these numbers into their loops.
///
///     cells   16 rows of 64 bytes       exponents, cell by cell; smaller boards use the first rows
///     words    4 rows of 64 UInt32      the generators' states
///     score, length, moves              64 Int32 each
public struct KernelBlock {
    /// The number of boards in a block.
    @inlinable public static var lanes: Int { 64 }
    /// The size of a block in bytes, a multiple of 64.
    @inlinable public static var size: Int { 2816 }

    public let memory: UnsafeMutableRawPointer

    @inlinable public init(_ memory: UnsafeMutableRawPointer) { self.memory = memory }

    @inlinable public var cells: UnsafeMutablePointer<UInt8> { memory.assumingMemoryBound(to: UInt8.self) }
    @inlinable public var words: UnsafeMutablePointer<UInt32> {
        (memory + 1024).assumingMemoryBound(to: UInt32.self)
    }
    /// The sum of the merged values in this episode.
    @inlinable public var score: UnsafeMutablePointer<Int32> { counts(2048) }
    /// The number of steps in this episode.
    @inlinable public var length: UnsafeMutablePointer<Int32> { counts(2304) }
    /// The number of legal moves in this episode.
    @inlinable public var moves: UnsafeMutablePointer<Int32> { counts(2560) }

    @inlinable func counts(_ offset: Int) -> UnsafeMutablePointer<Int32> {
        (memory + offset).assumingMemoryBound(to: Int32.self)
    }

    /// The four words of a lane's generator.
    @inlinable public subscript(generator lane: Int) -> (UInt32, UInt32, UInt32, UInt32) {
        get { (words[lane], words[lane + 64], words[lane + 128], words[lane + 192]) }
        nonmutating set {
            (words[lane], words[lane + 64], words[lane + 128], words[lane + 192]) = newValue
        }
    }

    /// Sets a lane's counts to 0 at the start of an episode.
    @inlinable public func begin(_ lane: Int) {
        (score[lane], length[lane], moves[lane]) = (0, 0, 0)
    }
}

/// The memory for one operation's intermediate results, aligned like a block. Only one operation at a time
/// may use it.
public struct KernelScratch {
    /// The size in bytes.
    @inlinable public static var size: Int { 24_576 }

    public let memory: UnsafeMutableRawPointer

    @inlinable public init(_ memory: UnsafeMutableRawPointer) { self.memory = memory }
}

/// The phases of 64 lanes' episodes, one byte each, aligned like a block. The kernel reads them; its caller
/// changes them.
public typealias KernelPhases = UnsafeMutablePointer<UInt8>

/// The values of a phase, with at most one bit set.
public enum KernelPhase {
    /// The episode is in progress.
    @inlinable public static var playing: UInt8 { 0 }
    /// The rules have ended the episode.
    @inlinable public static var terminated: UInt8 { 1 }
    /// Only the step limit has ended the episode.
    @inlinable public static var truncated: UInt8 { 2 }
}

/// The arrays that a step or a reset fills for 64 lanes. Each pointer points to the values of the
/// block's first lane; any alignment works.
public struct KernelOutputs {
    /// uint8 [64, rows, columns]
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

    @inlinable public init(
        observation: UnsafeMutableRawPointer, actionMask: UnsafeMutableRawPointer,
        episodeLength: UnsafeMutableRawPointer, score: UnsafeMutableRawPointer,
        maxExponent: UnsafeMutableRawPointer, moves: UnsafeMutableRawPointer,
        goalReached: UnsafeMutableRawPointer
    ) {
        (self.observation, self.actionMask, self.episodeLength) = (observation, actionMask, episodeLength)
        (self.score, self.maxExponent, self.moves, self.goalReached) = (
            score, maxExponent, moves, goalReached
        )
    }
}

/// The arrays that only a step fills, for 64 lanes.
public struct KernelStepOutputs {
    /// float32 [64]
    public var reward: UnsafeMutableRawPointer
    /// bool [64]
    public var terminated: UnsafeMutableRawPointer
    /// bool [64]
    public var truncated: UnsafeMutableRawPointer

    @inlinable public init(
        reward: UnsafeMutableRawPointer, terminated: UnsafeMutableRawPointer,
        truncated: UnsafeMutableRawPointer
    ) {
        (self.reward, self.terminated, self.truncated) = (reward, terminated, truncated)
    }
}

/// The reward terms of 2048. The raw values are the names that users write. The formulas are in
/// docs/environments/rewards.md.
public enum KernelTerm: String, CaseIterable, Sendable {
    // Merges of the move.
    case mergeScore = "merge_score"
    case mergeExponent = "merge_exponent"
    case mergeCount = "merge_count"
    case mergeTable = "merge_table"
    // Events.
    case newMaxTile = "new_max_tile"
    case goal
    case survival
    case illegalAction = "illegal_action"
    case gameOver = "game_over"
    // Potentials of the board after the spawn.
    case emptyCells = "empty_cells"
    case monotonicity
    case smoothness
    case corner
    case cellWeights = "cell_weights"
    case tileSum = "tile_sum"
}

/// One term of a compiled reward.
public struct KernelRewardTerm {
    public var kind: KernelTerm
    public var weight: Double
    /// The discount of a potential.
    public var gamma = 1.0
    /// The values of `mergeTable`: 256 entries, indexed by exponent. Entry 0 is 0.
    public var table: UnsafePointer<Double>?
    /// The weights of `cellWeights`: one integer for each cell, row by row.
    public var cellWeights: UnsafePointer<Int16>?

    public init(kind: KernelTerm, weight: Double) { (self.kind, self.weight) = (kind, weight) }
}

/// A compiled reward: the terms in the order in which they are summed, then scale and clip.
public struct KernelRewardProgram {
    public var terms: UnsafeBufferPointer<KernelRewardTerm>
    public var scale = 1.0
    public var low = -Double.infinity
    public var high = Double.infinity
    /// The smallest exponent that reaches the goal.
    public var goalExponent: UInt8

    public init(terms: UnsafeBufferPointer<KernelRewardTerm>, goalExponent: UInt8) {
        (self.terms, self.goalExponent) = (terms, goalExponent)
    }
}

/// The arrays for the declared reward and the requested infos of 64 lanes. An info that is not requested is nil.
public struct KernelReportOutputs {
    /// float32 [64]
    public var reward: UnsafeMutableRawPointer
    /// float32 [64, terms]
    public var terms: UnsafeMutableRawPointer?
    /// uint8 [64, rows, columns]
    public var merges: UnsafeMutableRawPointer?
    /// int32 [64]
    public var chance: UnsafeMutableRawPointer?
    /// uint8 [64, rows, columns]
    public var afterstates: UnsafeMutableRawPointer?

    public init(reward: UnsafeMutableRawPointer) { self.reward = reward }
}
