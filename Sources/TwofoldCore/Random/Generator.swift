/// One board's stream of random words: xoshiro128++ (Blackman and Vigna, "Scrambled linear
/// pseudorandom number generators", 2021).
///
/// A trajectory is a pure function of (environment id, config, seed, actions). Therefore nothing here may change: not
/// the algorithm, not the state that a seed produces, and not the number of words that are drawn for each purpose.
///
///     seed ── SplitMix64 ──► first output  = word1 : word0   (high : low 32 bits)
///                            second output = word3 : word2
public struct Generator: Equatable, Sendable, BitwiseCopyable {
    /// The four words of state.
    public typealias Words = (UInt32, UInt32, UInt32, UInt32)

    /// The state of the stream. At least one word is not 0.
    public private(set) var words: Words

    /// Starts the random stream for a seed. Every value is a valid seed, even 0.
    public init(seed: UInt64) {
        var seeder = SplitMix64(seed: seed)
        let first = seeder.next()
        let second = seeder.next()
        words = (
            UInt32(truncatingIfNeeded: first), UInt32(truncatingIfNeeded: first >> 32),
            UInt32(truncatingIfNeeded: second), UInt32(truncatingIfNeeded: second >> 32)
        )
    }

    /// Makes a stream that continues from a given state.
    public init(words: Words) {
        precondition(words != (0, 0, 0, 0), "the state of a random stream must not be all zeros")
        self.words = words
    }

    @inline(__always)
    public mutating func next() -> UInt32 {
        let word = Self.word(words.0, words.3)
        Self.advance(&words.0, &words.1, &words.2, &words.3)
        return word
    }

    /// Returns the next 32 bits of the stream whose state begins with `w0` and ends with `w3`.
    @inline(__always)
    static func word(_ w0: UInt32, _ w3: UInt32) -> UInt32 { rotateLeft(w0 &+ w3, by: 7) &+ w0 }

    /// Moves the stream whose state is in these four variables past its next 32 bits.
    @inline(__always)
    static func advance(_ w0: inout UInt32, _ w1: inout UInt32, _ w2: inout UInt32, _ w3: inout UInt32) {
        let shifted = w1 << 9
        w2 ^= w0
        w3 ^= w1
        w1 ^= w2
        w0 ^= w3
        w2 ^= shifted
        w3 = rotateLeft(w3, by: 11)
    }

    /// Returns a random number in `0 ..< count`: draws one word, and takes the high 32 bits of word x count.
    ///
    /// For cell counts (at most 64), the bias is below 2^-26. There is no rejection loop, because the number of
    /// drawn words would then depend on their values.
    @inline(__always)
    public mutating func next(below count: Int) -> Int {
        Int((UInt64(next()) &* UInt64(count)) >> 32)
    }

    public static func == (left: Generator, right: Generator) -> Bool {
        left.words == right.words
    }
}

@inline(__always)
private func rotateLeft(_ word: UInt32, by bits: UInt32) -> UInt32 {
    (word << bits) | (word >> (32 - bits))
}
