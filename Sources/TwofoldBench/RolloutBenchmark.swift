internal import TwofoldCore

/// Measures rollouts under random legal play, including the choice of actions. A rollout writes its reply's
/// arrays to memory and sends nothing. Uses one thread, and the plan's number of rounds.
public func benchmarkRollouts(_ plan: BenchmarkPlan) throws -> [BenchmarkRow] {
    var rows: [BenchmarkRow] = []
    for boards in plan.sizes where boards <= 65_536 {
        for contestant in Contestant.available
        where contestant.name.hasPrefix("kernel, ") && contestant.reward == nil {
            let name = "rollout, " + contestant.name
            guard name.hasPrefix(plan.only) else { continue }
            let player = try RolloutPlayer(
                contestant.makeBatch(lanes: boards, workers: Workers(threads: 1)))
            _ = try player.measure(plan.time)
            let rates = try (0..<plan.rounds).map { _ in try player.measure(plan.time) }
            rows.append(
                BenchmarkRow(
                    game: contestant.game, engine: name, boards: boards, threads: 1, rates: rates))
        }
    }
    return rows
}

/// A batch, its policy, and memory for a rollout of about 4 MB.
private final class RolloutPlayer {
    private let batch: Batch
    private let rollout: BatchRollout
    private let streams: PolicyStreams
    private let policy = RandomPolicy()
    private let steps: Int
    private let frames: ArrayMemory
    private let rows: ArrayMemory
    private let finals: ArrayMemory

    init(_ batch: Batch) throws {
        self.batch = batch
        let lanes = batch.lanes
        rollout = try BatchRollout(batch, infos: [])
        streams = try PolicyStreams(lanes: lanes)
        let bytes = (rollout.frameArrays + rollout.stepArrays).reduce(0) { $0 + $1.bytesPerLane }
        let steps = max(1, (4 << 20) / bytes)
        self.steps = steps
        frames = try ArrayMemory(rollout.frameArrays, lanes: steps + 1)
        rows = try ArrayMemory(rollout.stepArrays, lanes: steps)
        finals = try ArrayMemory(rollout.finalArrays, lanes: 0)

        let seeds = (0..<lanes).map { UInt64($0).littleEndian }
        for lane in 0..<lanes { streams.seed(lane, UInt64(lane)) }
        let reply = try ArrayMemory(batch.resetArrays, lanes: lanes)
        defer { withExtendedLifetime(reply) {} }
        try seeds.withUnsafeBytes { try batch.reset(ResetInput(seeds: $0), into: reply.arrays) }
    }

    /// Plays for about `time` and returns the boards stepped per second.
    func measure(_ time: Duration) throws(EnvironmentError) -> Double {
        let start = ContinuousClock.now
        var done = 0
        while ContinuousClock.now - start < time {
            done += try rollout.run(
                .policy(policy, streams), steps: steps, frames: frames.arrays, steps: rows.arrays,
                finals: finals.arrays, finalsRoom: 0
            ).steps
        }
        return Double(done * batch.lanes) / ((ContinuousClock.now - start) / .seconds(1))
    }
}
