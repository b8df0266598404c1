internal import Platform

/// The boards of a session: any number of boards of one game, stepped together.
///
///     step ──► check ──► engine ──► passes ──► phases        for each chunk of lanes
///
/// The batch checks requests, and seeds, starts, stores and restores lanes. Its ``BatchEngine`` plays the actions.
/// Engines therefore differ only in how they run the rules.
///
/// Only one caller at a time may use a batch. A call may spread its work over several threads, and returns when all
/// lanes are done. A call that throws leaves the batch unchanged.
public final class Batch {
    public let game: any Game
    public let options: BatchOptions
    /// The arrays that ``reset(_:into:)`` and ``observe(into:)`` fill.
    public let resetArrays: [ArraySpec]
    /// The arrays that ``step(actions:into:skippingFinished:)`` fills: first the arrays of a reset, then the arrays
    /// that only a step has.
    public let stepArrays: [ArraySpec]
    /// The arrays that ``restartEnded(in:keeping:)`` fills for each ended episode: the lane's number, the arrays of a
    /// reset, and some extra infos, which here describe the final board. In the step's own arrays, the infos with the
    /// same names describe the new board.
    public let finalArrays: [ArraySpec]
    /// The names of the reward's terms, in the order of `reward_terms`.
    public let rewardTerms: [String]
    /// Each lane's return so far in the current episode; nil unless the extra info `episode_return` was requested.
    public let returns: EpisodeReturns?
    /// The estimated time that one thread needs for one lane's step, in nanoseconds. The number of chunks in a call,
    /// and so the number of threads, depends on this estimate.
    public let nanosecondsPerLane: Int

    package let keys: BatchKeys
    let engine: any BatchEngine
    package let phases: LanePhases
    private let passes: [any StepPass]
    /// The fields of the lanes' states, for a caller that keeps the states. `rest` has only the fields that
    /// ``resetArrays`` do not include.
    let stateFields: (all: [StateField], rest: [StateField])
    private let actionCount: Int
    /// The number of bytes of one board in ``ResetInput/boards``.
    private let bytesPerBoard: Int
    private let finalLane: ArrayKey<UInt64>
    /// Whether all lanes have been reset. The first reset must include all of them.
    private var isSeeded = false

    /// Makes a batch that plays with the engine from `makeEngine`. The first reset starts the boards. Throws if the
    /// reward or an extra info is invalid.
    ///
    /// - Parameters:
    ///   - passes: Additional passes, which compute infos that only this game has.
    init<Rules: Game>(
        _ game: Rules, _ options: BatchOptions, passes others: [any StepPass] = [],
        makeEngine: (BatchPlan<Rules>) throws(EnvironmentError) -> any BatchEngine
    ) throws(EnvironmentError) {
        precondition(options.lanes >= 1)
        var arrays = ArrayList()
        var infos: Rules.Infos?
        let keys = BatchKeys(game, in: &arrays, infos: &infos)
        var report = try TransitionReport(game, options)
        var returns: EpisodeReturns?
        for (index, name) in options.extraInfos.enumerated() {
            guard !options.extraInfos[..<index].contains(name) else {
                throw .invalid("extra_infos", "extra_infos has '\(name)' twice")
            }
            if name == EpisodeReturns.name {
                returns = try EpisodeReturns(options, keys, in: &arrays)
            } else if !report.declare(name, game, in: &arrays),
                !others.contains(where: { $0.declare(name, in: &arrays, keys) })
            {
                throw .invalid(
                    "extra_infos",
                    "extra_infos has '\(name.prefix(100))', which this environment does not have; it has "
                        + Rules.extraInfoNames.joined(separator: ", "))
            }
        }
        var finals = ArrayList()
        finalLane = finals.add("lanes")
        for spec in arrays.specs.prefix(keys.resetCount) { finals.add(spec) }
        for pass in others { pass.declareFinals(in: &finals) }

        phases = try LanePhases(options)
        engine = try makeEngine(
            BatchPlan(
                game: game, options: options, keys: keys, infos: infos!, phases: phases,
                stepArrays: arrays.specs, report: report))
        let passes: [any StepPass] = if let returns { [returns] + others } else { others }
        self.game = game
        self.options = options
        self.keys = keys
        self.returns = returns
        self.passes = passes
        resetArrays = Array(arrays.specs.prefix(keys.resetCount))
        stepArrays = arrays.specs
        finalArrays = finals.specs
        rewardTerms = report.program.names
        nanosecondsPerLane = passes.reduce(engine.nanosecondsPerLane) { $0 + $1.nanosecondsPerLane }
        actionCount = game.actions.count
        bytesPerBoard = game.boardSpace.shape.reduce(1, *)
        let resetArrays = resetArrays
        let fields = game.stateFields
        stateFields = (fields, fields.filter { !resetArrays.contains($0.spec) })
    }

