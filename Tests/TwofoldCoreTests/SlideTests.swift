import Testing

@testable import TwofoldCore

@Suite struct SlideTests {
    // MARK: against the naive slide

    /// Returns the four cells of the row with this number, 0 ... 65,535. Each cell has 16 possible exponents.
    private func row(_ number: Int) -> [UInt8] { (0..<4).map { UInt8(number >> ($0 * 4) & 15) } }

    /// Returns two boards with two lines each: one line is this row, as a row or as a column, and the other is empty.
    private func boards(of row: [UInt8]) -> [Board] {
        let asRow = Board(rows: 2, columns: 4, exponents: [0, 0, 0, 0] + row)
        let asColumn = Board(rows: 4, columns: 2, exponents: row.flatMap { [$0, 0] })
        return [asRow, asColumn]
    }

    @Test(arguments: Direction.allCases)
    func `every row of exponents 0...15 slides like the naive slide, as row and as column`(
        direction: Direction
    ) {
        var wrong: [String] = []
        for number in 0..<65_536 {
            for board in boards(of: row(number)) where !agree(board, direction) {
                wrong.append("\(direction) of \(board.exponents)")
            }
        }
        #expect(wrong.isEmpty, "\(wrong.count) rows, the first \(wrong.first ?? "")")
    }

    @Test func `an action is legal exactly where a slide moves something, for every row of exponents 0...15`()
    {
        var wrong: [String] = []
        for number in 0..<65_536 {
            for board in boards(of: row(number)) {
                let legal = board.legalActions
                for direction in Direction.allCases
                where legal.contains(direction) != Slide(board, towards: direction).moved {
                    wrong.append("\(direction) of \(board.exponents)")
                }
            }
        }
        #expect(wrong.isEmpty, "\(wrong.count) rows, the first \(wrong.first ?? "")")
    }

    @Test func `random boards of every size slide like the naive slide`() {
        for (rows, columns) in allSizes {
            var generator = Generator(seed: UInt64(rows * 10 + columns))
            for _ in 0..<60 {
                let exponents = randomExponents(rows * columns, generator: &generator)
                let board = Board(rows: rows, columns: columns, exponents: exponents)
                for direction in Direction.allCases {
                    #expect(agree(board, direction), "\(direction) of \(board.exponents)")
                    let legal = Slide(board, towards: direction).moved
                    #expect(board.legalActions.contains(direction) == legal)
                }
            }
        }
    }

    private func agree(_ board: Board, _ direction: Direction) -> Bool {
        let slide = Slide(board, towards: direction)
        let naive = NaiveSlide(
            board.exponents, rows: board.rows, columns: board.columns, action: Int(direction.rawValue))
        return slide.afterstate.exponents == naive.exponents && slide.mergeScore == naive.score
            && slide.mergeCount == naive.merges && slide.moved == naive.moved
    }

    // MARK: the rules, one by one

    /// A line before and after a slide, starting at the wall, and the slide's score.
    struct Case: CustomTestStringConvertible {
        let before: [Int]
        let after: [Int]
        let score: Int
        let merges: Int
        var moved = true
        var testDescription: String { "\(before) becomes \(after)" }
    }

