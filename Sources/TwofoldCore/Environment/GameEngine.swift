internal import Platform

/// The engine of any ``Game``: the readable rules, one lane after the other.
final class GameEngine<Rules: Game>: BatchEngine {
    private let game: Rules
    private let keys: BatchKeys
    private let phases: LanePhases
    private let stepLimit: Int32
    private let lanes: LaneStorage<Lane>
    private let report: TransitionReport<Rules>
    /// The moves of the last step of each worker, one for each lane of its block; nil where none was played, and where
    /// nothing is reported.
    private let moves: LaneStorage<Move<Rules>?>

    private typealias Lane = LaneState<Rules.State>

    init(_ plan: BatchPlan<Rules>) throws(EnvironmentError) {
        (game, keys, phases, report) = (plan.game, plan.keys, plan.phases, plan.report)
        stepLimit = plan.options.stepLimit
        let lane = Lane(state: plan.game.makeState())
        lanes = try LaneStorage(count: plan.options.lanes, repeating: lane)
        moves = try LaneStorage(
            count: plan.report.isPlain ? 0 : 64 * plan.options.workers.threads, repeating: nil)
    }

    var nanosecondsPerLane: Int { 1000 }
    var nanosecondsPerSingleLane: Int { 1000 }
    func bytes(lanes: Int) -> Int { lanes * MemoryLayout<Lane>.stride }

    // MARK: ranges of lanes

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func step(_ block: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int) {
        let isReported = !report.isPlain
        for index in block {
            var lane = lanes[index]
            let row = arrays.row(index)
            var (reward, isTerminated, isTruncated): (Float, Bool, Bool) = (0, false, false)
            var move: Move<Rules>?
            switch phases.turn(index) {
            case .wait: isTerminated = phases[index] == .terminated
            case .start: start(&lane)
            case .play:
                let before = lane.state
                let transition = game.step(
                    &lane.state, action: Int(actions[index]), generator: &lane.generator)
                lane.episodeLength += 1
                (reward, isTerminated) = (transition.reward, transition.isTerminated)
                isTruncated = lane.episodeLength >= stepLimit
                if isReported { move = Move(before: before, transition: transition, after: lane.state) }
            }
            let hasPlayed = phases.plays(index)
            lanes[index] = lane
            write(lane, isTerminated: isTerminated, to: row)
            row.store(reward, keys.reward)
            row.store(hasPlayed && isTerminated, keys.terminated)
            row.store(isTruncated, keys.truncated)
            if isReported { moves[64 * worker + index - block.lowerBound] = move }
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func step(
        _ block: Range<Int>, actions: LaneInput<UInt8>, in arrays: BatchArrays, phases: LanePhases,
        worker: Int
    ) {
        for index in block {
            let row = arrays.row(index)
            if let move = moves[64 * worker + index - block.lowerBound] {
                report.write(game, move, to: row, reward: keys.reward)
            } else {
                report.writeNone(game, to: row)
            }
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func observe(_ block: Range<Int>, into arrays: BatchArrays, worker: Int) {
        for index in block { observe(lane: index, into: arrays) }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func afterstates(_ block: Range<Int>, into arrays: BatchArrays, worker: Int) {
        for index in block {
            game.writeAfterstates(
                of: lanes[index].state, isTerminated: phases[index] == .terminated, to: arrays.row(index))
        }
    }

    // MARK: single lanes

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?) {
        var state = lanes[lane]
        if let seed { state.generator = Generator(seed: seed) }
        start(&state, from: board)
        lanes[lane] = state
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func observe(lane: Int, into arrays: BatchArrays) {
        write(lanes[lane], isTerminated: phases[lane] == .terminated, to: arrays.row(lane))
    }

    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer) {
        game.encode(lanes[lane], phases[lane], into: record)
    }

    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase {
        // Checked for every lane before the first one was changed.
        var (state, phase) = try! game.decode(record)
        if let seed { state.generator = Generator(seed: seed) }
        lanes[lane] = state
        return phase
    }

    @inline(__always)
    private func start(_ lane: inout Lane, from board: UnsafeRawBufferPointer? = nil) {
        if let board {
            try! game.start(&lane.state, from: board)
        } else {
            game.start(&lane.state, generator: &lane.generator)
        }
        lane.episodeLength = 0
    }

    @inline(__always)
    private func write(_ lane: Lane, isTerminated: Bool, to row: LaneRow) {
        game.write(lane.state, isTerminated: isTerminated, to: GameRow(row: row, keys: keys))
        row.store(lane.episodeLength, keys.episodeLength)
    }
}

/// The lanes of one batch in memory of their own.
///
/// This is the room for unsafe access to lanes. `@unchecked Sendable` because the batch that owns it is called by one
/// caller at a time, and within a call workers have disjoint ranges of lanes.
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
