internal import Platform
internal import TwofoldCore

/// The optimal values of all reachable boards of a problem, mapped from a file.
public final class OptimumTable: Sendable {
    /// What it is the optimum of.
    public let problem: OptimumProblem
    /// What is known about optimal play.
    public let results: OptimumResults
    /// Boards with values.
    let records: Int
    /// Where the records begin in the file.
    let recordBase: Int
    private let file: TableFile
    private let rules: OptimumRules
    private let ranked: RankedBits

    /// What is wrong with a file.
    struct Damage: Error {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// The table in a file whose size fits the header.
    init(_ file: TableFile, _ header: TableHeader) {
        problem = header.problem
        results = header.results
        records = header.records
        rules = OptimumRules(header.problem)
        self.file = file
        let lines = file.bytes.baseAddress! + TableHeader.size
        ranked = RankedBits(lines: UnsafePointer(lines.assumingMemoryBound(to: UInt64.self)))
        recordBase =
            TableHeader.size + RankedBits.lineCount(rules.numbers.count) * RankedBits.wordsPerLine * 8
    }

    /// Maps the file of a problem and checks all of it, which reads it once.
    convenience init(_ path: String, _ problem: OptimumProblem) throws(OptimumFailure) {
        let file: TableFile
        do throws(SystemError) { file = try TableFile(reading: path) } catch {
            guard error.code == ENOENT else { throw OptimumFailure("can't read '\(path)': \(error)") }
            throw OptimumFailure(
                "there is no table of this optimum, '\(path)': `\(problem.command)` makes it")
        }
        do throws(Damage) {
            let header = try TableHeader(UnsafeRawBufferPointer(file.bytes))
            guard header.problem == problem else { throw .init("it is the table of \(header.problem.name)") }
            let rules = BoardNumbers(
                PackedBoards(rows: problem.rows, columns: problem.columns), limit: problem.largestExponent)
            let size =
                TableHeader.size + RankedBits.lineCount(rules.count) * RankedBits.wordsPerLine * 8
                + header.records * TableFile.recordBytes
            guard file.bytes.count == size else {
                throw .init("it has \(file.bytes.count) bytes; expected \(size)")
            }
            self.init(file, header)
            guard bodyChecksum == header.checksum else { throw .init("its checksum is wrong") }
        } catch {
            throw OptimumFailure(
                "'\(path)' can't be used: \(error.description); remove it, and `\(problem.command)` makes it again"
            )
        }
    }

    /// Bytes of the file.
    public var bytes: Int { file.bytes.count }

    /// The checksum of everything behind the header.
    var bodyChecksum: UInt64 {
        WordChecksum.of(UnsafeRawBufferPointer(rebasing: file.bytes[TableHeader.size...]))
    }

    /// The rank of a canonical board by its number; -1 where it has no record.
    @inline(__always)
    func rank(_ number: Int) -> Int { ranked.rank(number) }

    /// The values of a canonical board's actions, -infinity for illegal ones.
    @inline(__always)
    func record(_ rank: Int) -> SIMD4<Float> {
        file.bytes.load(fromByteOffset: recordBase &+ rank &* TableFile.recordBytes, as: SIMD4<Float>.self)
    }

    // MARK: look-ups

    /// The boards of one call of ``values(of:masks:count:into:)``.
    static let block = 64

    /// The values of the actions on some boards, at most ``block``: four Floats each.
    ///
    /// - Parameters:
    ///   - boards: Exponents, row by row, one board after the other.
    ///   - masks: Four bytes for each board, 0 for an action that is illegal: its value is -infinity.
    ///   - values: The values; NaN for the legal actions of a board that no game reaches.
    ///
    /// First all numbers, then all ranks, then all records: so the cache misses of different boards overlap.
    @inline(__always)
    func values(
        of boards: UnsafePointer<UInt8>, masks: UnsafePointer<UInt8>, count: Int,
        into values: UnsafeMutablePointer<Float>
    ) {
        let (packed, numbers, ranked, cells) = (rules.boards, rules.numbers, ranked, problem.cells)
        let records = UnsafeRawPointer(file.bytes.baseAddress! + recordBase)
        withUnsafeTemporaryAllocation(of: (number: Int, image: Int).self, capacity: Self.block) { places in
            let places = places.baseAddress!
            for index in 0..<count {
                let (board, largest) = packed.pack(boards + index &* cells)
                let canonical = packed.canonicalWithImage(board)
                let isInside = Int(largest) <= numbers.limit
                let number = isInside ? numbers.number(canonical &>> 3) : 0
                let image = Int(truncatingIfNeeded: canonical & 7)
                places[index] = (number, isInside ? image : isEnd(largest) ? Self.ended : Self.unknown)
            }
            for index in 0..<count where places[index].image < Self.ended {
                let rank = ranked.rank(places[index].number)
                places[index] = (rank, rank >= 0 ? places[index].image : Self.unknown)
            }
            for index in 0..<count {
                let (rank, image) = places[index]
                let (mask, row) = (masks + 4 &* index, values + 4 &* index)
                if image < Self.ended {
                    let record = records + rank &* TableFile.recordBytes
                    let actions = packed.actions(ofImage: image)
                    for action in 0..<4 {
                        let value = record.load(fromByteOffset: 4 &* Int(actions[action]), as: Float.self)
                        row[action] = mask[action] != 0 ? value : -.infinity
                    }
                } else {
                    let value: Float = image == Self.ended ? 0 : .nan
                    for action in 0..<4 { row[action] = mask[action] != 0 ? value : -.infinity }
                }
            }
        }
    }

    /// Stand for an image: a board that holds the goal already, and one that no game reaches.
    private static let ended = 8
    private static let unknown = 9

    private func isEnd(_ exponent: UInt8) -> Bool {
        problem.endExponent != 0 && exponent >= problem.endExponent
    }
}

extension OptimumProblem {
    /// The command that makes its table.
    var command: String {
        var words = ["twofold solve --size \(rows)x\(columns)"]
        if objective != .score { words.append("--objective \(objective.rawValue)") }
        if endExponent != 0 { words.append("--goal \(1 << endExponent)") }
        if endExponent != 0, objective != .goal { words.append("--stop-at-goal") }
        if fourProbability != 0.1 { words.append("--four-probability \(fourProbability)") }
        if startTiles != 2 { words.append("--start-tiles \(startTiles)") }
        return words.joined(separator: " ")
    }
}
