internal import Platform

/// The engine that runs the readable rules of any ``Game``, one lane after another.
final class GameEngine<Rules: Game>: BatchEngine {
    private let game: Rules
    private let keys: BatchKeys
    private let infos: Rules.Infos
    private let phases: LanePhases
    private let stepLimit: Int32
    private let lanes: LaneStorage<Lane>
    private let report: TransitionReport<Rules>

    private typealias Lane = LaneState<Rules.State>

    init(_ plan: BatchPlan<Rules>) throws(EnvironmentError) {
        (game, keys, infos, phases, report) = (plan.game, plan.keys, plan.infos, plan.phases, plan.report)
        stepLimit = plan.options.stepLimit
        let lane = Lane(state: plan.game.makeState())
        lanes = try LaneStorage(
            count: plan.options.lanes, repeating: lane, reserve: plan.options.reserve)
    }

    var nanosecondsPerLane: Int { 1000 }
    var nanosecondsPerSingleLane: Int { 1000 }

    // Each function of the protocol is also compiled for each game. Most of them only call the function that does the
    // work. because: without this split, generic code would look up every type that it mentions on each call.

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func step(_ block: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int) {
        step(block, actions, into: arrays)
    }

    @inline(never)
    private func step(_ block: Range<Int>, _ actions: LaneInput<UInt8>, into arrays: BatchArrays) {
        // because: each of the two loops is compiled for its case, and a plain step needs no copy of the previous
        // state.
        if report.isPlain {
            step(block, actions, into: arrays, isReported: false)
        } else {
            step(block, actions, into: arrays, isReported: true)
        }
    }

    @inline(__always)
    private func step(
        _ block: Range<Int>, _ actions: LaneInput<UInt8>, into arrays: BatchArrays, isReported: Bool
    ) {
        // because: the loop writes to other memory, so the compiler would load these properties again for each lane.
        let (game, keys, phases, stepLimit, lanes) = (game, keys, phases, stepLimit, lanes)
        for index in block {
            let row = arrays.row(index)
            lanes.change(index) { lane in
                var (reward, isTerminated, isTruncated): (Float, Bool, Bool) = (0, false, false)
                var isOver = false
                let isPlayed = !phases.isFinished(index)
                if isPlayed {
                    let before = lane.state
                    let transition = game.step(
                        &lane.state, action: Int(actions[index]), generator: &lane.generator)
                    lane.episodeLength += 1
                    (reward, isTerminated) = (transition.reward, transition.isTerminated)
                    (isOver, isTruncated) = (isTerminated, lane.episodeLength >= stepLimit)
                    if isReported {
                        let move = Move<Rules>(before: before, transition: transition, after: lane.state)
                        reward = report.write(game, move, to: row)
                    }
                } else if phases.waitsForReset {
                    isOver = phases[index] == .terminated
                } else {
                    start(&lane)
                }
                if isReported, !isPlayed { report.writeNone(game, to: row) }
                write(lane, isTerminated: isOver, to: row)
                row.store(reward, keys.reward)
                row.store(isTerminated, keys.terminated)
                row.store(isTruncated, keys.truncated)
            }
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func observe(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int) { write(lanes, into: arrays) }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func observe(lane: Int, into arrays: BatchArrays) { write(lane..<lane + 1, into: arrays) }

    @inline(never)
    private func write(_ lanes: Range<Int>, into arrays: BatchArrays) {
        for lane in lanes {
            write(self.lanes[lane], isTerminated: phases[lane] == .terminated, to: arrays.row(lane))
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func afterstates(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int) {
        let afterstates = game.afterstates!
        for lane in lanes {
            game.writeAfterstates(
                of: self.lanes[lane].state, isTerminated: phases[lane] == .terminated, afterstates,
                to: arrays.row(lane))
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?) {
        lanes.change(lane) { lane in
            if let seed { lane.generator = Generator(seed: seed) }
            start(&lane, from: board)
        }
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer) { encode(lane, into: record) }

    @inline(never)
    private func encode(_ lane: Int, into record: UnsafeMutableRawBufferPointer) {
        game.encode(lanes[lane], phases[lane], into: record)
    }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func check(_ record: UnsafeRawBufferPointer) throws(Reason) { try decode(record) }

    @inline(never)
    private func decode(_ record: UnsafeRawBufferPointer) throws(Reason) { _ = try game.decode(record) }

    @_specialize(where Rules == Game2048)
    @_specialize(where Rules == Concentration)
    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase {
        put(record, into: lane, seed)
    }

    @inline(never)
    private func put(_ record: UnsafeRawBufferPointer, into lane: Int, _ seed: UInt64?) -> LanePhase {
        // Every record was checked before the first lane was changed.
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
        game.write(lane.state, isTerminated: isTerminated, keys, infos, to: row)
        row.store(lane.episodeLength, keys.episodeLength)
    }
}

/// The memory of one batch's lanes.
///
/// This type holds the unsafe memory of the lanes. `@unchecked Sendable` because the batch that owns it serves one
/// caller at a time, and within a call workers have disjoint ranges of lanes.
final class LaneStorage<Lane: Sendable>: @unchecked Sendable {
    private let memory: OwnedMemory
    private let lanes: UnsafeMutableBufferPointer<Lane>

    init(
        count: Int, repeating lane: Lane, reserve: MemoryReserve = { _ in }
    ) throws(EnvironmentError) {
        memory = try OwnedMemory(
            byteCount: count * MemoryLayout<Lane>.stride, for: "num_envs", reserve: reserve)
        lanes = memory.initialized(repeating: lane)
    }

    deinit { lanes.deinitialize() }

    @inline(__always)
    subscript(lane: Int) -> Lane {
        get { lanes[lane] }
        set { lanes[lane] = newValue }
    }

    /// Calls `body` to change a lane in place, without a copy.
    @inline(__always)
    func change(_ lane: Int, _ body: (inout Lane) -> Void) { body(&lanes[lane]) }
}
