/// The policy that takes a uniformly random legal action: the k-th legal one, k = (word x legal actions) >>
/// 32; 0 if none is legal.
public final class RandomPolicy: Policy {
    /// Makes a policy without state. All randomness comes from the lanes' streams.
    public init() {}

    public func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError) {
        if view.actionCount == 4 { chooseOfFour(view) } else { chooseOfMany(view) }
    }

    /// Chooses by reading the four bytes of a lane's mask as one word. It has no branch, so the compiler
    /// vectorises the loop.
    ///
    ///     mask     0 1 0 1      1 where legal
    ///     upTo     0 1 1 2      legal actions up to and including this one
    ///     action                the number of upTo <= k among the first three
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
