/// Any number of boards of one game, stepped together: what a session holds.
///
/// Owned by one caller at a time; a call may spread over threads inside and returns when all lanes are
/// done. A call that throws has changed nothing.
public protocol VectorEnvironment: AnyObject {
    /// Number of boards.
    var lanes: Int { get }
    /// The rules that the boards go by.
    var playedGame: any Game { get }
    /// What happens to a lane whose episode has ended.
    var autoreset: AutoresetMode { get }
    /// About how long one lane takes on one thread: decides into how many chunks a batch is cut, and
    /// whether it is worth handing to another thread at all.
    var nanosecondsPerLane: Int { get }
    /// About how much memory a batch of so many lanes takes, otherwise like this one; apart from what is told of it.
    func bytes(lanes: Int) -> Int
    /// What an agent sees of one board.
    var observationSpace: ObservationSpace { get }
    /// A board that ``ResetInput/boards`` brings for one lane.
    var boardSpace: ObservationSpace { get }
    /// The actions' names, in the order of their numbers.
    var actions: [String] { get }
    /// The arrays that ``reset(_:into:)`` and ``observe(into:)`` fill.
    var resetArrays: [ArraySpec] { get }
    /// The arrays that ``step(actions:into:)`` fills.
    var stepArrays: [ArraySpec] { get }
    /// The arrays that ``afterstates(into:)`` fills; empty where the game has none.
    var afterstateArrays: [ArraySpec] { get }
    /// The names of the reward's terms, in the order in which `reward_terms` tells them.
    var rewardTerms: [String] { get }

    /// The rules that decide how a lane goes on.
    var gameRules: [Rule] { get }
    /// Bytes that a snapshot takes for a lane.
    var recordSize: Int { get }

    /// Starts new episodes in the lanes of the mask.
    func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError)

    /// Plays one action on each board; `actions` holds one byte for each lane.
    ///
    /// With autoreset disabled a step of a finished lane is refused, or, `skippingFinished`, the lane waits:
    /// it tells the same again, reward 0, neither terminated nor truncated.
    func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays, skippingFinished: Bool
    ) throws(EnvironmentError)

    /// Whether a lane's episode has ended and its next one has not begun.
    func isFinished(_ lane: Int) -> Bool

    /// Throws when the first reset has not been.
    func checkSeeded() throws(EnvironmentError)

    /// Starts new episodes in single lanes, all different, of which a step has just told in `arrays`; their
    /// streams go on. `finals`, which has the ``finalArrays`` with a row for each of `lanes`, gets what their
    /// episodes ended with. Then these lanes' rows in `arrays` tell the new episodes; what only a step
    /// tells stays.
    func restart(_ lanes: [Int], in arrays: BatchArrays, keeping finals: BatchArrays)

    /// Tells the current state again.
    func observe(into arrays: BatchArrays) throws(EnvironmentError)

    /// Tells what each action would make of each board, before the spawn.
    func afterstates(into arrays: BatchArrays) throws(EnvironmentError)

    /// Writes everything that the future of these lanes depends on: ``recordSize`` bytes for each.
    func snapshot(_ lanes: [Int], into records: UnsafeMutableRawBufferPointer) throws(EnvironmentError)

    /// Puts records into lanes, and tells all lanes as they stand now.
    func restore(_ input: RestoreInput, into arrays: BatchArrays) throws(EnvironmentError)
}

extension VectorEnvironment {
    /// A step that refuses finished lanes where autoreset is disabled.
    public func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays
    ) throws(EnvironmentError) {
        try step(actions: actions, into: arrays, skippingFinished: false)
    }
}

/// What a reset may bring, each part for all lanes and in the lane's place; rows outside the mask are
/// ignored. The caller has checked the sizes.
///
/// `@unchecked Sendable` because it is only read, and the carrier keeps the memory for the call.
public struct ResetInput: @unchecked Sendable {
    /// A new seed for each lane: 8 bytes, little-endian.
    public var seeds: UnsafeRawBufferPointer?
    /// One byte a lane: 1 to reset it, 2 to reset it without its new seed, 0 to leave it. Absent means 1 for all.
    public var mask: UnsafeRawBufferPointer?
    /// The board of ``VectorEnvironment/boardSpace`` that each lane starts from. Absent means a random start.
    public var boards: UnsafeRawBufferPointer?

    /// A reset with these parts.
    public init(
        seeds: UnsafeRawBufferPointer? = nil, mask: UnsafeRawBufferPointer? = nil,
        boards: UnsafeRawBufferPointer? = nil
    ) {
        self.seeds = seeds
        self.mask = mask
        self.boards = boards
    }
}

/// What happens to a lane whose episode has ended; Gymnasium's names.
public enum AutoresetMode: Sendable {
    /// The next step ignores its action and returns the new episode's first observation, reward 0.
    case nextStep
    /// The episode's last step already returns the new episode's first observation; what the old one
    /// ended with is told beside it. See ``VectorEnvironment/endedLanes(in:)``.
    case sameStep
    /// The lane has to be reset; a step of it is refused.
    case disabled
}

/// What every environment takes beside the game's own configuration.
public struct BatchOptions: Sendable {
    /// Number of boards, at least 1.
    public var lanes: Int
    /// What happens to a lane whose episode has ended.
    public var autoreset: AutoresetMode
    /// Steps after which an episode is truncated; nil means never.
    public var maxEpisodeSteps: Int?
    /// What the work of a batch is spread over.
    public var workers: Workers
    /// Which implementation of the rules runs.
    public var engine: Engine
    /// What a step earns; nil for the game's own reward.
    public var reward: RewardSpec?
    /// The infos that steps tell beyond the usual ones, by name.
    public var extraInfos: [String] = []

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
}

/// Which implementation of the rules runs a batch: all of them do the same, bit by bit. For tests,
/// benchmarks and debugging; users have the automatic choice.
public enum Engine: String, CaseIterable, Sendable {
    /// The fastest that the game, the board's size and the processor allow.
    case automatic
    /// The readable rules, one board at a time.
    case reference
    /// The kernel for 64 boards at once, as it runs on every processor.
    case baseline
    /// The kernel compiled for AVX2; the baseline where the processor lacks it.
    case avx2
}

/// The arrays that every game has, and their places among the declared ones:
///
///     observation, action_mask, episode_length, the game's infos …, reward, terminated, truncated
///     └──────────────────── a reset's arrays ─────────────────────┘
///     └──────────────────────────────── a step's arrays ──────────────────────────────────┘
///
/// The extra infos that were asked for come behind those of a step.
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
