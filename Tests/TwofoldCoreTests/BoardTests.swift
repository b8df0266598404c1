import Testing

@testable import TwofoldCore

@Suite struct BoardTests {
    @Test func `cells are numbered row by row`() {
        let board = Board([[0, 4, 0], [0, 0, 8]])
        #expect(board.rows == 2)
        #expect(board.columns == 3)
        #expect(board.count == 6)
        #expect(board.exponents == [0, 2, 0, 0, 0, 3])
        #expect(board[1] == 2)
        #expect(board[5] == 3)
    }

    @Test func `the counts, the highest tile and the sum include every cell`() {
        for (rows, columns) in allSizes {
            for cell in 0..<rows * columns {
                var board = Board(rows: rows, columns: columns)
                #expect(board.emptyCount == rows * columns)
                #expect(board.maxExponent == 0)
                #expect(board.tileSum == 0)
                board[cell] = 17
                #expect(board.emptyCount == rows * columns - 1)
                #expect(board.maxExponent == 17)
                #expect(board.tileSum == 131_072)
                #expect(board != Board(rows: rows, columns: columns))
                #expect(board.exponents.firstIndex(of: 17) == cell)
            }
        }
    }

    @Test func `boards of the same size and tiles are equal`() {
        #expect(Board([[2, 0, 4], [0, 8, 0]]) == Board([[2, 0, 4], [0, 8, 0]]))
        #expect(Board([[2, 0, 4], [0, 8, 0]]) != Board([[2, 0], [4, 0], [8, 0]]))
        #expect(Board([[2, 0, 4], [0, 8, 0]]) != Board([[2, 0, 4], [0, 8, 2]]))
    }

    @Test func `the order of the actions is frozen`() throws {
        #expect(Direction.up.rawValue == 0)
        #expect(Direction.right.rawValue == 1)
        #expect(Direction.down.rawValue == 2)
        #expect(Direction.left.rawValue == 3)
        #expect(Direction.allCases.map(\.rawValue) == [0, 1, 2, 3])
        #expect(try Game2048(Game2048.Config()).actions == ["up", "right", "down", "left"])
    }

    @Test func `a set of legal actions contains the inserted actions`() {
        for directions in [[], [Direction.up], [.left], [.right, .down], Direction.allCases] {
            var legal = LegalActions()
            for direction in directions { legal.insert(direction) }
            #expect(Direction.allCases.filter { legal.contains($0) } == directions)
            #expect(legal.isEmpty == directions.isEmpty)
        }
    }
}
