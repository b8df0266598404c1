import Platform
import Testing

@testable import TwofoldCore

/// Compares both compiled forms of the kernel with the readable rules.
@Suite struct KernelTests {
    static let kernels: [Engine] = Platform.hasAVX2 ? [.baseline, .avx2] : [.baseline]
    /// The board sizes that the kernel supports.
    static let sizes = [
        (2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4), (4, 2), (4, 3), (4, 4),
    ]

    /// Equal batches, one for each kernel and one for the reference.
    struct Engines {
        let kernels: [TestBatch]
        let reference: TestBatch

        init(
            _ config: Game2048.Config = .init(), lanes: Int, autoreset: AutoresetMode = .nextStep,
            maxEpisodeSteps: Int? = nil, threads: Int = 1, reward: RewardSpec? = nil,
            extraInfos: [String] = []
        ) throws {
            var options = BatchOptions(
                lanes: lanes, autoreset: autoreset, maxEpisodeSteps: maxEpisodeSteps,
                workers: Workers(threads: threads))
            options.reward = reward
            options.extraInfos = extraInfos
            let game = try Game2048(config)
            kernels = try KernelTests.kernels.map { engine in
                options.engine = engine
                let fast = try game.makeBatch(options)
                try #require(fast.engine is KernelEngine)
                return TestBatch(fast)
            }
            options.engine = .reference
            let readable = try game.makeBatch(options)
            try #require(readable.engine is GameEngine<Game2048>)
            reference = TestBatch(readable)
        }

        var all: [TestBatch] { kernels + [reference] }

        /// Makes the same call on each batch, and checks that all bytes of the replies are equal.
        func each(_ what: String, _ call: (TestBatch) throws -> Void) throws {
            for batch in all { try call(batch) }
            for (kernel, engine) in zip(kernels, KernelTests.kernels) {
                if kernel.finals != reference.finals { Issue.record("\(engine), \(what): the finals differ") }
                if kernel.hasReply(of: reference) { continue }
                let (fast, readable) = (kernel.reply, reference.reply)
                try #require(fast.keys == readable.keys)
                for name in fast.keys.sorted() where fast[name] != readable[name] {
                    let differing = (0..<kernel.lanes).first {
                        kernel.bytes(name, lane: $0) != reference.bytes(name, lane: $0)
                    }!
                    Issue.record(
                        """
                        \(engine), \(what): \(name) of lane \(differing) is \
                        \(kernel.bytes(name, lane: differing)), the reference has \
                        \(reference.bytes(name, lane: differing))
                        """)
                }
            }
        }

        /// Returns a snapshot of these lanes, after checking that it is equal for all batches.
        func snapshot(_ lanes: [Int]) throws -> [UInt8] {
            let record = try reference.snapshot(lanes)
            for kernel in kernels { #expect(try kernel.snapshot(lanes) == record) }
            return record
        }

        /// Steps many random boards of the batches' size in several rounds. On 4 x 4, with 16,384 lanes, these are
        /// 327,680 boards.
        func stepRandomBoards(_ size: (Int, Int)) throws {
            let lanes = reference.lanes
            var generator = Generator(seed: 1)
            func randomBoard() -> [UInt8] { KernelTests.randomBoard(size.0, size.1, &generator) }
            var boards = (0..<lanes).map { _ in randomBoard() }
            for round in 0..<(size == (4, 4) ? 20 : 4) * testScale {
                // Replace some of the boards, move one of them to lane 0, and give all lanes new generators.
                for _ in 0..<lanes / 4 { boards[generator.next(below: lanes)] = randomBoard() }
                boards.swapAt(0, generator.next(below: lanes))
                let seeds = (0..<lanes).map { UInt64(round) << 32 | UInt64($0) }
                try each("reset \(round)") { try $0.reset(seeds: seeds, boards: boards) }
                let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
                try each("step \(round)") { try $0.step(actions) }
                if round % 8 == 0 { try each("afterstates \(round)") { try $0.afterstates() } }
            }
        }
    }

    /// Returns a random board that has a legal action. Its exponents are 0 ... 17, and it is full or sparse, with many
    /// different tiles or few.
    static func randomBoard(_ rows: Int, _ columns: Int, _ generator: inout Generator) -> [UInt8] {
        let fill = generator.next(below: 5)
        let lowest = 1 + generator.next(below: 15)
        let kinds = 1 + generator.next(below: 18 - lowest)
        while true {
            let board = (0..<rows * columns).map { _ -> UInt8 in
                generator.next(below: 4) >= fill ? 0 : UInt8(lowest + generator.next(below: kinds))
            }
            if !Board(rows: rows, columns: columns, exponents: board).legalActions.isEmpty { return board }
            if fill == 0 || kinds > 4 { return Self.randomBoard(rows, columns, &generator) }
        }
    }

