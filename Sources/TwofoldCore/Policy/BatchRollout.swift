/// Many steps of a batch in one go, with the actions of a policy or given ones:
///
///     frames   observation, action_mask                       T + 1 rows, row t before step t
///     steps    action, reward, terminated, truncated, valid,  T rows
///              then the requested infos
///     finals   step, lane, the arrays of a reset              a row for each ended episode (SAME_STEP)
///
/// A row holds all lanes. Belongs to one caller at a time.
public struct BatchRollout {
    /// The source of the actions.
    public enum Source {
        /// A policy, drawing from these streams.
        case policy(any Policy, PolicyStreams)
        /// Given actions: a byte for each step and lane.
        case actions(UnsafeRawBufferPointer)
    }

    private let batch: Batch
    /// Indices of the infos among the batch's step arrays.
    private let infos: [Int]

    /// A rollout that reports these infos too; throws for a name that the batch doesn't have.
    public init(_ batch: Batch, infos names: [String]) throws(EnvironmentError) {
        self.batch = batch
        let arrays = batch.stepArrays
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
                throw .invalid("infos", "the info '\(name)' is requested twice")
            }
            infos.append(index)
        }
        self.infos = infos
    }

    /// Bytes that a rollout of a batch takes while it runs, beside its arrays.
    public static func bytes(_ batch: Batch) -> Int {
        ArrayMemory.size(batch.stepArrays, lanes: batch.lanes) + batch.lanes
    }

    private static let always = ["observation", "action_mask", "reward", "terminated", "truncated"]

    // MARK: arrays

    /// One row before each step and one at the end.
    public var frameArrays: [ArraySpec] { batch.stepArrays[..<2].map(batched) }

    /// One row for each step.
    public var stepArrays: [ArraySpec] {
        [batched(ArraySpec("action", .uint8))]
            + batch.stepArrays.filter { Self.always[2...].contains($0.name) }.map(batched)
            + [batched(ArraySpec("valid", .bool))] + infos.map { batched(batch.stepArrays[$0]) }
    }

    /// One row for each ended episode in SAME_STEP; empty in the other modes.
    public var finalArrays: [ArraySpec] {
        batch.autoreset == .sameStep ? [ArraySpec("steps", .uint64)] + batch.finalArrays : []
    }

    private func batched(_ spec: ArraySpec) -> ArraySpec {
        ArraySpec(spec.name, spec.dtype, shape: [batch.lanes] + spec.shape)
    }

    // MARK: the rollout

    /// The completed part of a rollout.
    public struct Progress: Sendable {
        /// Completed steps.
        public var steps = 0
        /// Ended episodes, in SAME_STEP.
        public var finals = 0
    }

    /// Plays up to `steps` steps: it ends early at `answer`, and in SAME_STEP when the remaining rows of `finals`,
    /// `finalsRoom` in all, are fewer than the lanes. It completes at least one step, or throws and has changed
    /// nothing. A search for actions ends at `searchEnd`.
    public func run(
        _ source: Source, steps count: Int, frames: BatchArrays, steps: BatchArrays, finals: BatchArrays,
        finalsRoom: Int, answer: Deadline? = nil, searchEnd: Deadline? = nil
    ) throws(EnvironmentError) -> Progress {
        let (lanes, autoreset) = (batch.lanes, batch.autoreset)
        let actionCount = batch.actions.count
        if case .actions(let actions) = source { try check(actions, actionCount) }
        let rows = try RolloutRows(
            batch, frames: frames, steps: steps, names: stepArrays.map(\.name))
        let valid = stepArrays.firstIndex { $0.name == "valid" }!
        // The first step overwrites the infos.
        try batch.observe(into: rows.arrays(frame: 0, step: 0))

        var progress = Progress()
        while progress.steps < count {
            let step = progress.steps
            if autoreset == .sameStep, finalsRoom - progress.finals < lanes { break }
            if step > 0, answer?.hasPassed == true { break }
            let actions = steps.address(array: 0, lane: step)
            switch source {
            case .actions(let given):
                actions.copyMemory(from: given.baseAddress! + step * lanes, byteCount: lanes)
            case .policy(let policy, let streams):
                streams.draw()
                let view = PolicyView(
                    batch: batch, lanes: lanes, actionCount: actionCount,
                    observations: frames.address(array: 0, lane: step),
                    masks: frames.address(array: 1, lane: step), words: streams.words, actions: actions)
                do throws(EnvironmentError) {
                    try policy.choose(view, until: searchEnd)
                } catch {
                    // The completed steps count; another request plays the rest.
                    streams.takeBack()
                    guard step > 0 else { throw error }
                    return progress
                }
            }
            batch.phases.writePlaying(lanes, to: steps.address(array: valid, lane: step))
            let arrays = rows.arrays(frame: step + 1, step: step)
            try batch.step(
                actions: UnsafeRawBufferPointer(start: actions, count: lanes), into: arrays,
                skippingFinished: true)
            if autoreset == .sameStep {
                progress.finals += restartEnded(arrays, step: step, into: finals, at: progress.finals)
            }
            progress.steps += 1
        }
        return progress
    }

    /// Restarts the lanes that a step has ended, keeping their final rows from row `first` on; returns their number.
    private func restartEnded(
        _ arrays: BatchArrays, step: Int, into finals: BatchArrays, at first: Int
    ) -> Int {
        let ended = batch.restartEnded(
            in: arrays, keeping: finals.dropping(arrays: 1, rows: first))
        for row in first..<first + ended {
            finals.address(array: 0, lane: row)
                .storeBytes(of: UInt64(step).littleEndian, as: UInt64.self)
        }
        return ended
    }

    private func check(_ actions: UnsafeRawBufferPointer, _ count: Int) throws(EnvironmentError) {
        var largest: UInt8 = 0
        for action in actions { largest = max(largest, action) }
        guard Int(largest) >= count, let index = actions.firstIndex(where: { Int($0) >= count }) else {
            return
        }
        let (step, lane) = (index / batch.lanes, index % batch.lanes)
        throw .invalid(
            "actions", lane: lane,
            "action \(actions[index]) of lane \(lane) in step \(step) is outside 0...\(count - 1)")
    }
}
