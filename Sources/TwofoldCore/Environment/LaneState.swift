internal import Platform

/// One board of a batch, whatever its game: everything that its future depends on, and everything that a
/// snapshot's record holds:
///
///     0               16      17       21
///     ┌───────────────┬───────┬────────┬─────────────────┐
///     │ generator     │ phase │ length │ the game's state│
///     │ 4 words       │ byte  │ Int32  │                 │
///     └───────────────┴───────┴────────┴─────────────────┘
struct LaneState<State: Sendable>: Sendable {
    var state: State
    var generator = Generator(seed: 0)
    var phase = LanePhase.playing
    /// Steps in this episode, illegal actions included.
    var episodeLength: Int32 = 0
}

/// The phase of a lane's episode; the numbers are those of snapshots.
///
///     first reset ──► playing ──step──► terminated or truncated ──┬─ NEXT_STEP: the next step ──► playing …
///                                                                 ├─ SAME_STEP: restart, after the step
///                                                                 └─ disabled:  reset
///
enum LanePhase: UInt8, Sendable {
    case playing = 0
    /// The episode has ended by the rules.
    case terminated = 1
    /// The episode was cut by the step limit only.
    case truncated = 2

    /// What a step does with a lane.
    enum StepEffect {
        /// Play the action.
        case play
        /// Ignore the action and start the next episode.
        case start
        /// Ignore the action and leave the lane as it is, until a reset.
        case wait
    }

    /// What a step does with a lane in this phase; a finished one starts its next episode unless it has to be reset.
    @inline(__always)
    func step(_ autoreset: AutoresetMode) -> StepEffect {
        if self == .playing { return .play }
        return autoreset == .disabled ? .wait : .start
    }

    /// The phase after an action was played.
    @inline(__always)
    static func after(isTerminated: Bool, isTruncated: Bool) -> LanePhase {
        isTerminated ? .terminated : isTruncated ? .truncated : .playing
    }
}

extension Game {
    /// Bytes of a record.
    var recordSize: Int { recordHeadSize + stateSize }

    func encode(_ lane: LaneState<State>, into record: UnsafeMutableRawBufferPointer) {
        record.storeStreamWords(lane.generator.words, at: 0)
        record.storeBytes(of: lane.phase.rawValue, toByteOffset: 16, as: UInt8.self)
        record.storeBytes(of: lane.episodeLength.littleEndian, toByteOffset: 17, as: Int32.self)
        encode(
            lane.state, into: UnsafeMutableRawBufferPointer(rebasing: record[recordHeadSize...]))
    }

    func decode(_ record: UnsafeRawBufferPointer) throws(Reason) -> LaneState<State> {
        let words = record.streamWords(at: 0)
        guard words != (0, 0, 0, 0) else { throw Reason("has a stream of zeros") }
        guard let phase = LanePhase(rawValue: record[16]) else {
            throw Reason("has phase \(record[16]); it has to be in 0...2")
        }
        let length = Int32(littleEndian: record.loadUnaligned(fromByteOffset: 17, as: Int32.self))
        guard (0...maxRecordedCount).contains(length) else {
            throw Reason("has episode_length \(length); it has to be in 0...2^30")
        }
        let state = try decode(
            UnsafeRawBufferPointer(rebasing: record[recordHeadSize...]), isPlaying: phase == .playing)
        return LaneState(
            state: state, generator: Generator(words: words), phase: phase, episodeLength: length)
    }
}

private let recordHeadSize = 21

/// The most steps or moves that a record may have: far from where a count would overflow.
let maxRecordedCount: Int32 = 1 << 30
