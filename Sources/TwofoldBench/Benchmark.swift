internal import TwofoldCore

/// The settings of a benchmark.
public struct BenchmarkPlan: Sendable {
    /// The batch sizes in boards.
    public var sizes = [1, 16, 256, 4096, 65_536, 1_048_576]
    /// The thread counts to measure with.
    public var threads: [Int]
    /// The number of measurements of each engine. The engines alternate.
    public var rounds = 5
    /// The duration of the steps in each measurement.
    public var time = Duration.milliseconds(200)
    /// The prefix of the names of the engines to measure; empty for all engines.
    public var only = ""

    /// Makes the default plan, which measures with 1 thread and with all threads.
    public init(allThreads: Int) { threads = allThreads == 1 ? [1] : [1, allThreads] }
}

/// The measured speed of one engine at one size, over all rounds.
public struct BenchmarkRow: Encodable, Sendable {
    /// The game: "2048", "2048 on 3 x 3", "Concentration".
    public let game: String
    public let engine: String
    public let boards: Int
    public let threads: Int
    /// The boards stepped per second in the median round.
    public let median: Double
    /// The boards stepped per second in the slowest round.
    public let minimum: Double
    /// The boards stepped per second in the fastest round.
    public let maximum: Double

    init(game: String, engine: String, boards: Int, threads: Int, rates: [Double]) {
        (self.game, self.engine, self.boards, self.threads) = (game, engine, boards, threads)
        let sorted = rates.sorted()
        (median, minimum, maximum) = (sorted[rates.count / 2], sorted[0], sorted[rates.count - 1])
    }
}

/// The signature of one engine, for one thread count and one chunk size.
public struct BenchmarkSignature: Encodable, Sendable {
    public let engine: String
    public let threads: Int
    /// The number of lanes in a chunk.
    public let chunk: Int
    /// The game, its size if it is not the default, and its reward if it is not the game's own.
    public let play: String
    /// The hash of all replies, as 16 hex digits.
    public let signature: String
}

/// The numbers of lanes and steps in a signature's run. They cover a partly used last block, several chunks and ended
/// episodes.
private let signatureRun = (lanes: 1000, steps: 400)

/// Measures all engines at all sizes. The engines take turns in each round, so that a temporary slowdown of the machine
/// affects all of them.
public func benchmark(_ plan: BenchmarkPlan) throws -> [BenchmarkRow] {
    var rows: [BenchmarkRow] = []
    for boards in plan.sizes {
        var contests: [(contestant: Contestant, threads: Int, play: RandomPlay, rates: [Double])] = []
        for contestant in Contestant.available
        where contestant.isMeasured && contestant.name.hasPrefix(plan.only) {
            for threads in plan.threads {
                let workers = Workers(threads: threads)
                let batch = try contestant.makeBatch(lanes: boards, workers: workers)
                contests.append((contestant, threads, try RandomPlay(batch, workers), []))
            }
        }
        // The first round plays the boards to mid-game and fills the caches; it does not count.
        for round in 0...plan.rounds {
            for index in contests.indices {
                let rate = try contests[index].play.measure(plan.time)
                if round > 0 { contests[index].rates.append(rate) }
            }
        }
        for contest in contests {
            rows.append(
                BenchmarkRow(
                    game: contest.contestant.game, engine: contest.contestant.name, boards: boards,
                    threads: contest.threads, rates: contest.rates))
        }
    }
    return rows
}

/// Computes the signature of each engine, thread count and chunk size. Signatures with the same `play` must
/// be equal.
public func signatures(threads: [Int]) throws -> [BenchmarkSignature] {
    var signatures: [BenchmarkSignature] = []
    for contestant in Contestant.available {
        for threads in threads {
            for chunk in [64, 256, 4096] {
                let workers = Workers(threads: threads, chunk: chunk)
                let batch = try contestant.makeBatch(
                    lanes: signatureRun.lanes, workers: workers)
                let signature = try RandomPlay(batch, workers).signature(steps: signatureRun.steps)
                let digits = String(signature, radix: 16)
                signatures.append(
                    BenchmarkSignature(
                        engine: contestant.name, threads: threads, chunk: chunk,
                        play: contestant.play,
                        signature: String(repeating: "0", count: 16 - digits.count) + digits))
            }
        }
    }
    return signatures
}
