import Testing

@testable import TwofoldCore

/// Compares uniform random legal play in the vector environment with known results. For small boards, these are exact
/// values from dynamic programming; for 4x4, the results of 20 million games.
///
/// The policy has a separate generator. All seeds are fixed, so these tests cannot fail by chance. The tests accept a
/// mean within 4.5 standard errors.
@Suite struct StatisticsTests {
    /// The scale of the sample sizes. It is smaller in a debug build, whose steps take ten times as long.
    private static let scale: Int = {
        #if DEBUG
        1
        #else
        5
        #endif
    }()

    // MARK: exact values

    struct Exact: CustomTestStringConvertible {
        var config: Game2048.Config
        var games: Int
        var score: Double
        var moves: Double
        /// For each value, the probability that the highest tile is at least this value.
        var reaching: [(value: Int, probability: Double)] = []

        var testDescription: String {
            "\(config.rows)x\(config.columns)" + (config.stopAtGoal ? " up to \(config.goal)" : "")
                + (config.fourProbability != 0.1 ? ", fours \(config.fourProbability)" : "")
                + (config.startTiles != 2 ? ", \(config.startTiles) start tiles" : "")
        }
    }

    private static func square(
        goal: Int = 2048, fourProbability: Double = 0.1, startTiles: Int = 2
    ) -> Game2048.Config {
        Game2048.Config(
            rows: 2, columns: 2, goal: goal, stopAtGoal: goal < 2048, fourProbability: fourProbability,
            startTiles: startTiles)
    }

    /// The exact values, which `python_client/tests/exact.py` computes by dynamic programming over all states.
    static let exact = [
        Exact(
            config: square(), games: 20_000, score: 19.65654018, moves: 5.60072300,
            reaching: [(8, 0.655639), (16, 0.121752664444), (32, 0.000511052602)]),
        Exact(
            config: square(goal: 8), games: 5_000, score: 12.76844, moves: 3.9267312222,
            reaching: [(8, 0.655639)]),
        Exact(
            config: square(goal: 16), games: 5_000, score: 18.9586074664, moves: 5.3803728267,
            reaching: [(8, 0.655639), (16, 0.121752664444)]),
        Exact(
            config: square(fourProbability: 0), games: 5_000, score: 18.5902777778, moves: 5.7274305556,
            reaching: [(8, 0.5555555556), (16, 0.0694444444)]),
        Exact(
            config: square(fourProbability: 0.5), games: 5_000, score: 22.8406747608, moves: 5.0716860084,
            reaching: [(8, 0.8807226366), (16, 0.2901018745)]),
        Exact(
            config: square(fourProbability: 1), games: 5_000, score: 37.1805555556, moves: 5.7274305556,
            reaching: [(16, 0.5555555556), (32, 0.0694444444)]),
        Exact(
            config: square(startTiles: 1), games: 5_000, score: 19.6565401755, moves: 6.6007230007,
            reaching: [(8, 0.655639)]),
        Exact(
            config: square(startTiles: 3), games: 5_000, score: 19.4789331300, moves: 4.5731675241,
            reaching: [(8, 0.647299)]),
        Exact(
            config: Game2048.Config(rows: 2, columns: 3), games: 4_000, score: 61.1688802953,
            moves: 13.5278152998, reaching: [(8, 0.9613911384), (16, 0.6297436560), (32, 0.0921047542)]),
        Exact(
            config: Game2048.Config(rows: 3, columns: 2), games: 4_000, score: 61.1688802953,
            moves: 13.5278152998, reaching: [(8, 0.9613911384), (16, 0.6297436560), (32, 0.0921047542)]),
        Exact(
            config: Game2048.Config(rows: 3, columns: 3), games: 3_000, score: 178.74385407,
            moves: 30.46086075),
    ]