    @Test(arguments: sizes)
    func `on many random boards the kernels agree with the reference`(_ size: (Int, Int)) throws {
        let lanes = 16_384
        let engines = try Engines(
            .init(rows: size.0, columns: size.1, fourProbability: 0.3), lanes: lanes, threads: 2)
        try engines.stepRandomBoards(size)
        // The next draws reveal the generators' states.
        try engines.each("the last reset") { try $0.reset() }
        _ = try engines.snapshot(Array(0..<lanes))
    }

    @Test func `a score saturates at the largest Int32, and a snapshot preserves it`() throws {
        let engines = try Engines(lanes: 2)
        let board: [UInt8] = [1, 1] + [UInt8](repeating: 0, count: 14)
        try engines.each("reset") { try $0.reset(seeds: [1, 2], boards: [board, board]) }
        var record = try engines.snapshot([0])
        let score = withUnsafeBytes(of: Int64(Int32.max) - 1) { Array($0) }
        record.replaceSubrange(21..<29, with: score)
        for _ in 0..<2 {
            try engines.each("restore") { try $0.restore(record, lanes: [0, 1], rows: [0, 0]) }
            try engines.each("step") { try $0.step([3, 3]) }
            #expect(engines.reference.bytes("score", lane: 0) == [0xff, 0xff, 0xff, 0x7f])
            record = try engines.snapshot([0])
        }
    }

    @Test(arguments: sizes)
    func `every row and every column moves as the reference moves it`(
        _ size: (Int, Int)
    ) throws {
        let (rows, columns) = size
        for isColumn in [false, true] {
            // Each board has one line of exponents below 16, never the empty line. On 4 x 4, these are 65,535 boards,
            // and the place of the line varies from board to board.
            let (length, lines) = isColumn ? (rows, columns) : (columns, rows)
            let boards = (1..<1 << (4 * length)).map { line -> [UInt8] in
                var board = [UInt8](repeating: 0, count: rows * columns)
                for index in 0..<length {
                    let exponent = UInt8(line >> (4 * index) & 15)
                    let (row, column) = isColumn ? (index, line % lines) : (line % lines, index)
                    board[row * columns + column] = exponent
                }
                return board
            }
            let engines = try Engines(.init(rows: rows, columns: columns), lanes: boards.count)
            let seeds = boards.indices.map { UInt64($0) }
            for action in UInt8(0)..<4 {
                try engines.each("reset") { try $0.reset(seeds: seeds, boards: boards) }
                try engines.each("action \(action)") {
                    try $0.step([UInt8](repeating: action, count: boards.count))
                }
            }
            try engines.each("reset") { try $0.reset(seeds: seeds, boards: boards) }
            try engines.each("afterstates") { try $0.afterstates() }
        }
    }

    static func configs(_ rows: Int, _ columns: Int) -> [Game2048.Config] {
        let cells = rows * columns
        let configs: [Game2048.Config] = [
            .init(), .init(fourProbability: 0, startTiles: 1),
            .init(fourProbability: 1, startTiles: cells - 1),
            .init(goal: 1 << (cells / 3 + 1), stopAtGoal: true, fourProbability: 0.5),
            .init(goal: 4, stopAtGoal: true),
            .init(startTiles: cells / 3, illegalAction: .terminate),
        ]
        return configs.map { config in
            var config = config
            (config.rows, config.columns) = (rows, columns)
            return config
        }
    }

    @Test(arguments: sizes)
    func `the engines agree on whole episodes and beyond their ends`(_ size: (Int, Int)) throws {
        for config in Self.configs(size.0, size.1) {
            for (lanes, limit) in [(1, nil), (63, 100), (64, nil), (65, 30), (200, 1)] as [(Int, Int?)] {
                let engines = try Engines(config, lanes: lanes, maxEpisodeSteps: limit)
                var generator = Generator(seed: UInt64(lanes))
                try engines.each("reset") { try $0.reset(seed: 99) }
                var ended = 0
                for step in 0..<25 * size.0 * size.1 {
                    let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
                    try engines.each("step \(step)") { try $0.step(actions) }
                    ended += engines.reference.endedLanes.count
                    if step % 50 == 0 {
                        try engines.each("observe \(step)") { try $0.observe() }
                        try engines.each("afterstates \(step)") { try $0.afterstates() }
                    }
                }
                #expect(ended > 0, "no episode has ended")
                try engines.each("the last reset") { try $0.reset() }
            }
        }
    }

