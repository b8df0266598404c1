// A second implementation of docs/reference/determinism.md, docs/environments and docs/guides/rollouts.md. The rules
// in this folder share no code with the sources. They are written to be readable, not fast.

/// A stream of random words: xoshiro128++, seeded by SplitMix64.
struct PlainStream {
    private var words: (UInt32, UInt32, UInt32, UInt32)

    init(seed: UInt64) {
        func mixed(_ state: UInt64) -> UInt64 {
            var mixed = (state ^ state >> 30) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
            return mixed ^ mixed >> 31
        }
        let (first, second) = (
            mixed(seed &+ 0x9e37_79b9_7f4a_7c15), mixed(seed &+ 0x9e37_79b9_7f4a_7c15 &* 2)
        )
        words = (
            UInt32(first & 0xffff_ffff), UInt32(first >> 32), UInt32(second & 0xffff_ffff),
            UInt32(second >> 32)
        )
    }

    /// Returns the stream that the server's policies use for a lane with this seed.
    static func policy(seed: UInt64) -> PlainStream { PlainStream(seed: seed ^ 0x706f_6c69_6379_0000) }

    mutating func next() -> UInt32 {
        func rotate(_ word: UInt32, by count: UInt32) -> UInt32 { word << count | word >> (32 - count) }
        let (a, b, c, d) = words
        words = (a ^ b ^ d, a ^ b ^ c, a ^ c ^ b << 9, rotate(b ^ d, by: 11))
        return rotate(a &+ d, by: 7) &+ a
    }

    /// Draws a number below `count` from one word.
    mutating func next(below count: Int) -> Int { Self.number(next(), below: count) }

    static func number(_ word: UInt32, below count: Int) -> Int { Int((UInt64(word) * UInt64(count)) >> 32) }
}

/// Returns the little-endian bytes of a number.
func plainBytes(_ number: some FixedWidthInteger) -> [UInt8] {
    (0..<number.bitWidth / 8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
}
