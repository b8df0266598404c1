import FoundationEssentials
import Platform
import Testing
import TwofoldCore

@testable import TwofoldOptimum

@Suite struct SolverTests {
    struct Case: CustomTestStringConvertible {
        var config: Game2048.Config
        var objective = OptimumProblem.Objective.score
        var testDescription: String { (try? OptimumProblem(config, objective))?.name ?? "" }
    }

    static let cases = [
        Case(config: .board(2, 2)),
        Case(config: .board(2, 2), objective: .moves),
        Case(config: .board(2, 2, goal: 16), objective: .goal),
        Case(config: .board(2, 2, goal: 32), objective: .goal),
        Case(config: .board(2, 2, goal: 16, stopAtGoal: true)),
        Case(config: .board(2, 2, goal: 16, stopAtGoal: true), objective: .moves),
        Case(config: .board(2, 2, fourProbability: 0)),
        Case(config: .board(2, 2, fourProbability: 1)),
        Case(config: .board(2, 2, fourProbability: 0.5, startTiles: 1)),
        Case(config: .board(2, 2, startTiles: 3)),
        Case(config: .board(2, 3)),
        Case(config: .board(3, 2, goal: 64), objective: .goal),
        Case(config: .board(3, 2, goal: 32, stopAtGoal: true, startTiles: 5)),
    ]

    @Test(arguments: cases)
    func `every value equals the result of a search through all boards`(of each: Case) throws {
        let directory = TemporaryDirectory()
        let table = try solve(each.config, each.objective, in: directory, threads: 3)
        let truth = BruteForce(each.config, each.objective)
        #expect(abs(table.results.value - truth.start) <= 1e-11 * max(1, truth.start))
        let cells = each.config.rows * each.config.columns
        var wrong: [[UInt8]] = []
        for board in truth.values.keys {
            let actions = truth.actions(board)
            let mask: [UInt8] = actions.map { $0 == nil ? 0 : 1 }
            var values = [Float](repeating: 0, count: 4)
            table.values(of: board, masks: mask, count: 1, into: &values)
            for (action, value) in actions.enumerated() {
                let isRight =
                    value.map { abs($0 - Double(values[action])) <= table.results.errorBound }
                    ?? (values[action] == -.infinity)
                if !isRight { wrong.append(board) }
            }
        }
        #expect(truth.values.count > 30 && cells <= 6)
        #expect(wrong.isEmpty, "\(wrong.count) boards, the first \(wrong.first ?? [])")
    }

    @Test func `the solver finds the known boards, score, moves and tiles of 2 x 2`() throws {
        let table = try solve(.board(2, 2), in: TemporaryDirectory())
        let results = table.results
        #expect((results.states, results.terminal) == (110, 36))
        #expect((0x1p-25..<0x1p-23).contains(results.errorBound / table.largestValue))
        #expect(abs(results.value - 66.96414946) < 5e-9)
        #expect(abs(results.score - results.value) < 1e-5)
        #expect(abs(results.reaching(exponent: 4) - 0.9625112538) < 5e-11)
        #expect(results.reaching(exponent: 3) == 1)
        #expect(results.reaching(exponent: 6) == 0)
        let best = try solve(.board(2, 2, goal: 32), .goal, in: TemporaryDirectory()).results
        #expect(abs(best.value - 0.0828872891) < 5e-11)
    }

    @Test func `if the objective is moves, its value is the expected number of moves`() throws {
        let results = try solve(.board(2, 2), .moves, in: TemporaryDirectory()).results
        #expect(abs(results.moves - results.value) < 1e-5 && results.moves > 10)
    }

    @Test func `the number of threads does not change a single byte`() throws {
        let (one, four) = (TemporaryDirectory(), TemporaryDirectory())
        try solve(.board(2, 3), in: one)
        try solve(.board(2, 3), in: four, threads: 4)
        #expect(try bytes(.board(2, 3), in: one) == bytes(.board(2, 3), in: four))
    }

    /// Copies the folder of a running solver.
    private func copyPart(of problem: OptimumProblem, _ from: TemporaryDirectory, _ to: TemporaryDirectory)
        throws
    {
        try FileManager.default.copyItem(
            atPath: from.tables.path(of: problem) + ".part", toPath: to.tables.path(of: problem) + ".part")
    }

