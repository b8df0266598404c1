import Testing

@testable import TwofoldCore

extension TestBatch {
    /// Returns the records of these lanes.
    func snapshot(_ lanes: [Int]) throws -> [UInt8] {
        let size = environment.recordSize * lanes.count
        // The bytes before and after the records must not change.
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: size + 2, alignment: 16)
        defer { memory.deallocate() }
        memory.initializeMemory(as: UInt8.self, repeating: 0x3c)
        try environment.snapshot(lanes, into: UnsafeMutableRawBufferPointer(rebasing: memory[1..<size + 1]))
        #expect(memory[0] == 0x3c && memory[size + 1] == 0x3c)
        return Array(memory[1..<size + 1])
    }

    /// Returns the words of a lane's random stream, with which its record starts.
    func generator(lane: Int) throws -> [UInt32] {
        try snapshot([lane]).withUnsafeBytes { record in
            (0..<4).map { record.loadUnaligned(fromByteOffset: 4 * $0, as: UInt32.self) }
        }
    }

    /// Restores these rows of the records to these lanes.
    func restore(_ records: [UInt8], lanes: [Int], rows: [Int], seeds: [UInt64]? = nil) throws {
        try records.withUnsafeBytes { records in
            try withBytes(seeds.map { littleEndian($0) }) { seeds in
                let input = RestoreInput(lanes: lanes, rows: rows, seeds: seeds, records: records)
                try call(environment.resetArrays) { try environment.restore(input, into: $0) }
            }
        }
    }
}

@Suite(.everyEngine) struct SnapshotTests {
    /// Returns a batch in mid-game. The episodes of some lanes have ended; most lanes are playing.
    private func batch(
        _ config: Game2048.Config = .init(), lanes: Int = 70, seed: UInt64 = 0, steps: Int = 30
    ) throws -> TestBatch {
        let batch = try TestBatch(config, lanes: lanes, maxEpisodeSteps: 25)
        try batch.reset(seed: seed)
        for step in 0..<steps { try batch.step(actions(step, lanes: lanes)) }
        return batch
    }

    static let configs: [Game2048.Config] = [
        .init(), .init(rows: 2, columns: 2, illegalAction: .terminate), .init(rows: 3, columns: 5),
        .init(goal: 32, stopAtGoal: true, startTiles: 4),
    ]

    @Test(arguments: configs)
    func `restored lanes continue as if nothing had happened`(config: Game2048.Config) throws {
        let all = Array(0..<70)
        for steps in [0, 24, 25, 26, 31] {
            let batch = try batch(config, steps: steps)
            try batch.observe()
            let before = batch.reply
            let records = try batch.snapshot(all)
            try batch.observe()
            #expect(batch.reply == before, "a snapshot changes nothing")
            var continued: [[String: [UInt8]]] = []
            for step in 40..<80 {
                try batch.step(actions(step, lanes: 70))
                continued.append(batch.reply)
            }
            // Restore to the same batch, and to a batch that was never reset.
            for other in [batch, try TestBatch(config, lanes: 70, maxEpisodeSteps: 25)] {
                try other.restore(records, lanes: all, rows: all)
                #expect(other.reply == before)
                #expect(try other.snapshot(all) == records)
                for step in 40..<80 {
                    try other.step(actions(step, lanes: 70))
                    try #require(other.reply == continued[step - 40], "step \(step)")
                }
            }
        }
    }

    @Test func `the records are the same for every engine`() throws {
        let all = Array(0..<70)
        let mine = try batch().snapshot(all)
        let reference = try EveryEngine.$current.withValue(.reference) { try batch().snapshot(all) }
        #expect(mine == reference)
        let restored = try TestBatch(lanes: 70)
        try restored.restore(reference, lanes: all, rows: all)
        #expect(try restored.snapshot(all) == mine)
    }

