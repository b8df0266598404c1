import FoundationEssentials
import Testing
import TwofoldCore

@testable import TwofoldOptimum

@Suite struct TableTests {
    private func failure(_ directory: TemporaryDirectory, _ config: Game2048.Config = .board(2, 2)) throws
        -> String
    {
        let problem = try OptimumProblem(config, .score)
        let error = #expect(throws: OptimumFailure.self) { try directory.tables.table(of: problem) }
        return error?.description ?? ""
    }

    @Test func `a table is found again with its results`() throws {
        let directory = TemporaryDirectory()
        let made = try solve(.board(2, 2, fourProbability: 0.25), in: directory)
        let problem = try OptimumProblem(.board(2, 2, fourProbability: 0.25), .score)
        #expect(directory.tables.hasTable(of: problem))
        let found = try directory.tables.table(of: problem)
        #expect(found.problem == problem)
        #expect(found.results.value == made.results.value)
        #expect(found.results.highestTiles == made.results.highestTiles)
        #expect(found.results.states == 110)
    }

    @Test func `a table that is not there is refused with the command that makes it`() throws {
        let directory = TemporaryDirectory()
        #expect(try failure(directory).contains("`twofold solve --size 2x2` makes it"))
        let problem = try OptimumProblem(
            .board(2, 3, goal: 64, stopAtGoal: true, fourProbability: 0.2, startTiles: 1), .moves)
        #expect(
            problem.command
                == "twofold solve --size 2x3 --objective moves --goal 64 --stop-at-goal --four-probability 0.2 "
                + "--start-tiles 1")
    }

    @Test(arguments: [
        (0, "less than a header"), (100, "less than a header"), (4096, "expected"), (-1, "expected"),
    ])
    func `a short table is refused`(size: Int, message: String) throws {
        let directory = TemporaryDirectory()
        try solve(.board(2, 2), in: directory)
        let whole = try bytes(.board(2, 2), in: directory)
        let path = directory.tables.path(of: try OptimumProblem(.board(2, 2), .score))
        try whole.prefix(size < 0 ? whole.count + size : size).write(to: URL(filePath: path))
        let text = try failure(directory)
        #expect(text.contains(message) && text.contains("twofold solve --size 2x2"))
    }

    @Test func `a table with any byte changed is refused`() throws {
        let directory = TemporaryDirectory()
        try solve(.board(2, 2), in: directory)
        let whole = try bytes(.board(2, 2), in: directory)
        let path = directory.tables.path(of: try OptimumProblem(.board(2, 2), .score))
        // Behind the header's words there are zeros that mean nothing.
        let places = Array(0..<272) + Array(stride(from: 4096, to: whole.count, by: 7)) + [whole.count - 1]
        for place in places {
            var changed = whole
            changed[place] ^= 0x10
            try changed.write(to: URL(filePath: path))
            #expect(try failure(directory).contains("can't be used"), "byte \(place)")
        }
    }

    @Test func `a table of another problem is refused`() throws {
        let directory = TemporaryDirectory()
        try solve(.board(2, 2, startTiles: 1), in: directory)
        let other = try bytes(.board(2, 2, startTiles: 1), in: directory)
        try other.write(to: URL(filePath: directory.tables.path(of: OptimumProblem(.board(2, 2), .score))))
        #expect(try failure(directory).contains("it is the table of optimum-2x2-score-four0.1-start1"))
    }
}
