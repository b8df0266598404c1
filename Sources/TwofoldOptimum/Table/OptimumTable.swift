/// The optimal values of all reachable boards of a problem.
public final class OptimumTable: Sendable {
    public let problem: OptimumProblem
    public let results: OptimumResults
    /// The number of boards with values.
    let records: Int
    /// The offset of the records in the file.
    let recordBase: Int
    let file: TableFile
    let rules: OptimumRules
    private let ranked: RankedBits

    /// Makes a table from its file in memory. The file must have the size that ``size(_:_:)`` returns.
    init(_ file: TableFile, _ header: TableHeader, _ rules: OptimumRules) {
        problem = header.problem
        results = header.results
        records = header.records
        self.rules = rules
        self.file = file
        let lines = file.bytes.baseAddress! + TableHeader.size
        ranked = RankedBits(lines: UnsafePointer(lines.assumingMemoryBound(to: UInt64.self)))
        recordBase = Self.recordBase(rules)
    }

    private static func recordBase(_ rules: OptimumRules) -> Int {
        TableHeader.size + RankedBits.lineCount(rules.numbers.count) * RankedBits.wordsPerLine * 8
    }

    /// Returns the size in bytes of a file with this header.
    static func size(_ header: TableHeader, _ rules: OptimumRules) -> Int {
        recordBase(rules) + header.records * TableFile.recordBytes
    }

    /// Reads a problem's file into memory and checks all of it, so that no look-up can read out of bounds.
    convenience init(
        reading source: borrowing TableSource, _ reserve: TableDirectory.Reserve
    ) throws(OptimumFailure) {
        let header = try source.header()
        let rules = OptimumRules(header.problem)
        let size = Self.size(header, rules)
        guard source.size == size else {
            throw source.damaged("it has \(source.size) bytes; expected \(size)")
        }
        self.init(try source.content(reserve), header, rules)
        guard bodyChecksum == header.checksum else { throw source.damaged("its checksum is wrong") }
        guard ranked.checkedCount(lines: RankedBits.lineCount(rules.numbers.count)) == records else {
            throw source.damaged("its board count is wrong")
        }
    }

    /// The size of the file in bytes.
    public var bytes: Int { file.bytes.count }

    /// The checksum of all bytes after the header.
    var bodyChecksum: UInt64 {
        WordChecksum.of(UnsafeRawBufferPointer(rebasing: file.bytes[TableHeader.size...]))
    }

    /// Returns the rank of the canonical board with this number; -1 if the board has no record.
    @inline(__always)
    func rank(_ number: Int) -> Int { ranked.rank(number) }

    /// Returns the values of a canonical board's actions; -infinity for illegal actions.
    @inline(__always)
    func record(_ rank: Int) -> SIMD4<Float> {
        file.bytes.load(fromByteOffset: recordBase &+ rank &* TableFile.recordBytes, as: SIMD4<Float>.self)
    }

    // MARK: look-ups

    /// The maximum number of boards per call to ``values(of:masks:count:into:)``.
    static let block = 64

    /// Writes the action values of at most ``block`` boards: four Floats each.
    ///
    /// - Parameters:
    ///   - boards: The exponents of the boards, board by board and row by row.
    ///   - masks: Four bytes for each board; 0 marks an illegal action, whose value is then -infinity.
    ///   - values: The values; NaN for the legal actions of a board that no game reaches.
    ///
    /// The function first computes all canonical numbers, then all ranks, and then reads all records. The cache misses
    /// of different boards therefore overlap.
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

    /// The markers stored instead of an image's number: ``ended`` for a board that already holds the goal,
    /// ``unknown`` for a board that no game reaches.
    private static let ended = 8
    private static let unknown = 9

    private func isEnd(_ exponent: UInt8) -> Bool {
        problem.endExponent != 0 && exponent >= problem.endExponent
    }
}

extension OptimumProblem {
    /// Returns the command that makes the problem's table at a path.
    func command(making path: String) -> String {
        var words = ["twofold solve --size \(rows)x\(columns)"]
        if objective != .score { words.append("--objective \(objective.rawValue)") }
        if endExponent != 0 { words.append("--goal \(1 << endExponent)") }
        if endExponent != 0, objective != .goal { words.append("--stop-at-goal") }
        if fourProbability != 0.1 { words.append("--four-probability \(fourProbability)") }
        if startTiles != 2 { words.append("--start-tiles \(startTiles)") }
        let directory = path.dropLast("/\(name).table".count)
        if directory != TableDirectory.standard { words.append("--tables '\(directory)'") }
        return words.joined(separator: " ")
    }
}
