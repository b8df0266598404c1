import Testing

@testable import TwofoldCore

extension Deadline {
    fileprivate static func after(_ time: Duration) -> Deadline { Deadline(after: time, on: .system) }
}

/// Tests the search and its bitboards.
@Suite struct ExpectimaxTests {
    @Test func `a bitboard transposes, slides and finds its empty cells as the readable board does`() {
        var generator = Generator(seed: 4)
        for _ in 0..<20_000 {
            let fill = generator.next(below: 5)
            let exponents = (0..<16).map { _ in
                generator.next(below: 4) >= fill ? 0 : UInt8(1 + generator.next(below: 14))
            }
            let board = Board(rows: 4, columns: 4, exponents: exponents)
            let word = exponents.withUnsafeBufferPointer { Bitboard($0.baseAddress!) }
            func cells(_ word: Bitboard) -> [UInt8] {
                (0..<16).map { (cell: UInt64) -> UInt8 in UInt8(word.bits >> (4 * cell) & 15) }
            }
            #expect(cells(word) == exponents)
            let transposed = (0..<16).map { (cell: Int) -> UInt8 in exponents[cell % 4 * 4 + cell / 4] }
            #expect(cells(word.transposed) == transposed)
            #expect(word.empties.nonzeroBitCount == board.emptyCount)
            for (toRight, direction) in [(false, Direction.left), (true, .right)] {
                let (slid, score) = SlideTables.shared.slide(word, toRight: toRight)
                let slide = Slide(board, towards: direction)
                #expect(cells(slid) == slide.afterstate.exponents.map { min($0, 15) })
                #expect(Int(score) == slide.mergeScore)
            }
        }
    }

    /// Expectimax in its simplest form, without tables.
    private struct PlainSearch {
        let four: Double
        let tight: Int

        func worth(_ board: Board, _ layers: Int) -> [Double?] {
            Direction.allCases.map { direction in
                let slide = Slide(board, towards: direction)
                guard slide.moved else { return nil }
                return Double(slide.mergeScore) + expected(slide.afterstate, layers - 1)
            }
        }

        private func expected(_ afterstate: Board, _ layers: Int) -> Double {
            if layers < 0 || layers == 0 && afterstate.emptyCount > tight {
                var value = 0.0
                for line in 0..<4 {
                    let isOuter = line == 0 || line == 3
                    value += Double(self.value((0..<4).map { Int(afterstate[line * 4 + $0]) }, isOuter))
                    value += Double(self.value((0..<4).map { Int(afterstate[$0 * 4 + line]) }, isOuter))
                }
                return value - 6500 / Double(afterstate.emptyCount)
            }
            var sum = 0.0
            for cell in 0..<16 where afterstate[cell] == 0 {
                for (exponent, probability) in [(UInt8(1), 1 - four), (2, four)] where probability > 0 {
                    var next = afterstate
                    next[cell] = exponent
                    sum += probability * (worth(next, layers).compactMap { $0 }.max() ?? 0)
                }
            }
            return sum / Double(afterstate.emptyCount)
        }

        /// Returns the heuristic's value of a line of four exponents.
        private func value(_ line: [Int], _ isOuter: Bool) -> Int {
            let powers = line.map { $0 * $0 * $0 * $0 }
            let tiles = line.filter { $0 > 0 }
            var (pairs, rise, fall) = (0, 0, 0)
            for (a, b) in zip(tiles, tiles.dropFirst()) where a == b { pairs += 1 }
            for (a, b) in zip(powers, powers.dropFirst()) {
                if a < b { rise += b - a } else { fall += a - b }
            }
            return 100_000 + 750 * line.count { $0 == 0 } + 2000 * pairs
                - (isOuter ? 4 : 6) * min(rise, fall) - (isOuter ? 3 : 1) * powers.reduce(0, +)
        }
    }

