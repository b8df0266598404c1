internal import Platform

/// A file of consecutive layers of boards, from which an interrupted solver resumes. A layer is either complete or
/// absent. The file consists of words of eight bytes:
///
///     magic, tile sum, count, ended   ended: terminal boards of the layer
///     boards                          `count` words
///     checksum                        covers all words above
///
/// Only one caller at a time may use a log.
final class LayerLog {
    /// A layer in the file.
    struct Layer {
        let tileSum: Int
        /// The number of boards.
        let count: Int
        let ended: Int
        /// The location of the boards in the file.
        fileprivate let offset: Int

        /// The end of the layer, after its checksum.
        fileprivate var end: Int { offset + 8 * (count + 1) }
    }

    private let file: Descriptor
    /// The maximum number of boards in a layer, and of terminal boards, which are not in the file.
    private let limit: Int
    private(set) var layers: [Layer] = []
    private var end: Int { layers.last?.end ?? 0 }

    private static let magic: UInt64 = 0x3152_4559_414c_4f54  // "TOLAYER1"
    private static let headWords = 4

    /// Opens or creates a file. Cuts off an incomplete layer and all later layers. No layer may have more than
    /// `limit` boards.
    init(_ path: String, limit: Int) throws {
        file = try Descriptor(opening: path, O_RDWR | O_CREAT, mode: 0o644)
        self.limit = limit
        let size = try file.regularFileSize
        while let layer = try next(size) { layers.append(layer) }
        try cut(to: layers.count)
    }

    /// Keeps the first `count` layers and removes the others.
    func cut(to count: Int) throws(SystemError) {
        layers.removeSubrange(count...)
        try system(named: "ftruncate") { ftruncate(file.number, end) }
    }

    /// Checks the next layer in a file of `size` bytes and returns its head; nil if it is missing or damaged.
    private func next(_ size: Int) throws -> Layer? {
        guard let head = try words(Self.headWords, at: end), head[0] == Self.magic, head[1] < 1 << 32,
            head[2] <= limit, head[3] <= limit
        else { return nil }
        let layer = Layer(
            tileSum: Int(head[1]), count: Int(head[2]), ended: Int(head[3]), offset: end + 8 * head.count)
        guard layer.end <= size, let whole = try words((layer.end - end) / 8, at: end) else { return nil }
        return Self.checksum(whole.dropLast()) == whole.last ? layer : nil
    }

    func append(tileSum: Int, ended: Int = 0, _ boards: [UInt64]) throws {
        let head = [Self.magic, UInt64(tileSum), UInt64(boards.count), UInt64(ended)]
        var words = head + boards
        words.append(Self.checksum(words[...]))
        try words.withUnsafeBytes { try file.write($0, at: end) }
        let offset = end + 8 * head.count
        layers.append(Layer(tileSum: tileSum, count: boards.count, ended: ended, offset: offset))
    }

    func boards(of layer: Layer) throws -> [UInt64] {
        guard let boards = try words(layer.count, at: layer.offset) else {
            throw SystemError(code: EIO, name: "pread")
        }
        return boards
    }

    /// Reads words from the file. Returns nil if the file has fewer.
    private func words(_ count: Int, at offset: Int) throws -> [UInt64]? {
        var words = [UInt64](repeating: 0, count: count)
        let read = try words.withUnsafeMutableBytes { try file.read(into: $0, at: offset) }
        return read == 8 * count ? words : nil
    }

    private static func checksum(_ words: ArraySlice<UInt64>) -> UInt64 {
        words.withUnsafeBytes { WordChecksum.of($0) }
    }
}
