internal import Platform
public import TwofoldCore

/// A batch of 2048 that also reports ``OptimumInfo``s: another batch plays, and each step's boards are looked up in the
/// table behind it.
///
///     values before ──step──► boards ──table──► values after
///           └─ value - value of the action ─► regret
///
/// So a board is looked up once, when the step returns it.
public final class OptimumEnvironment: VectorEnvironment {
    public let game: Game2048
    private let inner: any VectorEnvironment
    private let table: OptimumTable
    private let memory: LaneValues
    /// Where the arrays of the inner batch's step are among these.
    private let innerArrays: [Int]
    /// Where each of the infos is among them; nil where it was not requested.
    private let places: Places

    public let stepArrays: [ArraySpec]
    public let finalArrays: [ArraySpec]
    /// The indices of the optimum's infos in ``finalArrays``.
    private let finalPlaces: Places

    fileprivate struct Places: Sendable {
        let value: Int?
        let actions: Int?
        let regret: Int?

        init(_ arrays: [ArraySpec]) {
            func place(_ info: OptimumInfo) -> Int? { arrays.firstIndex { $0 == info.array } }
            (value, actions, regret) = (place(.value), place(.actions), place(.regret))
        }
    }

    /// A batch with the options' extra infos, some of them ``OptimumInfo``s; throws if the reward or an extra info is
    /// wrong.
    public init(
        _ game: Game2048, _ options: BatchOptions, _ table: OptimumTable
    ) throws(EnvironmentError) {
        precondition(table.problem.rows == game.config.rows && table.problem.columns == game.config.columns)
        let names = options.extraInfos
        var own: [OptimumInfo] = []
        for info in names.compactMap(OptimumInfo.init) {
            guard !own.contains(info) else {
                throw .invalid("extra_infos", "extra_infos has '\(info.rawValue)' twice")
            }
            own.append(info)
        }
        var others = options
        others.extraInfos = names.filter { OptimumInfo(rawValue: $0) == nil }
        let inner = try game.makeEnvironment(others)
        let standard = inner.stepArrays.count - others.extraInfos.count
        // In the requested order, ours among the others.
        var extras = inner.stepArrays[standard...].makeIterator()
        let arrays =
            inner.stepArrays[..<standard]
            + names.map { name in OptimumInfo(rawValue: name)?.array ?? extras.next()! }
        stepArrays = Array(arrays)
        innerArrays = arrays.indices.filter { $0 < standard || OptimumInfo(rawValue: arrays[$0].name) == nil }
        places = Places(stepArrays)
        // A regret is the step's, whichever board follows it.
        finalArrays = inner.finalArrays + own.filter { $0 != .regret }.map(\.array)
        finalPlaces = Places(finalArrays)
        memory = try LaneValues(lanes: options.lanes)
        self.game = game
        self.table = table
        self.inner = inner
        self.options = options
    }

    public let options: BatchOptions
    public var nanosecondsPerLane: Int { inner.nanosecondsPerLane + Self.nanosecondsPerLookUp }
    public func bytes(lanes: Int) -> Int { inner.bytes(lanes: lanes) + LaneValues.bytesPerLane * lanes }
    public var resetArrays: [ArraySpec] { inner.resetArrays }
    public var rewardTerms: [String] { inner.rewardTerms }
    public var returns: EpisodeReturns? { inner.returns }

    private static let nanosecondsPerLookUp = 60

    // MARK: operations that change boards

    public func step(
        actions: UnsafeRawBufferPointer, into arrays: BatchArrays, skippingFinished: Bool
    ) throws(EnvironmentError) {
        try inner.step(
            actions: actions, into: arrays.picking(innerArrays), skippingFinished: skippingFinished)
        let step = FilledStep(arrays, actions: actions, flags: resetArrays.count + 1)
        let (table, memory, places, keepsFinished) = (table, memory, places, autoreset == .disabled)
        let illegalEnds = game.config.illegalAction == .terminate
        options.workers.run(lanes: lanes, nanosecondsPerLane: Self.nanosecondsPerLookUp) { range, _ in
            for first in stride(from: range.lowerBound, to: range.upperBound, by: OptimumTable.block) {
                let lanes = first..<min(first + OptimumTable.block, range.upperBound)
                if let regret = places.regret {
                    memory.writeRegrets(
                        lanes, of: step, illegalEnds: illegalEnds, to: step.floats(regret, first))
                }
                memory.finish(lanes, step, keeping: keepsFinished)
                memory.lookUp(lanes, in: table, step)
                memory.write(lanes, places, to: step, row: first)
            }
        }
    }

