/// The lanes' streams for policies: apart from the boards' own, so that what a policy draws never changes
/// what a board draws.
///
/// A stream is that of the lane's seed, salted. Each step takes one word of each lane, whatever the policy
/// does with it; a step that comes to nothing gives its words back.
///
/// This is the room for that memory, laid out as in a kernel's block: four rows of 64 words for 64 lanes.
/// `@unchecked Sendable` because its owner is called by one caller at a time.
public final class PolicyStreams: @unchecked Sendable {
    /// Memory that so many lanes take: whole blocks of four words of state for each, and the one that was drawn.
    public static func bytes(lanes: Int) -> Int { (lanes + 63) / 64 * (1024 + 256) }
    /// What a seed is salted with: "policy" in ASCII, then two zero bytes.
    public static let salt: UInt64 = 0x706f_6c69_6379_0000

    private let blocks: Int
    private let states: UnsafeMutableRawPointer
    /// One word for each lane, drawn for the next step.
    let words: UnsafeMutablePointer<UInt32>

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

    /// A lane's stream. All of its words are 0 before the lane's first seed.
    public subscript(lane: Int) -> (UInt32, UInt32, UInt32, UInt32) {
        get {
            let state = state(lane)
            return (state[0], state[64], state[128], state[192])
        }
        set {
            let state = state(lane)
            (state[0], state[64], state[128], state[192]) = newValue
        }
    }

    private func state(_ lane: Int) -> UnsafeMutablePointer<UInt32> {
        (states + lane / 64 * 1024).assumingMemoryBound(to: UInt32.self) + lane % 64
    }

    /// Starts a lane's stream anew.
    public func seed(_ lane: Int, _ seed: UInt64) {
        self[lane] = Generator(seed: seed ^ PolicyStreams.salt).words
    }

    /// Draws a word for each lane.
    func draw() {
        for block in 0..<blocks { KernelOperations.avx2.draw(states + block * 1024, words + block * 64) }
    }

    /// Takes the last words back: the next draw brings them again.
    func takeBack() {
        for lane in 0..<blocks * 64 where self[lane] != (0, 0, 0, 0) {
            var generator = Generator(words: self[lane])
            generator.goBack()
            self[lane] = generator.words
        }
    }
}
