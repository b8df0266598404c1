import FoundationEssentials
import Glibc
import Testing

@testable import TwofoldCore

/// The factor for the number of random boards: 1 in `make test`, higher in `make test-long`.
let testScale = ProcessInfo.processInfo.environment["TWOFOLD_TEST_SCALE"].flatMap { Int($0) } ?? 1

/// Arrays in a test's memory, at odd addresses, where no carrier would place them. A gap follows each array. The memory
/// is filled with one byte, so that no earlier result survives, and the gaps must keep it.
///
///     fill | observation | fill … | action_mask | fill … | …
///     1 B                  gap B                  gap B
final class GuardedArrays {
    let specs: [ArraySpec]
    /// The number of rows in each array.
    let rows: Int
    private let memory: UnsafeMutableRawBufferPointer
    private let fill: UInt8
    private var offsets: [Int] = []

    private static let gap = 5

    init(_ specs: [ArraySpec], rows: Int, fill: UInt8 = 0xa5) {
        (self.specs, self.rows, self.fill) = (specs, rows, fill)
        var end = 1
        for spec in specs {
            offsets.append(end)
            end += spec.bytesPerLane * rows + Self.gap
        }
        memory = .allocate(byteCount: end, alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: fill)
    }

    deinit { memory.deallocate() }

    var arrays: BatchArrays { BatchArrays(specs) { memory.baseAddress! + offsets[$0] } }

    /// All bytes of the memory.
    var bytes: [UInt8] { Array(memory) }

    /// Records an issue for each write before, between and after the arrays.
    func checkGaps() {
        if memory[0] != fill { Issue.record("a write before the first array") }
        for (spec, offset) in zip(specs, offsets) {
            let end = offset + spec.bytesPerLane * rows
            if memory[end..<end + Self.gap].contains(where: { $0 != fill }) {
                Issue.record("a write after the array \(spec.name)")
            }
        }
    }

    // MARK: one array

    private func index(_ name: String) -> Int { specs.firstIndex { $0.name == name }! }

    private func range(_ name: String, _ row: Int? = nil) -> Range<Int> {
        let index = index(name)
        let size = specs[index].bytesPerLane
        let first = offsets[index] + (row ?? 0) * size
        return first..<first + (row == nil ? rows : 1) * size
    }

    func spec(_ name: String) -> ArraySpec { specs[index(name)] }

    func address(_ name: String) -> UnsafeMutableRawPointer { memory.baseAddress! + offsets[index(name)] }

    /// All bytes of an array.
    subscript(name: String) -> [UInt8] {
        get { Array(memory[range(name)]) }
        set { write(newValue, range(name)) }
    }

    /// Returns the bytes of one row of an array.
    func row(_ name: String, _ row: Int) -> [UInt8] { Array(memory[range(name, row)]) }

    func setRow(_ name: String, _ row: Int, _ bytes: [UInt8]) { write(bytes, range(name, row)) }

    private func write(_ bytes: [UInt8], _ range: Range<Int>) {
        precondition(bytes.count == range.count)
        UnsafeMutableRawBufferPointer(rebasing: memory[range]).copyBytes(from: bytes)
    }

    /// Returns the first rows of all arrays, keyed by array name; without `count`, all rows.
    func contents(first count: Int? = nil) -> [String: [UInt8]] {
        let pairs = zip(specs, offsets).map { spec, offset in
            (spec.name, Array(memory[offset..<offset + spec.bytesPerLane * (count ?? rows)]))
        }
        return Dictionary(uniqueKeysWithValues: pairs)
    }
}

/// A vector environment with memory for its replies. In tests, it plays the role of the carrier.
final class TestBatch {
    /// The final arrays of some lanes, which can be compared as a whole.
    struct Finals: Equatable {
        fileprivate(set) var lanes: [Int] = []
        /// The arrays with a row for each of the lanes, keyed by array name.
        fileprivate var arrays: [String: [UInt8]] = [:]

