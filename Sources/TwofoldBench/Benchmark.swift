internal import TwofoldCore

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

/// Measures each engine at each size (in boards) with each number of threads, once per round. The engines take turns in
/// each round, so that a temporary slowdown of the machine affects all of them.
public func benchmark(sizes: [Int], threads: [Int], rounds: Int) throws -> [BenchmarkRow] {
    var rows: [BenchmarkRow] = []
    for boards in sizes {
        var contests: [(contestant: Contestant, threads: Int, play: RandomPlay, rates: [Double])] = []
        for contestant in Contestant.available {
            for threads in threads {
                let batch = try contestant.makeBatch(lanes: boards, workers: Workers(threads: threads))
                contests.append((contestant, threads, try RandomPlay(batch), []))
            }
        }
        // The first round plays the boards to mid-game and fills the caches; it does not count.
        for round in 0...rounds {
            for index in contests.indices {
                let rate = try contests[index].play.measure()
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
                // These numbers cover a partly used last block, several chunks and ended episodes.
                let batch = try contestant.makeBatch(
                    lanes: 1000, workers: Workers(threads: threads, chunk: chunk))
                let signature = try RandomPlay(batch).signature(steps: 400)
                let digits = String(signature, radix: 16)
                signatures.append(
                    BenchmarkSignature(
                        engine: contestant.name, threads: threads, chunk: chunk, play: contestant.play,
                        signature: String(repeating: "0", count: 16 - digits.count) + digits))
            }
        }
    }
    return signatures
}
