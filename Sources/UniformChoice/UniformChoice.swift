/// Chooses one of four actions for each lane, uniformly among the legal ones: the k-th of them,
/// k = (word x legal actions) >> 32; 0 where none is legal.
///
///     mask     0 1 0 1      uint8, 1 where legal
///     upTo     0 1 1 2      legal actions up to and including this one
///     action                the number of upTo <= k among the first three
///
/// `words` are uint32 [lanes], `masks` int8 [lanes, 4] of any alignment; `actions`, uint8 [lanes], gets the result.
/// The loop handles the four bytes of a lane as one word and has no branch, so that the compiler vectorises it. It is
/// compiled twice, as the kernel of 2048 is, because AVX2 makes it almost three times as fast.
public func chooseUniformly(
    lanes: Int, words: UnsafePointer<UInt32>, masks: UnsafeRawPointer, actions: UnsafeMutableRawPointer
) {
    for lane in 0..<lanes {
        let mask = UInt32(littleEndian: masks.loadUnaligned(fromByteOffset: lane &* 4, as: UInt32.self))
        let pairs = mask &+ mask &<< 8
        let upTo = pairs &+ pairs &<< 16
        let count = upTo &>> 24
        let k = UInt32(truncatingIfNeeded: (UInt64(words[lane]) &* UInt64(count)) &>> 32)
        // Bit 7 of a byte survives the subtraction where upTo <= k.
        let passed = ((k &* 0x01_0101 | 0x80_8080) &- (upTo & 0xff_ffff)) &>> 7 & 0x01_0101
        let action = (passed &+ passed &>> 8 &+ passed &>> 16) & 3
        let hasLegal = 0 &- (count &+ 7) &>> 3
        actions.storeBytes(
            of: UInt8(truncatingIfNeeded: action & hasLegal), toByteOffset: lane, as: UInt8.self)
    }
}
