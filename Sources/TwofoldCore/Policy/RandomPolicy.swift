/// A policy that takes a uniformly random legal action. Of n legal actions, it takes the k-th, counted from 0, where
/// k = (word x n) >> 32. `word` is the lane's random word. If no action is legal, it takes action 0.
public final class RandomPolicy: Policy {
    /// Makes the policy. It has no state: all randomness comes from the lanes' policy streams.
    public init() {}

    public func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError) {
        if view.actionCount == 4 { chooseOfFour(view) } else { chooseOfMany(view) }
    }

    /// Chooses the actions of a game with four actions, by reading the four bytes of a lane's mask as one word. The
    /// loop has no branch, so the compiler vectorises it.
    ///
    ///     mask     0 1 0 1      1 for each legal action
    ///     upTo     0 1 1 2      the number of legal actions up to and including this one
    ///     action                how many of the first three values of upTo are <= k
    private func chooseOfFour(_ view: PolicyView) {
        let (words, masks, actions) = (view.words, view.masks, view.actions)
        for lane in 0..<view.lanes {
            let mask = UInt32(littleEndian: masks.loadUnaligned(fromByteOffset: lane &* 4, as: UInt32.self))
            let pairs = mask &+ mask &<< 8
            let upTo = pairs &+ pairs &<< 16
            let count = upTo &>> 24
            let k = UInt32(truncatingIfNeeded: (UInt64(words[lane]) &* UInt64(count)) &>> 32)
            // Bit 7 of a byte survives the subtraction if upTo <= k.
            let passed = ((k &* 0x01_0101 | 0x80_8080) &- (upTo & 0xff_ffff)) &>> 7 & 0x01_0101
            let action = (passed &+ passed &>> 8 &+ passed &>> 16) & 3
            let hasLegal = 0 &- (count &+ 7) &>> 3
            actions.storeBytes(
                of: UInt8(truncatingIfNeeded: action & hasLegal), toByteOffset: lane, as: UInt8.self)
        }
    }

    private func chooseOfMany(_ view: PolicyView) {
        for lane in 0..<view.lanes {
            var count = 0
            view.forEachLegal(lane) { _ in count += 1 }
            var skip = pick(view.words[lane], of: count)
            var chosen = 0
            view.forEachLegal(lane) { action in
                if skip == 0 { chosen = action }
                skip -= 1
            }
            view.choose(chosen, lane: lane)
        }
    }
}
