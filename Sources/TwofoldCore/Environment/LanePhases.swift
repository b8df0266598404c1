internal import Platform

/// The phase of a lane's episode. Snapshots and the kernel use the same numbers.
package enum LanePhase: UInt8, Sendable {
    case playing = 0
    /// The rules of the game have ended the episode.
    case terminated = 1
    /// Only the step limit has ended the episode.
    case truncated = 2
}

/// The phases of a batch's lanes, and the rules of autoreset for engines, passes and rollouts:
///
///     first reset ──► playing ──step──► terminated or truncated ──┬─ NEXT_STEP: the next step ──► playing …
///                                                                 ├─ SAME_STEP: restart, after the step
///                                                                 └─ disabled:  reset
///
/// During a step, the phases describe the lanes before the step. ``advance(_:in:_:)`` updates them afterwards.
///
/// This type holds the phases' unsafe memory. `@unchecked Sendable` because the batch that owns it serves one caller at
/// a time, and within a call workers have disjoint lanes.
package final class LanePhases: @unchecked Sendable {
    private let memory: OwnedMemory
    /// One byte for each lane. The size is rounded up to a multiple of 64 lanes.
    let bytes: UnsafeMutablePointer<UInt8>
    /// Whether a lane whose episode has ended ignores actions until a reset. Otherwise, the next step ignores the
    /// lane's action and starts the next episode.
    let waitsForReset: Bool

    init(_ options: BatchOptions) throws(EnvironmentError) {
        // The memory consists of whole blocks.
        memory = try OwnedMemory(
            byteCount: (options.lanes + 63) / 64 * 64, for: "num_envs", reserve: options.reserve)
        bytes = memory.initialized(repeating: LanePhase.playing.rawValue).baseAddress!
        waitsForReset = options.autoreset == .disabled
    }

    subscript(lane: Int) -> LanePhase {
        @inline(__always) get { LanePhase(rawValue: bytes[lane])! }
        set { bytes[lane] = newValue.rawValue }
    }

    /// Returns true if a lane's episode has ended and its next episode has not started.
    @inline(__always)
    package func isFinished(_ lane: Int) -> Bool { bytes[lane] != LanePhase.playing.rawValue }

    /// Updates the phases of these lanes after a step that has written `terminated` and `truncated` to `arrays`. If
    /// both flags of a lane are 1, its phase becomes `terminated`. If the step did not play a lane's action, both of
    /// its flags are 0.
    @inline(__always)
    func advance(_ lanes: Range<Int>, in arrays: BatchArrays, _ keys: BatchKeys) {
        let first = lanes.lowerBound
        let phases = UnsafeMutableRawPointer(bytes + first)
        let terminated = UnsafeRawPointer(arrays.address(keys.terminated, lane: first))
        let truncated = UnsafeRawPointer(arrays.address(keys.truncated, lane: first))
        let waits = waitsForReset
        var index = 0
        while index &+ 16 <= lanes.count {
            typealias Flags = SIMD16<UInt8>
            let isTerminated = terminated.loadUnaligned(fromByteOffset: index, as: Flags.self)
            let isTruncated = truncated.loadUnaligned(fromByteOffset: index, as: Flags.self)
            // -1 where both flags are 1, which means `terminated`.
            // because: the compiler makes no vector code from a comparison with a scalar.
            let both = unsafeBitCast(
                (isTerminated &+ isTruncated) .== Flags(repeating: 2), to: Flags.self)
            let kept = waits ? phases.load(fromByteOffset: index, as: Flags.self) : Flags()
            let cut = isTruncated &+ both
            phases.storeBytes(of: kept &+ isTerminated &+ cut &+ cut, toByteOffset: index, as: Flags.self)
            index &+= 16
        }
        while index < lanes.count {
            let isTerminated = terminated.load(fromByteOffset: index, as: UInt8.self)
            let isTruncated = truncated.load(fromByteOffset: index, as: UInt8.self)
            let kept = waits ? phases.load(fromByteOffset: index, as: UInt8.self) : 0
            let cut = isTruncated & ~isTerminated
            phases.storeBytes(of: kept &+ isTerminated &+ cut &+ cut, toByteOffset: index, as: UInt8.self)
            index &+= 1
        }
    }

    /// Writes 1 for each lane whose action the next step plays, and 0 for the others.
    func writePlaying(_ lanes: Int, to flags: UnsafeMutableRawPointer) {
        for lane in 0..<lanes {
            flags.storeBytes(of: isFinished(lane) ? 0 : 1, toByteOffset: lane, as: UInt8.self)
        }
    }
}
