/// The vector environment of any ``Game``: one lane after the other.
///
/// A lane's life, with its autoreset mode:
///
///     unseeded ──reset──► playing ──step──► finished ──step (nextStep) or reset──► playing …
///
public final class GameEnvironment<Rules: Game>: VectorEnvironment {
    private let game: Rules
    private let options: BatchOptions
    private let storage: LaneStorage<Lane>

    public let resetArrays: [ArraySpec]
    public let stepArrays: [ArraySpec]

    /// One board of the batch.
    private struct Lane: Sendable {
        var state: Rules.State
        var generator = Generator(seed: 0)
        var phase = Phase.unseeded
        var episodeLength: Int32 = 0
    }

    private enum Phase: Sendable {
        /// Never reset: there is no stream to draw from.
        case unseeded
        case playing
        /// The episode has ended by the rules.
        case terminated
        /// The episode was cut by the step limit only.
        case truncated

        var isFinished: Bool { self == .terminated || self == .truncated }
    }

    /// A batch of boards; the first reset starts them.
    public init(_ game: Rules, _ options: BatchOptions) {
        precondition(options.lanes >= 1)
        self.game = game
        self.options = options
        storage = LaneStorage(count: options.lanes, repeating: Lane(state: game.makeState()))
        resetArrays = StandardArrays.reset(game)
        stepArrays = StandardArrays.step(game)
    }

    public var lanes: Int { options.lanes }
    public var observationSpace: ObservationSpace { game.observationSpace }
    public var actions: [String] { game.actions }
    public var afterstateArrays: [ArraySpec] { game.afterstates }

    // MARK: step

    @specialized(where Rules == Game2048)
    public func step(actions: UnsafeRawBufferPointer, into arrays: BatchArrays) throws(EnvironmentError) {
        let actions = LaneInput<UInt8>(actions)
        try checkStep(actions)
        let reward = resetArrays.count
        let (terminated, truncated) = (reward + 1, reward + 2)
        let (game, storage) = (game, storage)
        let limit = options.maxEpisodeSteps.map { Int32(clamping: $0) } ?? .max
        options.workers.run(lanes: lanes) { range in
            for index in range {
                var lane = storage[index]
                var outcome = StepOutcome(reward: 0, terminated: false)
                if lane.phase.isFinished {
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

    private func checkStep(_ actions: LaneInput<UInt8>) throws(EnvironmentError) {
        let count = game.actions.count
        for lane in 0..<lanes {
            guard actions[lane] < count else {
                throw .invalid(
                    "actions", lane: lane,
                    "action \(actions[lane]) of lane \(lane) is outside 0...\(count - 1)")
            }
            let phase = storage[lane].phase
            guard phase != .unseeded else { throw neverReset(lane) }
            guard options.autoreset != .disabled || !phase.isFinished else {
                throw .precondition(
                    "actions", lane: lane,
                    "the episode of lane \(lane) has ended and autoreset is disabled: reset the lane first")
            }
        }
    }

    // MARK: reset

    @specialized(where Rules == Game2048)
    public func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try checkReset(input)
        let mask = input.mask.map { LaneInput<UInt8>($0) }
        let seeds = input.seeds.map { LaneInput<UInt64>($0) }
        let boards = input.boards.map { LaneBytes($0, bytesPerLane: bytesPerBoard) }
        let (game, storage) = (game, storage)
        options.workers.run(lanes: lanes) { range in
            for index in range {
                if mask.map({ $0[index] == 1 }) ?? true {
                    var lane = storage[index]
                    if let seeds { lane.generator = Generator(seed: UInt64(littleEndian: seeds[index])) }
                    if let boards {
                        // Checked for every lane before the first one was changed.
                        try! game.start(&lane.state, from: boards[index])
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

    private var bytesPerBoard: Int { game.observationSpace.shape.reduce(1, *) }

    private func checkReset(_ input: ResetInput) throws(EnvironmentError) {
        let mask = input.mask.map { LaneInput<UInt8>($0) }
        let boards = input.boards.map { LaneBytes($0, bytesPerLane: bytesPerBoard) }
        var scratch = game.makeState()
        for lane in 0..<lanes {
            if let mask, mask[lane] > 1 {
                throw .invalid("reset_mask", lane: lane, "the mask of lane \(lane) is neither 0 nor 1")
            }
            let isUnseeded = storage[lane].phase == .unseeded
            guard mask.map({ $0[lane] == 1 }) ?? true else {
                guard !isUnseeded else {
                    throw .precondition(
                        "reset_mask", lane: lane,
                        "lane \(lane) was never reset, so the mask has to include it")
                }
                continue
            }
            guard input.seeds != nil || !isUnseeded else {
                throw .precondition("seed", lane: lane, "the first reset of lane \(lane) has to bring a seed")
            }
            if let boards {
                do throws(InvalidBoard) {
                    try game.start(&scratch, from: boards[lane])
                } catch {
                    throw .invalid("boards", lane: lane, "the board of lane \(lane) \(error.message)")
                }
            }
        }
    }

    // MARK: observe, afterstates

    @specialized(where Rules == Game2048)
    public func observe(into arrays: BatchArrays) throws(EnvironmentError) {
        try checkSeeded()
        let (game, storage) = (game, storage)
        options.workers.run(lanes: lanes) { range in
            for index in range { Self.write(game, storage[index], to: arrays.row(index)) }
        }
    }

    @specialized(where Rules == Game2048)
    public func afterstates(into arrays: BatchArrays) throws(EnvironmentError) {
        try checkSeeded()
        let (game, storage) = (game, storage)
        options.workers.run(lanes: lanes) { range in
            for index in range {
                let lane = storage[index]
                game.writeAfterstates(
                    of: lane.state, isTerminated: lane.phase == .terminated, to: arrays.row(index))
            }
        }
    }

    private func checkSeeded() throws(EnvironmentError) {
        for lane in 0..<lanes where storage[lane].phase == .unseeded { throw neverReset(lane) }
    }

    private func neverReset(_ lane: Int) -> EnvironmentError {
        .precondition("", lane: lane, "lane \(lane) was never reset: call reset first")
    }

    private static func write(_ game: Rules, _ lane: Lane, to row: LaneRow) {
        game.write(lane.state, isTerminated: lane.phase == .terminated, to: GameRow(row: row))
        row.store(lane.episodeLength, array: StandardArrays.episodeLength)
    }
}