    @Test func `a record has the stream, the phase, the counts and the board`() throws {
        let batch = try TestBatch(lanes: 2, maxEpisodeSteps: 3)
        var model = Model(.init(), maxEpisodeSteps: 3, seed: 8)
        try batch.reset(seed: 7)
        for action in [0, 1, 1] as [UInt8] {
            try batch.step([3, action])
            _ = model.step(Int(action))
        }
        var expected = littleEndian(model.generator.wordArray)
        expected += [2, 3, 0, 0, 0]
        expected += [UInt8(model.score), 0, 0, 0, 0, 0, 0, 0, UInt8(model.moves), 0, 0, 0]
        expected += model.board
        #expect(try batch.snapshot([1]) == expected)
        #expect(batch.environment.recordSize == 49)
    }

    @Test func `a restore can select, move and copy lanes`() throws {
        let source = try batch()
        try source.observe()
        let results = (0..<70).map { source.stateResults(lane: $0) }
        let records = try source.snapshot([5, 68, 0])
        let target = try batch(lanes: 66, seed: 1000, steps: 3)
        try target.observe()
        let others = (0..<66).map { target.stateResults(lane: $0) }
        try target.restore(records, lanes: [65, 2, 10, 63], rows: [1, 1, 0, 2])
        let expected = [65: 68, 2: 68, 10: 5, 63: 0]
        for lane in 0..<66 {
            #expect(target.stateResults(lane: lane) == (expected[lane].map { results[$0] } ?? others[lane]))
        }
    }

    @Test func `a new seed gives a copy a separate stream`() throws {
        let batch = try TestBatch(lanes: 1)
        try batch.reset(seed: 1)
        let board = batch.observation()
        let forks = try TestBatch(lanes: 4)
        try forks.restore(
            batch.snapshot([0]), lanes: [0, 1, 2, 3], rows: [0, 0, 0, 0], seeds: [50, 51, 52, 50])
        var model = Model(.init(), seed: 50)
        model.reset(seed: 50, board: board)
        for action in [0, 1, 2, 3, 0, 1, 2, 3] as [UInt8] {
            try forks.step([action, action, action, action])
            let results = model.step(Int(action))
            #expect(forks.observation(lane: 0) == results.observation)
            #expect(forks.observation(lane: 3) == results.observation)
        }
        #expect(Set((0..<3).map { forks.observation(lane: $0) }).count == 3)
    }

    @Test func `lanes can be restored into a batch with another autoreset mode and step limit`() throws {
        let source = try batch(.init(rows: 2, columns: 2), steps: 25)
        let finished = source.endedLanes
        try #require(finished.count >= 2)
        let records = try source.snapshot(finished)
        let all = Array(finished.indices)
        func target(_ autoreset: AutoresetMode) throws -> TestBatch {
            let batch = try TestBatch(.init(rows: 2, columns: 2), lanes: finished.count, autoreset: autoreset)
            try batch.restore(records, lanes: all, rows: all)
            return batch
        }
        let disabled = try target(.disabled)
        #expect(throws: EnvironmentError.self) { try disabled.step(actions(0, lanes: all.count)) }
        // Finished lanes restart in the next step, with SAME_STEP or NEXT_STEP.
        let (next, same) = (try target(.nextStep), try target(.sameStep))
        for batch in [next, same] { try batch.step(actions(0, lanes: all.count)) }
        #expect(next.reply == same.reply)
        #expect(all.allSatisfy { next.integer("episode_length", lane: $0) == 0 })
        // The next step truncates a lane that is past the limit.
        let long = try TestBatch(lanes: 1)
        try long.reset(seed: 0)
        for step in 0..<10 { try long.step([UInt8(step % 4)]) }
        let short = try TestBatch(lanes: 1, maxEpisodeSteps: 5)
        try short.restore(long.snapshot([0]), lanes: [0], rows: [0])
        try short.step([0])
        #expect(short.isTruncated())
        #expect(short.integer("episode_length") == 11)
    }

