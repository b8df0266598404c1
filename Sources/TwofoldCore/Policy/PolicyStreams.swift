/// The lanes' streams for policies: apart from the boards' own, so that what a policy draws never changes
/// what a board draws.
///
/// A stream is that of the lane's seed, salted. Each step takes one word of each lane, whatever the policy
/// does with it; a step that comes to nothing gives its words back.
///
/// This is the room for that memory, laid out as in a kernel's block: four rows of 64 words for 64 lanes.
/// `@unchecked Sendable` because its owner is called by one caller at a time.
public final class PolicyStreams: @unchecked Sendable {
    /// What a seed is salted with: "policy" in ASCII, then two zero bytes.
    public static let salt: UInt64 = 0x706f_6c69_6379_0000

    private let blocks: Int
    private let states: UnsafeMutableRawPointer
    /// One word for each lane, drawn for the next step.
    let words: UnsafeMutablePointer<UInt32>
    /// Whether nothing has come of these words yet.
    private var isDrawn = false

    /// Streams that have no seeds yet.
    public init(lanes: Int) {
        blocks = (lanes + 63) / 64
        states = .allocate(byteCount: blocks * 1024, alignment: 64)
        states.initializeMemory(as: UInt8.self, repeating: 0, count: blocks * 1024)
        words = .allocate(capacity: blocks * 64)
        words.initialize(repeating: 0, count: blocks * 64)
    }

    deinit {
        states.deallocate()
        words.deallocate()
    }

    /// Starts a lane's stream anew.
    public func seed(_ lane: Int, _ seed: UInt64) {
        var generator = Generator(seed: seed ^ PolicyStreams.salt)
        if isDrawn { words[lane] = generator.next() }
        let state = (states + lane / 64 * 1024).assumingMemoryBound(to: UInt32.self) + lane % 64
        (state[0], state[64], state[128], state[192]) = generator.words
    }

    /// Streams as they were.
    public struct Saved {
        fileprivate let bytes: [UInt8]
        fileprivate let isDrawn: Bool
    }

    /// What the streams are now, to go back to.
    public func saved() -> Saved {
        let bytes =
            Array(UnsafeRawBufferPointer(start: states, count: blocks * 1024))
            + Array(UnsafeRawBufferPointer(start: words, count: blocks * 256))
        return Saved(bytes: bytes, isDrawn: isDrawn)
    }

    /// Goes back to what the streams were.
    public func restore(_ saved: Saved) {
        saved.bytes.withUnsafeBytes { bytes in
            states.copyMemory(from: bytes.baseAddress!, byteCount: blocks * 1024)
            UnsafeMutableRawPointer(words).copyMemory(
                from: bytes.baseAddress! + blocks * 1024, byteCount: blocks * 256)
        }
        isDrawn = saved.isDrawn
    }

    /// Draws a word for each lane, unless there are some that nothing has come of.
    func draw() {
        guard !isDrawn else { return }
        for block in 0..<blocks { KernelOperations.avx2.draw(states + block * 1024, words + block * 64) }
        isDrawn = true
    }

    /// Something has come of the words.
    func use() { isDrawn = false }
}