    @Test(
        arguments: [
            (OptimumSolver.Stage.forward, 4), (.forward, 60), (.forward, 250), (.backward, 8), (.play, 40),
        ], [0, 1, 9])
    func `a stopped solver resumes, even after a torn layer, and writes the same bytes`(
        at moment: (stage: OptimumSolver.Stage, tileSum: Int), cut: Int
    ) throws {
        let (directory, other) = (TemporaryDirectory(), TemporaryDirectory())
        let problem = try OptimumProblem(.board(2, 3), .score)
        var copied = 0
        try solve(.board(2, 3), in: directory) { progress in
            guard progress.stage == moment.stage, progress.tileSum == moment.tileSum else { return }
            copied += 1
            do { try copyPart(of: problem, directory, other) } catch { Issue.record(error) }
        }
        #expect(copied == 1)
        let log = URL(filePath: other.tables.path(of: problem) + ".part/boards")
        try Data(contentsOf: log).dropLast(cut).write(to: log)
        var done = 0
        try solve(.board(2, 3), in: other, threads: 2) { progress in
            if progress.stage == .forward { done += 1 }
        }
        // Boards that were found before are not searched again.
        #expect(done < 110 || moment == (.forward, 4))
        #expect(try bytes(.board(2, 3), in: directory) == bytes(.board(2, 3), in: other))
    }

    /// Returns a directory that contains the folder of a solver that stopped after a layer of the forward pass or,
    /// without a tile sum, after this pass.
    private func stopped(
        _ config: Game2048.Config = .board(2, 3), after tileSum: Int? = nil
    ) throws -> TemporaryDirectory {
        let (directory, other) = (TemporaryDirectory(), TemporaryDirectory())
        let problem = try OptimumProblem(config, .score)
        var isCopied = false
        try solve(config, in: directory) { progress in
            guard !isCopied, tileSum == nil ? progress.stage != .forward : progress.tileSum == tileSum
            else { return }
            isCopied = true
            do { try copyPart(of: problem, directory, other) } catch { Issue.record(error) }
        }
        return other
    }

    @Test(arguments: [0, 0.1, 1], [12, nil])
    func `a solver resumes after the last layer that it found, whatever the probability of a 4`(
        fourProbability: Double, tileSum: Int?
    ) throws {
        let config = Game2048.Config.board(2, 2, fourProbability: fourProbability)
        let (whole, directory) = (TemporaryDirectory(), try stopped(config, after: tileSum))
        var (layers, resumed): ([Int], [Int]) = ([], [])
        try solve(config, in: whole) { if $0.stage == .forward { layers.append($0.tileSum) } }
        try solve(config, in: directory) { if $0.stage == .forward { resumed.append($0.tileSum) } }
        #expect(layers.count > 3 && resumed == layers.filter { $0 > tileSum ?? .max })
        #expect(try bytes(config, in: directory) == bytes(config, in: whole))
    }

    private func changeLog(
        in directory: TemporaryDirectory, _ change: (inout Data) throws -> Void
    ) throws {
        let path = try directory.path(of: .board(2, 3)) + ".part/boards"
        var data = try Data(contentsOf: URL(filePath: path))
        try change(&data)
        try data.write(to: URL(filePath: path))
    }

