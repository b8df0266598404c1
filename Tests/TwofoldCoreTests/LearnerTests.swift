import Testing

@testable import TwofoldCore

/// Tests the learner of n-tuple networks. A test in Python compares its updates with a readable learner's.
@Suite struct LearnerTests {
    /// A learner and its network's weights, each with its two sums of errors.
    private final class Student {
        let learner: NTupleLearner
        var weights: [Float]
        private(set) var counts = NTupleLearner.Counts()

        init(
            lanes: Int, rows: Int = 3, columns: Int = 3, tuples: [[Int]] = [[0, 1, 3, 4], [1, 4, 7]],
            seed: UInt64 = 1, goal: Int = 2048, workers: Workers = Workers(threads: 1),
            engine: Engine = .automatic
        ) throws {
            var config = Game2048.Config()
            (config.rows, config.columns, config.goal) = (rows, columns, goal)
            let batch = try Game2048(config).makeBatch(
                BatchOptions(lanes: lanes, workers: workers, engine: engine))
            learner = try NTupleLearner(
                batch, .init(tuples: tuples, exponents: 12, isSymmetric: true), rate: 1, maxBytes: 1 << 24)
            weights = Array(repeating: 0, count: 3 * learner.weightCount)
            try start(seed)
        }

        func start(_ seed: UInt64) throws {
            let seeds = (0..<UInt64(learner.lanes)).map { ($0 + seed).littleEndian }
            try seeds.withUnsafeBytes { try learner.start(seeds: $0) }
        }

        func run(_ steps: Int) throws {
            try weights.withUnsafeMutableBufferPointer {
                counts += try learner.run(steps: steps, .init($0.baseAddress!))
            }
        }

        var state: [UInt8] {
            get throws {
                var state = [UInt8](repeating: 0, count: learner.stateSize)
                try state.withUnsafeMutableBytes { try learner.save(into: $0) }
                return state
            }
        }
    }

    @Test func `a learner plays better and better`() throws {
        let student = try Student(lanes: 64)
        try student.run(300)
        let early = student.counts
        try student.run(3000)
        let late = student.counts
        let (before, after) = (
            Double(early.score) / Double(early.episodes),
            Double(late.score - early.score) / Double(late.episodes - early.episodes)
        )
        #expect(after > 1.5 * before)
    }

    @Test func `every step plays a move or starts a game`() throws {
        let student = try Student(lanes: 70)
        try student.run(500)
        let playing = student.counts.moves + student.counts.episodes
        // A game that has ended in the last step has not been followed by a start.
        #expect((500 * 70...500 * 70 + 70).contains(playing))
    }

    @Test(arguments: [(3, 3), (2, 5)])
    func `the weights are the same with every engine`(rows: Int, columns: Int) throws {
        let tuples = [[0, 1, 2, columns], [1, columns + 1]]
        let students = try Engine.allCases.map {
            try Student(lanes: 70, rows: rows, columns: columns, tuples: tuples, engine: $0)
        }
        for student in students { try student.run(400) }
        for student in students.dropFirst() {
            #expect(student.weights == students[0].weights)
        }
    }

    @Test func `the weights do not depend on the division of the steps among calls`() throws {
        let (whole, parts) = (try Student(lanes: 5), try Student(lanes: 5))
        try whole.run(200)
        for steps in [1, 0, 150, 49] { try parts.run(steps) }
        #expect(whole.weights == parts.weights)
        #expect(try whole.state == parts.state)
    }

    @Test func `other seeds give other weights`() throws {
        let (one, two) = (try Student(lanes: 5), try Student(lanes: 5, seed: 2))
        try one.run(50)
        try two.run(50)
        #expect(one.weights != two.weights)
    }

    @Test func `a restored learner continues as if nothing had happened`() throws {
        let (first, second) = (try Student(lanes: 70), try Student(lanes: 70, seed: 100))
        try first.run(300)
        second.weights = first.weights
        try first.state.withUnsafeBytes { try second.learner.restore($0) }
        try first.run(300)
        try second.run(300)
        #expect(first.weights == second.weights)
        #expect(try first.state == second.state)
    }

    @Test func `a learner that starts again knows nothing of its last games`() throws {
        let (fresh, used) = (try Student(lanes: 5), try Student(lanes: 5, seed: 100))
        try used.run(20)
        try used.start(1)
        used.weights = fresh.weights
        try fresh.run(20)
        try used.run(20)
        #expect(fresh.weights == used.weights)
    }

    @Test func `the games that reach the goal are counted`() throws {
        for (goal, isReached) in [(16, true), (2048, false)] {
            let student = try Student(lanes: 5, rows: 2, columns: 2, tuples: [[0, 1]], goal: goal)
            try student.run(500)
            let counts = student.counts
            #expect(counts.episodes > 0 && (isReached ? 1...counts.episodes : 0...0).contains(counts.goals))
        }
    }

    @Test(arguments: [3, 256])
    func `several threads play all steps`(lanes: Int) throws {
        let student = try Student(lanes: lanes, workers: Workers(threads: 4))
        try student.run(1000)
        let playing = student.counts.moves + student.counts.episodes
        #expect((1000 * lanes...1001 * lanes).contains(playing))
        #expect(student.weights.allSatisfy(\.isFinite) && student.weights.contains { $0 != 0 })
    }

    @Test func `a damaged state is refused, and changes nothing`() throws {
        let student = try Student(lanes: 2)
        try student.run(10)
        let state = try student.state
        var refused = 0
        for byte in state.indices {
            var damaged = state
            damaged[byte] ^= 0xff
            do {
                try damaged.withUnsafeBytes { try student.learner.restore($0) }
                try state.withUnsafeBytes { try student.learner.restore($0) }
            } catch {
                refused += 1
                #expect(try student.state == state)
            }
        }
        #expect(refused > 2 * 9)
    }

    @Test(arguments: [-Float.greatestFiniteMagnitude, .nan])
    func `a game continues even if no afterstate's value is finite`(weight: Float) throws {
        let student = try Student(lanes: 3)
        for index in stride(from: 0, to: student.weights.count, by: 3) { student.weights[index] = weight }
        try student.run(20)
        #expect(student.counts.moves >= 3 * 4)
        #expect(student.counts.moves + student.counts.episodes >= 3 * 19)
    }

    @Test func `an invalid argument is refused by its name`() throws {
        func refusal(rate: Float = 1, tuples: [[Int]] = [[0, 1]], limit: Int? = nil) -> String? {
            do throws(EnvironmentError) {
                let batch = try Game2048(.init()).makeBatch(BatchOptions(lanes: 1, maxEpisodeSteps: limit))
                _ = try NTupleLearner(
                    batch, .init(tuples: tuples, exponents: 16, isSymmetric: true), rate: rate,
                    maxBytes: 1 << 20)
                return nil
            } catch {
                return error.field
            }
        }
        #expect(refusal() == nil)
        for rate in [0, -1, 1.5, .nan, .infinity] as [Float] {
            #expect(refusal(rate: rate) == "learning_rate")
        }
        for tuples in [[], [[0, 0]], [[16]], [[0, 1, 2, 3, 4, 5]]] {
            #expect(refusal(tuples: tuples) == "tuples")
        }
        #expect(refusal(limit: 5) == "max_episode_steps")
    }
}
