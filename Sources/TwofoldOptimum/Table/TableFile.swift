internal import Platform
internal import TwofoldCore

/// A table's file in memory:
///
///     0         4096                          4096 + 64 · lines
///     ┌─────────┬─────────────────────────────┬────────────────────────────────────┐
///     │ header  │ lines of RankedBits         │ records: four Floats for each rank │
///     └─────────┴─────────────────────────────┴────────────────────────────────────┘
///
/// A table in use is a copy of its file, so changes to the file do not affect it. A solver maps the file that
/// it writes.
///
/// `@unchecked Sendable` because a table in use is only read, and the workers that fill a new one write
/// disjoint records.
final class TableFile: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer

    static let recordBytes = 16

    /// Allocates zeroed memory for a file's bytes. Throws if the system has too little.
    init(size: Int) throws(SystemError) { bytes = try Self.map(size, MAP_PRIVATE | MAP_ANONYMOUS, -1) }

    /// Extends a file with zeros and maps it for writing.
    init(making file: borrowing Descriptor, size: Int) throws(SystemError) {
        // Not ftruncate: if the disk filled up during a write to the mapping, a signal would end the process.
        let code = posix_fallocate(file.number, 0, size)
        guard code == 0 else { throw SystemError(code: code, name: "posix_fallocate") }
        bytes = try Self.map(size, MAP_SHARED, file.number)
    }

    private static func map(
        _ size: Int, _ flags: Int32, _ file: Int32
    ) throws(SystemError) -> UnsafeMutableRawBufferPointer {
        let address = mmap(nil, size, PROT_READ | PROT_WRITE, flags, file, 0)
        guard let address, address != MAP_FAILED else { throw SystemError(code: errno, name: "mmap") }
        return UnsafeMutableRawBufferPointer(start: address, count: size)
    }

    deinit { munmap(bytes.baseAddress, bytes.count) }
}

/// A table under construction.
struct TableWriter: ~Copyable {
    let table: OptimumTable
    private let file: TableFile
    private let descriptor: Descriptor
    private let rules: OptimumRules
    private let path: String
    private let playable: BitSet

    init(
        _ path: String, _ header: TableHeader, _ rules: OptimumRules, _ playable: BitSet
    ) throws(SystemError) {
        unlink(path)
        let made = try Descriptor(opening: path, O_RDWR | O_CREAT | O_EXCL, mode: 0o644)
        file = try TableFile(making: made, size: OptimumTable.size(header, rules))
        descriptor = made
        self.rules = rules
        self.path = path
        self.playable = playable
        table = OptimumTable(file, header, rules)
        (file.bytes.baseAddress! + TableHeader.size)
            .copyMemory(from: playable.bytes.baseAddress!, byteCount: playable.bytes.count)
    }

    /// Writes the records of all boards.
    func fill(_ workers: Workers, boards: LayerLog, values: LayerLog) throws(SystemError) {
        let (ranked, records) = (playable.ranked, table.recordBase)
        let (file, rules) = (file, rules)
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
        for rank in 0..<table.records { largest = max(largest, table.record(rank).max()) }
        return Double(largest)
    }

    /// Writes the header and moves the file to its final path, where there is always either no file or a
    /// complete one. Returns the finished table.
    func finish(_ header: TableHeader, at final: String) throws(SystemError) -> OptimumTable {
        file.bytes.copyBytes(from: header.bytes)
        try system(named: "msync") { [bytes = file.bytes] in msync(bytes.baseAddress, bytes.count, MS_SYNC) }
        try descriptor.flush()
        try system(named: "rename") { [path] in rename(path, final) }
        return OptimumTable(file, header, rules)
    }
}