        /// One lane's arrays, keyed by array name; nil if its episode has not ended.
        subscript(lane: Int) -> [String: [UInt8]]? {
            guard let row = lanes.firstIndex(of: lane) else { return nil }
            return arrays.mapValues { bytes in
                let size = bytes.count / lanes.count
                return Array(bytes[row * size..<(row + 1) * size])
            }
        }
    }

    let environment: Batch
    private var fill: UInt8 = 0xa5
    private var last: GuardedArrays
    /// The final arrays of the episodes that ended in the last step; SAME_STEP only.
    private(set) var finals = Finals()

    init(_ environment: Batch) {
        self.environment = environment
        last = GuardedArrays([], rows: environment.lanes)
    }

    /// Creates a batch of boards for the game 2048.
    convenience init(
        _ config: Game2048.Config = Game2048.Config(), lanes: Int = 1, autoreset: AutoresetMode = .nextStep,
        maxEpisodeSteps: Int? = nil, workers: Workers = Workers(threads: 1), reward: RewardSpec? = nil,
        extraInfos: [String] = []
    ) throws {
        var options = BatchOptions(
            lanes: lanes, autoreset: autoreset, maxEpisodeSteps: maxEpisodeSteps, workers: workers,
            engine: EveryEngine.current)
        options.reward = reward
        options.extraInfos = extraInfos
        self.init(try Game2048(config).makeBatch(options))
    }

    var lanes: Int { environment.lanes }

    // MARK: calls

    /// Seeds lane i with `seed + i` and starts all lanes.
    func reset(seed: UInt64) throws {
        try reset(seeds: (0..<lanes).map { seed &+ UInt64($0) })
    }

    func reset(seeds: [UInt64]? = nil, mask: [UInt8]? = nil, boards: [[UInt8]]? = nil) throws {
        try withBytes(seeds.map { littleEndian($0) }) { seeds in
            try withBytes(mask) { mask in
                try withBytes(boards.map { Array($0.joined()) }) { boards in
                    let input = ResetInput(seeds: seeds, mask: mask, boards: boards)
                    try call(environment.resetArrays) { try environment.reset(input, into: $0) }
                }
            }
        }
    }

    func step(_ actions: [UInt8]) throws {
        try withBytes(actions) { actions in
            try call(environment.stepArrays) {
                try environment.step(actions: actions!, into: $0)
                if environment.autoreset == .sameStep { restartEndedLanes(in: $0) }
            }
        }
    }

    /// Restarts ended lanes like a carrier with SAME_STEP. The final arrays have the same layout as the other arrays.
    private func restartEndedLanes(in arrays: BatchArrays) {
        let keys = environment.keys
        let ended = (0..<lanes).filter { lane in
            [keys.terminated, keys.truncated].contains { arrays.address($0, lane: lane).load(as: Bool.self) }
        }
        if ended.isEmpty { return }
        let rows = GuardedArrays(environment.finalArrays, rows: ended.count, fill: fill)
        let count = environment.restartEnded(in: arrays, keeping: rows.arrays)
        if count != ended.count { Issue.record("\(count) lanes were restarted instead of \(ended.count)") }
        rows.checkGaps()
        finals.lanes = ended
        finals.arrays = rows.contents()
        let named = finals.arrays.removeValue(forKey: "lanes")!
        let expected = littleEndian(ended)
        if named != expected { Issue.record("the finals name the lanes \(named) instead of \(expected)") }
    }

    func observe() throws {
        try call(environment.resetArrays) { try environment.observe(into: $0) }
    }

    func afterstates() throws {
        try call(environment.afterstateArrays) { try environment.afterstates(into: $0) }
    }

    func call(_ specs: [ArraySpec], _ body: (BatchArrays) throws -> Void) throws {
        fill = ~fill
        (last, finals) = (GuardedArrays(specs, rows: lanes, fill: fill), Finals())
        try body(last.arrays)
        last.checkGaps()
    }

    // MARK: the last reply

    /// The names of the last reply's arrays.
    var names: Set<String> { Set(last.specs.map(\.name)) }

    /// Returns one lane's bytes in one array.
    func bytes(_ name: String, lane: Int) -> [UInt8] { last.row(name, lane) }

    /// Returns all bytes of one array.
    func bytes(_ name: String) -> [UInt8] { last[name] }

