internal import Platform

/// The vector environment of any ``Game``: one lane after the other. ``LanePhase`` draws a lane's life.
public final class GameEnvironment<Rules: Game>: VectorEnvironment {
    public let game: Rules
    public let options: BatchOptions
    private let checks: BatchChecks
    private let report: TransitionReport<Rules>
    private let storage: LaneStorage<Lane>
    /// Whether all lanes have been reset once.
    private var isSeeded = false

    public let returns: EpisodeReturns?
    public let resetArrays: [ArraySpec]
    public let stepArrays: [ArraySpec]

    private typealias Lane = LaneState<Rules.State>

    /// A batch of boards; the first reset starts them. Throws if the reward or an extra info is wrong.
    public init(_ game: Rules, _ options: BatchOptions) throws(EnvironmentError) {
        precondition(options.lanes >= 1)
        self.game = game
        self.options = options
        checks = BatchChecks(game, options)
        report = try TransitionReport(game, options)
        resetArrays = StandardArrays.reset(game)
        stepArrays = StandardArrays.step(game) + report.arrays
        storage = try LaneStorage(count: options.lanes, repeating: Lane(state: game.makeState()))
        returns = try EpisodeReturns(lanes: options.lanes, reset: resetArrays, step: stepArrays)
    }

    public var nanosecondsPerLane: Int { 1000 }
    public func bytes(lanes: Int) -> Int {
        lanes * MemoryLayout<Lane>.stride + (returns?.bytes(lanes: lanes) ?? 0)
    }
    public var rewardTerms: [String] { report.program.names }

    // MARK: step

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    public func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays, skippingFinished: Bool
    ) throws(EnvironmentError) {
        try checks.step(actions, isSeeded: isSeeded, skippingFinished: skippingFinished) {
            self.isFinished($0)
        }
        let actions = LaneInput<UInt8>(actions)
        let reward = resetArrays.count
        let (terminated, truncated, extras) = (reward + 1, reward + 2, reward + 3)
        let (game, storage, returns) = (game, storage, returns)
        let report = report.isPlain ? nil : report
        let (limit, autoreset) = (options.stepLimit, options.autoreset)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range {
                var lane = storage[index]
                let row = arrays.row(index)
                var outcome = StepOutcome(reward: 0, terminated: false)
                var isTruncated = false
                switch lane.phase.step(autoreset) {
                case .wait:
                    report?.writeNone(game, row: row, first: extras)
                case .start:
                    Self.start(game, &lane)
                    report?.writeNone(game, row: row, first: extras)
                case .play:
                    let action = Int(actions[index])
                    if let report {
                        let before = lane.state
                        outcome = game.step(&lane.state, action: action, generator: &lane.generator)
                        outcome.reward = report.write(
                            game, from: before, action: action, to: lane.state,
                            isTerminated: outcome.terminated, row: row, first: extras)
                    } else {
                        outcome = game.step(&lane.state, action: action, generator: &lane.generator)
                    }
                    lane.episodeLength += 1
                    isTruncated = lane.episodeLength >= limit
                    lane.phase = .after(isTerminated: outcome.terminated, isTruncated: isTruncated)
                }
                storage[index] = lane
                Self.write(game, lane, to: row)
                row.store(outcome.reward, array: reward)
                row.store(outcome.terminated, array: terminated)
                row.store(isTruncated, array: truncated)
            }
            returns?.add(range, in: arrays, row: range.lowerBound)
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    public func restart(_ lanes: [Int], in arrays: BatchArrays, keeping finals: BatchArrays) {
        let (game, storage, returns) = (game, storage, returns)
        options.workers.run(lanes: lanes.count, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for row in range {
                finals.keepFinal(row, ofLane: lanes[row], from: arrays)
                var lane = storage[lanes[row]]
                Self.start(game, &lane)
                storage[lanes[row]] = lane
                returns?[lanes[row]] = 0
                Self.write(game, lane, to: arrays.row(lanes[row]))
            }
        }
    }

    public func isFinished(_ lane: Int) -> Bool { storage[lane].phase != .playing }

    public func checkSeeded() throws(EnvironmentError) { try checks.seeded(isSeeded) }

    // MARK: reset

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    public func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError) {
        var scratch = game.makeState()
        try checks.reset(input, isSeeded: isSeeded) { (board) throws(Reason) in
            try self.game.start(&scratch, from: board)
        }
        isSeeded = true
        let (game, storage, returns, bytesPerBoard) = (game, storage, returns, checks.bytesPerBoard)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range {
                if input.resets(index) {
                    var lane = storage[index]
                    if let seed = input.seed(index) { lane.generator = Generator(seed: seed) }
                    Self.start(game, &lane, from: input.board(index, bytes: bytesPerBoard))
                    storage[index] = lane
                    returns?[index] = 0
                }
                Self.write(game, storage[index], to: arrays.row(index))
            }
        }
    }

    // MARK: observe, afterstates

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    public func observe(into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let (game, storage) = (game, storage)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range { Self.write(game, storage[index], to: arrays.row(index)) }
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
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

    // MARK: snapshots

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    public func snapshot(
        _ lanes: [Int], into records: UnsafeMutableRawBufferPointer
    ) throws(EnvironmentError) {
        try checks.seeded(isSeeded)
        let (game, storage) = (game, storage)
        let records = RecordOutput(memory: records, recordSize: recordSize)
        options.workers.run(lanes: lanes.count, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range { game.encode(storage[lanes[index]], into: records[index]) }
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    public func restore(_ input: RestoreInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try checks.restore(input, isSeeded: isSeeded) { (record) throws(Reason) in
            _ = try self.game.decode(record)
        }
        isSeeded = true
        let (game, storage, returns) = (game, storage, returns)
        options.workers.run(lanes: input.lanes.count, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for index in range {
                // Checked for every lane before the first one was changed.
                var lane = try! game.decode(input.record(index))
                if let seed = input.seed(index) { lane.generator = Generator(seed: seed) }
                storage[input.lanes[index]] = lane
                returns?[input.lanes[index]] = input.episodeReturn(index)
            }
        }
        try observe(into: arrays)
    }

    /// Starts an episode from a given board, which was checked before, or by drawing from the stream.
    @inline(__always)
    private static func start(_ game: Rules, _ lane: inout Lane, from board: UnsafeRawBufferPointer? = nil) {
        if let board {
            try! game.start(&lane.state, from: board)
        } else {
            game.start(&lane.state, generator: &lane.generator)
        }
        lane.episodeLength = 0
        lane.phase = .playing
    }

    private static func write(_ game: Rules, _ lane: Lane, to row: LaneRow) {
        game.write(lane.state, isTerminated: lane.phase == .terminated, to: GameRow(row: row))
        row.store(lane.episodeLength, array: StandardArrays.episodeLength)
    }
}

/// The lanes of one batch in memory of their own.
///
/// This is the room for unsafe access to lanes. `@unchecked Sendable` because the environment that owns
/// it is called by one caller at a time, and within a call workers have disjoint ranges of lanes.
final class LaneStorage<Lane: Sendable>: @unchecked Sendable {
    private let memory: OwnedMemory
    private let lanes: UnsafeMutableBufferPointer<Lane>

    init(count: Int, repeating lane: Lane) throws(EnvironmentError) {
        memory = try OwnedMemory(byteCount: count * MemoryLayout<Lane>.stride, for: "num_envs")
        lanes = memory.initialized(repeating: lane)
    }

    deinit { lanes.deinitialize() }

    @inline(__always)
    subscript(lane: Int) -> Lane {
        get { lanes[lane] }
        set { lanes[lane] = newValue }
    }
}
