import Testing

@testable import TwofoldCore

@Suite struct MoveActionTests {
    // MARK: the effects of a move

    @Test func `tiles are numbered row by row, and a tile that only slides keeps its number`() {
        #expect(
            MoveAction.slides(of: Board([[0, 2, 0, 4], [0, 0, 8, 0]]), towards: .left) == [
                .slide(tile: 1, source: 1, target: 0, value: 2),
                .slide(tile: 2, source: 3, target: 1, value: 4),
                .slide(tile: 3, source: 6, target: 4, value: 8),
            ])
    }

    @Test func `a merge comes after the slides of its two tiles and creates a new tile`() {
        #expect(
            MoveAction.slides(of: Board([[0, 2, 0, 2], [0, 0, 0, 0]]), towards: .left) == [
                .slide(tile: 1, source: 1, target: 0, value: 2),
                .slide(tile: 2, source: 3, target: 0, value: 2),
                .merge(first: 1, second: 2, into: 3, target: 0, value: 4),
            ])
    }

    @Test func `a tile at the wall merges without sliding`() {
        #expect(
            MoveAction.slides(of: Board([[2, 0], [2, 4]]), towards: .up) == [
                .slide(tile: 2, source: 2, target: 0, value: 2),
                .merge(first: 1, second: 2, into: 4, target: 0, value: 4),
                .slide(tile: 3, source: 3, target: 1, value: 4),
            ])
    }

    @Test func `the tiles nearest the wall come first`() {
        #expect(
            MoveAction.slides(of: Board([[2, 2, 2, 2], [0, 0, 0, 0]]), towards: .right) == [
                .slide(tile: 3, source: 2, target: 3, value: 2),
                .merge(first: 4, second: 3, into: 5, target: 3, value: 4),
                .slide(tile: 2, source: 1, target: 2, value: 2),
                .slide(tile: 1, source: 0, target: 2, value: 2),
                .merge(first: 2, second: 1, into: 6, target: 2, value: 4),
            ])
    }

    @Test func `the spawn is a new tile with the next number`() throws {
        let actions = try MoveAction.explain(Board([[2, 0], [2, 4]]), .up, Board([[4, 4], [0, 2]]))
        #expect(actions.last == .spawn(tile: 5, target: 3, value: 2))
    }

    @Test func `an illegal action has no effects`() throws {
        let boards = [
            Board([[2, 4], [8, 16]]), Board([[2, 0, 0], [4, 0, 0]]), Board(rows: 3, columns: 3),
            Board(rows: 8, columns: 8, exponents: stuckExponents(rows: 8, columns: 8)),
        ]
        for board in boards {
            #expect(MoveAction.slides(of: board, towards: .left) == [])
            #expect(try MoveAction.explain(board, .left, board) == [])
        }
    }

    // MARK: any move

    @Test func `slides, merges and spawn replayed on a plain dictionary give the next board`() throws {
        let law = SpawnLaw(fourProbability: 0.5)
        for (rows, columns) in allSizes {
            var generator = Generator(seed: UInt64(rows * 10 + columns))
            for _ in 0..<200 {
                let lift = UInt8(generator.next(below: 22))
                let exponents = randomExponents(rows * columns, generator: &generator).map {
                    $0 == 0 ? 0 : $0 + lift
                }
                let action = generator.next(below: 4)
                let naive = NaiveSlide(exponents, rows: rows, columns: columns, action: action)
                var next = Board(rows: rows, columns: columns, exponents: naive.exponents)
                if naive.moved { next.place(law.draw(on: next, generator: &generator)) }
                let board = Board(rows: rows, columns: columns, exponents: exponents)
                let actions = try MoveAction.explain(board, Direction(rawValue: UInt8(action))!, next)
                #expect(actions.isEmpty == !naive.moved)
                var replay = Replay(board)
                try replay.play(actions)
                #expect(replay.score == naive.score)
                for cell in 0..<next.count {
                    #expect(replay.values(cell) == (next[cell] == 0 ? [] : [1 << Int(next[cell])]))
                }
            }
        }
    }

    /// A view that moves tiles as the listed effects say, without any knowledge of the rules.
    private struct Replay {
        private var cells: [Int: [(tile: Int, value: Int)]] = [:]
        private var lastTile = 0
        private(set) var score = 0

        init(_ board: Board) {
            for cell in 0..<board.count where board[cell] != 0 {
                lastTile += 1
                cells[cell] = [(lastTile, 1 << Int(board[cell]))]
            }
        }

        func values(_ cell: Int) -> [Int] { cells[cell, default: []].map(\.value) }

        mutating func play(_ actions: [MoveAction]) throws {
            for action in actions {
                switch action {
                case .slide(let tile, let source, let target, let value):
                    let index = try #require(cells[source]?.firstIndex { $0.tile == tile })
                    let moving = cells[source]!.remove(at: index)
                    #expect(moving.value == value)
                    #expect(source != target)
                    cells[target, default: []].append(moving)
                case .merge(let first, let second, let into, let target, let value):
                    let pair = try #require(cells[target])
                    #expect(pair.map(\.tile) == [first, second])
                    #expect(pair.map(\.value) == [value / 2, value / 2])
                    #expect(into == lastTile + 1, "a merged tile has the next number")
                    cells[target] = [(into, value)]
                    lastTile = into
                    score += value
                case .spawn(let tile, let target, let value):
                    #expect(values(target).isEmpty)
                    #expect(tile == lastTile + 1, "a spawned tile has the next number")
                    #expect(value == 2 || value == 4)
                    #expect(action == actions.last, "the spawn comes last")
                    cells[target] = [(tile, value)]
                }
            }
        }
    }
}
