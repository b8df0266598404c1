import Platform
import Testing

@testable import TwofoldCore

/// Compares the kernel with the readable rules on arrays of arbitrary boards, and both with the methods of `Board`.
@Suite struct BoardRulesTests {
    /// The result arrays of an operation, keyed by name.
    private typealias Results = [String: [UInt8]]

    /// Boards and the arguments of an operation, in memory at odd addresses.
    private struct Question {
        let count: Int
        let cells: Int
        let memory: [UInt8]

        init(_ boards: [[UInt8]], actions: [UInt8], seeds: [UInt64]) {
            count = boards.count
            cells = boards[0].count
            let words = littleEndian(seeds)
            memory = [0] + boards.joined() + actions + words
        }

        func with<Result>(
            _ body: (_ boards: BoardInput, _ actions: UnsafeRawBufferPointer, _ seeds: UnsafeRawBufferPointer)
                throws -> Result
        ) rethrows -> Result {
            try memory.withUnsafeBytes { bytes in
                func part(_ first: Int, _ size: Int) -> UnsafeRawBufferPointer {
                    UnsafeRawBufferPointer(rebasing: bytes[first..<first + size])
                }
                let boards = count * cells
                return try body(
                    BoardInput(part(1, boards), count: count), part(1 + boards, count),
                    part(1 + boards + count, 8 * count))
            }
        }
    }

    /// Runs an operation with result arrays at odd addresses, and checks that the bytes between them do not change.
    private func results(
        _ specs: [ArraySpec], _ count: Int, _ body: (BatchArrays) throws -> Void
    ) throws -> Results {
        let results = GuardedArrays(specs, rows: count)
        try body(results.arrays)
        results.checkGaps()
        return results.contents()
    }

    private func everything(_ rules: BoardRules, _ question: Question) throws -> [String: Results] {
        try question.with { boards, actions, seeds in
            let count = question.count
            return [
                "afterstates": try results(rules.afterstateArrays, count) {
                    try rules.afterstates(boards, into: $0)
                },
                "move": try results(rules.moveArrays, count) {
                    try rules.move(boards, actions: actions, into: $0)
                },
                "legal": try results(rules.legalArrays, count) { try rules.legal(boards, into: $0) },
                "spawn": try results(rules.spawnArrays, count) {
                    try rules.spawn(boards, seeds: seeds, into: $0)
                },
            ]
        }
    }

    /// Returns a random board with allowed exponents: full, sparse or empty, with many different tiles or few.
    private static func randomBoard(_ cells: Int, _ generator: inout Generator) -> [UInt8] {
        let fill = generator.next(below: 6)
        let lowest = 1 + generator.next(below: 26)
        let kinds = 1 + generator.next(below: 27 - lowest)
        return (0..<cells).map { _ in
            generator.next(below: 5) >= fill ? 0 : UInt8(lowest + generator.next(below: kinds))
        }
    }

    private static func randomQuestion(_ count: Int, cells: Int, _ generator: inout Generator) -> Question {
        Question(
            (0..<count).map { _ in randomBoard(cells, &generator) },
            actions: (0..<count).map { _ in UInt8(generator.next(below: 4)) },
            seeds: (0..<count).map { _ in UInt64(generator.next()) << 32 | UInt64(generator.next()) })
    }

    @Test(arguments: KernelTests.sizes)
    func `on many random boards the kernels equal the reference`(_ size: (Int, Int)) throws {
        let cells = size.0 * size.1
        let game = try Game2048(.init(rows: size.0, columns: size.1, fourProbability: 0.3))
        let kernels = KernelTests.kernels.map {
            BoardRules(game, workers: Workers(threads: 2), engine: $0)
        }
        let readable = BoardRules(game, workers: Workers(threads: 2), engine: .reference)
        var generator = Generator(seed: 8)
        var full = 0
        // On 4 x 4, these are 262,000 boards, and four operations compare each of them.
        let many = [Int](repeating: 16_383, count: (cells == 16 ? 16 : 4) * testScale)
        for count in [1, 63, 64, 65] + many {
            let question = Self.randomQuestion(count, cells: cells, &generator)
            let reference = try everything(readable, question)
            for (fast, engine) in zip(kernels, KernelTests.kernels) {
                let kernel = try everything(fast, question)
                for (operation, arrays) in reference {
                    for (name, bytes) in arrays where kernel[operation]![name]! != bytes {
                        let first = zip(kernel[operation]![name]!, bytes).enumerated().first { $1.0 != $1.1 }!
                        Issue.record(
                            "\(engine), \(operation): \(name) differs at byte \(first.offset) of \(bytes.count)"
                        )
                    }
                }
            }
            full += reference["spawn"]!["outcomes"]!.count { $0 == 0xff } / 4
        }
        #expect(full > 1000, "too few boards were full")
    }

