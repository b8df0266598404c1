internal import TwofoldCore

/// What to measure.
public struct BenchmarkPlan: Sendable {
    /// Boards in a batch.
    public var sizes = [1, 16, 256, 4096, 65_536, 1_048_576]
    /// Threads that a batch is spread over, each measured.
    public var threads: [Int]
    /// How often everything is measured, one after the other.
    public var rounds = 5
    /// How long each measurement steps.
    public var time = Duration.milliseconds(200)
    /// How the names of those begin that are measured; empty for all.
    public var only = ""

    /// The defaults, with 1 and all threads.
    public init(allThreads: Int) { threads = allThreads == 1 ? [1] : [1, allThreads] }
}

/// Steps of one board in a second, over the rounds.
public struct BenchmarkRow: Codable, Sendable {
    /// The game: "2048", "Concentration".
    public let game: String
    /// What was measured.
    public let engine: String
    /// Boards in a batch.
    public let boards: Int
    /// Threads that a batch is spread over.
    public let threads: Int
    /// Boards stepped in a second: the middle one of the rounds.
    public let median: Double
    /// The slowest round.
    public let minimum: Double
    /// The fastest round.
    public let maximum: Double
}

/// The signature of one way to run the boards.
public struct BenchmarkSignature: Codable, Sendable {
    /// What ran.
    public let engine: String
    /// Threads that it was spread over.
    public let threads: Int
    /// Lanes in a chunk.
    public let chunk: Int
    /// What was played: the game, and a reward that is not its own.
    public let play: String
    /// 16 hex digits.
    public let signature: String
}

/// Lanes and steps of the run whose signature is taken: a partly used last block, several chunks, and
/// episodes that end.
private let signatureRun = (lanes: 1000, steps: 400)

/// Measures all engines at all sizes, in rounds, so that a slow moment of the machine hits all of them.
public func benchmark(_ plan: BenchmarkPlan) throws -> [BenchmarkRow] {
    var rows: [BenchmarkRow] = []
    for boards in plan.sizes {
        var contests: [(contestant: Contestant, threads: Int, rollout: Rollout, rates: [Double])] = []
        for contestant in Contestant.available
        where contestant.isMeasured && contestant.rawValue.hasPrefix(plan.only) {
            for threads in plan.threads {
                let workers = Workers(threads: threads)
                let environment = try contestant.makeEnvironment(lanes: boards, workers: workers)
                contests.append((contestant, threads, try Rollout(environment, workers), []))
            }
        }
        // The first round brings boards into mid-game and caches up to date; it does not count.
        for round in 0...plan.rounds {
            for index in contests.indices {
                let rate = try contests[index].rollout.measure(plan.time)
                if round > 0 { contests[index].rates.append(rate) }
            }
        }
        for contest in contests {
            let rates = contest.rates.sorted()
            rows.append(
                BenchmarkRow(
                    game: contest.contestant.game, engine: contest.contestant.rawValue, boards: boards,
                    threads: contest.threads,
                    median: rates[rates.count / 2], minimum: rates[0], maximum: rates[rates.count - 1]))
        }
    }
    return rows
}

/// The signature of each engine, thread count and chunk size; those that play the same have to be equal.
public func signatures(threads: [Int]) throws -> [BenchmarkSignature] {
    var signatures: [BenchmarkSignature] = []
    for contestant in Contestant.available {
        for threads in threads {
            for chunk in [64, 256, 4096] {
                let workers = Workers(threads: threads, chunk: chunk)
                let environment = try contestant.makeEnvironment(
                    lanes: signatureRun.lanes, workers: workers)
                let signature = try Rollout(environment, workers).signature(steps: signatureRun.steps)
                let digits = String(signature, radix: 16)
                signatures.append(
                    BenchmarkSignature(
                        engine: contestant.rawValue, threads: threads, chunk: chunk,
                        play: contestant.play,
                        signature: String(repeating: "0", count: 16 - digits.count) + digits))
            }
        }
    }
    return signatures
}
