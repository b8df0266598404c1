internal import Platform

/// The first 4,096 bytes of a table's file: its problem and the key statistics of optimal play. The header consists of
/// little-endian words of eight bytes:
///
///     0   magic "TWOFOLD\n"       7   four_probability       14   moves
///     1   version, 1              8   states                 15   unused
///     2   rows                    9   terminal               16 … 31   highest tiles
///     3   columns                10   records                32   checksum of everything after the header
///     4   start_tiles            11   start value            33   checksum of words 0 … 32
///     5   objective              12   error bound             …   zeros
///     6   end exponent           13   score
///
/// Objectives: 0 score, 1 moves, 2 goal.
struct TableHeader {
    static let size = 4096

    let problem: OptimumProblem
    /// The number of boards with values.
    var records = 0
    var results = OptimumResults()
    /// The checksum of all bytes after the header.
    var checksum: UInt64 = 0

    private static let magic: UInt64 = 0x0a44_4c4f_464f_5754
    private static let version: UInt64 = 1
    private static let words = 33
    private static let objectives: [OptimumProblem.Objective] = [.score, .moves, .goal]
    /// The words that describe the problem.
    private static let ofProblem = 2...7

    init(_ problem: OptimumProblem) { self.problem = problem }

    /// The header as the first bytes of a file.
    var bytes: [UInt8] {
        var words = [UInt64](repeating: 0, count: Self.size / 8)
        words[0] = Self.magic
        words[1] = Self.version
        words.replaceSubrange(Self.ofProblem, with: Self.words(of: problem))
        words[8] = UInt64(results.states)
        words[9] = UInt64(results.terminal)
        words[10] = UInt64(records)
        let values = [results.value, results.errorBound, results.score, results.moves]
        for (index, value) in values.enumerated() { words[11 + index] = value.bitPattern }
        for (exponent, share) in results.highestTiles.enumerated() { words[16 + exponent] = share.bitPattern }
        words[32] = checksum
        words[33] = words[..<Self.words].withUnsafeBytes { WordChecksum.of($0) }
        return words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }
    }

    private static func words(of problem: OptimumProblem) -> [UInt64] {
        let numbers = [
            problem.rows, problem.columns, problem.startTiles, objectives.firstIndex(of: problem.objective)!,
            problem.endExponent,
        ]
        return numbers.map(UInt64.init) + [problem.fourProbability.bitPattern]
    }

    /// Reads the first bytes of a problem's file. Throws if they are invalid or belong to another problem.
    init(_ bytes: UnsafeRawBufferPointer, of problem: OptimumProblem) throws(Reason) {
        guard bytes.count >= Self.size else {
            throw .init("it has \(bytes.count) bytes; its header alone takes \(Self.size)")
        }
        let words = (0..<Self.words + 1).map {
            UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8 * $0, as: UInt64.self))
        }
        guard words[0] == Self.magic else { throw .init("it is not a table made by Twofold") }
        guard words[1] == Self.version else {
            throw .init("its format version is \(words[1]); expected \(Self.version)")
        }
        guard words[..<Self.words].withUnsafeBytes({ WordChecksum.of($0) }) == words[33] else {
            throw .init("its header's checksum is wrong")
        }
        guard Array(words[Self.ofProblem]) == Self.words(of: problem) else {
            throw .init("it is the table of another problem")
        }
        guard words[8...10].allSatisfy({ $0 < 1 << 32 }) else { throw .init("its counts are impossible") }
        self.problem = problem
        records = Int(words[10])
        checksum = words[32]
        results.states = Int(words[8])
        results.terminal = Int(words[9])
        let values = words[11...14].map { Double(bitPattern: $0) }
        (results.value, results.errorBound) = (values[0], values[1])
        (results.score, results.moves) = (values[2], values[3])
        results.highestTiles = words[16...31].map { Double(bitPattern: $0) }
    }
}

/// The key statistics of optimal play.
public struct OptimumResults: Sendable {
    /// The number of reachable boards up to symmetry.
    public internal(set) var states = 0
    /// The number of reachable boards without a legal action.
    public internal(set) var terminal = 0
    /// The objective's expected value at the start of a game.
    public internal(set) var value = 0.0
    /// The maximum error of a value in the table.
    public internal(set) var errorBound = 0.0
    /// The expected score under optimal play.
    public internal(set) var score = 0.0
    /// The expected number of moves under optimal play.
    public internal(set) var moves = 0.0
    /// For each exponent, the probability that its tile is the highest when an optimally played game ends.
    public internal(set) var highestTiles = [Double](repeating: 0, count: 16)

    /// Returns the probability that the highest tile has at least this exponent.
    public func reaching(exponent: Int) -> Double { min(1, highestTiles[exponent...].reduce(0, +)) }
}
