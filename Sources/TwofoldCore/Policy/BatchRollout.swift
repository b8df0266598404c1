/// Many steps of a batch in one call. A policy or the caller chooses the actions. A rollout of T steps fills these
/// arrays:
///
///     frames   observation, action_mask                       T + 1 rows, row t before step t
///     steps    action, reward, terminated, truncated, valid,  T rows
///              then the requested infos
///     finals   step, lane, the arrays of a reset              a row for each ended episode (SAME_STEP)
///
/// Each row of `frames` and `steps` holds all lanes. Only one caller at a time may use a rollout.
public struct BatchRollout {
    /// The source of the actions in a rollout.
    public enum Source {
        /// A policy, with the random streams from which it draws.
        case policy(any Policy, PolicyStreams)
        /// The caller's actions, with one byte for each step and lane.
        case actions(UnsafeRawBufferPointer)
    }

    /// The arrays with one row before each step and one row after the last step.
    public let frameArrays: [ArraySpec]
    /// The arrays with one row for each step.
    public let stepArrays: [ArraySpec]
    /// The arrays with one row for each ended episode in SAME_STEP; empty in the other modes.
    public let finalArrays: [ArraySpec]

    /// The place in a rollout to which a step writes one of the batch's arrays.
    private enum Destination: Equatable {
        case frame(Int)
        case step(Int)
        case discarded
    }

    private let batch: Batch
    private let observation: ArrayKey<UInt8>
    private let actionMask: ArrayKey<Int8>
    private let action: ArrayKey<UInt8>
    private let valid: ArrayKey<Bool>
    private let endedStep: ArrayKey<UInt64>
    private let destinations: [Destination]

    /// Makes a rollout that also reports the infos with these names. Throws if the batch lacks any of these infos.
    public init(_ batch: Batch, infos names: [String]) throws(EnvironmentError) {
        let (keys, lanes, specs) = (batch.keys, [batch.lanes], batch.stepArrays)
        var destinations = specs.map { _ in Destination.discarded }
        var (frames, steps, finals) = (ArrayList(), ArrayList(), ArrayList())
        @discardableResult
        func add<Element>(
            _ key: ArrayKey<Element>, to list: inout ArrayList,
            as destination: (Int) -> Destination
        ) -> ArrayKey<Element> {
            let spec = specs[key.index]
            let added = list.add(spec.name, Element.self, shape: lanes + spec.shape)
            destinations[key.index] = destination(added.index)
            return added
        }
        observation = add(keys.observation, to: &frames) { .frame($0) }
        actionMask = add(keys.actionMask, to: &frames) { .frame($0) }
        action = steps.add("action", shape: lanes)
        add(keys.reward, to: &steps) { .step($0) }
        add(keys.terminated, to: &steps) { .step($0) }
        add(keys.truncated, to: &steps) { .step($0) }
        valid = steps.add("valid", shape: lanes)

        let known = specs.indices.filter { destinations[$0] == .discarded }
        for name in names {
            guard let info = known.first(where: { specs[$0].name == name }) else {
                throw .invalid(
                    "infos",
                    "this environment has no info '\(name.prefix(100))'; it has "
                        + known.map { specs[$0].name }.joined(separator: ", "))
            }
            guard destinations[info] == .discarded else {
                throw .invalid("infos", "the info '\(name)' is requested twice")
            }
            destinations[info] = .step(steps.specs.count)
            steps.add(ArraySpec(name, specs[info].dtype, shape: lanes + specs[info].shape))
        }
        endedStep = finals.add("steps")
        for spec in batch.finalArrays { finals.add(spec) }
        (frameArrays, stepArrays) = (frames.specs, steps.specs)
        finalArrays = batch.autoreset == .sameStep ? finals.specs : []
        self.batch = batch
        self.destinations = destinations
    }

    /// Returns the number of bytes that a rollout needs while it runs, in addition to the arrays that it fills.
    public static func bytes(_ batch: Batch) -> Int {
        ArrayMemory.size(batch.stepArrays, lanes: batch.lanes)
    }