    @Test(arguments: [(1, 0, 0.1), (1, 6, 0.1), (2, 0, 0.1), (2, 3, 0.0), (2, 0, 1.0), (3, 0, 0.5)])
    func `expectimax agrees with the plain recursion`(
        depth: Int, tight: Int, four: Double
    ) throws {
        let lanes = depth == 3 ? 4 : 30
        let player = try Player(makeBoards(.init(fourProbability: four), lanes: lanes), seed: 7)
        _ = try player.play(RandomPolicy(), steps: 60)
        let policy = try ExpectimaxPolicy(
            player.environment, depth: depth, extension: tight, tableBytes: 1 << 16,
            workers: Workers(threads: 2))
        let results = try player.play(policy, steps: 3)
        let plain = PlainSearch(four: four, tight: tight)
        var compared = 0
        for step in 0..<3 {
            for lane in 0..<lanes where results.cell("valid", step, lane) == [1] {
                let board = Board(
                    rows: 4, columns: 4, exponents: results.cell("observation", step, lane))
                let worth = plain.worth(board, depth)
                let action = Int(results.cell("action", step, lane)[0])
                let best = worth.compactMap { $0 }.max()!
                // The chosen action is the best one, except for the rounding errors of Float.
                #expect(worth[action]! >= best - 1e-5 * abs(best))
                compared += 1
            }
        }
        #expect(compared > lanes)
    }

    @Test func `the table size and the threads don't change the choices of expectimax`() throws {
        func play(_ tableBytes: Int, _ threads: Int) throws -> Player.Results {
            let player = try Player(makeBoards(lanes: 20), seed: 8)
            let policy = try ExpectimaxPolicy(
                player.environment, depth: 2, extension: 3, tableBytes: tableBytes,
                workers: Workers(threads: threads))
            return try player.play(policy, steps: 60)
        }
        let results = try play(1 << 12, 1)
        #expect(try play(1 << 22, 1) == results)
        #expect(try play(1 << 20, 2) == results)
    }

    @Test func `a late search has no effect on the next one`()
        throws
    {
        let config = Game2048.Config()
        let (late, twin) = (
            try Player(makeBoards(config, lanes: 8), seed: 9),
            try Player(makeBoards(config, lanes: 8), seed: 9)
        )
        let policy = try ExpectimaxPolicy(
            late.environment, depth: 2, extension: 3, tableBytes: 1 << 14,
            workers: Workers(threads: 1))
        let error = #expect(throws: EnvironmentError.self) {
            try late.play(policy, steps: 5, until: .after(.seconds(-1)))
        }
        #expect(error?.field == "policy" && error?.kind == .resourceExhausted)
        #expect(try late.play(RandomPolicy(), steps: 20) == twin.play(RandomPolicy(), steps: 20))
        // There is enough time for the first step, even on a slow machine. Another request plays the other steps.
        var (time, steps) = (Duration.milliseconds(30), 0)
        while steps == 0 {
            steps = (try? late.play(policy, steps: 100_000, until: .after(time)).steps) ?? 0
            time *= 2
        }
        #expect(steps < 100_000)
        var again = 0
        while again < steps {
            again += try twin.play(policy, steps: steps - again, until: .after(.seconds(60))).steps
        }
        #expect(try late.play(RandomPolicy(), steps: 5) == twin.play(RandomPolicy(), steps: 5))
    }

    @Test func `expectimax refuses games that it can't play, and wrong arguments by name`() throws {
        let small = try makeBoards(.init(rows: 3, columns: 3), lanes: 1)
        let toy = try Batch(ToyGame(), BatchOptions(lanes: 1))
        for environment in [small, toy] {
            let error = #expect(throws: EnvironmentError.self) {
                _ = try ExpectimaxPolicy(
                    environment, depth: 2, extension: 3, tableBytes: 1 << 12,
                    workers: Workers(threads: 1))
            }
            #expect(error?.field == "policy")
        }
        let board = try makeBoards(lanes: 1)
        for (depth, tight, field) in [(0, 0, "depth"), (9, 0, "depth"), (1, 17, "extension")] {
            let error = #expect(throws: EnvironmentError.self) {
                _ = try ExpectimaxPolicy(
                    board, depth: depth, extension: tight, tableBytes: 1 << 12,
                    workers: Workers(threads: 1))
            }
            #expect(error?.field == field)
        }
    }
}
