/// Many steps of a batch in one go: what they tell, step after step, and who chooses the actions.
///
///     frames   observation, action_mask                       T + 1 rows, row t before step t
///     steps    action, reward, terminated, truncated, valid,  T rows
///              then the infos that were asked for
///     finals   step, lane, what the episode ended with        a row for each (SAME_STEP)
///
/// A row holds all lanes. Belongs to one caller at a time.
public struct BatchRollout {
    /// Who chooses.
    public enum Source {
        /// A policy, drawing from these streams.
        case policy(any Policy, PolicyStreams)
        /// Actions that are known beforehand: a byte for each step and lane.
        case actions(UnsafeRawBufferPointer)
    }

    private let environment: any VectorEnvironment
    /// Indices of the infos among the environment's step arrays.
    private let infos: [Int]

    /// A rollout that tells these infos too; throws for a name that the environment doesn't have.
    public init(_ environment: any VectorEnvironment, infos names: [String]) throws(EnvironmentError) {
        self.environment = environment
        let arrays = environment.stepArrays
        var infos: [Int] = []
        for name in names {
            guard !Self.always.contains(name), let index = arrays.firstIndex(where: { $0.name == name })
            else {
                let known = arrays.map(\.name).filter { !Self.always.contains($0) }
                throw .invalid(
                    "infos",
                    "no info '\(name.prefix(100))' here; there are \(known.joined(separator: ", "))")
            }
            guard !infos.contains(index) else {
                throw .invalid("infos", "the info '\(name)' is asked for twice")
            }
            infos.append(index)
        }
        self.infos = infos
    }

    /// Memory that a rollout of a batch takes while it runs, beside its arrays.
    public static func bytes(_ environment: any VectorEnvironment) -> Int {
        OwnArrays.bytes(environment.stepArrays, lanes: environment.lanes) + environment.lanes
    }

    private static let always = ["observation", "action_mask", "reward", "terminated", "truncated"]

    // MARK: arrays

    /// One row before each step and one at the end.
    public var frameArrays: [ArraySpec] { environment.stepArrays[..<2].map(batched) }

    /// One row for each step.
    public var stepArrays: [ArraySpec] {
        [batched(ArraySpec("action", .uint8))]
            + environment.stepArrays.filter { Self.always[2...].contains($0.name) }.map(batched)
            + [batched(ArraySpec("valid", .bool))] + infos.map { batched(environment.stepArrays[$0]) }
    }

    /// One row for each episode that ends, in SAME_STEP.
    public var finalArrays: [ArraySpec] {
        environment.autoreset == .sameStep ? [ArraySpec("steps", .uint64)] + environment.finalArrays : []
    }

    private func batched(_ spec: ArraySpec) -> ArraySpec {
        ArraySpec(spec.name, spec.dtype, shape: [environment.lanes] + spec.shape)
    }

    // MARK: the rollout

    /// What has been done.
    public struct Progress: Sendable {
        /// Steps.
        public var steps = 0
        /// Episodes that have ended, in SAME_STEP.
        public var finals = 0
    }

    /// Plays `steps` steps, fewer where the time to answer has come, `stop` is set, or `finals`, which has room for
    /// `finalsRoom` rows, could run over; at least one, or throws and has changed nothing. A search for actions ends
    /// at `searchEnd`, or with `stop`.
    public func run(
        _ source: Source, steps count: Int, frames: BatchArrays, steps: BatchArrays, finals: BatchArrays?,
        finalsRoom: Int, answerAt: ContinuousClock.Instant? = nil, searchEnd: ContinuousClock.Instant? = nil,
        stop: Flag? = nil
    ) throws(EnvironmentError) -> Progress {
        let lanes = environment.lanes
        if case .actions(let actions) = source { try check(actions) }
        let row = StepRow(environment, infos: infos, frames: frames, steps: steps)
        row.select(frame: 0, step: nil)
        try environment.observe(into: row.arrays)
        var finished = [UInt8](repeating: 0, count: lanes)
        for lane in 0..<lanes where environment.isFinished(lane) { finished[lane] = 1 }

        let searchEnd = searchEnd.map { SearchEnd($0, or: stop) }
        var progress = Progress()
        while progress.steps < count {
            let step = progress.steps
            if finals != nil, finalsRoom - progress.finals < lanes { break }
            if step > 0, stop?.isSet == true { break }
            if step > 0, let answerAt, ContinuousClock.now >= answerAt { break }
            let actions = steps.address(array: 0, lane: step)
            switch source {
            case .actions(let given):
                actions.copyMemory(from: given.baseAddress! + step * lanes, byteCount: lanes)
            case .policy(let policy, let streams):
                streams.draw()
                let view = PolicyView(
                    environment: environment, observations: frames.address(array: 0, lane: step),
                    masks: frames.address(array: 1, lane: step), words: streams.words, actions: actions)
                do throws(EnvironmentError) {
                    try policy.choose(view, until: searchEnd)
                } catch {
                    // What is done is done, and the rest is for another request.
                    streams.takeBack()
                    guard step > 0 else { throw error }
                    return progress
                }
            }
            row.select(frame: step + 1, step: step)
            try environment.step(
                actions: UnsafeRawBufferPointer(start: actions, count: lanes), into: row.arrays,
                skippingFinished: true)
            row.tellValid(&finished, step: step, keepsFinished: environment.autoreset == .disabled)
            if let finals {
                let ended = environment.endedLanes(in: row.arrays)
                if !ended.isEmpty {
                    let rows = finals.dropping(arrays: 1, rows: progress.finals)
                    environment.restart(ended, in: row.arrays, keeping: rows)
                    for index in ended.indices {
                        finals.address(array: 0, lane: progress.finals + index)
                            .storeBytes(of: UInt64(step).littleEndian, as: UInt64.self)
                    }
                    progress.finals += ended.count
                }
                // An episode that has just begun is nobody's last step.
                row.forget(&finished)
            }
            progress.steps += 1
        }
        return progress
    }

