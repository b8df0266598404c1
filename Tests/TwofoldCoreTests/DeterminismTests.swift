import Synchronization
import Testing

@testable import TwofoldCore

@Suite struct DeterminismTests {
    /// Returns the bytes of each lane's arrays over several steps.
    ///
    /// Lane i has the seed `seed + i`, and its actions depend only on its seed.
    private func trajectories(
        _ config: Game2048.Config, lanes: Int, seed: UInt64, steps: Int,
        workers: Workers = Workers(threads: 1)
    ) throws -> [[UInt8]] {
        let batch = try TestBatch(config, lanes: lanes, maxEpisodeSteps: 12, workers: workers)
        var policies = (0..<lanes).map { Generator(seed: ~(seed + UInt64($0))) }
        var trajectories = [[UInt8]](repeating: [], count: lanes)
        func append(_ specs: [ArraySpec]) {
            for spec in specs {
                let (bytes, size) = (batch.bytes(spec.name), spec.bytesPerLane)
                for lane in 0..<lanes { trajectories[lane] += bytes[lane * size..<(lane + 1) * size] }
            }
        }
        try batch.reset(seed: seed)
        append(batch.environment.resetArrays)
        for _ in 0..<steps {
            try batch.step(policies.indices.map { UInt8(policies[$0].next(below: 4)) })
            append(batch.environment.stepArrays)
        }
        return trajectories
    }

    private static let config = Game2048.Config(rows: 2, columns: 3)
    private static let steps = 25

    @Test func `a lane's trajectory does not depend on the number of lanes, threads or chunks`() throws {
        let reference = try trajectories(Self.config, lanes: 1000, seed: 0, steps: Self.steps)
        #expect(Set(reference).count > 990, "lanes differ")
        for lanes in [1, 7, 64, 300, 1000] {
            for (threads, chunk) in [(1, 64), (2, 64), (2, 256), (2, 1000), (1, 1000)] {
                let found = try trajectories(
                    Self.config, lanes: lanes, seed: 0, steps: Self.steps,
                    workers: Workers(threads: threads, chunk: chunk))
                #expect(
                    found == Array(reference[..<lanes]),
                    "\(lanes) lanes, \(threads) threads, chunks of \(chunk)")
            }
        }
        // Compare with a single lane that has the same seed as in the batch.
        for lane in [1, 63, 64, 255, 256, 511, 999] {
            let alone = try trajectories(Self.config, lanes: 1, seed: UInt64(lane), steps: Self.steps)
            #expect(alone == [reference[lane]], "lane \(lane) alone")
        }
    }

    @Test func `different seeds give different trajectories`() throws {
        let found = try trajectories(Game2048.Config(), lanes: 1000, seed: 0, steps: 12)
        #expect(Set(found).count == 1000)
        for other in [1 << 32, 1 << 40, 1 << 63] as [UInt64] {
            let found = try trajectories(Game2048.Config(), lanes: 1, seed: other, steps: 12)
            #expect(try trajectories(Game2048.Config(), lanes: 1, seed: 0, steps: 12) != found)
        }
    }

    // MARK: workers

    @Test(arguments: [1, 2, 3, 16], [1, 64, 100, 256, 1000])
    func `workers visit every lane once, in whole blocks of 64`(threads: Int, chunk: Int) throws {
        for lanes in [1, 7, 63, 64, 65, 128, 300, 1000] {
            let visits = try LaneStorage(count: lanes, repeating: 0)
            let total = Atomic(0)
            let torn = Atomic(0)
            Workers(threads: threads, chunk: chunk).run(lanes: lanes, nanosecondsPerLane: 1) { range, _ in
                if range.lowerBound % 64 != 0 || (range.upperBound % 64 != 0 && range.upperBound != lanes) {
                    torn.wrappingAdd(1, ordering: .relaxed)
                }
                for lane in range { visits[lane] += 1 }
                total.wrappingAdd(range.count, ordering: .relaxed)
            }
            #expect((0..<lanes).allSatisfy { visits[$0] == 1 })
            #expect(total.load(ordering: .relaxed) == lanes)
            #expect(torn.load(ordering: .relaxed) == 0)
        }
    }

    @Test func `concurrent batches visit each lane once`() async throws {
        try await withThrowingTaskGroup(of: Int.self) { group in
            for threads in 2...5 {
                group.addTask {
                    let visits = try LaneStorage(count: 640, repeating: 0)
                    let workers = Workers(threads: threads, chunk: 64)
                    for round in 1...2000 {
                        let most = Atomic(0)
                        workers.run(lanes: 640, nanosecondsPerLane: 1) { range, worker in
                            for lane in range { visits[lane] += 1 }
                            most.max(worker, ordering: .relaxed)
                        }
                        let isDone = (0..<640).allSatisfy { visits[$0] == round }
                        if !isDone || most.load(ordering: .relaxed) >= threads { return round }
                    }
                    return 0
                }
            }
            for try await wrong in group { #expect(wrong == 0) }
        }
    }

    @Test func `chunks are rounded up to whole blocks`() {
        #expect(
            [1, 64, 65, 256, 1000].map { Workers(threads: 1, chunk: $0).chunk } == [64, 64, 128, 256, 1024])
    }
}
