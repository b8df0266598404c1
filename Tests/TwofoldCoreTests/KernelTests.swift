import Testing

@testable import TwofoldCore

/// The kernel, in both forms in which it is compiled, against the readable rules.
@Suite struct KernelTests {
    static let kernels: [Engine] = Engine.hasAVX2 ? [.baseline, .avx2] : [.baseline]
    /// The sizes that the kernel runs.
    static let sizes = [
        (2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4), (4, 2), (4, 3), (4, 4),
    ]

    /// The same batch run by a kernel and by the reference.
    struct Pair {
        let kernel: Batch
        let reference: Batch

        init(
            _ engine: Engine, _ config: Game2048.Config = .init(), lanes: Int,
            autoreset: AutoresetMode = .nextStep, maxEpisodeSteps: Int? = nil, threads: Int = 1,
            reward: RewardSpec? = nil, extraInfos: [String] = []
        ) throws {
            var options = BatchOptions(
                lanes: lanes, autoreset: autoreset, maxEpisodeSteps: maxEpisodeSteps,
                workers: Workers(threads: threads), engine: engine)
            options.reward = reward
            options.extraInfos = extraInfos
            let game = try Game2048(config)
            let fast = try game.makeEnvironment(options)
            try #require(fast is KernelEnvironment)
            kernel = Batch(fast)
            options.engine = .reference
            let readable = try game.makeEnvironment(options)
            try #require(readable is GameEnvironment<Game2048>)
            reference = Batch(readable)
        }

        /// Does the same to both; their replies have to be the same, byte by byte.
        func both(_ what: String, _ call: (Batch) throws -> Void) throws {
            try call(kernel)
            try call(reference)
            #expect(kernel.finals == reference.finals, "\(what)")
            let (fast, readable) = (kernel.reply, reference.reply)
            try #require(fast.keys == readable.keys)
            for name in fast.keys.sorted() where fast[name] != readable[name] {
                let differing = (0..<kernel.lanes).first {
                    kernel.bytes(name, lane: $0) != reference.bytes(name, lane: $0)
                }!
                Issue.record(
                    """
                    \(what): \(name) of lane \(differing) is \(kernel.bytes(name, lane: differing)), the \
                    reference has \(reference.bytes(name, lane: differing))
                    """)
            }
        }
    }

    /// A board with a legal action: exponents 0 ... 17, full or sparse, of many kinds of tiles or few.
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

    @Test(arguments: kernels, sizes)
    func `on millions of random boards the kernel does what the reference does`(
        _ engine: Engine, _ size: (Int, Int)
    ) throws {
        let (rows, columns) = size
        let lanes = 16_384
        let rounds = (size == (4, 4) ? 306 : 32) / KernelTests.kernels.count
        let pair = try Pair(
            engine, .init(rows: rows, columns: columns, fourProbability: 0.3), lanes: lanes, threads: 2)
        var generator = Generator(seed: 1)
        var boards = (0..<lanes).map { _ in Self.randomBoard(rows, columns, &generator) }
        for round in 0..<rounds {
            // New boards for a part of the lanes, all of them in other places, with other generators.
            for _ in 0..<lanes / 4 {
                boards[generator.next(below: lanes)] = Self.randomBoard(rows, columns, &generator)
            }
            boards.swapAt(0, generator.next(below: lanes))
            let seeds = (0..<lanes).map { UInt64(round) << 32 | UInt64($0) }
            try pair.both("reset \(round)") { try $0.reset(seeds: seeds, boards: boards) }
            let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
            try pair.both("step \(round)") { try $0.step(actions) }
            if round % 32 == 0 { try pair.both("afterstates \(round)") { try $0.afterstates() } }
        }
        // The generators' states show in what they draw next.
        try pair.both("the last reset") { try $0.reset() }
        let every = Array(0..<lanes)
        #expect(try pair.kernel.snapshot(every) == pair.reference.snapshot(every))
    }

