internal import Platform

/// A file of layers, one behind the other, each whole or not there: what a solver that was stopped goes on from.
///
///     magic, tile sum, rows, ended   32 bytes   ended: terminal boards of the layer
///     rows                           rows · rowBytes
///     checksum                       8 bytes, of both
///
/// Belongs to one caller at a time.
final class LayerLog {
    /// A layer that the file holds.
    struct Layer {
        let tileSum: Int
        let rows: Int
        let ended: Int
        fileprivate let offset: Int
    }

    private let file: Descriptor
    private let rowBytes: Int
    private(set) var layers: [Layer] = []
    private var end = 0

    private static let magic: UInt64 = 0x3152_4559_414c_4f54  // "TOLAYER1"
    private static let headWords = 4

    /// Opens a file or makes it; a last layer that is not whole is cut off.
    init(_ path: String, rowBytes: Int) throws(SystemError) {
        file = try Descriptor(opening: path, O_RDWR | O_CREAT, mode: 0o644)
        self.rowBytes = rowBytes
        while let layer = try next() {
            layers.append(layer)
            end = layer.offset + layer.rows * rowBytes + 8
        }
        try system(named: "ftruncate") { ftruncate(file.number, end) }
    }

    /// The layer at the end that was read so far; nil if it is missing or damaged.
    private func next() throws(SystemError) -> Layer? {
        let head = LayerRows(bytes: Self.headWords * 8)
        guard try file.read(head.memory, at: end) else { return nil }
        let words = head.memory.assumingMemoryBound(to: UInt64.self)
        guard words[0] == Self.magic, words[2] < 1 << 32 else { return nil }
        let layer = Layer(
            tileSum: Int(words[1]), rows: Int(words[2]), ended: Int(words[3]),
            offset: end + Self.headWords * 8)
        let whole = LayerRows(bytes: Self.headWords * 8 + layer.rows * rowBytes + 8)
        guard try file.read(whole.memory, at: end) else { return nil }
        let body = UnsafeRawBufferPointer(rebasing: whole.memory.dropLast(8))
        let checksum = whole.memory.load(fromByteOffset: body.count, as: UInt64.self)
        return WordChecksum.of(body) == checksum ? layer : nil
    }

    /// Appends a layer.
    func append(tileSum: Int, ended: Int = 0, rows: LayerRows) throws(SystemError) {
        let rows = UnsafeRawBufferPointer(rows.memory)
        let count = rows.count / rowBytes
        let whole = LayerRows(bytes: Self.headWords * 8 + rows.count + 8)
        let head = [Self.magic, UInt64(tileSum), UInt64(count), UInt64(ended)]
        whole.memory.copyBytes(from: head.withUnsafeBytes { Array($0) })
        UnsafeMutableRawBufferPointer(rebasing: whole.memory[(Self.headWords * 8)...]).copyMemory(from: rows)
        let body = UnsafeRawBufferPointer(rebasing: whole.memory.dropLast(8))
        whole.memory.storeBytes(of: WordChecksum.of(body), toByteOffset: body.count, as: UInt64.self)
        try system(named: "lseek") { lseek(file.number, end, SEEK_SET) }
        try file.write(UnsafeRawBufferPointer(whole.memory))
        layers.append(Layer(tileSum: tileSum, rows: count, ended: ended, offset: end + Self.headWords * 8))
        end += whole.memory.count
    }

    /// The rows of a layer.
    func rows(of layer: Layer) throws(SystemError) -> LayerRows {
        let rows = LayerRows(bytes: layer.rows * rowBytes)
        guard try file.read(rows.memory, at: layer.offset) else {
            throw SystemError(code: EIO, name: "pread")
        }
        return rows
    }
}

/// Memory for the rows of one layer.
///
/// This is the room for it. `@unchecked Sendable` because workers read it, or write to disjoint rows.
final class LayerRows: @unchecked Sendable {
    let memory: UnsafeMutableRawBufferPointer

    init(bytes: Int) {
        memory = .allocate(byteCount: bytes, alignment: 64)
    }

    deinit { memory.deallocate() }
}

extension Descriptor {
    /// Fills memory from a place in the file; false where the file ends before.
    ///
    /// The corresponding C function is `pread`.
    fileprivate func read(_ memory: UnsafeMutableRawBufferPointer, at offset: Int) throws(SystemError) -> Bool
    {
        var done = 0
        while done < memory.count {
            let count = try system(named: "pread") {
                pread(number, memory.baseAddress! + done, memory.count - done, offset + done)
            }
            guard count > 0 else { return false }
            done += count
        }
        return true
    }
}
