/// A random generator that scrambles the values of a counter. It turns one 64-bit seed into as many words as needed.
///
/// It is used only to seed ``Generator``. Algorithm: Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014, with the constants of Vigna's public-domain `splitmix64.c`.
public struct SplitMix64: Sendable {
    private var state: UInt64

    /// Starts the sequence for a seed. Every value is a valid seed, even 0.
    public init(seed: UInt64) {
        state = seed
    }

    public mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}
