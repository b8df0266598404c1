@testable import TwofoldCore

/// A batch, its policies' streams, and memory for the results of rollouts.
final class Player {
    /// The results of a rollout: the concatenated rows of each array.
    struct Results: Equatable {
        let lanes: Int
        let steps: Int
        let arrays: [String: [UInt8]]
        let finals: [String: [UInt8]]

        /// Returns all lanes' bytes in one row of an array.
        func row(_ name: String, _ step: Int) -> [UInt8] {
            let bytes = arrays[name]!
            let rows = name == "observation" || name == "action_mask" ? steps + 1 : steps
            let size = bytes.count / rows
            return Array(bytes[step * size..<(step + 1) * size])
        }

        /// Returns one lane's bytes in one row of an array.
        func cell(_ name: String, _ step: Int, _ lane: Int) -> [UInt8] {
            let bytes = row(name, step)
            let size = bytes.count / lanes
            return Array(bytes[lane * size..<(lane + 1) * size])
        }
    }

    let environment: Batch
    let streams: PolicyStreams

    init(_ environment: Batch, seed: UInt64 = 0) throws {
        self.environment = environment
        streams = try PolicyStreams(lanes: environment.lanes)
        let batch = TestBatch(environment)
        try batch.reset(seed: seed)
        for lane in 0..<environment.lanes { streams.seed(lane, seed &+ UInt64(lane)) }
    }

    func play(
        _ policy: any Policy, steps: Int, infos: [String] = [],
        until deadline: Deadline? = nil
    ) throws -> Results {
        try play(.policy(policy, streams), steps: steps, infos: infos, until: deadline)
    }

    func play(
        _ source: BatchRollout.Source, steps: Int, infos: [String] = [],
        until deadline: Deadline? = nil
    ) throws -> Results {
        let rollout = try BatchRollout(environment, infos: infos)
        let finalsRoom = 4 * environment.lanes
        let frames = GuardedArrays(rollout.frameArrays, rows: steps + 1)
        let rows = GuardedArrays(rollout.stepArrays, rows: steps)
        let finals = GuardedArrays(rollout.finalArrays, rows: finalsRoom)
        let done = try rollout.run(
            source, steps: steps, frames: frames.arrays, steps: rows.arrays,
            finals: finals.arrays, finalsRoom: finalsRoom,
            answer: deadline,
            searchEnd: deadline)
        for each in [frames, rows, finals] { each.checkGaps() }
        let arrays = frames.contents(first: done.steps + 1)
            .merging(rows.contents(first: done.steps)) { $1 }
        return Results(
            lanes: environment.lanes, steps: done.steps, arrays: arrays,
            finals: finals.contents(first: done.finals))
    }
}

/// Returns a batch of the game 2048.
func makeBoards(
    _ config: Game2048.Config = .init(), lanes: Int, autoreset: AutoresetMode = .nextStep,
    limit: Int? = nil, threads: Int = 1, engine: Engine = .automatic
) throws -> Batch {
    try Game2048(config).makeBatch(
        BatchOptions(
            lanes: lanes, autoreset: autoreset, maxEpisodeSteps: limit,
            workers: Workers(threads: threads),
            engine: engine))
}