    @Test func `a log with a board twice is refused, and the error names its folder`() throws {
        let directory = try stopped()
        try changeLog(in: directory) { data in
            let count = data.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 16, as: Int.self) }
            var layer = [UInt8](data[..<(32 + 8 * count)]) + [UInt8](data[32..<40])
            layer.withUnsafeMutableBytes { $0.storeBytes(of: count + 1, toByteOffset: 16, as: Int.self) }
            let checksum = layer.withUnsafeBytes { WordChecksum.of($0) }
            layer += withUnsafeBytes(of: checksum.littleEndian) { [UInt8]($0) }
            data.replaceSubrange(..<(40 + 8 * count), with: layer)
        }
        let error = #expect(throws: OptimumFailure.self) { try solve(.board(2, 3), in: directory) }
        let logs = try directory.path(of: .board(2, 3)) + ".part"
        #expect(error?.description.contains("so the log in '\(logs)' is damaged") == true)
    }

    @Test(arguments: [8, 16, 24])
    func `a damaged layer is cut off, whatever its header contains`(word: Int) throws {
        for value in [UInt64.max, 1 << 63, 0xffff_ffff, 1 << 32] {
            let directory = try stopped()
            try changeLog(in: directory) { data in
                withUnsafeBytes(of: value.littleEndian) { data.replaceSubrange(word..<word + 8, with: $0) }
            }
            try expectWhole(directory)
        }
    }

    /// Solves 2 x 3 boards in a directory with a stopped solver's folder, and compares the table with an
    /// uninterrupted solver's table.
    private func expectWhole(_ directory: TemporaryDirectory) throws {
        try solve(.board(2, 3), in: directory)
        let whole = TemporaryDirectory()
        try solve(.board(2, 3), in: whole)
        #expect(try bytes(.board(2, 3), in: directory) == bytes(.board(2, 3), in: whole))
    }

    @Test func `a complete layer of another problem is cut off`() throws {
        let directory = try stopped()
        // Give the first layer other content and a matching checksum. Its boards follow a header of 32 bytes.
        try changeLog(in: directory) { data in
            var layer = [UInt8](repeating: 0, count: 32 + 8 * 2)
            layer.replaceSubrange(..<32, with: data.prefix(32))
            layer[16] = 2
            for index in 32..<layer.count { layer[index] = 0xff }
            let checksum = layer.withUnsafeBytes { WordChecksum.of($0) }
            data = Data(layer) + withUnsafeBytes(of: checksum.littleEndian) { Data($0) }
        }
        try expectWhole(directory)
    }

    @Test func `a layer that is larger than its file is cut off, even if no memory could hold it`() throws {
        let path = TemporaryDirectory().path + "-log"
        defer { unlink(path) }
        let limit = 1 << 40
        try LayerLog(path, limit: limit).append(tileSum: 4, [1, 2, 3])
        var bytes = try Data(contentsOf: URL(filePath: path))
        #expect(try LayerLog(path, limit: limit).layers.map(\.count) == [3])
        withUnsafeBytes(of: limit.littleEndian) { bytes.replaceSubrange(16..<24, with: $0) }
        try bytes.write(to: URL(filePath: path))
        #expect(try LayerLog(path, limit: limit).layers.isEmpty)
    }

    @Test func `layers after a missing one are cut off`() throws {
        // Without the first layer, or without one that has as many boards as the next.
        for isFirst in [true, false] {
            let directory = try stopped()
            try changeLog(in: directory) { data in
                func count(_ offset: Int) -> Int {
                    data.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset + 16, as: Int.self) }
                }
                func end(_ offset: Int) -> Int { offset + 32 + count(offset) * 8 + 8 }
                var offset = 0
                while !isFirst, count(offset) != count(end(offset)) { offset = end(offset) }
                let next = end(offset)
                data.removeSubrange(offset..<next)
            }
            try expectWhole(directory)
        }
    }

    @Test func `a log that is not a regular file is refused by its path`() throws {
        let directory = TemporaryDirectory()
        let log = try directory.path(of: .board(2, 2)) + ".part/boards"
        try makeDirectories(directory.path(of: .board(2, 2)) + ".part", mode: 0o700)
        #expect(mkfifo(log, 0o600) == 0)
        let error = #expect(throws: OptimumFailure.self) { try solve(.board(2, 2), in: directory) }
        #expect(error?.description == "can't use the log '\(log)': it is not a regular file")
    }

    @Test func `a solver creates the parent folders of its table`() throws {
        let directory = TemporaryDirectory()
        let problem = try OptimumProblem(.board(2, 2), .score)
        let tables = TableDirectory(directory.path + "/a/b/c")
        _ = try OptimumSolver(problem, workers: Workers(threads: 1)).solve(in: tables) { _ in }
        #expect(tables.hasTable(of: problem))
    }

    @Test func `a second solver of the same board reports the first one and leaves it alone`() throws {
        let directory = TemporaryDirectory()
        var refusals: [String] = []
        try solve(.board(2, 2), in: directory) { progress in
            guard progress.stage == .play, refusals.isEmpty else { return }
            let error = #expect(throws: OptimumFailure.self) { try solve(.board(2, 2), in: directory) }
            refusals.append(error?.description ?? "")
        }
        #expect(refusals.count == 1)
        #expect(refusals[0].contains("another process is solving this board"), "\(refusals[0])")
        #expect(try bytes(.board(2, 2), in: directory).count > 4096)
    }

    @Test func `the next solver removes the folder of a solver that ended before its cleanup`() throws {
        let directory = try stopped()
        let problem = try OptimumProblem(.board(2, 3), .score)
        let path = directory.tables.path(of: problem)
        let whole = TemporaryDirectory()
        try solve(.board(2, 3), in: whole)
        try FileManager.default.copyItem(atPath: whole.tables.path(of: problem), toPath: path)
        var steps = 0
        let table = try solve(.board(2, 3), in: directory) { _ in steps += 1 }
        #expect(steps == 0 && table.results.states == 21_752)
        #expect(!FileManager.default.fileExists(atPath: path + ".part"))
    }

    @Test func `only the table remains`() throws {
        let directory = TemporaryDirectory()
        try solve(.board(2, 2), in: directory)
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(names == ["optimum-2x2-score-four0.1-start2.table"])
    }
}
