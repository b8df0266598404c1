/// The options of a batch, in addition to the game's own configuration.
public struct BatchOptions: Sendable {
    /// The number of boards, at least 1.
    public var lanes: Int
    public var autoreset: AutoresetMode
    /// The number of steps after which an episode is truncated; nil means never.
    public var maxEpisodeSteps: Int?
    /// The threads over which the lanes are spread.
    public var workers: Workers
    /// The implementation of the rules.
    public var engine: Engine
    /// The declared reward; nil means the default reward of the game.
    public var reward: RewardSpec?
    /// The names of the infos that each step reports in addition to the usual infos.
    public var extraInfos: [String] = []
    /// The function that the batch calls to reserve memory before each allocation.
    public var reserve: MemoryReserve = { _ in }

    public init(
        lanes: Int, autoreset: AutoresetMode = .nextStep, maxEpisodeSteps: Int? = nil,
        workers: Workers = Workers(threads: 1), engine: Engine = .automatic
    ) {
        self.lanes = lanes
        self.autoreset = autoreset
        self.maxEpisodeSteps = maxEpisodeSteps
        self.workers = workers
        self.engine = engine
    }

    /// The step limit as a number that engines compare with an episode's length. Without a limit it is `Int32.max`.
    var stepLimit: Int32 { maxEpisodeSteps.map { Int32(clamping: $0) } ?? .max }
}

/// The way in which a lane starts its next episode. The cases are Gymnasium's autoreset modes.
public enum AutoresetMode: Sendable {
    /// The next step ignores its action and returns the new episode's first observation, with reward 0.
    case nextStep
    /// The last step of an episode already returns the new episode's first observation, together with the final rows of
    /// the old episode. See ``Batch/restartEnded(in:keeping:)``.
    case sameStep
    /// The lane waits until it is reset. A step before the reset throws an error.
    case disabled
}

/// An implementation of the rules. All implementations produce the same bytes. Tests and benchmarks choose one; users
/// get the automatic choice.
public enum Engine: String, CaseIterable, Sendable {
    /// The fastest implementation for the game, the board's size and the processor.
    case automatic
    /// The readable rules, one board at a time.
    case reference
    /// The kernel for 64 boards at once, compiled for every processor.
    case baseline
    /// The kernel compiled for AVX2. On a processor without AVX2, ``baseline`` runs instead.
    case avx2
}
