internal import Platform

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
    /// The budget's reservation for the memory.
    private let reservation: any Sendable

    static let recordBytes = 16

    init(size: Int, reserve: TableDirectory.Reserve = { _ in () }) throws {
        reservation = try reserve(size)
        memory = try OwnedMemory(byteCount: size)
    }
}

/// A solver's functions, which fill the memory of a new table and write its file.
extension OptimumTable {
    /// Makes a table of these boards. Its header and its records are still missing.
    convenience init(_ header: TableHeader, _ rules: OptimumRules, _ playable: BitSet) throws {
        self.init(try TableFile(size: Self.size(header, rules)), header, rules)
        (file.bytes.baseAddress! + TableHeader.size)
            .copyMemory(from: playable.bytes.baseAddress!, byteCount: playable.bytes.count)
    }

    /// Writes the values of a canonical board's actions.
    @inline(__always)
    func setRecord(_ rank: Int, to actions: SIMD4<Float>) {
        file.bytes.storeBytes(
            of: actions, toByteOffset: recordBase &+ rank &* TableFile.recordBytes, as: SIMD4<Float>.self)
    }

    /// The largest value of any action.
    var largestValue: Double {
        var largest: Float = 0
        for rank in 0..<records { largest = max(largest, record(rank).max()) }
        return Double(largest)
    }

    /// Adds the header and writes the file, first to a path next to its final one, where there is always either no
    /// file or a complete one.
    func finish(_ header: TableHeader, at path: String, then final: String) throws(SystemError) {
        file.bytes.copyBytes(from: header.bytes)
        unlink(path)
        try Descriptor.makeFile(at: path, mode: 0o644, UnsafeRawBufferPointer(file.bytes))
        try system(named: "rename") { rename(path, final) }
    }
}
