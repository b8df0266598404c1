/// The options of a batch, in addition to the game's own configuration.
public struct BatchOptions: Sendable {
    /// The number of boards, at least 1.
    public var lanes: Int
    /// The autoreset mode of all lanes.
    public var autoreset: AutoresetMode
    /// The number of steps after which an episode is truncated; nil means never.
    public var maxEpisodeSteps: Int?
    /// The threads over which the lanes are spread.
    public var workers: Workers
    /// The implementation of the rules.
    public var engine: Engine
    /// The declared reward; nil for the game's own.
    public var reward: RewardSpec?
    /// The names of the infos that each step reports in addition to the usual infos.
    public var extraInfos: [String] = []
    /// The function that reserves a number of bytes before the batch allocates memory.
    public var reserve: MemoryReserve = { _ in }

    /// Makes options for a batch.
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

/// The treatment of a lane whose episode has ended. The names are Gymnasium's.
public enum AutoresetMode: Sendable {
    /// The next step ignores its action and returns the new episode's first observation, with reward 0.
    case nextStep
    /// The last step of an episode already returns the new episode's first observation, together with the final rows of
    /// the old episode. See ``Batch/endedLanes(in:)``.
    case sameStep
    /// The lane has to be reset; a step of the lane is refused before that.
    case disabled
}

/// An implementation of the rules. All of them give the same bytes. Tests, benchmarks and debugging choose one; users
/// get the automatic choice.
public enum Engine: String, CaseIterable, Sendable {
    /// The fastest implementation for the game, the board's size and the processor.
    case automatic
    /// The readable rules, one board at a time.
    case reference
    /// The kernel for 64 boards at once, compiled for every processor.
    case baseline
    /// The kernel compiled for AVX2; the baseline where the processor lacks it.
    case avx2
}
