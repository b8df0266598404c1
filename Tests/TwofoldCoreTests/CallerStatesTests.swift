import Testing

@testable import TwofoldCore

/// Tests of boards whose states the caller keeps: they play like boards that a batch holds.
@Suite(.everyEngine) struct CallerStatesTests {
    enum Rules: CaseIterable {
        case game2048, small2048, large2048, concentration, toy

        func makeBatch(_ options: BatchOptions) throws -> Batch {
            var options = options
            options.engine = EveryEngine.current
            switch self {
            case .game2048: return try Game2048(Game2048.Config()).makeBatch(options)
            case .small2048:
                options.reward = RewardSpec([
                    .init("merge_score"), .init("empty_cells", weight: 0.5, gamma: 0.9),
                ])
                options.extraInfos = ["reward_terms", "merges", "chance", "afterstates"]
                return try Game2048(Game2048.Config(rows: 2, columns: 3)).makeBatch(options)
            case .large2048: return try Game2048(Game2048.Config(rows: 5, columns: 4)).makeBatch(options)
            case .concentration: return try Batch(Concentration(.init(rows: 2)), options)
            case .toy:
                options.extraInfos = ["way"]
                return try Batch(ToyGame(), options)
            }
        }
    }

    // MARK: the same games

    @Test(arguments: Rules.allCases, [AutoresetMode.nextStep, .sameStep, .disabled])
    func `states in the caller's arrays play like states in a batch`(
        rules: Rules, autoreset: AutoresetMode
    ) throws {
        for lanes in [1, 64, 65, 130] {
            var options = BatchOptions(lanes: lanes, autoreset: autoreset, maxEpisodeSteps: 30)
            options.workers = Workers(threads: 2, chunk: 64)
            let batch = TestBatch(try rules.makeBatch(options))
            let boards = CallerBoards(try rules.makeBatch(options))
            let shared = CallerBoards(try rules.makeBatch(options), inPlace: true)
            let actionCount = batch.environment.actions.count
            var generator = Generator(seed: UInt64(lanes))
            var seeds = (0..<lanes).map { _ in generator.nextSeed() }
            try batch.reset(seeds: seeds)
            for one in [boards, shared] {
                try one.reset(seeds: seeds)
                expect(one.results, equal: batch, batch.environment.resetArrays)
            }
            var ended = 0
            for _ in 0..<80 {
                let actions = (0..<lanes).map { _ in UInt8(generator.next(below: actionCount)) }
                try batch.step(actions)
                let finished = batch.endedLanes
                ended += finished.count
                for one in [boards, shared] {
                    try one.step(actions)
                    expect(one.results, equal: batch, batch.environment.stepArrays)
                    guard let finals = one.finals else { continue }
                    for spec in finals.specs {
                        var expected = batch.bytes(spec.name)
                        for lane in batch.finals.lanes {
                            let first = lane * spec.bytesPerLane
                            expected.replaceSubrange(
                                first..<first + spec.bytesPerLane, with: batch.finals[lane]![spec.name]!)
                        }
                        if finals[spec.name] != expected {
                            Issue.record("\(spec.name) is wrong in the finals")
                        }
                    }
                    finals.checkGaps()
                }
                if autoreset == .disabled, !finished.isEmpty {
                    seeds = (0..<lanes).map { _ in generator.nextSeed() }
                    try batch.reset(seeds: seeds, mask: (0..<lanes).map { finished.contains($0) ? 1 : 0 })
                    for one in [boards, shared] { try one.reset(finished, seeds: seeds) }
                }
            }
            #expect(ended > 0)
            for one in [boards, shared] { try expectRecords(of: one, equal: batch) }
        }
    }

    private func expect(_ results: GuardedArrays, equal batch: TestBatch, _ specs: [ArraySpec]) {
        for spec in specs where results[spec.name] != batch.bytes(spec.name) {
            Issue.record("\(spec.name) is wrong")
        }
        results.checkGaps()
    }

    /// Compares each field of the states with the bytes of the records in a snapshot.
    private func expectRecords(of boards: CallerBoards, equal batch: TestBatch) throws {
        let size = batch.environment.recordSize
        var records = [UInt8](repeating: 0, count: size * batch.lanes)
        try records.withUnsafeMutableBytes {
            try batch.environment.snapshot(Array(0..<batch.lanes), into: $0)
        }
        for field in batch.environment.stateFields.all {
            for lane in 0..<batch.lanes {
                let first = lane * size + field.offset
                let expected = Array(records[first..<first + field.spec.bytesPerLane])
                #expect(boards.state(field.spec.name, lane) == expected, "\(field.spec.name) of lane \(lane)")
            }
        }
    }