    /// Makes a batch that plays with the readable rules, in a ``GameEngine``. Throws if the reward or an extra info is
    /// invalid.
    public convenience init<Rules: Game>(_ game: Rules, _ options: BatchOptions) throws(EnvironmentError) {
        try self.init(game, options) { (plan) throws(EnvironmentError) in try GameEngine(plan) }
    }

    /// Whether a step depends on more than the states of the lanes: on the return so far, or on a table.
    var hasPasses: Bool { !passes.isEmpty }
    /// The number of boards.
    public var lanes: Int { options.lanes }
    public var autoreset: AutoresetMode { options.autoreset }
    public var observationSpace: ObservationSpace { game.observationSpace }
    /// The space of the boards in ``ResetInput/boards``.
    public var boardSpace: ObservationSpace { game.boardSpace }
    /// The name of each action, in the order of the action numbers.
    public var actions: [String] { game.actions }
    /// The arrays that ``afterstates(into:)`` fills; empty if the game has no afterstates.
    public var afterstateArrays: [ArraySpec] { game.afterstates?.specs ?? [] }
    /// The number of bytes of one lane in a snapshot.
    public var recordSize: Int { game.recordSize }

    // MARK: step

    /// Plays one action on each board; `actions` holds one byte per lane.
    ///
    /// If autoreset is disabled and the episode of a lane has ended, the call throws. If `skippingFinished` is true,
    /// such a lane waits instead: its rows repeat its last state, with reward 0 and with `terminated` and `truncated`
    /// false.
    public func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays, skippingFinished: Bool = false
    ) throws(EnvironmentError) {
        try check(actions, skippingFinished: skippingFinished)
        let actions = LaneInput<UInt8>(actions)
        let (engine, passes, phases, keys) = (engine, passes, phases, keys)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, worker in
            engine.step(range, actions: actions, into: arrays, worker: worker)
            // because: an iterator would retain the list.
            for index in passes.indices {
                for first in stride(from: range.lowerBound, to: range.upperBound, by: 64) {
                    let block = first..<min(first + 64, range.upperBound)
                    passes[index].step(block, actions: actions, in: arrays, phases: phases)
                }
            }
            phases.advance(range, in: arrays, keys)
        }
    }

    /// Starts a new episode in each of these lanes, after a step has filled `arrays`. The lanes must be distinct. Their
    /// random streams continue.
    ///
    /// `finals` holds the ``finalArrays`` with one row for each element of `lanes`, and receives the final rows of the
    /// old episodes. In `arrays`, the first rows of the new episodes replace the reset arrays and the extra infos that
    /// `finals` also has. The step's reward, flags and other extra infos stay in `arrays`.
    private func restart(_ lanes: [Int], in arrays: BatchArrays, keeping finals: BatchArrays) {
        let (engine, passes, phases, returns, keys) = (engine, passes, phases, returns, keys)
        let finalLane = finalLane
        // The reset arrays follow the lane's number.
        let finalRows = finals.dropping(arrays: finalLane.index + 1, rows: 0)
        forEach(of: lanes) { row, lane in
            finals.row(row).store(UInt64(lane).littleEndian, finalLane)
            finalRows.copyRows(row..<row + 1, of: keys.resetCount, from: arrays, startingAt: lane)
            for pass in passes { pass.keepFinal(lane, in: finals, row: row) }
            engine.start(lane, seed: nil, from: nil)
            phases[lane] = .playing
            returns?[lane] = 0
            engine.observe(lane: lane, into: arrays)
            for pass in passes { pass.restart(lane, in: arrays) }
        }
    }

    // MARK: reset, observe, afterstates

    /// Starts new episodes in the lanes that the reset mask selects, and writes the arrays of all lanes.
    public func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try check(input, game)
        isSeeded = true
        let (engine, phases, returns, bytesPerBoard) = (engine, phases, returns, bytesPerBoard)
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, _ in
            for lane in range where input.resets(lane) {
                engine.start(lane, seed: input.seed(lane), from: input.board(lane, bytes: bytesPerBoard))
                phases[lane] = .playing
                returns?[lane] = 0
            }
        }
        observeNew(into: arrays)
    }

    /// Writes the current observations and infos of all lanes.
    public func observe(into arrays: BatchArrays) throws(EnvironmentError) {
        try checkSeeded()
        let engine = engine
        forEachBlock { block, worker in engine.observe(block, into: arrays, worker: worker) }
    }

    /// Writes the observations and infos of all lanes after some lanes have been reset or restored.
    private func observeNew(into arrays: BatchArrays) {
        let (engine, passes) = (engine, passes)
        forEachBlock { block, worker in
            engine.observe(block, into: arrays, worker: worker)
            for pass in passes { pass.observe(block, in: arrays) }
        }
    }

    /// Writes the afterstate of each action for all boards.
    public func afterstates(into arrays: BatchArrays) throws(EnvironmentError) {
        try checkSeeded()
        let engine = engine
        forEachBlock { block, worker in engine.afterstates(block, into: arrays, worker: worker) }
    }

    // MARK: snapshots

    /// Writes a record of ``recordSize`` bytes for each of these lanes. The record holds everything that the lane's
    /// future depends on, except ``returns``.
    public func snapshot(
        _ lanes: [Int], into memory: UnsafeMutableRawBufferPointer
    ) throws(EnvironmentError) {
        try checkSeeded()
        let (engine, size) = (engine, recordSize)
        precondition(memory.count == lanes.count * size)
        let records = BatchArrays([ArraySpec("records", .uint8, shape: [size])]) { _ in memory.baseAddress! }
        forEach(of: lanes) { index, lane in
            let record = records.address(array: 0, lane: index)
            engine.store(lane, into: UnsafeMutableRawBufferPointer(start: record, count: size))
        }
    }

    /// Restores lanes from the records of a snapshot, and writes the current observations and infos of all lanes.
    public func restore(_ input: RestoreInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try check(input)
        isSeeded = true
        let (engine, phases, returns, size) = (engine, phases, returns, recordSize)
        forEach(of: input.lanes) { index, lane in
            let record = input.record(index, bytes: size)
            phases[lane] = engine.load(lane, from: record, seed: input.seed(index))
            returns?[lane] = input.episodeReturn(index)
        }
        observeNew(into: arrays)
    }

    // MARK: workers

    /// Calls `body` for each block of 64 lanes. The last block may have fewer lanes.
    @inline(__always)
    func forEachBlock(_ body: @Sendable (_ block: Range<Int>, _ worker: Int) -> Void) {
        options.workers.run(lanes: lanes, nanosecondsPerLane: nanosecondsPerLane) { range, worker in
            for first in stride(from: range.lowerBound, to: range.upperBound, by: 64) {
                body(first..<min(first + 64, range.upperBound), worker)
            }
        }
    }

    /// Calls `body` for each of these lanes, which must be distinct.
    @inline(__always)
    private func forEach(of lanes: [Int], _ body: @Sendable (_ index: Int, _ lane: Int) -> Void) {
        options.workers.run(lanes: lanes.count, nanosecondsPerLane: engine.nanosecondsPerSingleLane) {
            range, _ in
            for index in range { body(index, lanes[index]) }
        }
    }
}

