internal import Platform

/// A file of consecutive layers, from which an interrupted solver resumes. A layer is either complete or absent.
///
///     magic, tile sum, rows, ended   32 bytes   ended: terminal boards of the layer
///     rows                           rows · rowBytes
///     checksum                       8 bytes   covers all bytes above
///
/// Only one caller at a time may use a log.
final class LayerLog {
    /// A layer in the file.
    struct Layer {
        let tileSum: Int
        let rows: Int
        let ended: Int
        fileprivate let offset: Int
    }

    private let file: Descriptor
    private let rowBytes: Int
    /// The maximum number of rows in a layer. It also limits a layer's terminal boards, which have no rows.
    private let limit: Int
    private(set) var layers: [Layer] = []
    private var end = 0

    private static let magic: UInt64 = 0x3152_4559_414c_4f54  // "TOLAYER1"
    private static let headWords = 4

    /// Opens or creates a file. Cuts off an incomplete layer and all later layers. No layer may have more than
    /// `limit` rows.
    init(_ path: String, rowBytes: Int, limit: Int) throws(SystemError) {
        file = try Descriptor(opening: path, O_RDWR | O_CREAT, mode: 0o644)
        self.rowBytes = rowBytes
        self.limit = limit
        let size = try file.regularFileSize
        while let layer = try next(size) {
            layers.append(layer)
            end = layer.offset + layer.rows * rowBytes + 8
        }
        try cut(to: layers.count)
    }

    /// Keeps the first `count` layers and removes the others.
    func cut(to count: Int) throws(SystemError) {
        if count < layers.count { end = layers[count].offset - Self.headWords * 8 }
        layers.removeSubrange(count...)
        try system(named: "ftruncate") { ftruncate(file.number, end) }
    }

    /// Checks the next layer in a file of `size` bytes and returns its head; nil if it is missing or damaged.
    private func next(_ size: Int) throws(SystemError) -> Layer? {
        let head = try LayerRows(bytes: Self.headWords * 8)
        guard try file.read(into: head.memory, at: end) == head.memory.count else { return nil }
        let words = head.memory.assumingMemoryBound(to: UInt64.self)
        guard words[0] == Self.magic, words[1] < 1 << 32, words[2] <= limit, words[3] <= limit else {
            return nil
        }
        let layer = Layer(
            tileSum: Int(words[1]), rows: Int(words[2]), ended: Int(words[3]),
            offset: end + Self.headWords * 8)
        guard layer.offset + layer.rows * rowBytes + 8 <= size else { return nil }
        let whole = try LayerRows(bytes: Self.headWords * 8 + layer.rows * rowBytes + 8)
        guard try file.read(into: whole.memory, at: end) == whole.memory.count else { return nil }
        let body = UnsafeRawBufferPointer(rebasing: whole.memory.dropLast(8))
        let checksum = whole.memory.load(fromByteOffset: body.count, as: UInt64.self)
        return WordChecksum.of(body) == checksum ? layer : nil
    }

    func append(tileSum: Int, ended: Int = 0, rows: LayerRows) throws(SystemError) {
        let rows = UnsafeRawBufferPointer(rows.memory)
        let count = rows.count / rowBytes
        let whole = try LayerRows(bytes: Self.headWords * 8 + rows.count + 8)
        let head = [Self.magic, UInt64(tileSum), UInt64(count), UInt64(ended)]
        whole.memory.copyBytes(from: head.withUnsafeBytes { Array($0) })
        UnsafeMutableRawBufferPointer(rebasing: whole.memory[(Self.headWords * 8)...]).copyMemory(from: rows)
        let body = UnsafeRawBufferPointer(rebasing: whole.memory.dropLast(8))
        whole.memory.storeBytes(of: WordChecksum.of(body), toByteOffset: body.count, as: UInt64.self)
        try file.write(UnsafeRawBufferPointer(whole.memory), at: end)
        layers.append(Layer(tileSum: tileSum, rows: count, ended: ended, offset: end + Self.headWords * 8))
        end += whole.memory.count
    }

    func rows(of layer: Layer) throws(SystemError) -> LayerRows {
        let rows = try LayerRows(bytes: layer.rows * rowBytes)
        guard try file.read(into: rows.memory, at: layer.offset) == rows.memory.count else {
            throw SystemError(code: EIO, name: "pread")
        }
        return rows
    }
}

/// The memory for the rows of one layer.
///
/// `@unchecked Sendable` because workers only read this unsafe memory, or write to disjoint rows.
final class LayerRows: @unchecked Sendable {
    var memory: UnsafeMutableRawBufferPointer { owned.bytes }
    private let owned: OwnedMemory

    init(bytes: Int) throws(SystemError) { owned = try OwnedMemory(bytes) }
}

extension OwnedMemory {
    /// Allocates memory for a solver. Throws ENOMEM if the process cannot get it.
    init(_ bytes: Int) throws(SystemError) {
        do throws(Reason) { self = try OwnedMemory(byteCount: bytes) } catch {
            throw SystemError(code: ENOMEM)
        }
    }
}
