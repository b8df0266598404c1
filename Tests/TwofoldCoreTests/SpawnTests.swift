import Testing

@testable import TwofoldCore

@Suite struct SpawnTests {
    private let board = Board([[2, 0, 4, 0], [0, 8, 0, 16], [0, 0, 2, 4], [32, 0, 0, 0]])
    private let emptyCells = [1, 3, 4, 6, 8, 9, 13, 14, 15]

    // MARK: chance

    @Test(arguments: [0.1, 0.5])
    func `empty cells and values have their probabilities`(fourProbability: Double) {
        let law = SpawnLaw(fourProbability: fourProbability)
        var generator = Generator(seed: 2)
        var counts: [Int: Int] = [:]
        for _ in 0..<20_000 {
            let spawn = law.draw(on: board, generator: &generator)
            counts[spawn.cell * 4 + Int(spawn.exponent), default: 0] += 1
        }
        let outcomes = emptyCells.flatMap { [$0 * 4 + 1, $0 * 4 + 2] }
        #expect(Set(counts.keys) == Set(outcomes))
        let z = chiSquare(
            outcomes.map { counts[$0] ?? 0 },
            outcomes.map { ($0 % 4 == 2 ? fourProbability : 1 - fourProbability) / 9 })
        #expect(abs(z) < 4.5, "\(counts)")
    }

    @Test func `start tiles are uniform over the cells, and {2, 2}, {2, 4}, {4, 4} have their probabilities`()
        throws
    {
        let game = try Game2048(Game2048.Config())
        var generator = Generator(seed: 5)
        var cells = [Int](repeating: 0, count: 16)
        var kinds = [0, 0, 0]
        for _ in 0..<8_000 {
            var state = game.makeState()
            game.start(&state, generator: &generator)
            for cell in 0..<16 where state.board[cell] != 0 { cells[cell] += 1 }
            switch state.board.exponents.filter({ $0 != 0 }).sorted() {
            case [1, 1]: kinds[0] += 1
            case [1, 2]: kinds[1] += 1
            case [2, 2]: kinds[2] += 1
            default: Issue.record("not two start tiles: \(state.board.exponents)")
            }
        }
        // The two cells of a board are never the same, so the counts vary a little less than chi-square assumes.
        #expect(abs(chiSquare(cells, [Double](repeating: 1.0 / 16, count: 16))) < 4.5, "\(cells)")
        #expect(abs(chiSquare(kinds, [0.81, 0.18, 0.01])) < 4.5, "\(kinds)")
    }

    @Test(arguments: zip([0, 1] as [Double], [1, 2] as [UInt8]))
    func `with probability 0 or 1 all tiles are equal`(fourProbability: Double, exponent: UInt8) {
        let law = SpawnLaw(fourProbability: fourProbability)
        var generator = Generator(seed: 1)
        for _ in 0..<2_000 {
            #expect(law.draw(on: board, generator: &generator).exponent == exponent)
        }
    }

    // MARK: places

    @Test func `a tile fills the last empty cell, wherever it is`() {
        for (rows, columns) in allSizes {
            let law = SpawnLaw(fourProbability: 0.1)
            var generator = Generator(seed: 4)
            for cell in 0..<rows * columns {
                var exponents = stuckExponents(rows: rows, columns: columns)
                exponents[cell] = 0
                let board = Board(rows: rows, columns: columns, exponents: exponents)
                for _ in 0..<5 {
                    #expect(law.draw(on: board, generator: &generator).cell == cell)
                }
            }
        }
    }

    /// The first number after the state (0, 1, 1, word) is rotl(word, 7).
    @Test func `the smallest word takes the first empty cell and the largest the last`() {
        let law = SpawnLaw(fourProbability: 0.1)
        var smallest = Generator(words: (0, 1, 1, 0))
        #expect(law.draw(on: board, generator: &smallest).cell == 1)
        var largest = Generator(words: (0, 1, 1, .max))
        #expect(law.draw(on: board, generator: &largest).cell == 15)
    }

    // MARK: the recipe

    @Test(
        arguments: zip(
            [0, 0.1, 0.25, 0.5, 1, 0x1p-33, 0x1p-34] as [Double],
            [0, 429_496_730, 1_073_741_824, 2_147_483_648, 4_294_967_296, 1, 0] as [UInt64]))
    func `the threshold is the probability times 2^32, halves rounded up`(
        fourProbability: Double, threshold: UInt64
    ) {
        #expect(SpawnLaw(fourProbability: fourProbability).threshold == threshold)
    }

    @Test func `the first word chooses the k-th empty cell and the second the value`() {
        let law = SpawnLaw(fourProbability: 0.3)
        var generator = Generator(seed: 6)
        for _ in 0..<500 {
            var words = generator
            let (cellWord, valueWord) = (words.next(), words.next())
            let spawn = law.draw(on: board, generator: &generator)
            #expect(spawn.cell == emptyCells[Int(cellWord.multipliedFullWidth(by: 9).high)])
            #expect(spawn.exponent == (Double(valueWord) < (0.3 * 0x1p32).rounded() ? 2 : 1))
        }
    }

    @Test func `a word just below the threshold gives a 4, and the threshold itself gives a 2`() {
        for seed in 0..<100 as Range<UInt64> {
            var words = Generator(seed: seed)
            _ = words.next()
            let word = Double(words.next())
            var generator = Generator(seed: seed)
            let at = SpawnLaw(fourProbability: word / 0x1p32)
            #expect(at.draw(on: board, generator: &generator).exponent == 1)
            generator = Generator(seed: seed)
            let above = SpawnLaw(fourProbability: (word + 1) / 0x1p32)
            #expect(above.draw(on: board, generator: &generator).exponent == 2)
        }
    }

    @Test(arguments: [0, 0.1, 0.5, 1], [1, 9, 16])
    func `each tile takes two words, whatever its value`(fourProbability: Double, empties: Int) {
        var board = Board(rows: 4, columns: 4, exponents: stuckExponents(rows: 4, columns: 4))
        for cell in 0..<empties { board[cell] = 0 }
        let law = SpawnLaw(fourProbability: fourProbability)
        var generator = Generator(seed: 9)
        for _ in 0..<50 {
            var words = generator
            for _ in 0..<2 { _ = words.next() }
            _ = law.draw(on: board, generator: &generator)
            #expect(generator == words)
        }
    }

    @Test func `placing a tile changes only its cell`() {
        var placed = board
        placed.place(Spawn(cell: 9, exponent: 2))
        var expected = board.exponents
        expected[9] = 2
        #expect(placed.exponents == expected)
    }
}