    private func check(_ actions: UnsafeRawBufferPointer) throws(EnvironmentError) {
        let count = environment.actions.count
        var largest: UInt8 = 0
        for action in actions { largest = max(largest, action) }
        guard Int(largest) >= count, let index = actions.firstIndex(where: { Int($0) >= count }) else {
            return
        }
        let (step, lane) = (index / environment.lanes, index % environment.lanes)
        throw .invalid(
            "actions", lane: lane,
            "action \(actions[index]) of lane \(lane) in step \(step) is outside 0...\(count - 1)")
    }
}

/// Where a step of the environment writes: rows of the rollout's arrays, and memory that nobody looks at
/// for what was not asked for.
private final class StepRow {
    private(set) var arrays: BatchArrays
    private let specs: [ArraySpec]
    private let lanes: Int
    private let frames: BatchArrays
    private let steps: BatchArrays
    /// For each of the environment's step arrays, which array of `steps` it is; nil where none.
    private var places: [Int?]
    private let ignored: OwnArrays
    private let valid: Int
    private let ends: (Int, Int)

    init(
        _ environment: any VectorEnvironment, infos: [Int], frames: BatchArrays, steps: BatchArrays
    ) {
        specs = environment.stepArrays
        lanes = environment.lanes
        self.frames = frames
        self.steps = steps
        places = specs.map { _ in nil }
        var next = 1
        for (index, spec) in specs.enumerated()
        where ["reward", "terminated", "truncated"].contains(spec.name) {
            places[index] = next
            next += 1
        }
        valid = next
        for (index, info) in infos.enumerated() { places[info] = valid + 1 + index }
        ends = (
            specs.firstIndex { $0.name == "terminated" }!, specs.firstIndex { $0.name == "truncated" }!
        )
        ignored = OwnArrays(specs, lanes: lanes)
        arrays = ignored.arrays
    }

    /// The rows to write to next; without a step only a frame is told.
    func select(frame: Int, step: Int?) {
        let bases = specs.indices.map { index -> UnsafeMutableRawPointer in
            if index < 2 { return frames.address(array: index, lane: frame) }
            if let step, let place = places[index] { return steps.address(array: place, lane: step) }
            return ignored.arrays.address(array: index, lane: 0)
        }
        arrays = BatchArrays(bases: bases, specs: specs)
    }

    /// Tells which lanes were in an episode at a step, and which have finished it now.
    func tellValid(_ finished: inout [UInt8], step: Int, keepsFinished: Bool) {
        let valid = steps.address(array: valid, lane: step).assumingMemoryBound(to: UInt8.self)
        let terminated = arrays.address(array: ends.0, lane: 0).assumingMemoryBound(to: UInt8.self)
        let truncated = arrays.address(array: ends.1, lane: 0).assumingMemoryBound(to: UInt8.self)
        let keeps: UInt8 = keepsFinished ? 1 : 0
        finished.withUnsafeMutableBufferPointer { finished in
            for lane in 0..<lanes { valid[lane] = finished[lane] ^ 1 }
            for lane in 0..<lanes {
                finished[lane] = (finished[lane] & keeps) | terminated[lane] | truncated[lane]
            }
        }
    }

    /// All lanes are in an episode again.
    func forget(_ finished: inout [UInt8]) {
        finished.withUnsafeMutableBufferPointer { $0.update(repeating: 0) }
    }
}