    static let lines = [
        // A merged tile does not merge again.
        Case(before: [2, 2, 4, 0], after: [4, 4, 0, 0], score: 4, merges: 1),
        Case(before: [4, 2, 2, 0], after: [4, 4, 0, 0], score: 4, merges: 1),
        Case(before: [2, 2, 2, 2], after: [4, 4, 0, 0], score: 8, merges: 2),
        Case(before: [8, 4, 2, 2], after: [8, 4, 4, 0], score: 4, merges: 1),
        Case(before: [2, 2, 4, 8], after: [4, 4, 8, 0], score: 4, merges: 1),
        // The pair nearest the wall merges first.
        Case(before: [2, 2, 2, 0], after: [4, 2, 0, 0], score: 4, merges: 1),
        Case(before: [0, 2, 2, 2], after: [4, 2, 0, 0], score: 4, merges: 1),
        Case(before: [4, 2, 2, 2], after: [4, 4, 2, 0], score: 4, merges: 1),
        Case(before: [2, 0, 2, 2], after: [4, 2, 0, 0], score: 4, merges: 1),
        // Gaps do not separate equal tiles, but other tiles do.
        Case(before: [2, 0, 0, 2], after: [4, 0, 0, 0], score: 4, merges: 1),
        Case(before: [2, 4, 2, 4], after: [2, 4, 2, 4], score: 0, merges: 0, moved: false),
        Case(before: [2, 4, 0, 2], after: [2, 4, 2, 0], score: 0, merges: 0),
        // Two merges of different tiles.
        Case(before: [2, 2, 4, 4], after: [4, 8, 0, 0], score: 12, merges: 2),
        Case(before: [0, 0, 0, 2], after: [2, 0, 0, 0], score: 0, merges: 0),
        Case(before: [2, 0, 0, 0], after: [2, 0, 0, 0], score: 0, merges: 0, moved: false),
        Case(before: [0, 0, 0, 0], after: [0, 0, 0, 0], score: 0, merges: 0, moved: false),
        // Some other engines lose tiles of 2^15 and more.
        Case(before: [32768, 32768, 0, 0], after: [65536, 0, 0, 0], score: 65536, merges: 1),
        Case(before: [65536, 65536, 0, 0], after: [131_072, 0, 0, 0], score: 131_072, merges: 1),
        Case(before: [0, 32768, 0, 32768], after: [65536, 0, 0, 0], score: 65536, merges: 1),
        Case(
            before: [32768, 32768, 65536, 65536], after: [65536, 131_072, 0, 0], score: 196_608, merges: 2),
        Case(before: [32768, 32768, 65536, 0], after: [65536, 65536, 0, 0], score: 65536, merges: 1),
        Case(before: [2, 65536, 65536, 2], after: [2, 131_072, 2, 0], score: 131_072, merges: 1),
    ]

    /// Puts the line in each place of a 4x4 board whose other lines cannot move, to reveal writes into neighbouring
    /// lines.
    @Test(arguments: lines)
    func `a line slides by the rules in every direction and place`(line: Case) {
        for direction in Direction.allCases {
            for place in 0..<4 {
                let slide = Slide(board(line.before, at: place, direction), towards: direction)
                #expect(slide.afterstate == board(line.after, at: place, direction), "\(direction)")
                #expect(slide.mergeScore == line.score, "\(direction)")
                #expect(slide.mergeCount == line.merges, "\(direction)")
                #expect(slide.moved == line.moved, "\(direction)")
            }
        }
    }

    private func board(_ line: [Int], at place: Int, _ direction: Direction) -> Board {
        var lines = [[8, 16, 8, 16], [16, 8, 16, 8], [8, 16, 8, 16], [16, 8, 16, 8]]
        lines[place] = line
        return switch direction {
        case .left: Board(lines)
        case .right: Board(lines.map { $0.reversed() })
        case .up: Board((0..<4).map { row in lines.map { $0[row] } })
        case .down: Board((0..<4).map { row in lines.map { $0[3 - row] } })
        }
    }

    @Test func `all lines of a board slide at once`() {
        let board = Board([[2, 2, 4, 8], [0, 2, 0, 2], [4, 4, 4, 4], [2, 0, 0, 0]])
        let left = Slide(board, towards: .left)
        #expect(left.afterstate == Board([[4, 4, 8, 0], [4, 0, 0, 0], [8, 8, 0, 0], [2, 0, 0, 0]]))
        #expect(left.mergeScore == 4 + 4 + 16)
        #expect(left.mergeCount == 4)
        let down = Slide(board, towards: .down)
        #expect(down.afterstate == Board([[0, 0, 0, 0], [2, 0, 0, 8], [4, 4, 0, 2], [2, 4, 8, 4]]))
        #expect(down.mergeScore == 12)
        #expect(down.mergeCount == 2)
    }

    @Test func `a line of eight holds four merges`() {
        let twos = [2, 2, 2, 2, 2, 2, 2, 2]
        let empty = [0, 0, 0, 0, 0, 0, 0, 0]
        let slide = Slide(Board([twos, empty]), towards: .right)
        #expect(slide.afterstate == Board([[0, 0, 0, 0, 4, 4, 4, 4], empty]))
        #expect(slide.mergeScore == 16)
        #expect(slide.mergeCount == 4)
    }

    // MARK: symmetries

    /// One of the eight symmetries of the square. A symmetry that transposes a rectangle swaps its sides.
    struct Symmetry: CustomTestStringConvertible {
        let flipsRows: Bool
        let flipsColumns: Bool
        let transposes: Bool

