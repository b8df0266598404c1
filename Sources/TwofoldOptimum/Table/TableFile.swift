internal import Platform
internal import TwofoldCore

/// A table's file in memory:
///
///     0         4096                          4096 + 64 · lines
///     ┌─────────┬─────────────────────────────┬────────────────────────────────────┐
///     │ header  │ lines of RankedBits         │ records: four Floats for each rank │
///     └─────────┴─────────────────────────────┴────────────────────────────────────┘
///
/// This is the room for the mapping. `@unchecked Sendable` because a table that is used is only read, and workers that
/// fill one write disjoint records.
final class TableFile: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer
    private let descriptor: Descriptor

    static let recordBytes = 16

    /// Maps a whole file to read it.
    init(reading path: String) throws(SystemError) {
        descriptor = try Descriptor(opening: path, O_RDONLY)
        bytes = try Self.map(descriptor, try Self.size(descriptor), PROT_READ)
    }

    /// Makes a file of zeros and maps it to fill it.
    init(making path: String, size: Int) throws(SystemError) {
        unlink(path)
        descriptor = try Descriptor(opening: path, O_RDWR | O_CREAT | O_EXCL, mode: 0o644)
        // Not ftruncate: a disk that is full while the mapping is written would end the process.
        let code = posix_fallocate(descriptor.number, 0, size)
        guard code == 0 else { throw SystemError(code: code, name: "posix_fallocate") }
        bytes = try Self.map(descriptor, size, PROT_READ | PROT_WRITE)
    }

    private static func size(_ descriptor: borrowing Descriptor) throws(SystemError) -> Int {
        var status = stat()
        try system(named: "fstat") { fstat(descriptor.number, &status) }
        return Int(status.st_size)
    }

    private static func map(
        _ descriptor: borrowing Descriptor, _ size: Int, _ protection: Int32
    ) throws(SystemError) -> UnsafeMutableRawBufferPointer {
        // Nothing can be mapped of an empty file; its header is missing then.
        guard size > 0 else { return UnsafeMutableRawBufferPointer(start: nil, count: 0) }
        let address = mmap(nil, size, protection, MAP_SHARED, descriptor.number, 0)
        guard let address, address != MAP_FAILED else { throw SystemError(code: errno, name: "mmap") }
        return UnsafeMutableRawBufferPointer(start: address, count: size)
    }

    deinit {
        if let address = bytes.baseAddress { munmap(address, bytes.count) }
    }

    /// Returns once everything that was written is on the disk.
    func flush() throws(SystemError) {
        try system(named: "msync") { msync(bytes.baseAddress, bytes.count, MS_SYNC) }
        try descriptor.flush()
    }
}

/// A table in the making.
struct TableWriter {
    let file: TableFile
    let table: OptimumTable
    private let path: String
    private let playable: BitSet

    init(_ path: String, _ header: TableHeader, _ playable: BitSet) throws(SystemError) {
        let size = TableHeader.size + playable.bytes.count + header.records * TableFile.recordBytes
        file = try TableFile(making: path, size: size)
        self.path = path
        self.playable = playable
        table = OptimumTable(file, header)
        (file.bytes.baseAddress! + TableHeader.size)
            .copyMemory(from: playable.bytes.baseAddress!, byteCount: playable.bytes.count)
    }

    /// Writes the records of all boards.
    func fill(
        _ rules: OptimumRules, _ workers: Workers, boards: LayerLog, values: LayerLog
    ) throws(SystemError) {
        let layers = boards.layers.filter { $0.tileSum != 0 }.sorted { $0.tileSum > $1.tileSum }
        let (ranked, records) = (playable.ranked, table.recordBase)
        let file = file
        for (layer, valued) in zip(layers, values.layers) {
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

    /// The checksum of everything behind the header.
    var checksum: UInt64 { table.bodyChecksum }

    /// The largest value of any action.
    var largestValue: Double {
        var largest: Float = 0
        for rank in 0..<table.records { largest = max(largest, table.record(rank).max()) }
        return Double(largest)
    }

    /// Writes the header, and puts the file in its place; there is always either no file or a whole one.
    func finish(_ header: TableHeader, at final: String) throws(SystemError) {
        file.bytes.copyBytes(from: header.bytes)
        try file.flush()
        try system(named: "rename") { rename(path, final) }
    }
}