    @Test func `before the first reset, there is no snapshot, and a restore must include all lanes`() throws {
        let fresh = try TestBatch(lanes: 3)
        let error = try #require(throws: EnvironmentError.self) { try fresh.snapshot([0]) }
        #expect(error.kind == .failedPrecondition)
        let records = try batch().snapshot([0])
        let missing = try #require(throws: EnvironmentError.self) {
            try fresh.restore(records, lanes: [2, 0], rows: [0, 0])
        }
        #expect(missing.kind == .failedPrecondition)
        #expect(missing.field == "lanes")
        #expect(missing.lane == 1)
        #expect(throws: EnvironmentError.self) { try fresh.observe() }
        try fresh.restore(records, lanes: [2, 0, 1], rows: [0, 0, 0])
        try fresh.step([0, 1, 2])
    }

    /// Records that a client could forge: the offset and content of the changed bytes, and a word of the error.
    static let forged: [(name: String, offset: Int, bytes: [UInt8], word: String)] = [
        ("no stream", 0, [UInt8](repeating: 0, count: 16), "stream"),
        ("no phase", 16, [3], "phase"),
        ("a negative length", 20, [0x80], "episode_length"),
        ("an endless length", 17, [0xff, 0xff, 0xff, 0x7f], "episode_length"),
        ("a negative score", 28, [0x80], "score"),
        ("a score too large for its counter", 25, [1], "score"),
        ("negative moves", 32, [0xff], "moves"),
        ("an exponent of 31", 33, [31], "2^31"),
        ("an exponent of 255", 48, [255], "2^31"),
        ("no tile", 33, [UInt8](repeating: 0, count: 16), "legal"),
        ("no legal action", 33, stuckExponents(rows: 4, columns: 4), "legal"),
    ]

    @Test(arguments: forged)
    func `a record of an impossible state is refused, and nothing changes`(
        forged: (name: String, offset: Int, bytes: [UInt8], word: String)
    ) throws {
        let batch = try batch(steps: 10)
        let twin = try self.batch(steps: 10)
        var records = try batch.snapshot([1, 2])
        let start = 49 + forged.offset
        records.replaceSubrange(start..<start + forged.bytes.count, with: forged.bytes)
        let error = try #require(throws: EnvironmentError.self) {
            try batch.restore(records, lanes: [0, 9], rows: [0, 1])
        }
        #expect(error.kind == .invalidArgument)
        #expect(error.field == "blob")
        #expect(error.lane == 9)
        #expect(error.message.contains(forged.word), "\(error.message)")
        for step in 0..<20 {
            try batch.step(actions(step, lanes: 70))
            try twin.step(actions(step, lanes: 70))
            #expect(batch.reply == twin.reply)
        }
    }
}

/// Tests the behaviour that all games share.
@Suite struct ToySnapshotTests {
    @Test(arguments: [1, 2])
    func `any game's lanes continue from their records`(threads: Int) throws {
        func make(_ autoreset: AutoresetMode) throws -> TestBatch {
            try TestBatch(
                Batch(
                    ToyGame(),
                    BatchOptions(
                        lanes: 130, autoreset: autoreset, maxEpisodeSteps: 9,
                        workers: Workers(threads: threads, chunk: 64))))
        }
        func actions(_ step: Int) -> [UInt8] { (0..<130).map { UInt8(($0 + step) % 4) } }
        let all = Array(0..<130)
        for mode in [AutoresetMode.nextStep, .sameStep] {
            let batch = try make(mode)
            try batch.reset(seed: 4)
            for step in 0..<12 { try batch.step(actions(step)) }
            let records = try batch.snapshot(all)
            #expect(records.count == 130 * 30)
            let other = try make(mode)
            try other.restore(records, lanes: all, rows: all)
            for step in 12..<40 {
                try batch.step(actions(step))
                try other.step(actions(step))
                #expect(batch.reply == other.reply)
                #expect(batch.finals == other.finals)
            }
        }
    }

    @Test func `a game refuses an impossible state`() throws {
        let batch = try TestBatch(Batch(ToyGame(), BatchOptions(lanes: 2)))
        try batch.reset(seed: 0)
        var records = try batch.snapshot([0, 1])
        records[30 + 21] = 5
        let error = try #require(throws: EnvironmentError.self) {
            try batch.restore(records, lanes: [1, 0], rows: [0, 1])
        }
        #expect(error.lane == 0)
        #expect(error.message.contains("place 5"))
    }
}