    /// All bytes of the last reply, keyed by array name.
    var reply: [String: [UInt8]] { last.contents() }

    /// Returns true if another batch's last reply has the same arrays, in the same order and with the same bytes.
    func hasReply(of other: TestBatch) -> Bool {
        lanes == other.lanes && last.specs == other.last.specs
            && last.specs.allSatisfy { spec in
                let (left, right) = (last.address(spec.name), other.last.address(spec.name))
                return memcmp(left, right, spec.bytesPerLane * lanes) == 0
            }
    }

    /// Loads one element of one array.
    private func load<Value: BitwiseCopyable>(
        _ name: String, _ dtypes: [DataType], lane: Int, at element: Int
    )
        -> Value
    {
        let spec = last.spec(name)
        precondition(dtypes.contains(spec.dtype), "\(name) does not consist of \(Value.self)")
        return last.address(name).loadUnaligned(
            fromByteOffset: lane * spec.bytesPerLane + element * spec.dtype.size, as: Value.self)
    }

    func integer(_ name: String, lane: Int = 0) -> Int {
        Int(load(name, [.int32], lane: lane, at: 0) as Int32)
    }

    func byte(_ name: String, lane: Int = 0) -> Int {
        Int(load(name, [.uint8, .int8], lane: lane, at: 0) as UInt8)
    }

    func float(_ name: String, lane: Int = 0, at element: Int = 0) -> Float {
        load(name, [.float32], lane: lane, at: element)
    }

    func double(_ name: String, lane: Int = 0) -> Double { load(name, [.float64], lane: lane, at: 0) }

    /// Returns a flag. Records an issue if its byte is neither 0 nor 1.
    func flag(_ name: String, lane: Int = 0) -> Bool {
        let byte: UInt8 = load(name, [.bool], lane: lane, at: 0)
        if byte > 1 { Issue.record("\(name) is \(byte), neither 0 nor 1") }
        return byte == 1
    }

    func observation(lane: Int = 0) -> [UInt8] { bytes("observation", lane: lane) }
    func mask(lane: Int = 0) -> [UInt8] { bytes("action_mask", lane: lane) }
    func reward(lane: Int = 0) -> Float { float("reward", lane: lane) }
    func isTerminated(lane: Int = 0) -> Bool { flag("terminated", lane: lane) }
    func isTruncated(lane: Int = 0) -> Bool { flag("truncated", lane: lane) }

    /// The lanes whose episodes the last step ended.
    var endedLanes: [Int] { (0..<lanes).filter { isTerminated(lane: $0) || isTruncated(lane: $0) } }
}

/// Returns actions that vary from lane to lane and from step to step.
func actions(_ step: Int, lanes: Int) -> [UInt8] {
    (0..<lanes).map { UInt8(truncatingIfNeeded: ($0 * 7 + step * step + step / 3) % 4) }
}

/// Returns the little-endian bytes of numbers.
func littleEndian(_ numbers: [some FixedWidthInteger]) -> [UInt8] {
    numbers.flatMap { number in withUnsafeBytes(of: number.littleEndian) { Array($0) } }
}

extension Generator {
    /// The words of the state as an array.
    var wordArray: [UInt32] { [words.0, words.1, words.2, words.3] }
}

func withBytes<Result>(_ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) throws -> Result) rethrows
    -> Result
{
    guard let bytes else { return try body(nil) }
    return try bytes.withUnsafeBytes { try body($0) }
}

// MARK: engines

/// A trait that runs a test or a suite once for every engine, because all engines must behave identically.
struct EveryEngine: SuiteTrait, TestTrait, TestScoping {
    /// The engine of the environments that `TestBatch` creates.
    @TaskLocal static var current = Engine.automatic

    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        for engine in [Engine.reference, .baseline, .avx2] {
            try await EveryEngine.$current.withValue(engine, operation: function)
        }
    }
}

extension Trait where Self == EveryEngine {
    /// Runs the tests with each engine in turn.
    static var everyEngine: Self { EveryEngine() }
}

// MARK: boards