    @Test(arguments: [(2, 2), (2, 8), (3, 3), (4, 4), (8, 8), (5, 4)])
    func `each array matches the readable rules`(rows: Int, columns: Int) throws {
        let game = try Game2048(.init(rows: rows, columns: columns, fourProbability: 0.5))
        let rules = BoardRules(game, workers: Workers(threads: 1))
        let cells = rows * columns
        var generator = Generator(seed: 9)
        let question = Self.randomQuestion(300, cells: cells, &generator)
        let everything = try everything(rules, question)
        let actions = question.with { _, actions, _ in Array(actions) }
        for index in 0..<question.count {
            let exponents = Array(question.memory[1 + index * cells..<1 + (index + 1) * cells])
            let board = Board(rows: rows, columns: columns, exponents: exponents)
            for direction in Direction.allCases {
                let slide = Slide(board, towards: direction)
                let place = index * 4 + Int(direction.rawValue)
                let afterstates = everything["afterstates"]!
                #expect(
                    Array(afterstates["boards"]![place * cells..<(place + 1) * cells])
                        == slide.afterstate.exponents)
                #expect(float(afterstates["rewards"]!, place) == Float(slide.mergeScore))
                #expect(afterstates["mask"]![place] == (slide.moved ? 1 : 0))
                #expect(everything["legal"]!["mask"]![place] == (slide.moved ? 1 : 0))
                guard actions[index] == direction.rawValue else { continue }
                let move = everything["move"]!
                #expect(
                    Array(move["boards"]![index * cells..<(index + 1) * cells]) == slide.afterstate.exponents)
                #expect(float(move["rewards"]!, index) == Float(slide.mergeScore))
                #expect(move["legal"]![index] == (slide.moved ? 1 : 0))
            }
            let spawned = Array(everything["spawn"]!["boards"]![index * cells..<(index + 1) * cells])
            let different = (0..<cells).filter { spawned[$0] != exponents[$0] }
            let outcome = everything["spawn"]!["outcomes"]!.withUnsafeBytes {
                Int($0.loadUnaligned(fromByteOffset: 4 * index, as: Int32.self))
            }
            if board.emptyCount == 0 {
                #expect(different.isEmpty && outcome == -1)
            } else {
                try #require(different.count == 1)
                #expect(exponents[different[0]] == 0 && (1...2).contains(spawned[different[0]]))
                #expect(outcome == different[0] + (spawned[different[0]] == 2 ? cells : 0))
            }
        }
    }

    private func float(_ bytes: [UInt8], _ index: Int) -> Float {
        bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 4 * index, as: Float.self) }
    }

    @Test(arguments: [Engine.reference, .automatic])
    func `a spawn is the first draw of a stream with the same seed`(_ engine: Engine) throws {
        // If start tiles are drawn one by one, the environment's first tile is a spawn on the empty board.
        let game = try Game2048(.init(startTiles: 1))
        let rules = BoardRules(game, workers: Workers(threads: 1), engine: engine)
        let seeds = (0..<500).map { UInt64($0) &* 0x9e37_79b9_7f4a_7c15 }
        let empty = [UInt8](repeating: 0, count: 16)
        let question = Question(
            seeds.map { _ in empty }, actions: seeds.map { _ in 0 }, seeds: seeds)
        let spawned = try everything(rules, question)["spawn"]!["boards"]!
        let batch = try TestBatch(game.makeBatch(BatchOptions(lanes: seeds.count)))
        try batch.reset(seeds: seeds)
        #expect(spawned == batch.bytes("observation"))
    }

    @Test func `the error for an exponent that is too large or a wrong action names its row`() throws {
        let rules = BoardRules(try Game2048(.init()), workers: Workers(threads: 1))
        var boards = [[UInt8]](repeating: [UInt8](repeating: 26, count: 16), count: 70)
        let zeros = [UInt8](repeating: 0, count: 70)
        let seeds = [UInt64](repeating: 0, count: 70)
        _ = try everything(rules, Question(boards, actions: zeros, seeds: seeds))
        var actions = zeros
        actions[66] = 4
        #expect {
            try everything(rules, Question(boards, actions: actions, seeds: seeds))
        } throws: { error in
            let error = error as? EnvironmentError
            return error?.field == "actions" && error?.lane == 66
        }
        boards[69][7] = 27
        boards[68][15] = 255
        #expect {
            try everything(rules, Question(boards, actions: zeros, seeds: seeds))
        } throws: { error in
            let error = error as? EnvironmentError
            return error?.field == "boards" && error?.lane == 68 && error!.message.contains("cell 15")
        }
    }

    @Test func `a board that the move can't produce is refused`() throws {
        let board = Board(rows: 2, columns: 2, exponents: [1, 1, 0, 0])
        func refusal(_ direction: Direction, _ next: [UInt8]) -> String? {
            do throws(Reason) {
                _ = try MoveAction.explain(board, direction, Board(rows: 2, columns: 2, exponents: next))
                return nil
            } catch {
                return error.description
            }
        }
        #expect(refusal(.left, [2, 0, 0, 1]) == nil)
        #expect(refusal(.left, [2, 2, 0, 0]) == nil)
        #expect(refusal(.up, [1, 1, 0, 0]) == nil, "an illegal action changes nothing")
        #expect(refusal(.left, [2, 0, 0, 0])?.contains("no new tile") == true)
        #expect(refusal(.left, [2, 0, 1, 1])?.contains("cell") == true)
        #expect(refusal(.left, [2, 3, 0, 0])?.contains("cell 1") == true, "an 8 does not spawn")
        #expect(refusal(.left, [1, 1, 0, 1])?.contains("cell 0") == true)
        #expect(refusal(.right, [2, 0, 0, 1]) != nil)
        #expect(refusal(.up, [1, 1, 1, 0])?.contains("illegal") == true)
    }
}
