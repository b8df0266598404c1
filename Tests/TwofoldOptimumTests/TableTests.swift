import FoundationEssentials
import Platform
import Synchronization
import Testing
import TwofoldCore

@testable import TwofoldOptimum

@Suite struct TableTests {
    private let directory = TemporaryDirectory()

    private func failure(_ config: Game2048.Config = .board(2, 2)) throws -> String {
        let problem = try OptimumProblem(config, .score)
        let error = #expect(throws: OptimumFailure.self) { try directory.tables.table(of: problem) }
        return error?.description ?? ""
    }

    @Test func `a table is found again with its results`() throws {
        let made = try solve(.board(2, 2, fourProbability: 0.25), in: directory)
        let problem = try OptimumProblem(.board(2, 2, fourProbability: 0.25), .score)
        #expect(directory.tables.hasTable(of: problem))
        let found = try directory.tables.table(of: problem)
        #expect(found.problem == problem)
        #expect(found.results.value == made.results.value)
        #expect(found.results.highestTiles == made.results.highestTiles)
        #expect(found.results.states == 110)
    }

    @Test func `a missing table is refused with the command that makes it`() throws {
        #expect(try failure().contains("Make it with `twofold solve --size 2x2 --tables '"))
        let problem = try OptimumProblem(
            .board(2, 3, goal: 64, stopAtGoal: true, fourProbability: 0.2, startTiles: 1), .moves)
        #expect(
            problem.command(making: TableDirectory.standard + "/\(problem.name).table")
                == "twofold solve --size 2x3 --objective moves --goal 64 --stop-at-goal --four-probability 0.2 "
                + "--start-tiles 1")
        let goal = try OptimumProblem(.board(2, 2, goal: 16), .goal)
        #expect(
            goal.command(making: TableDirectory.standard + "/\(goal.name).table")
                == "twofold solve --size 2x2 --objective goal --goal 16")
    }

    @Test func `the tables of different problems have different names`() throws {
        let names = try SolverTests.cases.map { try OptimumProblem($0.config, $0.objective).name }
        #expect(Set(names).count == names.count)
    }

    @Test func `tables are in the user's cache folder, which an empty XDG_CACHE_HOME does not change`() async
    {
        await #expect(processExitsWith: .success) {
            setenv("HOME", "/home/alice", 1)
            for (cache, path) in [("/caches", "/caches/twofold"), ("", "/home/alice/.cache/twofold")] {
                setenv("XDG_CACHE_HOME", cache, 1)
                #expect(TableDirectory.standard == path)
            }
        }
    }

    @Test(arguments: [
        (0, "its header alone"), (100, "its header alone"), (4096, "expected"), (-1, "expected"),
    ])
    func `a short table is refused`(size: Int, message: String) throws {
        try solve(.board(2, 2), in: directory)
        let whole = try bytes(.board(2, 2), in: directory)
        let path = try directory.path(of: .board(2, 2))
        try whole.prefix(size < 0 ? whole.count + size : size).write(to: URL(filePath: path))
        let text = try failure()
        #expect(text.contains(message) && text.contains("twofold solve --size 2x2"))
    }

    @Test func `a table with any byte changed is refused`() throws {
        try solve(.board(2, 2), in: directory)
        let whole = try bytes(.board(2, 2), in: directory)
        let path = try directory.path(of: .board(2, 2))
        // The zeros after the header's words are not checked.
        let places = Array(0..<272) + Array(stride(from: 4096, to: whole.count, by: 7)) + [whole.count - 1]
        for place in places {
            var changed = whole
            changed[place] ^= 0x10
            try changed.write(to: URL(filePath: path))
            #expect(try failure().contains("can't be used"), "byte \(place)")
        }
    }

    /// Each case changes one word of the header, and fixes the header's checksum.
    @Test(
        arguments: [
            (0, 0, "it is not a table made by Twofold"), (1, 2, "its format version is 2; expected 1"),
            (5, 3, "it is the table of another problem"), (8, .max, "its counts are impossible"),
        ] as [(Int, UInt64, String)])
    func `a table with an unknown header is refused with the reason`(
        word: Int, value: UInt64, reason: String
    ) throws {
        try solve(.board(2, 2), in: directory)
        let path = try directory.path(of: .board(2, 2))
        var table = [UInt8](try bytes(.board(2, 2), in: directory))
        table.withUnsafeMutableBytes { table in
            table.storeBytes(of: value.littleEndian, toByteOffset: 8 * word, as: UInt64.self)
            let checksum = WordChecksum.of(UnsafeRawBufferPointer(rebasing: table[..<(8 * 33)]))
            table.storeBytes(of: checksum.littleEndian, toByteOffset: 8 * 33, as: UInt64.self)
        }
        try Data(table).write(to: URL(filePath: path))
        #expect(try failure().contains("can't be used: \(reason). Remove it"))
    }

    @Test func `a table of another problem is refused`() throws {
        try solve(.board(2, 2, startTiles: 1), in: directory)
        let other = try bytes(.board(2, 2, startTiles: 1), in: directory)
        try other.write(to: URL(filePath: directory.path(of: .board(2, 2))))
        #expect(try failure().contains("it is the table of another problem"))
    }

    /// Returns the action values of several boards; nil replaces each NaN, so that the results can be compared.
    private func values(_ table: OptimumTable, of boards: [[UInt8]]) -> [Float?] {
        boards.flatMap { board in
            var values = [Float](repeating: 0, count: 4)
            table.values(of: board, masks: [1, 1, 1, 1], count: 1, into: &values)
            return values.map { $0.isNaN ? nil : $0 }
        }
    }

    private static let boards: [[UInt8]] = [
        [1, 1, 0, 0, 0, 0], [1, 2, 3, 3, 2, 1], [2, 1, 0, 4, 3, 5], [6, 5, 4, 1, 2, 1],
    ]

    @Test func `a table in memory does not change with its file`() throws {
        try solve(.board(2, 3), in: directory)
        let problem = try OptimumProblem(.board(2, 3), .score)
        let table = try directory.tables.table(of: problem)
        let before = values(table, of: Self.boards)
        #expect(before.contains { $0 ?? 0 > 0 })
        let path = directory.tables.path(of: problem)
        let size = try bytes(.board(2, 3), in: directory).count
        let other = try Descriptor(opening: path, O_WRONLY)
        try [UInt8](repeating: 7, count: size).withUnsafeBytes { try other.write($0, at: 0) }
        #expect(values(table, of: Self.boards) == before)
        #expect(truncate(path, 0) == 0)
        #expect(values(table, of: Self.boards) == before)
    }

    /// Changes the content of a table's file, and writes matching checksums to its header.
    private func forge(_ config: Game2048.Config, _ change: (inout [UInt8]) -> Void) throws {
        var forged = [UInt8](try bytes(config, in: directory))
        change(&forged)
        let problem = try OptimumProblem(config, .score)
        var header = try forged.withUnsafeBytes { try TableHeader($0, of: problem) }
        header.checksum = forged[TableHeader.size...].withUnsafeBytes { WordChecksum.of($0) }
        forged.replaceSubrange(..<TableHeader.size, with: header.bytes)
        try Data(forged).write(to: URL(filePath: directory.path(of: config)))
    }

    /// Bytes 0 ... 7 of a line count boards. Each bit of the other bytes stands for a board.
    @Test(arguments: [0, 2, 3, 4, 5, 7, 8, 15, 17, 64, 64 * 100 + 3, 64 * 100 + 63])
    func `a table with a wrong board count is refused, even with the right checksums`(byte: Int) throws {
        try solve(.board(2, 3), in: directory)
        try forge(.board(2, 3)) { $0[TableHeader.size + byte] ^= 1 }
        #expect(try failure(.board(2, 3)).contains("its board count is wrong"))
    }

    @Test func `NaN records in a forged table have no worse effect than wrong values`() throws {
        try solve(.board(2, 3), in: directory)
        let problem = try OptimumProblem(.board(2, 3), .score)
        let records = try directory.tables.table(of: problem).recordBase
        try forge(.board(2, 3)) { bytes in
            for index in bytes[records...].indices { bytes[index] = 0xff }
        }
        let table = try directory.tables.table(of: problem)
        #expect(values(table, of: [[1, 1, 0, 0, 0, 0]]) == [nil, nil, nil, nil])
    }

    @Test func `a path that is not a regular file is refused at once`() throws {
        let path = try directory.path(of: .board(2, 2))
        try #require(mkdir(path, 0o700) == 0)
        #expect(try failure().contains("'\(path)' is not a regular file"))
        rmdir(path)
        try #require(mkfifo(path, 0o600) == 0)
        // With a writer, opening the FIFO does not block, even without O_NONBLOCK.
        let writer = try Descriptor(opening: path, O_RDWR)
        #expect(try failure().contains("'\(path)' is not a regular file"))
        withExtendedLifetime(writer) {}
    }

    // MARK: memory

    /// A budget that records its reservations.
    private final class Budget: Sendable {
        struct Exhausted: Error {}

        private let sizes = Mutex<[Int]>([])
        private let room: Mutex<Int>

        init(room: Int = .max) { self.room = Mutex(room) }

        var reserved: [Int] { sizes.withLock { $0 } }

        func set(room: Int) { self.room.withLock { $0 = room } }

        func reserve(_ bytes: Int) throws -> any Sendable {
            guard room.withLock({ bytes <= $0 }) else { throw Exhausted() }
            sizes.withLock { $0.append(bytes) }
            return ()
        }
    }

    @Test func `concurrent callers share one table, whose memory is reserved once`() throws {
        try solve(.board(2, 3), in: directory)
        let problem = try OptimumProblem(.board(2, 3), .score)
        let budget = Budget()
        let tables = TableDirectory(directory.path) { try budget.reserve($0) }
        let found = Mutex<[ObjectIdentifier]>([])
        Workers(threads: 4, chunk: 1).run(lanes: 8, nanosecondsPerLane: 1_000_000) { range, _ in
            for _ in range {
                guard let table = try? tables.table(of: problem) else { continue }
                found.withLock { $0.append(ObjectIdentifier(table)) }
            }
        }
        let identities = found.withLock { $0 }
        #expect(identities.count == 8 && Set(identities).count == 1)
        #expect(budget.reserved == [try bytes(.board(2, 3), in: directory).count])
    }

    @Test func `a table is refused as out of memory until there is enough memory`() throws {
        try solve(.board(2, 2), in: directory)
        let problem = try OptimumProblem(.board(2, 2), .score)
        let budget = Budget(room: 4096)
        let tables = TableDirectory(directory.path) { try budget.reserve($0) }
        let error = #expect(throws: OptimumFailure.self) { try tables.table(of: problem) }
        #expect(error?.kind == .outOfMemory)
        #expect(error?.description.contains(tables.path(of: problem)) == true)
        budget.set(room: 1 << 20)
        #expect(try tables.table(of: problem).records == 74)
    }

    @Test func `a damaged table is not read again until its file changes`() throws {
        try solve(.board(2, 2), in: directory)
        let problem = try OptimumProblem(.board(2, 2), .score)
        let whole = try bytes(.board(2, 2), in: directory)
        let budget = Budget()
        let tables = TableDirectory(directory.path) { try budget.reserve($0) }
        let file = URL(filePath: tables.path(of: problem))
        var changed = whole
        changed[whole.count - 1] ^= 1
        // Each write creates a new file at the same path.
        try changed.write(to: file, options: .atomic)
        for _ in 0..<3 {
            let error = #expect(throws: OptimumFailure.self) { try tables.table(of: problem) }
            #expect(error?.description.contains("its checksum is wrong") == true)
        }
        #expect(budget.reserved.count == 1)
        try changed.write(to: file, options: .atomic)
        #expect(throws: OptimumFailure.self) { try tables.table(of: problem) }
        #expect(budget.reserved.count == 2)
        try whole.write(to: file, options: .atomic)
        #expect(try tables.table(of: problem).records == 74)
    }
}
