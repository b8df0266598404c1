import Testing

@testable import TwofoldCore

@Suite struct MoveActionTests {
    // MARK: the effects of a move

    @Test func `tiles are numbered row by row, and a tile that only slides keeps its number`() {
        var tracked = TrackedBoard(Board([[0, 2, 0, 4], [0, 0, 8, 0]]))
        #expect(tracked.tiles[1] == 1)
        #expect(tracked.tiles[3] == 2)
        #expect(tracked.tiles[6] == 3)
        #expect(tracked.tiles[0] == nil)
        #expect(
            tracked.slide(towards: .left) == [
                .slide(tile: 1, source: 1, target: 0, value: 2),
                .slide(tile: 2, source: 3, target: 1, value: 4),
                .slide(tile: 3, source: 6, target: 4, value: 8),
            ])
        #expect(tracked.tiles[0] == 1)
        #expect(tracked.tiles[1] == 2)
        #expect(tracked.tiles[4] == 3)
        #expect(tracked.tiles[3] == nil)
        #expect(
            tracked.slide(towards: .down) == [.slide(tile: 2, source: 1, target: 5, value: 4)])
        #expect(tracked.tiles[5] == 2)
    }

    @Test func `a merge comes after the slides of its two tiles and creates a new tile`() {
        var tracked = TrackedBoard(Board([[0, 2, 0, 2], [0, 0, 0, 0]]))
        #expect(
            tracked.slide(towards: .left) == [
                .slide(tile: 1, source: 1, target: 0, value: 2),
                .slide(tile: 2, source: 3, target: 0, value: 2),
                .merge(first: 1, second: 2, into: 3, target: 0, value: 4),
            ])
        #expect(tracked.tiles[0] == 3)
        #expect(tracked.board == Board([[4, 0, 0, 0], [0, 0, 0, 0]]))
    }

    @Test func `a tile at the wall merges without sliding`() {
        var tracked = TrackedBoard(Board([[2, 0], [2, 4]]))
        #expect(
            tracked.slide(towards: .up) == [
                .slide(tile: 2, source: 2, target: 0, value: 2),
                .merge(first: 1, second: 2, into: 4, target: 0, value: 4),
                .slide(tile: 3, source: 3, target: 1, value: 4),
            ])
    }

    @Test func `the tiles nearest the wall come first`() {
        var tracked = TrackedBoard(Board([[2, 2, 2, 2], [0, 0, 0, 0]]))
        #expect(
            tracked.slide(towards: .right) == [
                .slide(tile: 3, source: 2, target: 3, value: 2),
                .merge(first: 4, second: 3, into: 5, target: 3, value: 4),
                .slide(tile: 2, source: 1, target: 2, value: 2),
                .slide(tile: 1, source: 0, target: 2, value: 2),
                .merge(first: 2, second: 1, into: 6, target: 2, value: 4),
            ])
    }

    @Test func `the spawn is a new tile with the next number`() {
        var tracked = TrackedBoard(Board([[2, 0], [0, 4]]))
        #expect(
            tracked.spawn(Spawn(cell: 1, exponent: 2)) == .spawn(tile: 3, target: 1, value: 4))
        #expect(tracked.tiles[1] == 3)
        #expect(tracked.board == Board([[2, 4], [0, 4]]))
        #expect(
            tracked.slide(towards: .up).last
                == .merge(
                    first: 3, second: 2, into: 4, target: 1, value: 8))
    }

    @Test func `an illegal action has no effects and changes nothing`() {
        let boards = [
            Board([[2, 4], [8, 16]]), Board([[2, 0, 0], [4, 0, 0]]), Board(rows: 3, columns: 3),
            Board(rows: 8, columns: 8, exponents: stuckExponents(rows: 8, columns: 8)),
        ]
        for board in boards {
            let before = TrackedBoard(board)
            var after = before
            #expect(after.slide(towards: .left) == [])
            #expect(after == before)
        }
    }

    // MARK: any move

    @Test func `slides, merges and spawn replayed on a plain dictionary give the afterstate`() throws {
        for (rows, columns) in allSizes {
            var generator = Generator(seed: UInt64(rows * 10 + columns))
            let law = SpawnLaw(fourProbability: 0.1)
            for _ in 0..<8 {
                var exponents = randomExponents(rows * columns, generator: &generator)
                exponents[0] = 1
                var tracked = TrackedBoard(Board(rows: rows, columns: columns, exponents: exponents))
                var replay = Replay(tracked)
                for _ in 0..<12 {
                    let action = generator.next(below: 4)
                    let board = tracked.board
                    let naive = NaiveSlide(board.exponents, rows: rows, columns: columns, action: action)
                    var actions = tracked.slide(towards: Direction(rawValue: UInt8(action))!)
                    #expect(tracked.board.exponents == naive.exponents)
                    #expect(actions.isEmpty == !naive.moved)
                    if naive.moved {
                        actions.append(tracked.spawn(law.draw(on: tracked.board, generator: &generator)))
                    }
                    try replay.play(actions)
                    #expect(replay.score == naive.score)
                    replay.expectEqual(tracked)
                }
            }
        }
    }

    /// A view that moves tiles as the listed effects say, without any knowledge of the rules.
    private struct Replay {
        private var cells: [Int: [(tile: Int, value: Int)]] = [:]
        private var used: Set<Int> = []
        private(set) var score = 0

        init(_ tracked: TrackedBoard) {
            for cell in 0..<tracked.board.count where tracked.board[cell] != 0 {
                let tile = tracked.tiles[cell]!
                cells[cell] = [(tile, 1 << Int(tracked.board[cell]))]
                used.insert(tile)
            }
        }

        mutating func play(_ actions: [MoveAction]) throws {
            score = 0
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
                    #expect(used.insert(into).inserted, "a merged tile has a new number")
                    cells[target] = [(into, value)]
                    score += value
                case .spawn(let tile, let target, let value):
                    #expect(cells[target]?.isEmpty ?? true)
                    #expect(used.insert(tile).inserted, "a spawned tile has a new number")
                    #expect(value == 2 || value == 4)
                    #expect(action == actions.last, "the spawn comes last")
                    cells[target] = [(tile, value)]
                }
            }
        }

        func expectEqual(_ tracked: TrackedBoard) {
            for cell in 0..<tracked.board.count {
                let tiles = cells[cell] ?? []
                let exponent = tracked.board[cell]
                #expect(tiles.map(\.tile) == (tracked.tiles[cell].map { [$0] } ?? []))
                #expect(tiles.map(\.value) == (exponent == 0 ? [] : [1 << Int(exponent)]))
            }
        }
    }
}
