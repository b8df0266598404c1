/// The vector environment of any ``Game``: one lane after the other.
///
/// A lane's life, with its autoreset mode:
///
///     first reset ──► playing ──step──► finished ──step (nextStep) or reset──► playing …
///
public final class GameEnvironment<Rules: Game>: VectorEnvironment {
    private let game: Rules
    private let options: BatchOptions
    private let checks: BatchChecks
    private let storage: LaneStorage<Lane>
    /// Whether the first reset, which has to reset all lanes, has been.
    private var isSeeded = false

    public let resetArrays: [ArraySpec]
    public let stepArrays: [ArraySpec]

    /// One board of the batch.
    private struct Lane: Sendable {
        var state: Rules.State
        var generator = Generator(seed: 0)
        var phase = Phase.playing
        var episodeLength: Int32 = 0
    }

    private enum Phase: Sendable {
        case playing
        /// The episode has ended by the rules.
        case terminated
        /// The episode was cut by the step limit only.
        case truncated
    }

    /// A batch of boards; the first reset starts them.
    public init(_ game: Rules, _ options: BatchOptions) {
        precondition(options.lanes >= 1)
        self.game = game
        self.options = options
        checks = BatchChecks(game, options)
        storage = LaneStorage(count: options.lanes, repeating: Lane(state: game.makeState()))
        resetArrays = StandardArrays.reset(game)
        stepArrays = StandardArrays.step(game)
    }

    public var lanes: Int { options.lanes }
    public var nanosecondsPerLane: Int { 1000 }
    public var observationSpace: ObservationSpace { game.observationSpace }
    public var actions: [String] { game.actions }
    public var afterstateArrays: [ArraySpec] { game.afterstates }

    // MARK: step

    @specialized(where Rules == Game2048)
    public func step(actions: UnsafeRawBufferPointer, into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.step(actions, isSeeded: isSeeded) { self.storage[$0].phase != .playing }
        let actions = LaneInput<UInt8>(actions)
        let reward = resetArrays.count
        let (terminated, truncated) = (reward + 1, reward + 2)
        let (game, storage) = (game, storage)
        let limit = options.maxEpisodeSteps.map { Int32(clamping: $0) } ?? .max
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range {
                var lane = storage[index]
                var outcome = StepOutcome(reward: 0, terminated: false)
                if lane.phase != .playing {
                    game.start(&lane.state, generator: &lane.generator)
                    lane.episodeLength = 0
                    lane.phase = .playing
                } else {
                    outcome = game.step(&lane.state, action: Int(actions[index]), generator: &lane.generator)
                    lane.episodeLength += 1
                    if lane.episodeLength >= limit { lane.phase = .truncated }
                    if outcome.terminated { lane.phase = .terminated }
                }
                storage[index] = lane
                let row = arrays.row(index)
                Self.write(game, lane, to: row)
                row.store(outcome.reward, array: reward)
                row.store(outcome.terminated, array: terminated)
                row.store(lane.phase != .playing && lane.episodeLength >= limit, array: truncated)
            }
        }
    }

    // MARK: reset

    @specialized(where Rules == Game2048)
    public func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError) {
        var scratch = game.makeState()
        try checks.reset(input, isSeeded: isSeeded) { (board) throws(InvalidBoard) in
            try self.game.start(&scratch, from: board)
        }
        isSeeded = true
        let (game, storage, bytesPerBoard) = (game, storage, checks.bytesPerBoard)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range {
                if input.resets(index) {
                    var lane = storage[index]
                    if let seed = input.seed(index) { lane.generator = Generator(seed: seed) }
                    if let board = input.board(index, bytes: bytesPerBoard) {
                        // Checked for every lane before the first one was changed.
                        try! game.start(&lane.state, from: board)
                    } else {
                        game.start(&lane.state, generator: &lane.generator)
                    }
                    lane.phase = .playing
                    lane.episodeLength = 0
                    storage[index] = lane
                }
                Self.write(game, storage[index], to: arrays.row(index))
            }
        }
    }

    // MARK: observe, afterstates

    @specialized(where Rules == Game2048)
    public func observe(into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let (game, storage) = (game, storage)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range { Self.write(game, storage[index], to: arrays.row(index)) }
        }
    }

    @specialized(where Rules == Game2048)
    public func afterstates(into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let (game, storage) = (game, storage)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range {
                let lane = storage[index]
                game.writeAfterstates(
                    of: lane.state, isTerminated: lane.phase == .terminated, to: arrays.row(index))
            }
        }
    }

    private static func write(_ game: Rules, _ lane: Lane, to row: LaneRow) {
        game.write(lane.state, isTerminated: lane.phase == .terminated, to: GameRow(row: row))
        row.store(lane.episodeLength, array: StandardArrays.episodeLength)
    }
}
