import Testing

@testable import TwofoldCore

extension Deadline {
    fileprivate static func after(_ time: Duration) -> Deadline { Deadline(after: time, on: .system) }
}

extension NTupleNetwork {
    /// Returns the value of a board.
    fileprivate func value(_ board: [UInt8]) -> Float {
        var value = Float.nan
        NTupleBlock.with(features) { block in
            block.store(board, at: 0)
            block.evaluate(1, with: values)
            value = block.values[0]
        }
        return value
    }
}

/// Tests the core's policies and rollouts. On every engine, a rollout must equal a loop of separate steps.
@Suite struct PolicyTests {
    /// The results of a rollout: the concatenated rows of each array.
    struct Results: Equatable {
        var steps = 0
        var arrays: [String: [UInt8]] = [:]
        var finals: [String: [UInt8]] = [:]
    }

    /// A batch, its policies' streams, and memory for the results of rollouts.
    final class Player {
        let environment: Batch
        let streams: PolicyStreams

        init(_ environment: Batch, seed: UInt64 = 0) throws {
            self.environment = environment
            streams = try PolicyStreams(lanes: environment.lanes)
            let batch = TestBatch(environment)
            try batch.reset(seed: seed)
            for lane in 0..<environment.lanes { streams.seed(lane, seed &+ UInt64(lane)) }
        }

        func play(
            _ policy: any Policy, steps: Int, infos: [String] = [],
            until deadline: Deadline? = nil
        ) throws -> Results {
            try play(.policy(policy, streams), steps: steps, infos: infos, until: deadline)
        }

        func play(
            _ source: BatchRollout.Source, steps: Int, infos: [String] = [],
            until deadline: Deadline? = nil
        ) throws -> Results {
            let rollout = try BatchRollout(environment, infos: infos)
            let finalsRoom = 4 * environment.lanes
            let frames = GuardedArrays(rollout.frameArrays, rows: steps + 1)
            let rows = GuardedArrays(rollout.stepArrays, rows: steps)
            let finals = GuardedArrays(rollout.finalArrays, rows: finalsRoom)
            let done = try rollout.run(
                source, steps: steps, frames: frames.arrays, steps: rows.arrays,
                finals: finals.arrays, finalsRoom: finalsRoom,
                answer: deadline,
                searchEnd: deadline)
            for each in [frames, rows, finals] { each.checkGaps() }
            var results = Results(steps: done.steps)
            results.arrays = frames.contents(first: done.steps + 1)
            results.arrays.merge(rows.contents(first: done.steps)) { $1 }
            results.finals = finals.contents(first: done.finals)
            return results
        }
    }

    static func make(
        _ config: Game2048.Config = .init(), lanes: Int, autoreset: AutoresetMode = .nextStep,
        limit: Int? = nil, threads: Int = 1, engine: Engine = .automatic
    ) throws -> Batch {
        try Game2048(config).makeBatch(
            BatchOptions(
                lanes: lanes, autoreset: autoreset, maxEpisodeSteps: limit,
                workers: Workers(threads: threads),
                engine: engine))
    }

    // MARK: rollouts

