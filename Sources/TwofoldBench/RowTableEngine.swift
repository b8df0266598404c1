internal import Platform
internal import TwofoldCore

/// An engine in the style of the fastest known scalar engines: a board is one 64-bit word, and tables slide its rows.
/// The benchmark compares the kernel with this engine.
///
/// The engine plays Twofold's boards with the default arguments and NEXT_STEP autoreset. Its replies equal the
/// kernel's, byte for byte, as long as no tile exceeds 32768.
final class RowTableEngine: BatchEngine {
    private let slides = SlideTables.shared
    private let storage: Storage
    private let fourThreshold: UInt64
    private let keys: BatchKeys
    private let infos: Game2048.Infos
    private let phases: LanePhases

    /// Makes a batch that this engine plays.
    static func makeBatch(_ options: BatchOptions) throws(EnvironmentError) -> Batch {
        try Batch(Game2048(.init()), options) { (plan) in RowTableEngine(plan) }
    }

    private init(_ plan: BatchPlan<Game2048>) {
        (keys, infos, phases) = (plan.keys, plan.infos, plan.phases)
        storage = Storage(plan.options.lanes, slides)
        fourThreshold = SpawnLaw(fourProbability: plan.game.config.fourProbability).threshold
    }

    var nanosecondsPerLane: Int { 60 }
    var nanosecondsPerSingleLane: Int { 60 }

    // MARK: the rules

    private struct Lane {
        var board = Bitboard(bits: 0)
        var generator = Generator(seed: 0)
        var score: Int32 = 0
        var length: Int32 = 0
        var moves: Int32 = 0
        /// The legal actions: bits 0 up, 1 right, 2 down, 3 left.
        var legal: UInt8 = 0
        var isTerminated: Bool { legal == 0 }
    }

    func step(_ block: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int) {
        for index in block {
            var lane = storage.lanes[index]
            var reward: Int32 = 0
            let plays = !phases.isFinished(index)
            if plays { reward = play(actions[index], &lane) } else { start(&lane) }
            storage.lanes[index] = lane
            write(lane, index, into: arrays)
            arrays.address(keys.reward, lane: index).storeBytes(of: Float(reward), as: Float.self)
            arrays.address(keys.terminated, lane: index)
                .storeBytes(of: plays && lane.isTerminated, as: Bool.self)
            arrays.address(keys.truncated, lane: index).storeBytes(of: false, as: Bool.self)
        }
    }

    func observe(_ block: Range<Int>, into arrays: BatchArrays, worker: Int) {
        for index in block { observe(lane: index, into: arrays) }
    }