// MARK: checks, made before any lane changes

extension Batch {
    /// Throws an error unless all lanes have been reset.
    public func checkSeeded() throws(EnvironmentError) {
        guard isSeeded else {
            throw .precondition("reset", lane: 0, "lane 0 was never reset: call reset first")
        }
    }

    private func check(
        _ actions: UnsafeRawBufferPointer, skippingFinished: Bool
    ) throws(EnvironmentError) {
        try checkSeeded()
        try checkActions(actions)
        guard autoreset == .disabled, !skippingFinished else { return }
        for lane in 0..<lanes where phases.isFinished(lane) {
            throw .precondition(
                "actions", lane: lane,
                "the episode of lane \(lane) has ended and autoreset is disabled: reset the lane first")
        }
    }

    func checkActions(_ actions: UnsafeRawBufferPointer) throws(EnvironmentError) {
        // Search for the lane only if an action is out of range.
        var largest: UInt8 = 0
        for lane in 0..<lanes { largest = max(largest, actions[lane]) }
        if Int(largest) >= actionCount, let lane = actions.firstIndex(where: { Int($0) >= actionCount }) {
            throw .invalid(
                "actions", lane: lane,
                "action \(actions[lane]) of lane \(lane) is outside 0...\(actionCount - 1)")
        }
    }