    public func restart(_ lanes: [Int], in arrays: BatchArrays, keeping finals: BatchArrays) {
        inner.restart(lanes, in: arrays, keeping: finals.picking(Array(inner.finalArrays.indices)))
        let (boards, finalBoards) = (FilledStep(arrays), FilledStep(finals))
        let (table, memory, places, finalPlaces) = (table, memory, places, finalPlaces)
        options.workers.run(lanes: lanes.count, nanosecondsPerLane: 4 * Self.nanosecondsPerLookUp) {
            range, _ in
            for row in range {
                let lane = lanes[row]
                memory.write(lane..<lane + 1, finalPlaces, to: finalBoards, row: row)
                memory.begin(lane)
                memory.lookUp(lane..<lane + 1, in: table, boards)
                memory.write(lane..<lane + 1, places, to: boards, row: lane)
            }
        }
    }

    public func reset(_ input: ResetInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try inner.reset(input, into: resetRows(arrays))
        takeUp(arrays)
    }

    public func restore(_ input: RestoreInput, into arrays: BatchArrays) throws(EnvironmentError) {
        try inner.restore(input, into: resetRows(arrays))
        takeUp(arrays)
    }

    /// The arrays that a reset fills: the first ones of a step, which a rollout gives for these operations, too.
    private func resetRows(_ arrays: BatchArrays) -> BatchArrays {
        arrays.picking(Array(resetArrays.indices))
    }

    /// Looks all boards up, after an operation other than a step.
    private func takeUp(_ arrays: BatchArrays) {
        let boards = FilledStep(arrays)
        let (table, memory) = (table, memory)
        for lane in 0..<lanes { memory.begin(lane, isFinished: inner.isFinished(lane)) }
        options.workers.run(lanes: lanes, nanosecondsPerLane: Self.nanosecondsPerLookUp) { range, _ in
            for first in stride(from: range.lowerBound, to: range.upperBound, by: OptimumTable.block) {
                memory.lookUp(first..<min(first + OptimumTable.block, range.upperBound), in: table, boards)
            }
        }
    }

    // MARK: operations that change nothing

    public func isFinished(_ lane: Int) -> Bool { inner.isFinished(lane) }
    public func checkSeeded() throws(EnvironmentError) { try inner.checkSeeded() }
    public func observe(into arrays: BatchArrays) throws(EnvironmentError) {
        try inner.observe(into: resetRows(arrays))
    }
    public func afterstates(into arrays: BatchArrays) throws(EnvironmentError) {
        try inner.afterstates(into: arrays)
    }
    public func snapshot(
        _ lanes: [Int], into records: UnsafeMutableRawBufferPointer
    ) throws(EnvironmentError) { try inner.snapshot(lanes, into: records) }
}

/// The rows that the inner batch has filled, and the actions.
///
/// This is the room for reads of them. `@unchecked Sendable` because workers have disjoint lanes, and the carrier keeps
/// the memory for the call.
private struct FilledStep: @unchecked Sendable {
    private let arrays: BatchArrays
    let actions: UnsafePointer<UInt8>?
    /// The array of `terminated`; `truncated` is the next.
    private let flags: Int

    init(_ arrays: BatchArrays, actions: UnsafeRawBufferPointer? = nil, flags: Int = 0) {
        self.arrays = arrays
        self.actions = actions?.baseAddress?.assumingMemoryBound(to: UInt8.self)
        self.flags = flags
    }

    private func bytes(_ array: Int, _ lane: Int) -> UnsafePointer<UInt8> {
        UnsafePointer(arrays.address(array: array, lane: lane).assumingMemoryBound(to: UInt8.self))
    }