@Suite struct ConcentrationSnapshotTests {
    private func batch(_ change: (inout Concentration.Config) -> Void, lanes: Int = 70) throws -> TestBatch {
        var config = Concentration.Config()
        change(&config)
        return try TestBatch(
            Batch(Concentration(config), BatchOptions(lanes: lanes, maxEpisodeSteps: 60)))
    }

    @Test func `games of Concentration continue from their records`() throws {
        let changes: [(inout Concentration.Config) -> Void] = [
            { $0.peeks = 0 }, { $0.symbols = 4 },
            {
                ($0.rows, $0.columns, $0.peeks) = (8, 16, 3)
                $0.illegalAction = .endTurn
            },
            {
                ($0.rows, $0.columns) = (1, 6)
                $0.illegalAction = .terminate
            },
        ]
        let all = Array(0..<70)
        for change in changes {
            let (batch, other) = (try batch(change), try batch(change))
            var generator = Generator(seed: 3)
            func step(_ batches: TestBatch...) throws {
                let actions = all.map { _ in
                    UInt8(generator.next(below: batch.environment.actions.count))
                }
                for batch in batches { try batch.step(actions) }
            }
            try batch.reset(seed: 0)
            for _ in 0..<25 { try step(batch) }
            let records = try batch.snapshot(all)
            try other.restore(records, lanes: all, rows: all)
            #expect(try other.snapshot(all) == records)
            for _ in 0..<80 {
                try step(batch, other)
                try #require(batch.reply == other.reply)
            }
        }
    }

    /// Forged states: the offset and content of the changed bytes, and a word of the error. There are 16 cards. Cards 0
    /// and 1 are face up at first.
    static let forged: [(offset: Int, bytes: [UInt8], word: String)] = [
        (0, [1], "matched"), (2, [1], "16 cards"), (16 + 15, [0x80], "16 cards"), (32, [99], "open"),
        (32, [7, 0, 0, 0], "hidden"), (39, [0x80], "turns"), (40, [3], "peeks"), (44, [99], "action"),
        (48, [8], "symbol"), (0, [0xff, 0xff], "matched"),
    ]

    @Test(arguments: forged)
    func `impossible cards are refused`(forged: (offset: Int, bytes: [UInt8], word: String)) throws {
        let batch = try batch({ $0.peeks = 2 }, lanes: 1)
        try batch.reset(seed: 0)
        try batch.step([0])
        let record = try batch.snapshot([0])
        #expect(record.count == 21 + 48 + 16)
        var wrong = record
        let start = 21 + forged.offset
        wrong.replaceSubrange(start..<start + forged.bytes.count, with: forged.bytes)
        let error = try #require(throws: EnvironmentError.self) {
            try batch.restore(wrong, lanes: [0], rows: [0])
        }
        #expect(error.message.contains(forged.word), "\(error.message)")
        #expect(try batch.snapshot([0]) == record)
    }
}

@Suite struct SnapshotFormatTests {
    private let format = SnapshotFormat(
        environmentID: "twofold/Toy-v0", rules: [Rule("places", 6), Rule("prize", 2.5)], recordSize: 3)

    /// Returns a snapshot of these records. Unless the records are empty, it also has streams with the seeds 0, 1, ….
    private func blob(
        _ format: SnapshotFormat, _ records: [UInt8], areStreamsEmpty: Bool = false
    ) -> [UInt8] {
        let lanes = records.count / format.recordSize
        let streams = try! PolicyStreams(lanes: lanes)
        if !areStreamsEmpty {
            for lane in 0..<lanes { streams.seed(lane, UInt64(lane)) }
        }
        var bytes = [UInt8](repeating: 0xee, count: format.size(lanes: lanes))
        bytes.withUnsafeMutableBytes { memory in
            format.records(of: lanes, in: memory).copyBytes(from: records)
            format.complete(memory, Array(0..<lanes), streams, nil)
        }
        return bytes
    }

