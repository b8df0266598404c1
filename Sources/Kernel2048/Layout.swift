// What the kernel works on: the memory of 64 boards, the arrays that it fills, the rules as numbers.

/// What the rules take, in the form in which the loops use it.
public struct KernelRules: Sendable {
    /// A new tile is a 4 when a 32-bit word is below this; 0 ... 2^32.
    public var fourThreshold: UInt64
    /// Tiles on a new board.
    public var startTiles = 2
    /// `goal_reached` from this exponent on.
    public var goalExponent: UInt8
    /// Whether reaching the goal ends the episode.
    public var stopAtGoal = false
    /// Whether an action that moves nothing ends the episode.
    public var illegalTerminates = false
    /// Steps after which an episode is truncated.
    public var maxEpisodeSteps = Int32.max
    /// Whether a finished lane waits for its reset, and a step doesn't start its next episode.
    public var holdsFinished = false
    /// Whether a step leaves the boards before any restart for `Kernel.report`.
    public var isReported = false

    public init(fourThreshold: UInt64, goalExponent: UInt8) {
        (self.fourThreshold, self.goalExponent) = (fourThreshold, goalExponent)
    }
}

/// The memory of 64 boards side by side, aligned to 64 bytes. (Inlinable properties and not constants: the loops
/// of both modules must see the numbers.)
///
///     cells   16 rows of 64 bytes       exponents, row by row of the board; smaller ones use the first rows
///     words    4 rows of 64 UInt32      the generators' states
///     score, length, moves              64 Int32 each
public struct KernelBlock {
    /// Boards in a block.
    @inlinable public static var lanes: Int { 64 }
    /// Bytes of a block, a multiple of 64.
    @inlinable public static var size: Int { 2816 }

    public let memory: UnsafeMutableRawPointer

    @inlinable public init(_ memory: UnsafeMutableRawPointer) { self.memory = memory }

    @inlinable public var cells: UnsafeMutablePointer<UInt8> { memory.assumingMemoryBound(to: UInt8.self) }
    @inlinable public var words: UnsafeMutablePointer<UInt32> {
        (memory + 1024).assumingMemoryBound(to: UInt32.self)
    }
    /// Sums of merged values in this episode.
    @inlinable public var score: UnsafeMutablePointer<Int32> { counts(2048) }
    /// Steps in this episode.
    @inlinable public var length: UnsafeMutablePointer<Int32> { counts(2304) }
    /// Legal moves in this episode.
    @inlinable public var moves: UnsafeMutablePointer<Int32> { counts(2560) }

    @inlinable func counts(_ offset: Int) -> UnsafeMutablePointer<Int32> {
        (memory + offset).assumingMemoryBound(to: Int32.self)
    }

    /// A lane's counts at the start of an episode.
    @inlinable public func begin(_ lane: Int) {
        (score[lane], length[lane], moves[lane]) = (0, 0, 0)
    }
}

/// The memory that an operation needs, aligned like a block, that nobody else uses meanwhile.
public struct KernelScratch {
    /// Its bytes.
    @inlinable public static var size: Int { 24_576 }

    public let memory: UnsafeMutableRawPointer

    @inlinable public init(_ memory: UnsafeMutableRawPointer) { self.memory = memory }
}

/// The phases of 64 lanes' episodes, a byte each, aligned like a block. The kernel reads them; its caller changes them.
public typealias KernelPhases = UnsafeMutablePointer<UInt8>

/// The phases' values, each a bit.
public enum KernelPhase {
    /// In an episode.
    @inlinable public static var playing: UInt8 { 0 }
    /// The episode has ended by the rules.
    @inlinable public static var terminated: UInt8 { 1 }
    /// The episode was cut by the step limit only.
    @inlinable public static var truncated: UInt8 { 2 }
}

/// The arrays of 64 lanes that a step or a reset fills, from the block's first lane on, at any alignment.
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

/// The arrays of 64 lanes that only a step fills.
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
    public var gamma = 1.0
    /// 256 entries by exponent, the first of them 0, for `mergeTable`.
    public var table: UnsafePointer<Double>?
    /// An integer for each cell, row by row, for `cellWeights`.
    public var cellWeights: UnsafePointer<Int16>?

    public init(kind: KernelTermKind, weight: Double) { (self.kind, self.weight) = (kind, weight) }
}

/// A compiled reward: the terms in the order in which they are summed, then scale and clip.
public struct KernelRewardProgram {
    public var terms: UnsafeBufferPointer<KernelRewardTerm>
    public var scale = 1.0
    public var low = -Double.infinity
    public var high = Double.infinity
    /// From which exponent on the goal is reached.
    public var goalExponent: UInt8

    public init(terms: UnsafeBufferPointer<KernelRewardTerm>, goalExponent: UInt8) {
        (self.terms, self.goalExponent) = (terms, goalExponent)
    }
}

/// The arrays of 64 lanes that a declared reward and the infos on request fill; nil where not requested.
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