    /// Throws if a reset request is invalid. `game` is the batch's game, passed as an argument so that the compiler
    /// knows its concrete type.
    private func check(_ input: ResetInput, _ game: some Game) throws(EnvironmentError) {
        var scratch = game.makeState()
        for lane in 0..<lanes {
            guard (input.mask?[lane] ?? 1) <= 2 else {
                throw .invalid(
                    "reset_mask", lane: lane,
                    "the mask of lane \(lane) is \(input.mask![lane]); it must be 0, 1 or 2")
            }
            guard input.resets(lane) else {
                guard isSeeded else {
                    throw .precondition(
                        "reset_mask", lane: lane,
                        "lane \(lane) was never reset; the mask has to include it")
                }
                continue
            }
            guard input.seed(lane) != nil || isSeeded else {
                throw .precondition(
                    "seed", lane: lane, "lane \(lane) has no seed; the first reset needs one for each lane")
            }
            guard let board = input.board(lane, bytes: bytesPerBoard) else { continue }
            do throws(Reason) {
                try game.start(&scratch, from: board)
            } catch {
                throw .invalid("boards", lane: lane, "the board of lane \(lane) \(error)")
            }
        }
    }

    private func check(_ input: RestoreInput) throws(EnvironmentError) {
        if !isSeeded, input.lanes.count < lanes {
            let restored = Set(input.lanes)
            let lane = (0..<lanes).first { !restored.contains($0) }!
            throw .precondition(
                "lanes", lane: lane, "lane \(lane) was never reset; the restore has to include it")
        }
        for (index, lane) in input.lanes.enumerated() {
            do throws(Reason) {
                try engine.check(input.record(index, bytes: recordSize))
            } catch {
                throw .invalid(
                    "blob", lane: lane, "record \(input.rows[index]) for lane \(lane) \(error)")
            }
        }
    }
}

// MARK: SAME_STEP

/// In the mode SAME_STEP, autoreset is a separate operation after the step, so the kernel's loops and the other modes
/// need no code for it:
///
///     step ──► ended lanes ──► keep their final rows, restart them, write their new rows ──► reply
extension Batch {
    /// Returns the number of lanes whose episodes ended in the step that filled `arrays`.
    public func endedCount(in arrays: BatchArrays) -> Int {
        var count = 0
        arrays.forEachEnded(keys, among: 0..<lanes) { _ in count += 1 }
        return count
    }

    /// Restarts all lanes whose episodes ended in the step that filled `arrays`, and returns their number. It calls
    /// ``restart(_:in:keeping:)`` for a limited range of lanes at a time, so that the list of ended lanes stays small.
    public func restartEnded(in arrays: BatchArrays, keeping finals: BatchArrays) -> Int {
        var count = 0
        for first in stride(from: 0, to: lanes, by: endedAtATime) {
            var ended: [Int] = []
            arrays.forEachEnded(keys, among: first..<min(lanes, first + endedAtATime)) { ended.append($0) }
            guard !ended.isEmpty else { continue }
            restart(ended, in: arrays, keeping: finals.dropping(arrays: 0, rows: count))
            count += ended.count
        }
        return count
    }
}

extension BatchArrays {
    /// Calls `body` with each lane in `range` whose episode ended in the step that filled the arrays.
    @inline(__always)
    func forEachEnded(_ keys: BatchKeys, among range: Range<Int>, _ body: (Int) -> Void) {
        let terminated = UnsafeRawPointer(address(keys.terminated, lane: 0))
        let truncated = UnsafeRawPointer(address(keys.truncated, lane: 0))
        var lane = range.lowerBound
        // Look at eight lanes at once, because few episodes end at the same time.
        while lane + 8 <= range.upperBound {
            let flags =
                terminated.loadUnaligned(fromByteOffset: lane, as: UInt64.self)
                | truncated.loadUnaligned(fromByteOffset: lane, as: UInt64.self)
            var rest = UInt64(littleEndian: flags)
            while rest != 0 {
                body(lane + rest.trailingZeroBitCount / 8)
                rest &= rest &- 1
            }
            lane += 8
        }
        while lane < range.upperBound {
            let flag =
                terminated.load(fromByteOffset: lane, as: UInt8.self)
                | truncated.load(fromByteOffset: lane, as: UInt8.self)
            if flag != 0 { body(lane) }
            lane += 1
        }
    }
}

/// The number of lanes that ``Batch/restartEnded(in:keeping:)`` examines at a time.
private let endedAtATime = 1 << 16