    private func refusal(_ bytes: [UInt8]) throws -> EnvironmentError {
        try #require(throws: EnvironmentError.self) {
            try bytes.withUnsafeBytes { _ = try format.open($0) }
        }
    }

    @Test func `a snapshot has the documented format`() {
        let rules = "environment_id=twofold/Toy-v0\nplaces=6\nprize=2.5\n"
        let bytes = blob(format, [1, 2, 3, 4, 5, 6])
        var expected = Array("TWOFOLDS".utf8) + [1, 0, 0, 0, UInt8(rules.utf8.count), 0, 0, 0]
        expected += [2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0] + Array(rules.utf8) + [1, 2, 3, 4, 5, 6]
        for lane in 0..<2 as Range<UInt64> {
            expected += littleEndian(Generator(seed: lane ^ PolicyStreams.salt).wordArray)
        }
        #expect(Array(bytes.dropLast(4)) == expected)
        let opened = bytes.withUnsafeBytes { bytes in try? Array(format.open(bytes).records) }
        #expect(opened == [1, 2, 3, 4, 5, 6])
    }

    @Test func `a stream of zeros is refused`() throws {
        let error = try refusal(blob(format, [1, 2, 3], areStreamsEmpty: true))
        #expect(error.field == "blob")
        #expect(error.message.contains("stream of zeros"))
    }

    @Test func `the checksum is CRC-32`() {
        func sum(_ text: String) -> UInt32 { Array(text.utf8).withUnsafeBytes { Checksum.of($0) } }
        #expect(sum("") == 0)
        #expect(sum("a") == 0xe8b7_be43)
        #expect(sum("123456789") == 0xcbf4_3926)
        #expect(sum("The quick brown fox jumps over the lazy dog") == 0x414f_a339)
    }

    @Test func `every flipped bit is detected`() throws {
        let bytes = blob(format, [1, 2, 3])
        for bit in 0..<bytes.count * 8 {
            var damaged = bytes
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            let error = try refusal(damaged)
            #expect(error.kind == .invalidArgument)
            #expect(error.field == "blob")
        }
    }

    @Test func `missing parts and extra bytes are detected`() throws {
        let bytes = blob(format, [1, 2, 3, 4, 5, 6])
        for count in bytes.indices { #expect(try refusal(Array(bytes[..<count])).field == "blob") }
        #expect(try refusal(bytes + [0]).message.contains("bytes"))
    }

    @Test func `the error for another version has its number`() throws {
        var bytes = blob(format, [1, 2, 3])
        bytes[8] = 3
        let message = try refusal(bytes).message
        #expect(message.contains("version 3") && message.contains("1 and 2"))
    }

    @Test func `the error for other rules names the first difference`() throws {
        let id = "twofold/Toy-v0"
        let rules = [Rule("places", 6), Rule("prize", 2.5)]
        let others: [(String, SnapshotFormat)] = [
            ("environment_id", .init(environmentID: "x", rules: [Rule("places", 7)], recordSize: 3)),
            (
                "places",
                .init(environmentID: id, rules: [Rule("places", 7), Rule("prize", 1)], recordSize: 3)
            ),
            ("prize", .init(environmentID: id, rules: [Rule("places", 6)], recordSize: 3)),
            ("blob", .init(environmentID: id, rules: rules + [Rule("more", 1)], recordSize: 3)),
            ("blob", .init(environmentID: id, rules: rules, recordSize: 4)),
        ]
        for (field, other) in others {
            let error = try refusal(blob(other, [UInt8](repeating: 1, count: 12)))
            #expect(error.field == field, "\(error.message)")
        }
    }

    @Test func `sizes that exceed any memory are refused`() throws {
        for lanes in [UInt64.max, 1 << 62, 1 << 33] {
            var bytes = blob(format, [1, 2, 3])
            bytes.replaceSubrange(16..<24, with: littleEndian([lanes]))
            #expect(try refusal(bytes).field == "blob")
        }
        var bytes = blob(format, [1, 2, 3])
        for index in 12..<16 { bytes[index] = 0xff }
        #expect(try refusal(bytes).field == "blob")
    }
}