    @Test func `a lane that has ended waits if autoreset is disabled`() throws {
        let options = BatchOptions(lanes: 3, autoreset: .disabled, maxEpisodeSteps: 2)
        for rules in Rules.allCases {
            let boards = CallerBoards(try rules.makeBatch(options))
            try boards.reset(seeds: [1, 2, 3])
            for _ in 0..<2 { try boards.step([1, 1, 1]) }
            #expect(boards.results["truncated"] == [1, 1, 1])
            let last = boards.results["observation"]
            let states = boards.states
            for _ in 0..<2 {
                try boards.step([0, 1, 2])
                #expect(boards.results["observation"] == last)
                #expect(boards.results["reward"] == [UInt8](repeating: 0, count: 12))
                #expect(boards.results["terminated"] == [0, 0, 0])
                #expect(boards.results["truncated"] == [0, 0, 0])
                #expect(boards.states == states)
            }
        }
    }

    // MARK: refusals

    /// Bytes of one field of a state that no game has.
    static let wrong: [(rules: Rules, field: String, bytes: [UInt8], message: String)] = [
        (.game2048, "generator", [UInt8](repeating: 0, count: 16), "random stream of zeros"),
        (.game2048, "phase", [3], "phase 3"),
        (.game2048, "episode_length", [255, 255, 255, 255], "episode_length -1"),
        (.game2048, "score", [0, 0, 0, 128], "score"),
        (.game2048, "moves", [254, 255, 255, 255], "-2 moves"),
        (.game2048, "observation", [31] + [UInt8](repeating: 0, count: 15), "tiles that add up to 2^31"),
        (.large2048, "observation", [31] + [UInt8](repeating: 0, count: 19), "tiles that add up to 2^31"),
        (.concentration, "generator", [UInt8](repeating: 0, count: 16), "random stream of zeros"),
        (.concentration, "phase", [3], "phase 3"),
        (.concentration, "turns", [255, 255, 255, 255], "-1 turns"),
        (.concentration, "open_card", [8, 0, 0, 0], "card 8 open"),
        (.concentration, "deck", [0, 0, 0, 0, 0, 0, 0, 0], ""),
        (.toy, "phase", [3], "phase 3"),
        (.toy, "state", [9] + [UInt8](repeating: 0, count: 8), "marker in place 9"),
    ]

    @Test func `a state that no game has is refused with its lane, and nothing is written`() throws {
        for (rules, field, bytes, message) in Self.wrong {
            let lanes = 70
            let boards = CallerBoards(try rules.makeBatch(BatchOptions(lanes: lanes, autoreset: .sameStep)))
            try boards.reset(seeds: (0..<lanes).map(UInt64.init))
            let actions = [UInt8](repeating: 1, count: lanes)
            for lane in [0, 63, 64, 69] {
                let good = boards.states
                boards.setState(field, lane, bytes)
                let before = boards.allBytes
                let error = try #require(throws: EnvironmentError.self) { try boards.step(actions) }
                #expect(error.kind == .invalidArgument)
                #expect(error.field == "state")
                #expect(error.lane == lane)
                #expect(error.message.contains("the state of lane \(lane) "))
                #expect(error.message.contains(message))
                #expect(boards.allBytes == before)
                boards.states = good
            }
            try boards.step(actions)
        }
    }

    @Test
    func `the kernel ends the episode of a board without a legal action, whatever the other lanes hold`()
        throws
    {
        guard EveryEngine.current != .reference else { return }
        let boards = CallerBoards(try Rules.game2048.makeBatch(BatchOptions(lanes: 2)))
        try boards.reset(seeds: [1, 2])
        boards.setState("observation", 0, (0..<16).map { UInt8(1 + ($0 + $0 / 4) % 2) })
        for score: [UInt8] in [[0, 0, 0, 0], [0, 0, 0, 64]] {
            boards.setState("score", 1, score)
            let states = boards.states
            try boards.step([1, 1])
            #expect(boards.results["terminated"] == [1, 0])
            boards.states = states
        }
    }

    @Test func `a wrong action is refused with its lane, and nothing is written`() throws {
        for rules in Rules.allCases {
            let boards = CallerBoards(try rules.makeBatch(BatchOptions(lanes: 66)))
            try boards.reset(seeds: (0..<66).map(UInt64.init))
            var actions = [UInt8](repeating: 1, count: 66)
            actions[65] = 255
            let before = boards.allBytes
            let error = try #require(throws: EnvironmentError.self) { try boards.step(actions) }
            #expect(error.field == "actions")
            #expect(error.lane == 65)
            #expect(boards.allBytes == before)
        }
    }