extension Game2048.Config {
    /// Creates the default arguments with the given changes.
    init(
        rows: Int = 4, columns: Int = 4, goal: Int = 2048, stopAtGoal: Bool = false,
        fourProbability: Double = 0.1, startTiles: Int = 2, illegalAction: Game2048.IllegalAction = .noop
    ) {
        self.init()
        self.rows = rows
        self.columns = columns
        self.goal = goal
        self.stopAtGoal = stopAtGoal
        self.fourProbability = fourProbability
        self.startTiles = startTiles
        self.illegalAction = illegalAction
    }
}

extension Board {
    /// Creates a board from its rows of tile values, for example `[[2, 0], [4, 2]]`.
    init(_ values: [[Int]]) {
        self.init(rows: values.count, columns: values[0].count, exponents: exponentList(values))
    }
}

/// Returns the exponents of a board of tile values, row by row.
func exponentList(_ values: [[Int]]) -> [UInt8] {
    values.joined().map { $0 == 0 ? 0 : UInt8($0.trailingZeroBitCount) }
}

/// All sizes that a board can have.
let allSizes: [(rows: Int, columns: Int)] = Board.sides.flatMap { rows in
    Board.sides.map { (rows, $0) }
}

/// Returns a board with few different tiles, so that many tiles merge. Either about a third of the cells are empty, or
/// none.
func randomExponents(_ count: Int, generator: inout Generator) -> [UInt8] {
    let kinds = 2 + generator.next(below: 4)
    let isFull = generator.next(below: 5) == 0
    return (0..<count).map { _ in
        if !isFull, generator.next(below: 3) == 0 { return 0 }
        return UInt8(1 + generator.next(below: kinds))
    }
}

/// Returns a board without legal actions: it has no empty cell and no equal neighbours.
func stuckExponents(rows: Int, columns: Int) -> [UInt8] {
    (0..<rows * columns).map { cell in
        let (row, column) = cell.quotientAndRemainder(dividingBy: columns)
        return UInt8(1 + (row + 2 * column) % 5)
    }
}

// MARK: statistics

/// A measured mean that can be compared with an expected one. It is near the expected mean if it differs by at most 4.5
/// standard errors. By chance alone, one mean in 150,000 is not near.
struct Mean: CustomStringConvertible {
    private var count = 0.0
    private var sum = 0.0
    private var squares = 0.0

    mutating func add(_ value: Double) {
        count += 1
        sum += value
        squares += value * value
    }

    var value: Double { sum / count }
    var standardError: Double { ((squares / count - value * value) / (count - 1)).squareRoot() }

    /// Returns the distance of the mean in standard errors; `error` is the standard error of the expected
    /// value.
    func distance(from expected: Double, error: Double = 0) -> Double {
        (value - expected) / (standardError * standardError + error * error).squareRoot()
    }

    func isNear(_ expected: Double, error: Double = 0) -> Bool {
        abs(distance(from: expected, error: error)) < 4.5
    }

    var description: String { "\(value) ± \(standardError)" }
}

/// Returns the chi-square statistic of counts with given probabilities, transformed to a standard normal variable
/// (Wilson and Hilferty).
func chiSquare(_ counts: [Int], _ probabilities: [Double]) -> Double {
    let total = Double(counts.reduce(0, +))
    let freedom = Double(counts.count - 1)
    let sum = zip(counts, probabilities).reduce(0) { sum, pair in
        let expected = pair.1 * total
        precondition(expected >= 5, "chi-square needs at least 5 expected outcomes")
        return sum + (Double(pair.0) - expected) * (Double(pair.0) - expected) / expected
    }
    return (Cube.root(sum / freedom) - (1 - 2 / (9 * freedom))) / (2 / (9 * freedom)).squareRoot()
}

private enum Cube {
    /// Returns the cube root. Uses bisection, because Swift's standard library has no cube root.
    static func root(_ value: Double) -> Double {
        var (low, high) = (0.0, max(1, value))
        for _ in 0..<100 {
            let middle = (low + high) / 2
            if middle * middle * middle < value { low = middle } else { high = middle }
        }
        return high
    }
}