    @Test(arguments: exact)
    func `random play on small boards has the exact means`(expected: Exact) throws {
        let episodes = try play(expected.config, games: expected.games * Self.scale)
        expectInvariants(episodes, expected.config)
        var (score, moves, tileSum) = (Mean(), Mean(), Mean())
        for episode in episodes {
            score.add(Double(episode.score))
            moves.add(Double(episode.moves))
            tileSum.add(Double(episode.tileSum))
        }
        #expect(score.isNear(expected.score), "score \(score), not \(expected.score)")
        #expect(moves.isNear(expected.moves), "moves \(moves), not \(expected.moves)")
        // E[sum of tiles] = E[value of a tile] (E[moves] + start tiles)
        let sum =
            2 * (1 + expected.config.fourProbability) * (expected.moves + Double(expected.config.startTiles))
        #expect(tileSum.isNear(sum), "tile sum \(tileSum), not \(sum)")
        for (value, probability) in expected.reaching {
            let reached = episodes.count { 1 << $0.maxExponent >= value }
            let count = Double(episodes.count)
            let error = (count * probability * (1 - probability)).squareRoot()
            #expect(
                abs(Double(reached) - count * probability) < 4.5 * error,
                "\(value) in \(reached) of \(episodes.count) games, not \(count * probability) ± \(error)")
        }
    }

    // MARK: 4x4

    /// The expected values are the shares and means of 20 million games (standard errors 0.12 and 0.0085). They agree
    /// with published results of 5 million games. A typical bug, merging from the wrong end, gives (score, moves) =
    /// (1050.9, 115.0). That is 6 standard errors away, even in a debug build's sample.
    @Test func `random play on 4x4 has the known score, moves and highest tiles`() throws {
        let config = Game2048.Config()
        let episodes = try play(config, games: 6_000 * Self.scale)
        expectInvariants(episodes, config)
        var (score, moves, tileSum) = (Mean(), Mean(), Mean())
        for episode in episodes {
            score.add(Double(episode.score))
            moves.add(Double(episode.moves))
            tileSum.add(Double(episode.tileSum) - 2.2 * Double(episode.moves + 2))
        }
        #expect(score.isNear(1094.91, error: 0.12), "score \(score)")
        #expect(moves.isNear(118.387, error: 0.0085), "moves \(moves)")
        #expect(tileSum.isNear(0), "tile sum less 2.2 (moves + 2): \(tileSum)")
        // The rarest tiles are counted with their neighbours: 8 with 16, and 512 with 256.
        let shares = [0.0017 + 0.268, 6.778, 37.47, 47.65, 7.816 + 0.0194].map { $0 / 100 }
        var highest = [Int](repeating: 0, count: 5)
        for episode in episodes { highest[min(max(episode.maxExponent, 4), 8) - 4] += 1 }
        let z = chiSquare(highest, shares.map { $0 / shares.reduce(0, +) })
        #expect(abs(z) < 4.5, "\(highest)")
    }

    // MARK: step by step

    @Test(arguments: [(4, 4), (2, 5)])
    func `each legal move raises the sum of the tiles by 2 or 4, and an illegal action keeps it`(
        rows: Int, columns: Int
    ) throws {
        let batch = try TestBatch(Game2048.Config(rows: rows, columns: columns), lanes: 20)
        try batch.reset(seed: 1)
        var policy = Generator(seed: 2)
        var sums = [Int](repeating: 0, count: 20)
        var raised = [Int: Int]()
        var mismatches = 0
        for step in 0..<300 {
            var isPlayed = [Bool](repeating: false, count: 20)
            if step > 0 {
                let masks = (0..<20).map { batch.mask(lane: $0) }
                let actions = masks.map { _ in policy.next(below: 4) }
                try batch.step(actions.map { UInt8($0) })
                isPlayed = (0..<20).map { masks[$0] != [0, 0, 0, 0] }
                for lane in 0..<20 where isPlayed[lane] {
                    let raise = tileSum(batch.observation(lane: lane)) - sums[lane]
                    if (raise == 0) != (masks[lane][actions[lane]] == 0) { mismatches += 1 }
                    raised[raise, default: 0] += 1
                }
            }
            for lane in 0..<20 { sums[lane] = tileSum(batch.observation(lane: lane)) }
        }
        #expect(mismatches == 0, "a legal action kept the sum, or an illegal action changed it")
        #expect(Set(raised.keys) == [0, 2, 4])
        let fours = Double(raised[4]!) / Double(raised[4]! + raised[2]!)
        #expect(abs(fours - 0.1) < 0.03)
    }

    // MARK: playing

    /// The results of a finished game.
    struct Episode {
        var observation: ArraySlice<UInt8>
        var score: Int
        var moves: Int
        var length: Int
        var maxExponent: Int
        var tileSum: Int
    }

    /// Plays at least this many games, the same number on each board. Counting the games that finish first would favour
    /// short ones.
    private func play(_ config: Game2048.Config, games: Int) throws -> [Episode] {
        let lanes = 100
        let perLane = (games + lanes - 1) / lanes
        let cells = config.rows * config.columns
        let batch = try TestBatch(config, lanes: lanes)
        var policy = Generator(seed: 0x5eed)
        var episodes: [Episode] = []
        var played = [Int](repeating: 0, count: lanes)
        var unfinished = lanes
        var actions = [UInt8](repeating: 0, count: lanes)
        try batch.reset(seed: 1 << 63)
        while unfinished > 0 {
            batch.bytes("action_mask").withUnsafeBufferPointer { mask in
                for lane in 0..<lanes { actions[lane] = uniform(mask, at: lane * 4, &policy) }
            }
            try batch.step(actions)
            let terminated = batch.bytes("terminated")
            for lane in 0..<lanes where terminated[lane] == 1 && played[lane] < perLane {
                played[lane] += 1
                if played[lane] == perLane { unfinished -= 1 }
                let observation = batch.observation(lane: lane)
                #expect(observation.count == cells)
                episodes.append(
                    Episode(
                        observation: observation[...], score: batch.integer("score", lane: lane),
                        moves: batch.integer("moves", lane: lane),
                        length: batch.integer("episode_length", lane: lane),
                        maxExponent: batch.byte("max_exponent", lane: lane), tileSum: tileSum(observation)))
            }
        }
        return episodes
    }

    /// Returns a uniformly random legal action, or any action for a board that waits for its autoreset.
    private func uniform(_ mask: UnsafeBufferPointer<UInt8>, at start: Int, _ policy: inout Generator)
        -> UInt8
    {
        let legal = mask[start] + mask[start + 1] + mask[start + 2] + mask[start + 3]
        if legal == 0 { return 0 }
        var skip = policy.next(below: Int(legal))
        var action = 0
        while mask[start + action] == 0 || skip > 0 {
            if mask[start + action] == 1 { skip -= 1 }
            action += 1
        }
        return UInt8(action)
    }

    private func tileSum(_ observation: [UInt8]) -> Int {
        var sum = 0
        for exponent in observation where exponent != 0 { sum += 1 << Int(exponent) }
        return sum
    }

    /// Checks facts that hold for every game under any policy. The score contains each merge, so score and tiles
    /// determine the numbers of 2s and 4s that were placed. These determine the number of moves.
    private func expectInvariants(_ episodes: [Episode], _ config: Game2048.Config) {
        var broken: [Episode] = []
        for episode in episodes {
            var weighted = 0
            for exponent in episode.observation where exponent != 0 {
                weighted += (Int(exponent) - 1) << Int(exponent)
            }
            let fours = (weighted - episode.score) / 4
            let twos = (episode.tileSum - 4 * fours) / 2
            let isRight =
                (weighted - episode.score) % 4 == 0 && fours >= 0 && twos >= 0
                && episode.moves == twos + fours - config.startTiles
                && episode.length == episode.moves  // only legal actions were played
                && episode.maxExponent == Int(episode.observation.max()!)
                && (config.fourProbability > 0 || fours == 0) && (config.fourProbability < 1 || twos == 0)
            if !isRight { broken.append(episode) }
        }
        #expect(broken.isEmpty, "\(broken.count) games, the first \(broken.first.map { "\($0)" } ?? "")")
    }
}