        static let all = (0..<8).map {
            Symmetry(flipsRows: $0 & 1 != 0, flipsColumns: $0 & 2 != 0, transposes: $0 & 4 != 0)
        }

        func callAsFunction(_ board: Board) -> Board {
            var values = [[Int]](
                repeating: [Int](repeating: 0, count: transposes ? board.rows : board.columns),
                count: transposes ? board.columns : board.rows)
            for row in 0..<board.rows {
                for column in 0..<board.columns {
                    let exponent = board[row * board.columns + column]
                    let toRow = flipsRows ? board.rows - 1 - row : row
                    let toColumn = flipsColumns ? board.columns - 1 - column : column
                    let value = exponent == 0 ? 0 : 1 << Int(exponent)
                    if transposes { values[toColumn][toRow] = value } else { values[toRow][toColumn] = value }
                }
            }
            return Board(values)
        }

        func callAsFunction(_ direction: Direction) -> Direction {
            let flipped: [Direction: Direction] = [
                .up: flipsRows ? .down : .up, .down: flipsRows ? .up : .down,
                .left: flipsColumns ? .right : .left, .right: flipsColumns ? .left : .right,
            ]
            let transposed: [Direction: Direction] = [.up: .left, .left: .up, .down: .right, .right: .down]
            return transposes ? transposed[flipped[direction]!]! : flipped[direction]!
        }

        var testDescription: String {
            "rows \(flipsRows ? "flipped" : "kept"), columns \(flipsColumns ? "flipped" : "kept")"
                + (transposes ? ", transposed" : "")
        }
    }

    @Test(arguments: Symmetry.all, Direction.allCases)
    func `a slide commutes with the symmetries of the square`(symmetry: Symmetry, direction: Direction) {
        var generator = Generator(seed: 8)
        for (rows, columns) in [(4, 4), (2, 2), (3, 3), (8, 8), (3, 5), (8, 2)] {
            for _ in 0..<20 {
                let exponents = randomExponents(rows * columns, generator: &generator)
                let board = Board(rows: rows, columns: columns, exponents: exponents)
                let one = Slide(board, towards: direction)
                let other = Slide(symmetry(board), towards: symmetry(direction))
                #expect(other.afterstate == symmetry(one.afterstate))
                #expect(other.mergeScore == one.mergeScore)
                #expect(other.mergeCount == one.mergeCount)
                #expect(other.moved == one.moved)
            }
        }
    }

    // MARK: the end of a game

    @Test func `no action is legal on a full board without equal neighbours`() {
        for (rows, columns) in allSizes {
            let board = Board(
                rows: rows, columns: columns, exponents: stuckExponents(rows: rows, columns: columns))
            #expect(board.legalActions.isEmpty)
        }
    }

    /// The code of one 2048 tutorial ignores pairs in row 0 and column 0, and so ends such games too early.
    @Test func `one pair anywhere on a full board keeps the game alive, even in row 0 or column 0`() {
        for (rows, columns) in allSizes {
            let stuck = stuckExponents(rows: rows, columns: columns)
            for cell in 0..<rows * columns {
                if cell % columns + 1 < columns {
                    #expect(legalActions(stuck, pair: (cell, cell + 1)) == [.right, .left], "in row \(cell)")
                }
                if cell / columns + 1 < rows {
                    #expect(
                        legalActions(stuck, pair: (cell, cell + columns)) == [.up, .down], "below \(cell)")
                }
            }
            func legalActions(_ exponents: [UInt8], pair: (Int, Int)) -> [Direction] {
                var exponents = exponents
                (exponents[pair.0], exponents[pair.1]) = (9, 9)
                let legal = Board(rows: rows, columns: columns, exponents: exponents).legalActions
                return Direction.allCases.filter { legal.contains($0) }
            }
        }
    }

    @Test func `one gap anywhere on an otherwise stuck board keeps the game alive`() {
        for (rows, columns) in allSizes {
            for cell in 0..<rows * columns {
                var exponents = stuckExponents(rows: rows, columns: columns)
                exponents[cell] = 0
                let legal = Board(rows: rows, columns: columns, exponents: exponents).legalActions
                // The tile on the other side of the gap slides into it.
                #expect(legal.contains(.up) == (cell / columns + 1 < rows))
                #expect(legal.contains(.down) == (cell / columns > 0))
                #expect(legal.contains(.left) == (cell % columns + 1 < columns))
                #expect(legal.contains(.right) == (cell % columns > 0))
            }
        }
    }
}