    @Test func `only infos that depend on the move alone are possible`() throws {
        var options = BatchOptions(lanes: 1)
        options.extraInfos = ["chance", "reward_terms"]
        try Game2048(Game2048.Config()).makeBatch(options).checkStateless()
        options.extraInfos = ["chance", EpisodeReturns.name]
        let batch = try Game2048(Game2048.Config()).makeBatch(options)
        let error = try #require(throws: EnvironmentError.self) { try batch.checkStateless() }
        #expect(error.field == "extra_infos")
    }

    // MARK: fields

    @Test func `the fields of a state are parts of its record that do not overlap`() throws {
        for rules in Rules.allCases {
            let batch = try rules.makeBatch(BatchOptions(lanes: 1))
            var end = 0
            for field in batch.stateFields.all {
                #expect(field.offset >= end)
                end = field.offset + field.spec.bytesPerLane
            }
            #expect(end == batch.recordSize)
        }
    }
}

extension Generator {
    /// Returns a seed of 64 bits.
    fileprivate mutating func nextSeed() -> UInt64 {
        (0..<4).reduce(0) { seed, _ in seed << 16 | UInt64(next(below: 1 << 16)) }
    }
}

/// Boards whose states a test keeps, and a batch that only steps them.
private final class CallerBoards {
    let environment: Batch
    /// The last results of a step or reset.
    let results: GuardedArrays
    /// The rows from before the restarts; nil if the batch does not restart lanes in a step.
    let finals: GuardedArrays?
    private let input: GuardedArrays
    private let rest: GuardedArrays
    private let inPlace: Bool

    /// With `inPlace`, a step reads the states from the memory to which it writes.
    init(_ environment: Batch, inPlace: Bool = false) {
        self.environment = environment
        self.inPlace = inPlace
        let lanes = environment.lanes
        results = GuardedArrays(environment.stepArrays, rows: lanes)
        finals =
            environment.autoreset == .sameStep ? GuardedArrays(environment.resetArrays, rows: lanes) : nil
        input = GuardedArrays(environment.stateArrays, rows: lanes)
        rest = GuardedArrays(environment.restArrays, rows: lanes)
    }

    func reset(seeds: [UInt64]) throws {
        try Self.reset(environment, seeds, results, rest)
        adopt()
    }

    /// Gives some lanes the states and rows that a reset with these seeds starts.
    func reset(_ lanes: [Int], seeds: [UInt64]) throws {
        let (results, rest) = (
            GuardedArrays(environment.stepArrays, rows: environment.lanes),
            GuardedArrays(environment.restArrays, rows: environment.lanes)
        )
        try Self.reset(environment, seeds, results, rest)
        for lane in lanes {
            for spec in environment.resetArrays {
                self.results.setRow(spec.name, lane, results.row(spec.name, lane))
            }
            for spec in environment.restArrays {
                self.rest.setRow(spec.name, lane, rest.row(spec.name, lane))
            }
        }
        adopt()
    }

    private static func reset(
        _ environment: Batch, _ seeds: [UInt64], _ results: GuardedArrays, _ rest: GuardedArrays
    ) throws {
        try littleEndian(seeds).withUnsafeBytes {
            try environment.reset(seeds: $0, into: results.arrays, rest: rest.arrays)
        }
    }

    func step(_ actions: [UInt8]) throws {
        let states = inPlace ? BatchArrays(environment.stateArrays) { self.output($0) } : input.arrays
        try actions.withUnsafeBytes {
            try environment.step(
                states, actions: $0, into: results.arrays, finals: finals?.arrays, rest: rest.arrays)
        }
        adopt()
    }

    /// Returns the array to which a step writes a field of the states.
    private func owner(_ spec: ArraySpec) -> GuardedArrays {
        environment.restArrays.contains(spec) ? rest : results
    }

    private func output(_ field: Int) -> UnsafeMutableRawPointer {
        let spec = environment.stateArrays[field]
        return owner(spec).address(spec.name)
    }

    /// Makes the next states the input of the next step.
    private func adopt() {
        for spec in environment.stateArrays { input[spec.name] = owner(spec)[spec.name] }
    }

    // MARK: states

    /// The states, keyed by field.
    var states: [String: [UInt8]] {
        get {
            Dictionary(uniqueKeysWithValues: environment.stateArrays.map { ($0.name, input[$0.name]) })
        }
        set { for (name, bytes) in newValue { input[name] = bytes } }
    }

    func state(_ name: String, _ lane: Int) -> [UInt8] { input.row(name, lane) }

    func setState(_ name: String, _ lane: Int, _ bytes: [UInt8]) { input.setRow(name, lane, bytes) }

    /// The bytes of all memory.
    var allBytes: [[UInt8]] { [input, results, rest, finals].compactMap { $0?.bytes } }
}
