internal import Platform
internal import TwofoldCore

/// A table's file in memory:
///
///     0         4096                          4096 + 64 · lines
///     ┌─────────┬─────────────────────────────┬────────────────────────────────────┐
///     │ header  │ lines of RankedBits         │ records: four Floats for each rank │
///     └─────────┴─────────────────────────────┴────────────────────────────────────┘
///
/// A table in use is a copy of its file, so changes to the file do not affect it.
///
/// `@unchecked Sendable` because a table in use is only read, and the workers that fill a new one write
/// disjoint records.
final class TableFile: @unchecked Sendable {
    var bytes: UnsafeMutableRawBufferPointer { memory.bytes }
    private let memory: OwnedMemory

    static let recordBytes = 16

    init(size: Int) throws(Reason) { memory = try OwnedMemory(byteCount: size) }
}

/// A solver's functions, which fill the memory of a new table and write its file.
extension OptimumTable {
    /// Makes a table with the records of all boards. Its header is still missing.
    convenience init(
        _ header: TableHeader, _ rules: OptimumRules, _ workers: Workers, _ playable: BitSet,
        boards: LayerLog, values: LayerLog
    ) throws {
        self.init(try TableFile(size: Self.size(header, rules)), header, rules)
        let (ranked, file, records) = (playable.ranked, file, recordBase)
        (file.bytes.baseAddress! + TableHeader.size)
            .copyMemory(from: playable.bytes.baseAddress!, byteCount: playable.bytes.count)
        for (layer, valued) in zip(boards.layers.reversed(), values.layers) {
            let (states, rows) = (try boards.rows(of: layer), try values.rows(of: valued))
            workers.run(lanes: states.boardCount, nanosecondsPerLane: 100) { range, _ in
                for index in range {
                    let rank = ranked.rank(rules.numbers.number(states.board(index)))
                    (file.bytes.baseAddress! + records + rank * TableFile.recordBytes).copyMemory(
                        from: rows.memory.baseAddress! + index * BackwardPass.rowBytes,
                        byteCount: TableFile.recordBytes)
                }
            }
        }
    }

    /// The largest value of any action.
    var largestValue: Double {
        var largest: Float = 0
        for rank in 0..<records { largest = max(largest, record(rank).max()) }
        return Double(largest)
    }

    /// Adds the header and writes the file, first to a path next to its final one, where there is always either no
    /// file or a complete one. Returns the finished table.
    func finish(
        _ header: TableHeader, at path: String, then final: String
    ) throws(SystemError) -> OptimumTable {
        file.bytes.copyBytes(from: header.bytes)
        unlink(path)
        try Descriptor.makeFile(at: path, mode: 0o644, UnsafeRawBufferPointer(file.bytes))
        try system(named: "rename") { rename(path, final) }
        return OptimumTable(file, header, rules)
    }
}
