internal import Platform

/// A policy's random streams, one for each lane. They are separate from the boards' streams, so a policy's draws
/// never change the board.
///
/// A lane's stream starts from the lane's seed XOR ``salt``. Each step draws one word per lane, even if the policy does
/// not use it. A step whose policy fails draws no words.
///
/// This type holds the streams' unsafe memory in blocks of 64 lanes, four rows of 64 words each, so that the compiler
/// vectorises ``draw()`` and ``advance()``. `@unchecked Sendable` because its owner serves one caller at a time.
public final class PolicyStreams: @unchecked Sendable {
    /// The number that is XORed with each seed: "policy" in ASCII, then two zero bytes.
    public static let salt: UInt64 = 0x706f_6c69_6379_0000

    private let blocks: Int
    private let memory: OwnedMemory
    private let states: UnsafeMutablePointer<UInt32>
    /// One word per lane, drawn for the next step.
    let words: UnsafeMutablePointer<UInt32>

    /// Makes streams that have no seeds yet.
    public init(lanes: Int, reserve: MemoryReserve = { _ in }) throws(EnvironmentError) {
        blocks = (lanes + 63) / 64
        // Four words of state and the drawn word for each lane.
        memory = try OwnedMemory(
            byteCount: blocks * 5 * 64 * MemoryLayout<UInt32>.stride, for: "num_envs", reserve: reserve)
        states = memory.initialized(repeating: 0 as UInt32).baseAddress!
        words = states + blocks * 256
    }

    /// The state of a lane's stream; all words are 0 before the lane's first seed.
    public subscript(lane: Int) -> Generator.Words {
        get {
            let state = state(lane)
            return (state[0], state[64], state[128], state[192])
        }
        set {
            let state = state(lane)
            (state[0], state[64], state[128], state[192]) = newValue
        }
    }

    private func state(_ lane: Int) -> UnsafeMutablePointer<UInt32> { states + lane / 64 * 256 + lane % 64 }

    /// Restarts a lane's stream from a seed.
    public func seed(_ lane: Int, _ seed: UInt64) {
        self[lane] = Generator(seed: seed ^ PolicyStreams.salt).words
    }

    /// Draws a word for each lane. The next call draws the same words, unless ``advance()`` is called first.
    func draw() {
        for block in 0..<blocks {
            let (state, drawn) = (states + block * 256, words + block * 64)
            for lane in 0..<64 {
                drawn[lane] = Generator.word(state[lane], state[lane + 192])
            }
        }
    }

    /// Moves each lane's stream past the drawn word.
    func advance() {
        for block in 0..<blocks {
            let state = states + block * 256
            for lane in 0..<64 {
                Generator.advance(
                    &state[lane], &state[lane + 64], &state[lane + 128], &state[lane + 192])
            }
        }
    }
}