    @Test(arguments: sizes)
    func `in SAME_STEP all engines start the same new episodes`(_ size: (Int, Int)) throws {
        for config in Self.configs(size.0, size.1) {
            for (lanes, limit, threads) in [(1, nil, 1), (65, 30, 1), (200, 1, 2), (900, 40, 2)]
                as [(Int, Int?, Int)]
            {
                let engines = try Engines(
                    config, lanes: lanes, autoreset: .sameStep, maxEpisodeSteps: limit,
                    threads: threads)
                var generator = Generator(seed: UInt64(lanes))
                try engines.each("reset") { try $0.reset(seed: 99) }
                var ended = 0
                // With many lanes, few steps are enough for many episodes to end.
                for step in 0..<(lanes >= 200 ? 60 : 20 * size.0 * size.1) {
                    let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
                    try engines.each("step \(step)") { try $0.step(actions) }
                    ended += engines.reference.finals.lanes.count
                    if step % 50 == 0 { try engines.each("observe \(step)") { try $0.observe() } }
                }
                #expect(ended > 0, "no episode has ended")
                try engines.each("the last reset") { try $0.reset() }
            }
        }
    }

    @Test(arguments: sizes)
    func `the engines agree without autoreset and with masked resets`(
        _ size: (Int, Int)
    ) throws {
        let (rows, columns) = size
        let lanes = 130
        let engines = try Engines(
            .init(rows: rows, columns: columns), lanes: lanes, autoreset: .disabled,
            maxEpisodeSteps: 60)
        var generator = Generator(seed: 7)
        try engines.each("reset") { try $0.reset(seed: 5) }
        for step in 0..<300 {
            let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
            try engines.each("step \(step)") { try $0.step(actions) }
            let ended = engines.reference.endedLanes
            guard let first = ended.first else { continue }
            for batch in engines.all {
                let error = #expect(throws: EnvironmentError.self) { try batch.step(actions) }
                #expect(error?.lane == first && error?.kind == .failedPrecondition)
            }
            let boards = (0..<lanes).map { _ in Self.randomBoard(rows, columns, &generator) }
            try engines.each("masked reset \(step)") {
                try $0.reset(
                    mask: (0..<lanes).map { ended.contains($0) ? 1 : 0 },
                    boards: step % 2 == 0 ? boards : nil)
            }
        }
    }

    @Test func `one reset can give some lanes new seeds and let others continue their streams`() throws {
        let (engines, twin) = (try Engines(lanes: 70), try Engines(lanes: 70))
        let mask = (0..<70).map { UInt8($0 % 3) }
        for each in [engines, twin] { try each.each("reset") { try $0.reset(seed: 5) } }
        try engines.each("both kinds") { try $0.reset(seeds: (100..<170).map { $0 }, mask: mask) }
        try twin.each("new seeds") {
            try $0.reset(seeds: (100..<170).map { $0 }, mask: mask.map { $0 == 1 ? 1 : 0 })
        }
        try twin.each("the others") { try $0.reset(mask: mask.map { $0 == 2 ? 1 : 0 }) }
        #expect(engines.reference.reply == twin.reference.reply)
        #expect(try engines.snapshot([0, 1, 2]) == twin.snapshot([0, 1, 2]))
        let fresh = try Engines(lanes: 2)
        for batch in fresh.all {
            let error = #expect(throws: EnvironmentError.self) {
                try batch.reset(seeds: [1, 2], mask: [1, 2])
            }
            #expect(error?.field == "seed" && error?.lane == 1)
        }
    }

    @Test(arguments: sizes)
    func `a batch restored from another engine's snapshot continues identically`(
        _ size: (Int, Int)
    ) throws {
        let config = Game2048.Config(rows: size.0, columns: size.1)
        let (old, new) = (try Engines(config, lanes: 100), try Engines(config, lanes: 100))
        var generator = Generator(seed: 4)
        try old.each("reset") { try $0.reset(seed: 3) }
        func step(_ engines: Engines) throws {
            let actions = (0..<100).map { _ in UInt8(generator.next(below: 4)) }
            try engines.each("step") { try $0.step(actions) }
        }
        for _ in 0..<20 { try step(old) }
        let every = Array(0..<100)
        let records = try old.snapshot(every)
        try new.each("restore") { try $0.restore(records, lanes: every, rows: every) }
        for _ in 0..<20 { try step(new) }
    }

    @Test func `the reference plays boards of other sizes`() throws {
        let options = BatchOptions(lanes: 1)
        for size in allSizes {
            let game = try Game2048(.init(rows: size.rows, columns: size.columns))
            let batch = try game.makeBatch(options)
            if Self.sizes.contains(where: { $0 == (size.rows, size.columns) }) {
                #expect(batch.engine is KernelEngine)
            } else {
                #expect(batch.engine is GameEngine<Game2048>)
            }
        }
    }
}
