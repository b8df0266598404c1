import Testing
import TwofoldCore

@testable import TwofoldOptimum

private let sizes = [(2, 2), (2, 3), (3, 2), (2, 4), (4, 2), (3, 3)]

/// Compares the packed boards, their moves and their numbers with the readable rules.
@Suite struct RulesTests {
    /// Returns random boards with exponents up to 10 and about a third of the cells empty.
    private func randomBoards(_ cells: Int, _ count: Int) -> [[UInt8]] {
        var draws = Draws(7)
        return (0..<count).map { _ in
            let limit = UInt8.random(in: 1...10, using: &draws)
            return (0..<cells).map { _ in
                Int.random(in: 0..<3, using: &draws) == 0 ? 0 : UInt8.random(in: 1...limit, using: &draws)
            }
        }
    }

    private func pack(_ exponents: [UInt8], _ boards: PackedBoards) -> UInt64 {
        exponents.withUnsafeBufferPointer { boards.pack($0.baseAddress!).board }
    }

    /// Returns the board after a quarter turn or, if it is not square, after a half turn.
    private func turned(_ board: [UInt8], _ rows: Int, _ columns: Int) -> [UInt8] {
        guard rows == columns else { return board.reversed() }
        return board.indices.map { board[(rows - 1 - $0 % columns) * columns + $0 / columns] }
    }

    private func mirrored(_ board: [UInt8], _ columns: Int) -> [UInt8] {
        board.indices.map { board[$0 / columns * columns + columns - 1 - $0 % columns] }
    }

    private func images(_ board: [UInt8], _ rows: Int, _ columns: Int) -> Set<[UInt8]> {
        var images: Set<[UInt8]> = []
        var one = board
        for _ in 0..<4 {
            images.formUnion([one, mirrored(one, columns)])
            one = turned(one, rows, columns)
        }
        return images
    }

    @Test(arguments: sizes)
    func `a packed board has its exponents, and moves as the readable rules do`(rows: Int, columns: Int) {
        let boards = PackedBoards(rows: rows, columns: columns)
        let moves = PackedMoves(boards)
        var wrong: [[UInt8]] = []
        for exponents in randomBoards(rows * columns, 20_000) {
            let packed = pack(exponents, boards)
            let board = Board(rows: rows, columns: columns, exponents: exponents)
            var found: [Int: (after: [UInt8], score: Int)] = [:]
            moves.forEachLegal(packed) { action, after, score in
                found[action] = (boards.exponents(after), Int(score))
            }
            var isRight = boards.exponents(packed) == exponents
            for direction in Direction.allCases {
                let slide = Slide(board, towards: direction)
                let after = exponents.indices.map { slide.afterstate[$0] }
                let mine = found[Int(direction.rawValue)]
                isRight = isRight && (mine != nil) == slide.moved
                if let mine { isRight = isRight && mine.after == after && mine.score == slide.mergeScore }
            }
            for exponent in UInt8(1)...10 {
                isRight =
                    isRight && boards.contains(packed, UInt64(exponent)) == exponents.contains(exponent)
            }
            if !isRight { wrong.append(exponents) }
        }
        #expect(wrong.isEmpty, "\(wrong.count) boards, the first \(wrong.first ?? [])")
    }

    @Test(arguments: sizes)
    func `all images of a board share the canonical number of one of them`(rows: Int, columns: Int) {
        let boards = PackedBoards(rows: rows, columns: columns)
        var wrong: [[UInt8]] = []
        for exponents in randomBoards(rows * columns, 5_000) {
            let images = images(exponents, rows, columns)
            let numbers = Set(images.map { boards.canonical(pack($0, boards)) })
            let isImage = numbers.first.map { images.contains(boards.exponents($0)) } ?? false
            if numbers.count != 1 || !isImage { wrong.append(exponents) }
        }
        #expect(wrong.isEmpty, "\(wrong.count) boards, the first \(wrong.first ?? [])")
    }

    @Test(arguments: sizes)
    func `an action on a board is the named action on its canonical image`(rows: Int, columns: Int) {
        let boards = PackedBoards(rows: rows, columns: columns)
        let moves = PackedMoves(boards)
        var wrong: [[UInt8]] = []
        for exponents in randomBoards(rows * columns, 5_000) {
            let packed = pack(exponents, boards)
            let canonical = boards.canonicalWithImage(packed)
            let names = boards.actions(ofImage: Int(canonical & 7))
            var ofImage: [Int: UInt64] = [:]
            moves.forEachLegal(canonical >> 3) { action, after, _ in ofImage[action] = boards.canonical(after)
            }
            moves.forEachLegal(packed) { action, after, _ in
                if ofImage[Int(names[action])] != boards.canonical(after) { wrong.append(exponents) }
            }
        }
        #expect(wrong.isEmpty, "\(wrong.count) boards, the first \(wrong.first ?? [])")
    }

    @Test(arguments: [(2, 2, 5), (2, 3, 4), (3, 2, 4)])
    func `every canonical board has a different number`(rows: Int, columns: Int, limit: Int) {
        let boards = PackedBoards(rows: rows, columns: columns)
        let numbers = BoardNumbers(boards, limit: limit)
        var (canonical, found): (Set<UInt64>, Set<Int>) = ([], [])
        var exponents = [UInt8](repeating: 0, count: rows * columns)
        while true {
            canonical.insert(boards.canonical(pack(exponents, boards)))
            guard let cell = exponents.firstIndex(where: { $0 < limit }) else { break }
            exponents[cell] += 1
            for lower in 0..<cell { exponents[lower] = 0 }
        }
        for board in canonical { found.insert(numbers.number(board)) }
        #expect(found.count == canonical.count)
        #expect(found.allSatisfy { (0..<numbers.count).contains($0) })
    }

    @Test func `a rank is the number of smaller members`() throws {
        var draws = Draws(3)
        let set = try BitSet(numbers: 5_000)
        var members: Set<Int> = []
        for number in 0..<5_000 where Int.random(in: 0..<3, using: &draws) > 0 || number < 600 {
            #expect(set.insert(number))
            #expect(!set.insert(number))
            members.insert(number)
        }
        for number in [0, 447, 448, 4_999] {
            set.remove(number)
            members.remove(number)
        }
        set.seal()
        let ranks = Dictionary(uniqueKeysWithValues: members.sorted().enumerated().map { ($1, $0) })
        #expect((0..<5_000).allSatisfy { set.ranked.rank($0) == ranks[$0] ?? -1 })
        #expect(set.count == members.count)
    }

    @Test func `a board of more than nine cells, an unreachable goal and a goal of 4 have no optimum`() throws
    {
        func refusal(
            _ config: Game2048.Config, _ objective: OptimumProblem.Objective = .score
        ) -> EnvironmentError? {
            #expect(throws: EnvironmentError.self) { try OptimumProblem(config, objective) }
        }
        #expect(refusal(.board(2, 5))?.field == "size")
        #expect(refusal(.board(4, 4))?.field == "size")
        let tooHigh = refusal(.board(2, 2, goal: 64), .goal)
        #expect(tooHigh?.field == "goal")
        #expect(tooHigh?.message == "goal is 64; on 2 x 2 the highest tile is 32")
        #expect(refusal(.board(2, 2, goal: 4, stopAtGoal: true))?.field == "goal")
        // A goal that no game reaches never ends a game.
        let endless = try OptimumProblem(.board(2, 2, goal: 64, stopAtGoal: true), .score)
        #expect(try endless == OptimumProblem(.board(2, 2), .score))
    }
}