    func boards(_ lane: Int) -> UnsafePointer<UInt8> { bytes(0, lane) }
    func masks(_ lane: Int) -> UnsafePointer<UInt8> { bytes(1, lane) }
    func terminated(_ lane: Int) -> UnsafePointer<UInt8> { bytes(flags, lane) }
    func truncated(_ lane: Int) -> UnsafePointer<UInt8> { bytes(flags + 1, lane) }

    /// Where an array's floats of a lane are written; of any alignment.
    func floats(_ array: Int, _ lane: Int) -> UnsafeMutableRawPointer {
        arrays.address(array: array, lane: lane)
    }
}

/// The values of the lanes' actions on their boards as they are, and whether the lanes wait for their next episode.
///
/// This is the room for that memory. `@unchecked Sendable` because the environment that owns it is called by one caller
/// at a time, and within a call workers have disjoint lanes.
private final class LaneValues: @unchecked Sendable {
    private let memory: OwnedMemory
    private let values: UnsafeMutablePointer<Float>
    private let finished: UnsafeMutablePointer<UInt8>

    static let bytesPerLane = 4 * MemoryLayout<Float>.stride + 1

    init(lanes: Int) throws(EnvironmentError) {
        memory = try OwnedMemory(byteCount: Self.bytesPerLane * lanes, for: "num_envs")
        values = memory.start.initializeMemory(as: Float.self, repeating: 0, count: 4 * lanes)
        finished = (memory.start + 4 * lanes * MemoryLayout<Float>.stride)
            .initializeMemory(as: UInt8.self, repeating: 0, count: lanes)
    }

    /// The lane has another episode.
    func begin(_ lane: Int, isFinished: Bool = false) { finished[lane] = isFinished ? 1 : 0 }

    /// Notes the episodes that a step has ended; where autoreset is disabled they stay so.
    @inline(__always)
    func finish(_ lanes: Range<Int>, _ step: FilledStep, keeping: Bool) {
        let first = lanes.lowerBound
        let (terminated, truncated) = (step.terminated(first), step.truncated(first))
        for lane in lanes {
            let ended = terminated[lane &- first] | truncated[lane &- first]
            finished[lane] = (keeping ? finished[lane] : 0) | ended
        }
    }

    @inline(__always)
    func lookUp(_ lanes: Range<Int>, in table: OptimumTable, _ step: FilledStep) {
        table.values(
            of: step.boards(lanes.lowerBound), masks: step.masks(lanes.lowerBound), count: lanes.count,
            into: values + 4 &* lanes.lowerBound)
    }

    /// The best action's value; 0 where none is legal, NaN where it is not known.
    @inline(__always)
    private func best(_ lane: Int) -> Float {
        let row = values + 4 &* lane
        var best = -Float.infinity
        for action in 0..<4 { best = row[action] > best || row[action].isNaN ? row[action] : best }
        return best == -.infinity ? 0 : best
    }

    /// Writes the cost of a step's actions, by the values before it.
    @inline(__always)
    func writeRegrets(
        _ lanes: Range<Int>, of step: FilledStep, illegalEnds: Bool, to output: UnsafeMutableRawPointer
    ) {
        for lane in lanes {
            let best = best(lane)
            let value = values[4 &* lane &+ Int(step.actions![lane])]
            // An illegal action either leaves everything as it is, or ends the episode.
            let ofAction = value == -.infinity ? (illegalEnds ? 0 : best) : value
            output.storeBytes(
                of: finished[lane] == 0 ? best - ofAction : 0, toByteOffset: 4 &* (lane &- lanes.lowerBound),
                as: Float.self)
        }
    }

    /// Writes the values as the infos have them, from a row on.
    @inline(__always)
    func write(_ lanes: Range<Int>, _ places: OptimumEnvironment.Places, to step: FilledStep, row: Int) {
        if let array = places.value {
            let output = step.floats(array, row)
            for lane in lanes {
                output.storeBytes(
                    of: best(lane), toByteOffset: 4 &* (lane &- lanes.lowerBound), as: Float.self)
            }
        }
        if let array = places.actions {
            step.floats(array, row)
                .copyMemory(from: values + 4 &* lanes.lowerBound, byteCount: 16 &* lanes.count)
        }
    }
}
