/// A checksum that is computed as fast as memory is read. It keeps four sums over a file's 64-bit words, each sum =
/// (sum ^ word) · 0x9e3779b97f4a7c15, rotated by 29 bits. Word i belongs to sum i mod 4. A final, fifth sum of the same
/// form runs over the number of bytes and then the four sums.
///
/// It detects corruption, not tampering.
enum WordChecksum {
    private static let factor: UInt64 = 0x9e37_79b9_7f4a_7c15

    @inline(__always)
    private static func add(_ word: UInt64, to sum: inout UInt64) {
        let product = (sum ^ word) &* factor
        sum = product &<< 29 | product &>> 35
    }

    /// Returns the checksum of some bytes, whose number is a multiple of 8.
    static func of(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        precondition(bytes.count % 8 == 0)
        var (a, b, c, d): (UInt64, UInt64, UInt64, UInt64) = (1, 2, 3, 4)
        var index = 0
        func word(_ at: Int) -> UInt64 {
            UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self))
        }
        while index + 32 <= bytes.count {
            add(word(index), to: &a)
            add(word(index + 8), to: &b)
            add(word(index + 16), to: &c)
            add(word(index + 24), to: &d)
            index += 32
        }
        if index < bytes.count { add(word(index), to: &a) }
        if index + 8 < bytes.count { add(word(index + 8), to: &b) }
        if index + 16 < bytes.count { add(word(index + 16), to: &c) }
        var sum: UInt64 = 5
        for word in [UInt64(bytes.count), a, b, c, d] { add(word, to: &sum) }
        return sum
    }
}
