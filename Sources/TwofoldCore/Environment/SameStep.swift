extension VectorEnvironment {
    /// What SAME_STEP tells of each episode that has ended: the lane, and the arrays of a reset.
    public var finalArrays: [ArraySpec] { [ArraySpec("lanes", .uint64)] + resetArrays }

    /// The lanes, ascending, whose episode has ended in the step that has just filled `arrays`: the first
    /// half of SAME_STEP autoreset, the other being ``restart(_:in:keeping:)``.
    ///
    ///     step ──► ended lanes ──► keep their final rows, start anew, tell the new rows ──► reply
    ///
    /// It is done after the step and not in it, so that the other modes and the kernel's loops don't know
    /// of it.
    public func endedLanes(in arrays: BatchArrays) -> [Int] {
        let terminated = UnsafeRawPointer(arrays.address(array: resetArrays.count + 1, lane: 0))
        let truncated = UnsafeRawPointer(arrays.address(array: resetArrays.count + 2, lane: 0))
        var ended: [Int] = []
        let lanes = lanes
        var lane = 0
        // Few episodes end at a time: look at eight lanes at once.
        while lane + 8 <= lanes {
            let flags =
                terminated.loadUnaligned(fromByteOffset: lane, as: UInt64.self)
                | truncated.loadUnaligned(fromByteOffset: lane, as: UInt64.self)
            var rest = UInt64(littleEndian: flags)
            while rest != 0 {
                ended.append(lane + rest.trailingZeroBitCount / 8)
                rest &= rest &- 1
            }
            lane += 8
        }
        while lane < lanes {
            let flag =
                terminated.load(fromByteOffset: lane, as: UInt8.self)
                | truncated.load(fromByteOffset: lane, as: UInt8.self)
            if flag != 0 { ended.append(lane) }
            lane += 1
        }
        return ended
    }
}
