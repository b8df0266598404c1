internal import Platform

/// The phase of a lane's episode; the numbers are those of snapshots, and the kernel reads them.
package enum LanePhase: UInt8, Sendable {
    case playing = 0
    /// The episode has ended by the rules.
    case terminated = 1
    /// The episode was cut by the step limit only.
    case truncated = 2
}

/// The phases of a batch's lanes, and the law of autoreset, which engines, passes and rollouts read here:
///
///     first reset ──► playing ──step──► terminated or truncated ──┬─ NEXT_STEP: the next step ──► playing …
///                                                                 ├─ SAME_STEP: restart, after the step
///                                                                 └─ disabled:  reset
///
/// While a step runs, they are the phases before it; ``advance(_:in:_:)`` ends it.
///
/// This is the room for that memory. `@unchecked Sendable` because the batch that owns it is called by one caller at a
/// time, and within a call workers have disjoint lanes.
package final class LanePhases: @unchecked Sendable {
    private let memory: OwnedMemory
    /// A byte for each lane, and for those that would fill the last block of 64.
    let bytes: UnsafeMutablePointer<UInt8>
    private let autoreset: AutoresetMode

    init(lanes: Int, _ autoreset: AutoresetMode) throws(EnvironmentError) {
        memory = try OwnedMemory(byteCount: Self.bytes(lanes: lanes), for: "num_envs")
        bytes = memory.initialized(repeating: LanePhase.playing.rawValue).baseAddress!
        self.autoreset = autoreset
    }

    /// Memory of this many lanes: whole blocks.
    static func bytes(lanes: Int) -> Int { (lanes + 63) / 64 * 64 }

    subscript(lane: Int) -> LanePhase {
        @inline(__always) get { LanePhase(rawValue: bytes[lane])! }
        set { bytes[lane] = newValue.rawValue }
    }

    /// Whether a lane's episode has ended and its next one has not begun.
    @inline(__always)
    func isFinished(_ lane: Int) -> Bool { bytes[lane] != LanePhase.playing.rawValue }

    // MARK: the law

    /// What a step does with a lane.
    enum Turn {
        /// Play the action.
        case play
        /// Ignore the action and start the next episode.
        case start
        /// Ignore the action and leave the lane as it is, until a reset.
        case wait
    }

    /// What a step does with a finished lane.
    var turnOfFinished: Turn { autoreset == .disabled ? .wait : .start }

    /// What a step does with a lane.
    @inline(__always)
    func turn(_ lane: Int) -> Turn { isFinished(lane) ? turnOfFinished : .play }

    /// Ends a step of these lanes, which has written its flags to `arrays`; both are 0 where nothing was played.
    @inline(__always)
    func advance(_ lanes: Range<Int>, in arrays: BatchArrays, _ keys: BatchKeys) {
        let first = lanes.lowerBound
        let phases = bytes + first
        let terminated = UnsafeRawPointer(arrays.address(keys.terminated, lane: first))
        let truncated = UnsafeRawPointer(arrays.address(keys.truncated, lane: first))
        let kept: UInt64 = turnOfFinished == .wait ? .max : 0
        var index = 0
        // Eight lanes at a time; a flag is bit 0 of its byte.
        while index + 8 <= lanes.count {
            let phase = UnsafeMutableRawPointer(phases + index)
            let isTerminated = terminated.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let isTruncated = truncated.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let ended = isTerminated | (isTruncated & ~isTerminated) &<< 1
            phase.storeBytes(of: phase.load(as: UInt64.self) & kept | ended, as: UInt64.self)
            index += 8
        }
        while index < lanes.count {
            let isTerminated = terminated.load(fromByteOffset: index, as: UInt8.self)
            let isTruncated = truncated.load(fromByteOffset: index, as: UInt8.self)
            let ended = isTerminated | (isTruncated & ~isTerminated) &<< 1
            phases[index] = phases[index] & UInt8(truncatingIfNeeded: kept) | ended
            index += 1
        }
    }

    /// Writes 1 for each lane whose action the next step plays, else 0.
    func writePlaying(_ lanes: Int, to flags: UnsafeMutableRawPointer) {
        for lane in 0..<lanes {
            flags.storeBytes(of: isFinished(lane) ? 0 : 1, toByteOffset: lane, as: UInt8.self)
        }
    }

    /// Whether a step plays a lane's action.
    @inline(__always)
    package func plays(_ lane: Int) -> Bool { !isFinished(lane) }
}
