internal import Platform
public import TwofoldCore

extension Game2048 {
    /// Makes a batch whose extra infos may include ``OptimumInfo``s from this table. Throws if the reward or
    /// an extra info is invalid.
    public func makeBatch(_ options: BatchOptions, _ table: OptimumTable) throws(EnvironmentError) -> Batch {
        precondition(table.problem.rows == config.rows && table.problem.columns == config.columns)
        let pass = try OptimumPass(table, options, illegalEnds: config.illegalAction == .terminate)
        return try makeBatch(options, passes: [pass])
    }
}

/// The pass that reports ``OptimumInfo``s after each step. It looks the boards up in a table.
///
///     values before ──step──► boards ──table──► values after
///           └─ value - value of the action ─► regret
///
/// Each board is looked up once, when a step returns it.
///
/// This type holds the action values of the lanes' current boards in unsafe memory. `@unchecked Sendable`
/// because workers have disjoint lanes, and the keys are set once, while the batch is made.
final class OptimumPass: StepPass, @unchecked Sendable {
    private let table: OptimumTable
    /// Whether an illegal action ends the episode. Otherwise it changes nothing.
    private let illegalEnds: Bool
    private let memory: OwnedMemory
    /// The action values: four for each lane.
    private let values: UnsafeMutablePointer<Float>

    private var requested: [OptimumInfo] = []
    private var boards: BatchKeys?
    private var step = Keys()
    private var finals = Keys()

    private struct Keys {
        var value: ArrayKey<Float>?
        var actions: ArrayKey<Float>?
        var regret: ArrayKey<Float>?

        mutating func add(_ info: OptimumInfo, in arrays: inout ArrayList) {
            switch info {
            case .value: value = arrays.add(info.rawValue)
            case .actions: actions = arrays.add(info.rawValue, shape: [4])
            case .regret: regret = arrays.add(info.rawValue)
            }
        }
    }

    init(
        _ table: OptimumTable, _ options: BatchOptions, illegalEnds: Bool
    ) throws(EnvironmentError) {
        self.table = table
        self.illegalEnds = illegalEnds
        memory = try OwnedMemory(
            byteCount: options.lanes * 4 * MemoryLayout<Float>.stride, for: "num_envs",
            reserve: options.reserve)
        values = memory.initialized(repeating: 0 as Float).baseAddress!
    }

    var nanosecondsPerLane: Int { 60 }

    func declare(_ info: String, in arrays: inout ArrayList, _ keys: BatchKeys) -> Bool {
        guard let info = OptimumInfo(rawValue: info) else { return false }
        boards = keys
        requested.append(info)
        step.add(info, in: &arrays)
        return true
    }

    /// Declares all requested infos except the regret, which belongs to a step and not to a board.
    func declareFinals(in arrays: inout ArrayList) {
        for info in requested where info != .regret { finals.add(info, in: &arrays) }
    }

    // MARK: the passes

    func step(
        _ lanes: Range<Int>, actions: LaneInput<UInt8>, in arrays: BatchArrays, phases: LanePhases
    ) {
        if let regret = step.regret {
            writeRegrets(lanes, actions, phases, to: arrays.address(regret, lane: lanes.lowerBound))
        }
        observe(lanes, in: arrays)
        write(lanes, step, to: arrays, row: lanes.lowerBound)
    }

    func observe(_ lanes: Range<Int>, in arrays: BatchArrays) {
        let (first, boards) = (lanes.lowerBound, boards!)
        table.values(
            of: arrays.address(boards.observation, lane: first).assumingMemoryBound(to: UInt8.self),
            masks: arrays.address(boards.actionMask, lane: first).assumingMemoryBound(to: UInt8.self),
            count: lanes.count, into: values + 4 &* first)
    }

    func keepFinal(_ lane: Int, in finals: BatchArrays, row: Int) {
        write(lane..<lane + 1, self.finals, to: finals, row: row)
    }

    func restart(_ lane: Int, in arrays: BatchArrays) {
        observe(lane..<lane + 1, in: arrays)
        write(lane..<lane + 1, step, to: arrays, row: lane)
    }

    /// Returns the value of the best action; 0 if no action is legal, NaN if the value is unknown.
    @inline(__always)
    private func best(_ lane: Int) -> Float {
        let row = values + 4 &* lane
        var best = -Float.infinity
        for action in 0..<4 { best = row[action] > best || row[action].isNaN ? row[action] : best }
        return best == -.infinity ? 0 : best
    }

    /// Writes the cost of a step's actions, computed from the values before the step.
    @inline(__always)
    private func writeRegrets(
        _ lanes: Range<Int>, _ actions: LaneInput<UInt8>, _ phases: LanePhases,
        to output: UnsafeMutableRawPointer
    ) {
        for lane in lanes {
            let best = best(lane)
            let value = values[4 &* lane &+ Int(actions[lane])]
            let ofAction = value == -.infinity ? (illegalEnds ? 0 : best) : value
            output.storeBytes(
                of: phases.isFinished(lane) ? 0 : best - ofAction,
                toByteOffset: 4 &* (lane &- lanes.lowerBound),
                as: Float.self)
        }
    }

    /// Writes the infos `optimal_value` and `action_values` of these lanes, starting at row `row`.
    @inline(__always)
    private func write(_ lanes: Range<Int>, _ keys: Keys, to arrays: BatchArrays, row: Int) {
        if let key = keys.value {
            let output = arrays.address(key, lane: row)
            for lane in lanes {
                output.storeBytes(
                    of: best(lane), toByteOffset: 4 &* (lane &- lanes.lowerBound), as: Float.self)
            }
        }
        if let key = keys.actions {
            arrays.address(key, lane: row)
                .copyMemory(from: values + 4 &* lanes.lowerBound, byteCount: 16 &* lanes.count)
        }
    }
}
