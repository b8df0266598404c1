internal import TwofoldCore

/// A batch under random legal play, with the memory for its replies.
///
/// Each step's actions are drawn from the reported masks, on the threads that step the batch. Drawing takes
/// longer than a step of the kernel, so it is never timed.
final class RandomPlay {
    private let batch: Batch
    private let stepReply: ArrayMemory
    private let actions: UnsafeMutableRawBufferPointer
    private let actionCount: Int
    /// The number of times actions have been drawn so far.
    private var draws: UInt64 = 0
    private let clock = ContinuousClock()

    init(_ batch: Batch) throws {
        self.batch = batch
        let lanes = batch.lanes
        actionCount = batch.actions.count
        stepReply = try ArrayMemory(batch.stepArrays, lanes: lanes)
        stepReply.bytes.initializeMemory(as: UInt8.self, repeating: 0)
        actions = .allocate(byteCount: lanes, alignment: 64)
        actions.initializeMemory(as: UInt8.self, repeating: 0)
        let seeds = (0..<lanes).map { UInt64($0).littleEndian }
        try seeds.withUnsafeBytes { try batch.reset(ResetInput(seeds: $0), into: stepReply.arrays) }
    }

    deinit { actions.deallocate() }

    /// Steps for about 0.2 s, not counting the draws. Returns the boards stepped per second.
    func measure() throws(EnvironmentError) -> Double {
        var stepping = Duration.zero
        var steps = 0
        while stepping < .milliseconds(200) {
            chooseActions()
            let start = clock.now
            try batch.step(actions: UnsafeRawBufferPointer(actions), into: stepReply.arrays)
            stepping += clock.now - start
            steps += 1
        }
        let seconds = stepping / .seconds(1)
        return Double(steps * batch.lanes) / seconds
    }

    /// Plays this many steps, then resets without a seed. Returns a hash of all replies (FNV-1a).
    func signature(steps: Int) throws(EnvironmentError) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for _ in 0..<steps {
            chooseActions()
            try batch.step(actions: UnsafeRawBufferPointer(actions), into: stepReply.arrays)
            absorb(&hash)
        }
        try batch.reset(ResetInput(), into: stepReply.arrays)
        absorb(&hash)
        return hash
    }

    private func absorb(_ hash: inout UInt64) {
        for byte in stepReply.bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }

    /// Draws an action for each lane. Each block of 64 lanes has its own stream for each draw, so the actions
    /// do not depend on the threads.
    private func chooseActions() {
        draws += 1
        let draw = Draw(
            reply: stepReply.arrays, masks: batch.keys.actionMask, actions: actions, actionCount: actionCount,
            number: draws)
        batch.options.workers.run(lanes: batch.lanes, nanosecondsPerLane: 10) { range, _ in
            for first in stride(from: range.lowerBound, to: range.upperBound, by: 64) {
                draw.choose(first..<min(first + 64, range.upperBound))
            }
        }
    }
}

/// The data for drawing an action in each lane.
///
/// `@unchecked Sendable` because workers have disjoint ranges of lanes, and nothing else uses the memory meanwhile.
private struct Draw: @unchecked Sendable {
    let reply: BatchArrays
    let masks: ArrayKey<Int8>
    let actions: UnsafeMutableRawBufferPointer
    let actionCount: Int
    let number: UInt64

    func choose(_ lanes: Range<Int>) {
        var generator = Generator(seed: number << 32 | UInt64(lanes.lowerBound))
        for lane in lanes {
            let mask = UnsafeRawBufferPointer(start: reply.address(masks, lane: lane), count: actionCount)
            let legal = mask.count { $0 != 0 }
            guard legal > 0 else { continue }
            var rest = generator.next(below: legal)
            actions[lane] = UInt8(
                mask.firstIndex { byte in
                    if byte != 0 { rest -= 1 }
                    return rest < 0
                }!)
        }
    }
}