    func observe(lane: Int, into arrays: BatchArrays) { write(storage.lanes[lane], lane, into: arrays) }

    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?) {
        precondition(board == nil, "the benchmark gives no boards")
        if let seed { storage.lanes[lane].generator = Generator(seed: seed) }
        start(&storage.lanes[lane])
    }

    func afterstates(_ block: Range<Int>, into arrays: BatchArrays, worker: Int) {
        preconditionFailure("the benchmark reads no afterstates")
    }

    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer) {
        preconditionFailure("the benchmark takes no snapshots")
    }

    func check(_ record: UnsafeRawBufferPointer) throws(Reason) {
        preconditionFailure("the benchmark takes no snapshots")
    }

    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase {
        preconditionFailure("the benchmark takes no snapshots")
    }

    @inline(__always)
    private func start(_ lane: inout Lane) {
        lane = Lane(generator: lane.generator)
        for _ in 0..<2 { spawn(&lane) }
        lane.legal = legal(lane.board)
    }

    /// Plays an action, and returns the reward.
    @inline(__always)
    private func play(_ action: UInt8, _ lane: inout Lane) -> Int32 {
        lane.length += 1
        let isVertical = action & 1 == 0
        let before = isVertical ? lane.board.transposed : lane.board
        // Up and left slide towards cell 0, right and down away from it.
        let (after, reward) = slides.slide(before, toRight: action == 1 || action == 2)
        guard after != before else { return 0 }
        lane.board = isVertical ? after.transposed : after
        lane.score += reward
        lane.moves += 1
        spawn(&lane)
        lane.legal = legal(lane.board)
        return reward
    }

    @inline(__always)
    private func spawn(_ lane: inout Lane) {
        var empty = lane.board.empties
        var skip = lane.generator.next(below: empty.nonzeroBitCount)
        let exponent: UInt64 = UInt64(lane.generator.next()) < fourThreshold ? 2 : 1
        while skip > 0 {
            empty &= empty &- 1
            skip -= 1
        }
        lane.board.bits |= exponent << UInt64(empty.trailingZeroBitCount)
    }

    /// Returns the legal actions: bits 0 up, 1 right, 2 down, 3 left.
    @inline(__always)
    private func legal(_ board: Bitboard) -> UInt8 {
        let (horizontal, vertical) = (legalSlides(board), legalSlides(board.transposed))
        return vertical & 1 | horizontal & 2 | (vertical & 2) << 1 | (horizontal & 1) << 3
    }

    @inline(__always)
    private func legalSlides(_ board: Bitboard) -> UInt8 {
        let legal = storage.legal
        return legal[board.row(0)] | legal[board.row(1)] | legal[board.row(2)] | legal[board.row(3)]
    }

    // MARK: the reply

    @inline(__always)
    private func write(_ lane: Lane, _ index: Int, into arrays: BatchArrays) {
        let low = spread(UInt32(truncatingIfNeeded: lane.board.bits))
        let high = spread(UInt32(truncatingIfNeeded: lane.board.bits >> 32))
        let observation = arrays.address(keys.observation, lane: index)
        observation.storeBytes(of: low, as: UInt64.self)
        observation.storeBytes(of: high, toByteOffset: 8, as: UInt64.self)
        let actions = UInt32(lane.legal)
        let mask = actions & 1 | (actions & 2) << 7 | (actions & 4) << 14 | (actions & 8) << 21
        arrays.address(keys.actionMask, lane: index).storeBytes(of: mask, as: UInt32.self)
        arrays.address(keys.episodeLength, lane: index).storeBytes(of: lane.length, as: Int32.self)
        arrays.address(infos.score, lane: index).storeBytes(of: lane.score, as: Int32.self)
        let largest = maxByte(low, high)
        arrays.address(infos.maxExponent, lane: index).storeBytes(of: largest, as: UInt8.self)
        arrays.address(infos.moves, lane: index).storeBytes(of: lane.moves, as: Int32.self)
        arrays.address(infos.goalReached, lane: index).storeBytes(of: largest >= 11, as: Bool.self)
    }

    /// Spreads eight 4-bit numbers over eight bytes.
    @inline(__always)
    private func spread(_ nibbles: UInt32) -> UInt64 {
        var bytes = UInt64(nibbles)
        bytes = (bytes | bytes << 16) & 0x0000_ffff_0000_ffff
        bytes = (bytes | bytes << 8) & 0x00ff_00ff_00ff_00ff
        return (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f
    }

    /// Returns the largest of sixteen bytes, all below 128.
    @inline(__always)
    private func maxByte(_ low: UInt64, _ high: UInt64) -> UInt8 {
        var largest = larger(low, high)
        largest = larger(largest, largest >> 32)
        largest = larger(largest, largest >> 16)
        return UInt8(truncatingIfNeeded: larger(largest, largest >> 8))
    }

    /// Returns the larger of each pair of bytes, all below 128. Bit 7 of their difference decides.
    @inline(__always)
    private func larger(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let isLeft = ((left | 0x8080_8080_8080_8080) &- right) & 0x8080_8080_8080_8080
        let mask = isLeft &- (isLeft >> 7) | isLeft
        return (left & mask) | (right & ~mask)
    }

    // MARK: memory

    /// The lanes, and the legal slides of every row of four exponents.
    ///
    /// `@unchecked Sendable` because workers have disjoint ranges of lanes, and nothing writes to `legal` after init.
    private final class Storage: @unchecked Sendable {
        let lanes: UnsafeMutablePointer<Lane>
        /// Bit 0: a slide to the left moves something. Bit 1: a slide to the right moves something.
        let legal: UnsafeMutablePointer<UInt8>

        init(_ count: Int, _ slides: SlideTables) {
            lanes = .allocate(capacity: count)
            lanes.initialize(repeating: Lane(), count: count)
            legal = .allocate(capacity: 65_536)
            for row in 0..<65_536 {
                legal[row] = (slides.left[row] != row ? 1 : 0) | (slides.right[row] != row ? 2 : 0)
            }
        }

        deinit {
            lanes.deallocate()
            legal.deallocate()
        }
    }
}