    // MARK: the rollout

    /// The completed part of a rollout.
    public struct Progress: Sendable {
        public var steps = 0
        /// The number of rows written to the final arrays: one for each episode that ended in SAME_STEP.
        public var finals = 0
    }

    /// Plays up to `steps` steps. Stops early if the deadline `answer` passes between two steps, or if the policy
    /// cannot choose the actions of a step before the deadline `searchEnd`. `finals` has `finalsRoom` rows. In
    /// SAME_STEP, the rollout also stops early if `finals` has fewer free rows than the batch has lanes. If the first
    /// step fails, throws without changing anything.
    public func run(
        _ source: Source, steps count: Int, frames: BatchArrays, steps: BatchArrays, finals: BatchArrays,
        finalsRoom: Int, answer: Deadline? = nil, searchEnd: Deadline? = nil
    ) throws(EnvironmentError) -> Progress {
        let (lanes, autoreset) = (batch.lanes, batch.autoreset)
        let actionCount = batch.actions.count
        if case .actions(let actions) = source { try check(actions, actionCount) }
        // For an array that the rollout does not report, the batch writes to memory that nothing reads.
        let specs = batch.stepArrays
        let discarded = try ArrayMemory(specs, lanes: lanes)
        defer { withExtendedLifetime(discarded) {} }
        /// Returns the arrays to which the batch writes one step: row `frame` of the frame arrays, and row `step` of
        /// the step arrays.
        func arrays(frame: Int, step: Int) -> BatchArrays {
            BatchArrays(specs) { index in
                switch destinations[index] {
                case .frame(let array): frames.address(array: array, lane: frame)
                case .step(let array): steps.address(array: array, lane: step)
                case .discarded: discarded.arrays.address(array: index, lane: 0)
                }
            }
        }
        // This also writes the infos of step 0, but the first step overwrites them.
        try batch.observe(into: arrays(frame: 0, step: 0))

        var progress = Progress()
        while progress.steps < count {
            let step = progress.steps
            if autoreset == .sameStep, finalsRoom - progress.finals < lanes { break }
            if step > 0, answer?.hasPassed == true { break }
            let actions = steps.address(action, lane: step)
            switch source {
            case .actions(let given):
                actions.copyMemory(from: given.baseAddress! + step * lanes, byteCount: lanes)
            case .policy(let policy, let streams):
                streams.draw()
                let view = PolicyView(
                    batch: batch, lanes: lanes, actionCount: actionCount,
                    observations: frames.address(observation, lane: step),
                    masks: frames.address(actionMask, lane: step), words: streams.words, actions: actions)
                do throws(EnvironmentError) {
                    try policy.choose(view, until: searchEnd)
                } catch {
                    // The completed steps count; another request can play the rest.
                    guard step > 0 else { throw error }
                    return progress
                }
                streams.advance()
            }
            batch.phases.writePlaying(lanes, to: steps.address(valid, lane: step))
            let reply = arrays(frame: step + 1, step: step)
            try batch.step(
                actions: UnsafeRawBufferPointer(start: actions, count: lanes), into: reply,
                skippingFinished: true)
            if autoreset == .sameStep {
                progress.finals += restartEnded(reply, step: step, into: finals, at: progress.finals)
            }
            progress.steps += 1
        }
        return progress
    }

    /// Restarts the lanes whose episodes ended in a step, and stores their final rows in `finals`, starting at row
    /// `first`. Returns the number of these lanes.
    private func restartEnded(
        _ arrays: BatchArrays, step: Int, into finals: BatchArrays, at first: Int
    ) -> Int {
        let ended = batch.restartEnded(
            in: arrays, keeping: finals.dropping(arrays: 1, rows: first))
        for row in first..<first + ended {
            finals.row(row).store(UInt64(step).littleEndian, endedStep)
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