    @Test(arguments: kernels)
    func `a score ends at the largest Int32, and is saved and restored there`(_ engine: Engine) throws {
        let pair = try Pair(engine, lanes: 2)
        let board: [UInt8] = [1, 1] + [UInt8](repeating: 0, count: 14)
        try pair.both("reset") { try $0.reset(seeds: [1, 2], boards: [board, board]) }
        var record = try pair.kernel.snapshot([0])
        let score = withUnsafeBytes(of: Int64(Int32.max) - 1) { Array($0) }
        record.replaceSubrange(21..<29, with: score)
        for _ in 0..<2 {
            try pair.both("restore") { try $0.restore(record, lanes: [0, 1], rows: [0, 0]) }
            try pair.both("step") { try $0.step([3, 3]) }
            #expect(pair.kernel.bytes("score", lane: 0) == [0xff, 0xff, 0xff, 0x7f])
            record = try pair.kernel.snapshot([0])
            #expect(try pair.reference.snapshot([0]) == record)
        }
    }

    @Test(arguments: kernels, sizes)
    func `every row and every column moves as in the reference`(
        _ engine: Engine, _ size: (Int, Int)
    ) throws {
        let (rows, columns) = size
        for isColumn in [false, true] {
            // All lines of 16 exponents, but for the empty one: on 4 x 4 65,535 boards, the line in each of
            // four places.
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
            let pair = try Pair(engine, .init(rows: rows, columns: columns), lanes: boards.count)
            let seeds = boards.indices.map { UInt64($0) }
            for action in UInt8(0)..<4 {
                try pair.both("reset") { try $0.reset(seeds: seeds, boards: boards) }
                try pair.both("action \(action)") {
                    try $0.step([UInt8](repeating: action, count: boards.count))
                }
            }
            try pair.both("reset") { try $0.reset(seeds: seeds, boards: boards) }
            try pair.both("afterstates") { try $0.afterstates() }
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

    @Test(arguments: kernels, sizes)
    func `whole episodes agree until they end and beyond`(_ engine: Engine, _ size: (Int, Int)) throws {
        for config in Self.configs(size.0, size.1) {
            for (lanes, limit) in [(1, nil), (63, 100), (64, nil), (65, 30), (200, 1)] as [(Int, Int?)] {
                let pair = try Pair(engine, config, lanes: lanes, maxEpisodeSteps: limit)
                var generator = Generator(seed: UInt64(lanes))
                try pair.both("reset") { try $0.reset(seed: 99) }
                var ended = 0
                for step in 0..<25 * size.0 * size.1 {
                    let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
                    try pair.both("step \(step)") { try $0.step(actions) }
                    ended += (0..<lanes).count {
                        pair.reference.isTerminated(lane: $0) || pair.reference.isTruncated(lane: $0)
                    }
                    if step % 50 == 0 {
                        try pair.both("observe \(step)") { try $0.observe() }
                        try pair.both("afterstates \(step)") { try $0.afterstates() }
                    }
                }
                #expect(ended > 0, "some episode has ended")
                try pair.both("the last reset") { try $0.reset() }
            }
        }
    }

    @Test(arguments: kernels, sizes)
    func `in SAME_STEP both start the same new episodes`(_ engine: Engine, _ size: (Int, Int)) throws {
        for config in Self.configs(size.0, size.1) {
            for (lanes, limit, threads) in [(1, nil, 1), (65, 30, 1), (200, 1, 2), (900, 40, 2)]
                as [(Int, Int?, Int)]
            {
                let pair = try Pair(
                    engine, config, lanes: lanes, autoreset: .sameStep, maxEpisodeSteps: limit,
                    threads: threads)
                var generator = Generator(seed: UInt64(lanes))
                try pair.both("reset") { try $0.reset(seed: 99) }
                var ended = 0
                for step in 0..<(lanes == 900 ? 60 : 20 * size.0 * size.1) {
                    let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
                    try pair.both("step \(step)") { try $0.step(actions) }
                    ended += pair.kernel.finals.count
                    if step % 50 == 0 { try pair.both("observe \(step)") { try $0.observe() } }
                }
                #expect(ended > 0, "some episode has ended")
                try pair.both("the last reset") { try $0.reset() }
            }
        }
    }

    @Test(arguments: kernels, sizes)
    func `without autoreset, and with masked resets, lanes agree`(
        _ engine: Engine, _ size: (Int, Int)
    ) throws {
        let (rows, columns) = size
        let lanes = 130
        let pair = try Pair(
            engine, .init(rows: rows, columns: columns), lanes: lanes, autoreset: .disabled,
            maxEpisodeSteps: 60)
        var generator = Generator(seed: 7)
        try pair.both("reset") { try $0.reset(seed: 5) }
        for step in 0..<300 {
            let actions = (0..<lanes).map { _ in UInt8(generator.next(below: 4)) }
            try pair.both("step \(step)") { try $0.step(actions) }
            let finished = (0..<lanes).map { lane -> UInt8 in
                pair.reference.isTerminated(lane: lane) || pair.reference.isTruncated(lane: lane) ? 1 : 0
            }
            guard let first = finished.firstIndex(of: 1) else { continue }
            for batch in [pair.kernel, pair.reference] {
                let error = #expect(throws: EnvironmentError.self) { try batch.step(actions) }
                #expect(error?.lane == first && error?.kind == .failedPrecondition)
            }
            let boards = (0..<lanes).map { _ in Self.randomBoard(rows, columns, &generator) }
            try pair.both("masked reset \(step)") {
                try $0.reset(mask: finished, boards: step % 2 == 0 ? boards : nil)
            }
        }
    }

    @Test(arguments: kernels)
    func `one reset gives some lanes new seeds, and has others go on with their streams`(
        _ engine: Engine
    ) throws {
        let (pair, twin) = (try Pair(engine, lanes: 70), try Pair(engine, lanes: 70))
        let mask = (0..<70).map { UInt8($0 % 3) }
        for batch in [pair, twin] { try batch.both("reset") { try $0.reset(seed: 5) } }
        try pair.both("both kinds") { try $0.reset(seeds: (100..<170).map { $0 }, mask: mask) }
        try twin.both("new seeds") {
            try $0.reset(seeds: (100..<170).map { $0 }, mask: mask.map { $0 == 1 ? 1 : 0 })
        }
        try twin.both("the others") { try $0.reset(mask: mask.map { $0 == 2 ? 1 : 0 }) }
        #expect(pair.kernel.reply == twin.kernel.reply)
        #expect(try pair.kernel.snapshot([0, 1, 2]) == twin.kernel.snapshot([0, 1, 2]))
        let fresh = try Pair(engine, lanes: 2)
        let error = #expect(throws: EnvironmentError.self) {
            try fresh.kernel.reset(seeds: [1, 2], mask: [1, 2])
        }
        #expect(error?.field == "seed" && error?.lane == 1)
    }

    @Test(arguments: kernels, sizes)
    func `a batch that was restored from the other engine's snapshot goes on alike`(
        _ engine: Engine, _ size: (Int, Int)
    ) throws {
        let config = Game2048.Config(rows: size.0, columns: size.1)
        let (old, new) = (try Pair(engine, config, lanes: 100), try Pair(engine, config, lanes: 100))
        var generator = Generator(seed: 4)
        try old.both("reset") { try $0.reset(seed: 3) }
        func step(_ pair: Pair) throws {
            let actions = (0..<100).map { _ in UInt8(generator.next(below: 4)) }
            try pair.both("step") { try $0.step(actions) }
        }
        for _ in 0..<20 { try step(old) }
        let every = Array(0..<100)
        let records = try old.reference.snapshot(every)
        #expect(try old.kernel.snapshot(every) == records)
        try new.both("restore") { try $0.restore(records, lanes: every, rows: every) }
        for _ in 0..<20 { try step(new) }
    }

    @Test func `boards of other sizes are run by the reference`() throws {
        let options = BatchOptions(lanes: 1)
        for size in allSizes {
            let game = try Game2048(.init(rows: size.rows, columns: size.columns))
            let environment = try game.makeEnvironment(options)
            if Self.sizes.contains(where: { $0 == (size.rows, size.columns) }) {
                #expect(environment is KernelEnvironment)
            } else {
                #expect(environment is GameEnvironment<Game2048>)
            }
        }
    }
}