    @Test(arguments: [AutoresetMode.nextStep, .sameStep, .disabled])
    func `a rollout equals single steps with the same actions`(_ autoreset: AutoresetMode) throws {
        let lanes = 70
        let player = try Player(Self.make(lanes: lanes, autoreset: autoreset, limit: 40), seed: 3)
        let results = try player.play(RandomPolicy(), steps: 200, infos: ["score", "episode_length"])
        let actions = results.arrays["action"]!
        let twin = TestBatch(try Self.make(lanes: lanes, autoreset: autoreset, limit: 40))
        try twin.reset(seed: 3)
        var finished = [Bool](repeating: false, count: lanes)
        var steps = 0
        for step in 0..<results.steps {
            #expect(row("observation", step, results, lanes) == twin.bytes("observation"))
            #expect(row("action_mask", step, results, lanes) == twin.bytes("action_mask"))
            let valid = row("valid", step, results, lanes)
            #expect(valid == finished.map { $0 ? 0 : 1 })
            guard autoreset != .disabled || !finished.contains(true) else { break }
            steps += 1
            try twin.step(Array(actions[step * lanes..<(step + 1) * lanes]))
            for name in ["reward", "terminated", "truncated", "score", "episode_length"] {
                #expect(
                    autoreset == .sameStep && name != "reward" && name != "terminated" && name != "truncated"
                        || row(name, step, results, lanes) == twin.bytes(name))
            }
            let ended = (0..<lanes).filter { twin.isTerminated(lane: $0) || twin.isTruncated(lane: $0) }
            switch autoreset {
            case .nextStep: finished = (0..<lanes).map { ended.contains($0) }
            case .disabled: for lane in ended { finished[lane] = true }
            case .sameStep: break  // The twin's step has already started the new episodes.
            }
        }
        #expect(steps > 20)
        if autoreset == .sameStep {
            #expect(results.finals["steps"]!.count >= 8 * 2 * lanes, "too few episodes have ended")
        }
    }

    private func row(_ name: String, _ step: Int, _ results: Results, _ lanes: Int) -> [UInt8] {
        let bytes = results.arrays[name]!
        let rows = name == "observation" || name == "action_mask" ? results.steps + 1 : results.steps
        let size = bytes.count / rows
        return Array(bytes[step * size..<(step + 1) * size])
    }

    @Test func `with autoreset disabled a finished lane waits and repeats its last state`() throws {
        for engine in [Engine.automatic, .reference] {
            for config in [
                Game2048.Config(), Game2048.Config(goal: 32, stopAtGoal: true),
                Game2048.Config(illegalAction: .terminate),
            ] {
                let lanes = 66
                let player = try Player(
                    Self.make(config, lanes: lanes, autoreset: .disabled, limit: 150, engine: engine))
                // Actions 0, 1, 2, 3, 0 …
                let actions = (0..<lanes * 400).map { UInt8($0 / lanes % 4) }
                let results = try actions.withUnsafeBytes {
                    try player.play(.actions($0), steps: 400, infos: ["score", "moves"])
                }
                var ended = [Int?](repeating: nil, count: lanes)
                for step in 0..<400 {
                    let (valid, terminated) = (
                        row("valid", step, results, lanes), row("terminated", step, results, lanes)
                    )
                    let truncated = row("truncated", step, results, lanes)
                    for lane in 0..<lanes {
                        #expect(valid[lane] == (ended[lane] == nil ? 1 : 0))
                        guard let last = ended[lane] else {
                            if terminated[lane] | truncated[lane] == 1 { ended[lane] = step }
                            continue
                        }
                        #expect(terminated[lane] == 0 && truncated[lane] == 0)
                        for name in ["observation", "action_mask"] {
                            #expect(
                                cell(name, step + 1, lane, results, lanes)
                                    == cell(name, last + 1, lane, results, lanes))
                        }
                        for name in ["score", "moves"] {
                            #expect(
                                cell(name, step, lane, results, lanes)
                                    == cell(name, last, lane, results, lanes))
                        }
                        #expect(cell("reward", step, lane, results, lanes) == [0, 0, 0, 0])
                    }
                }
                #expect(ended.allSatisfy { $0 != nil })
            }
        }
    }

    private func cell(_ name: String, _ row: Int, _ lane: Int, _ results: Results, _ lanes: Int) -> [UInt8] {
        let bytes = self.row(name, row, results, lanes)
        let size = bytes.count / lanes
        return Array(bytes[lane * size..<(lane + 1) * size])
    }

    @Test(arguments: [AutoresetMode.nextStep, .sameStep, .disabled])
    func `a rollout doesn't depend on engine, lanes, threads or pieces`(_ autoreset: AutoresetMode) throws {
        let lanes = 130
        func whole(_ threads: Int, _ engine: Engine) throws -> Results {
            let environment = try Self.make(
                lanes: lanes, autoreset: autoreset, limit: 70, threads: threads, engine: engine)
            return try Player(environment, seed: 11).play(RandomPolicy(), steps: 90)
        }
        let results = try whole(1, .reference)
        #expect(try whole(2, .automatic) == results)
        #expect(try whole(1, .baseline) == results)
        // Play lane 7 alone, once in one rollout and once in three.
        let single = try Player(Self.make(lanes: 1, autoreset: autoreset, limit: 70), seed: 18)
        var actions: [UInt8] = []
        for steps in [1, 30, 59] {
            actions += try single.play(RandomPolicy(), steps: steps).arrays["action"]!
        }
        #expect(actions == (0..<90).map { results.arrays["action"]![$0 * lanes + 7] })
    }

    @Test func `given actions are checked before the first step`() throws {
        let player = try Player(Self.make(lanes: 3))
        let before = try player.play(RandomPolicy(), steps: 1).arrays["observation"]!.suffix(48)
        let actions: [UInt8] = [0, 1, 2, 3, 0, 4]
        actions.withUnsafeBytes { bytes in
            let error = #expect(throws: EnvironmentError.self) { try player.play(.actions(bytes), steps: 2) }
            #expect(error?.field == "actions" && error?.lane == 2)
            #expect(error?.message.contains("step 1") == true)
        }
        #expect(try player.play(RandomPolicy(), steps: 1).arrays["observation"]!.prefix(48) == before)
    }

    @Test(arguments: ["nonsense", "observation", "reward", "action", "valid", ""])
    func `an unknown info is refused`(name: String) throws {
        let environment = try Self.make(lanes: 1)
        let error = #expect(throws: EnvironmentError.self) {
            _ = try BatchRollout(environment, infos: ["score", name])
        }
        #expect(error?.field == "infos")
        #expect(throws: EnvironmentError.self) {
            _ = try BatchRollout(environment, infos: ["score", "score"])
        }
    }

    @Test func `a rollout can play the toy game`() throws {
        for lanes in [1, 64, 70] {
            let player = try Player(Batch(ToyGame(), BatchOptions(lanes: lanes)))
            let policy: any Policy = lanes == 64 ? FixedOrderPolicy() : RandomPolicy()
            let results = try player.play(policy, steps: 50)
            let actions = player.environment.actions.count
            for (index, action) in results.arrays["action"]!.enumerated() {
                let mask = results.arrays["action_mask"]![index * actions..<(index + 1) * actions]
                #expect(!mask.contains(1) || mask[mask.startIndex + Int(action)] == 1)
            }
        }
    }

    // MARK: policies

    @Test func `one word of the salted stream determines the legal action that random takes`() throws {
        let lanes = 200
        let player = try Player(Self.make(lanes: lanes), seed: 5)
        let results = try player.play(RandomPolicy(), steps: 300)
        for lane in 0..<lanes {
            var generator = Generator(seed: (5 + UInt64(lane)) ^ 0x706f_6c69_6379_0000)
            for step in 0..<300 {
                let mask = cell("action_mask", step, lane, results, lanes)
                let legal = (0..<4).filter { mask[$0] == 1 }
                let word = generator.next()
                let expected = legal.isEmpty ? 0 : legal[Int((UInt64(word) * UInt64(legal.count)) >> 32)]
                #expect(cell("action", step, lane, results, lanes) == [UInt8(expected)])
            }
        }
    }

    @Test func `fixed order takes the legal action with the lowest number, and ignores the words`() throws {
        let lanes = 70
        let player = try Player(Self.make(lanes: lanes), seed: 5)
        let twin = try Player(Self.make(lanes: lanes), seed: 5)
        for lane in 0..<lanes { twin.streams.seed(lane, 99) }
        let results = try player.play(FixedOrderPolicy(), steps: 300)
        for step in 0..<300 {
            for lane in 0..<lanes {
                let mask = cell("action_mask", step, lane, results, lanes)
                let expected = UInt8(mask.firstIndex(of: 1) ?? 0)
                #expect(cell("action", step, lane, results, lanes) == [expected])
            }
        }
        #expect(try twin.play(FixedOrderPolicy(), steps: 300) == results)
    }

    @Test func `greedy takes the highest reward, and breaks ties at random`() throws {
        let lanes = 100
        let player = try Player(Self.make(lanes: lanes), seed: 6)
        let results = try player.play(GreedyPolicy(player.environment), steps: 100)
        var ties: [Int: Int] = [:]
        for step in 0..<100 {
            for lane in 0..<lanes where cell("valid", step, lane, results, lanes) == [1] {
                let board = Board(
                    rows: 4, columns: 4, exponents: cell("observation", step, lane, results, lanes))
                let slides = Direction.allCases.map { Slide(board, towards: $0) }
                let best = slides.filter(\.moved).map(\.mergeScore).max()!
                let action = Int(cell("action", step, lane, results, lanes)[0])
                #expect(slides[action].moved && slides[action].mergeScore == best)
                if slides.allSatisfy({ $0.moved && $0.mergeScore == 0 }) { ties[action, default: 0] += 1 }
            }
        }
        #expect(ties.count == 4 && ties.values.min()! > ties.values.max()! / 2, "\(ties)")
    }

    @Test func `a bitboard transposes, slides and finds its empty cells as the readable board does`() {
        var generator = Generator(seed: 4)
        for _ in 0..<20_000 {
            let fill = generator.next(below: 5)
            let exponents = (0..<16).map { _ in
                generator.next(below: 4) >= fill ? 0 : UInt8(1 + generator.next(below: 14))
            }
            let board = Board(rows: 4, columns: 4, exponents: exponents)
            let word = exponents.withUnsafeBufferPointer { Bitboard($0.baseAddress!) }
            func cells(_ word: Bitboard) -> [UInt8] {
                (0..<16).map { (cell: UInt64) -> UInt8 in UInt8(word.bits >> (4 * cell) & 15) }
            }
            #expect(cells(word) == exponents)
            let transposed = (0..<16).map { (cell: Int) -> UInt8 in exponents[cell % 4 * 4 + cell / 4] }
            #expect(cells(word.transposed) == transposed)
            #expect(word.empties.nonzeroBitCount == board.emptyCount)
            for (toRight, direction) in [(false, Direction.left), (true, .right)] {
                let (slid, score) = SlideTables.shared.slide(word, toRight: toRight)
                let slide = Slide(board, towards: direction)
                #expect(cells(slid) == slide.afterstate.exponents.map { min($0, 15) })
                #expect(Int(score) == slide.mergeScore)
            }
        }
    }

    /// Expectimax in its simplest form, without tables.
    private struct PlainSearch {
        let heuristic = Heuristic()
        let four: Double
        let tight: Int

        func worth(_ board: Board, _ layers: Int) -> [Double?] {
            Direction.allCases.map { direction in
                let slide = Slide(board, towards: direction)
                guard slide.moved else { return nil }
                return Double(slide.mergeScore) + expected(slide.afterstate, layers - 1)
            }
        }

        private func expected(_ afterstate: Board, _ layers: Int) -> Double {
            if layers < 0 || layers == 0 && afterstate.emptyCount > tight {
                var value = 0.0
                for line in 0..<4 {
                    let weights = line == 0 || line == 3 ? heuristic.outer : heuristic.inner
                    value += heuristic.value((0..<4).map { Int(afterstate[line * 4 + $0]) }, weights)
                    value += heuristic.value((0..<4).map { Int(afterstate[$0 * 4 + line]) }, weights)
                }
                return value - heuristic.room / Double(afterstate.emptyCount)
            }
            var sum = 0.0
            for cell in 0..<16 where afterstate[cell] == 0 {
                for (exponent, probability) in [(UInt8(1), 1 - four), (2, four)] where probability > 0 {
                    var next = afterstate
                    next[cell] = exponent
                    sum += probability * (worth(next, layers).compactMap { $0 }.max() ?? 0)
                }
            }
            return sum / Double(afterstate.emptyCount)
        }
    }

    @Test(arguments: [(1, 0, 0.1), (1, 6, 0.1), (2, 0, 0.1), (2, 3, 0.0), (2, 0, 1.0), (3, 0, 0.5)])
    func `expectimax agrees with the plain recursion`(
        depth: Int, tight: Int, four: Double
    ) throws {
        let lanes = depth == 3 ? 4 : 30
        let player = try Player(Self.make(.init(fourProbability: four), lanes: lanes), seed: 7)
        _ = try player.play(RandomPolicy(), steps: 60)
        let policy = try ExpectimaxPolicy(
            player.environment, depth: depth, extension: tight, tableBytes: 1 << 16, heuristic: .init(),
            workers: Workers(threads: 2))
        let results = try player.play(policy, steps: 3)
        let plain = PlainSearch(four: four, tight: tight)
        var compared = 0
        for step in 0..<3 {
            for lane in 0..<lanes where cell("valid", step, lane, results, lanes) == [1] {
                let board = Board(
                    rows: 4, columns: 4, exponents: cell("observation", step, lane, results, lanes))
                let worth = plain.worth(board, depth)
                let action = Int(cell("action", step, lane, results, lanes)[0])
                let best = worth.compactMap { $0 }.max()!
                // The chosen action is the best one, except for the rounding errors of Float.
                #expect(worth[action]! >= best - 1e-5 * abs(best))
                compared += 1
            }
        }
        #expect(compared > lanes)
    }

    @Test func `the table size and the threads don't change the choices of expectimax`() throws {
        func play(_ tableBytes: Int, _ threads: Int) throws -> Results {
            let player = try Player(Self.make(lanes: 20), seed: 8)
            let policy = try ExpectimaxPolicy(
                player.environment, depth: 2, extension: 3, tableBytes: tableBytes, heuristic: .init(),
                workers: Workers(threads: threads))
            return try player.play(policy, steps: 60)
        }
        let results = try play(1 << 12, 1)
        #expect(try play(1 << 22, 1) == results)
        #expect(try play(1 << 20, 2) == results)
    }

    @Test func `a late search has no effect on the next one`()
        throws
    {
        let config = Game2048.Config()
        let (late, twin) = (
            try Player(Self.make(config, lanes: 8), seed: 9), try Player(Self.make(config, lanes: 8), seed: 9)
        )
        let policy = try ExpectimaxPolicy(
            late.environment, depth: 2, extension: 3, tableBytes: 1 << 14, heuristic: .init(),
            workers: Workers(threads: 1))
        let error = #expect(throws: EnvironmentError.self) {
            try late.play(policy, steps: 5, until: .after(.seconds(-1)))
        }
        #expect(error?.field == "policy" && error?.kind == .resourceExhausted)
        #expect(try late.play(RandomPolicy(), steps: 20) == twin.play(RandomPolicy(), steps: 20))
        // There is enough time for the first step, even on a slow machine. Another request plays the other steps.
        var (time, steps) = (Duration.milliseconds(30), 0)
        while steps == 0 {
            steps = (try? late.play(policy, steps: 100_000, until: .after(time)).steps) ?? 0
            time *= 2
        }
        #expect(steps < 100_000)
        var again = 0
        while again < steps {
            again += try twin.play(policy, steps: steps - again, until: .after(.seconds(60))).steps
        }
        #expect(try late.play(RandomPolicy(), steps: 5) == twin.play(RandomPolicy(), steps: 5))
    }

    // MARK: n-tuple networks

    private static func network(
        _ form: NTupleNetwork.Form, rows: Int = 4, columns: Int = 4, seed: UInt64 = 1
    ) throws -> (NTupleNetwork, [Float]) {
        let network = try NTupleNetwork(form, rows: rows, columns: columns, maxBytes: 1 << 24)
        var generator = Generator(seed: seed)
        let weights = (0..<network.bytes / 4).map { _ in Float(generator.next(below: 2000)) / 16 - 50 }
        try weights.withUnsafeBytes { bytes in
            let half = bytes.count / 8 * 4
            try network.add(UnsafeRawBufferPointer(rebasing: bytes[..<half]), at: 0)
            #expect(!network.isComplete)
            try network.add(UnsafeRawBufferPointer(rebasing: bytes[half...]), at: half)
        }
        #expect(network.isComplete)
        return (network, weights)
    }

    @Test func `a network's value is the sum of the weights at the documented places`() throws {
        let form = NTupleNetwork.Form(
            tuples: [[0, 1, 4], [5], [3, 7, 11, 15]], exponents: 6, isSymmetric: true)
        let (network, weights) = try Self.network(form)
        var generator = Generator(seed: 2)
        for _ in 0..<500 {
            let board = (0..<16).map { _ in UInt8(generator.next(below: 9)) }
            // Create all eight images by rotating and mirroring the board itself.
            var images: [[UInt8]] = []
            var image = board
            for _ in 0..<4 {
                let mirrored = (0..<16).map { image[$0 % 4 * 4 + $0 / 4] }
                images += [image, mirrored]
                image = (0..<16).map { image[$0 % 4 * 4 + 3 - $0 / 4] }
            }
            #expect(Set(images).count >= 1)
            var value: Float = 0
            var table = 0
            for tuple in form.tuples {
                for image in images {
                    var place = 0
                    var digit = 1
                    for cell in tuple {
                        place += Int(min(image[cell], 5)) * digit
                        digit *= 6
                    }
                    value += weights[table + place]
                }
                table += tuple.reduce(1) { size, _ in size * 6 }
            }
            // All weights are multiples of 1/16, so that the order of the additions does not change the sum.
            #expect(network.value(board) == value)
        }
    }

    @Test(arguments: [(2, 2, 8), (4, 4, 8), (3, 4, 4), (2, 5, 4)])
    func `the images of a board are its distinct rotations and reflections`(
        rows: Int, columns: Int, count: Int
    ) {
        let images = boardImages(rows: rows, columns: columns)
        #expect(images.count == count && Set(images).count == count)
        #expect(images[0] == Array(0..<rows * columns))
        for image in images { #expect(image.sorted() == images[0]) }
    }

    @Test func `ntuple takes the action with the best reward plus value`() throws {
        let (network, _) = try Self.network(
            .init(tuples: [[0, 1], [5, 6]], exponents: 12, isSymmetric: true))
        let lanes = 90
        let player = try Player(Self.make(lanes: lanes), seed: 12)
        let results = try player.play(
            NTuplePolicy(player.environment, network, workers: Workers(threads: 2)), steps: 60)
        for step in 0..<60 {
            for lane in 0..<lanes where cell("valid", step, lane, results, lanes) == [1] {
                let board = Board(
                    rows: 4, columns: 4, exponents: cell("observation", step, lane, results, lanes))
                let worth = Direction.allCases.map { direction -> Float in
                    let slide = Slide(board, towards: direction)
                    let value = network.value(slide.afterstate.exponents)
                    return slide.moved ? Float(slide.mergeScore) + value : -.infinity
                }
                let action = Int(cell("action", step, lane, results, lanes)[0])
                #expect(action == worth.firstIndex(of: worth.max()!)!)
            }
        }
    }

    @Test func `the error for a wrong network argument names it, and weights must arrive in order`() throws {
        func refusal(_ form: NTupleNetwork.Form, maxBytes: Int = 1 << 20) -> EnvironmentError? {
            do throws(EnvironmentError) {
                _ = try NTupleNetwork(form, rows: 4, columns: 4, maxBytes: maxBytes)
                return nil
            } catch {
                return error
            }
        }
        typealias Form = NTupleNetwork.Form
        #expect(refusal(Form(tuples: [], exponents: 4, isSymmetric: true))?.field == "tuples")
        #expect(refusal(Form(tuples: [[0], []], exponents: 4, isSymmetric: true))?.field == "tuples")
        #expect(refusal(Form(tuples: [[0, 16]], exponents: 4, isSymmetric: true))?.field == "tuples")
        #expect(refusal(Form(tuples: [[0, 0]], exponents: 4, isSymmetric: true))?.field == "tuples")
        #expect(refusal(Form(tuples: [[0]], exponents: 1, isSymmetric: true))?.field == "exponents")
        #expect(refusal(Form(tuples: [[0]], exponents: 33, isSymmetric: true))?.field == "exponents")
        let large = Form(tuples: [Array(0..<12)], exponents: 32, isSymmetric: true)
        #expect(refusal(large)?.kind == .resourceExhausted)
        #expect(refusal(Form(tuples: [[0, 1]], exponents: 4, isSymmetric: true), maxBytes: 63) != nil)
        #expect(refusal(Form(tuples: [[0, 1]], exponents: 4, isSymmetric: true), maxBytes: 64) == nil)

        let network = try NTupleNetwork(
            Form(tuples: [[0]], exponents: 4, isSymmetric: false), rows: 4, columns: 4, maxBytes: 64)
        let environment = try Self.make(lanes: 1)
        #expect(throws: EnvironmentError.self) {
            _ = try NTuplePolicy(environment, network, workers: Workers(threads: 1))
        }
        let weights = [UInt8](repeating: 0, count: 20)
        weights.withUnsafeBytes { bytes in
            for (count, offset) in [(4, 4), (3, 0), (0, 0), (20, 0)] {
                #expect(throws: EnvironmentError.self) {
                    try network.add(UnsafeRawBufferPointer(rebasing: bytes[..<count]), at: offset)
                }
            }
        }
        #expect(network.received == 0)
    }

    @Test func `policies refuse games that they can't play`() throws {
        let small = try Self.make(.init(rows: 3, columns: 3), lanes: 1)
        let toy = try Batch(ToyGame(), BatchOptions(lanes: 1))
        for environment in [small, toy] {
            let error = #expect(throws: EnvironmentError.self) {
                _ = try ExpectimaxPolicy(
                    environment, depth: 2, extension: 3, tableBytes: 1 << 12, heuristic: .init(),
                    workers: Workers(threads: 1))
            }
            #expect(error?.field == "policy")
        }
        let board = try Self.make(lanes: 1)
        for (depth, tight, bytes, field) in [
            (0, 0, 1 << 12, "depth"), (9, 0, 1 << 12, "depth"), (1, 17, 1 << 12, "extension"),
            (1, 0, 100, "table_bytes"),
        ] {
            let error = #expect(throws: EnvironmentError.self) {
                _ = try ExpectimaxPolicy(
                    board, depth: depth, extension: tight, tableBytes: bytes, heuristic: .init(),
                    workers: Workers(threads: 1))
            }
            #expect(error?.field == field)
        }
    }
}
