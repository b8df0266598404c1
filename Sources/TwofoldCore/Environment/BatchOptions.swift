/// The options of a batch beside the game's own configuration.
public struct BatchOptions: Sendable {
    /// Number of boards, at least 1.
    public var lanes: Int
    /// The autoreset mode of all lanes.
    public var autoreset: AutoresetMode
    /// Steps after which an episode is truncated; nil means never.
    public var maxEpisodeSteps: Int?
    /// The threads over which the lanes are spread.
    public var workers: Workers
    /// The implementation of the rules.
    public var engine: Engine
    /// The declared reward; nil for the game's own.
    public var reward: RewardSpec?
    /// Names of the infos that each step reports beyond the usual ones.
    public var extraInfos: [String] = []
    /// Called before memory of the batch is allocated, with its bytes.
    public var reserve: MemoryReserve = { _ in }

    /// Options for a batch.
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

    /// ``maxEpisodeSteps`` as the engines compare it; never reached where there is no limit.
    var stepLimit: Int32 { maxEpisodeSteps.map { Int32(clamping: $0) } ?? .max }
}

/// What happens to a lane whose episode has ended; Gymnasium's names.
public enum AutoresetMode: Sendable {
    /// The next step ignores its action and returns the new episode's first observation, reward 0.
    case nextStep
    /// The episode's last step already returns the new episode's first observation, and the final rows of
    /// the old episode beside it. See ``Batch/endedLanes(in:)``.
    case sameStep
    /// The lane has to be reset; a step of it is refused.
    case disabled
}

/// An implementation of the rules. All of them give the same bytes. For tests, benchmarks and debugging;
/// users get the automatic choice.
public enum Engine: String, CaseIterable, Sendable {
    /// The fastest that the game, the board's size and the processor allow.
    case automatic
    /// The readable rules, one board at a time.
    case reference
    /// The kernel for 64 boards at once, compiled for every processor.
    case baseline
    /// The kernel compiled for AVX2; the baseline where the processor lacks it.
    case avx2
}
