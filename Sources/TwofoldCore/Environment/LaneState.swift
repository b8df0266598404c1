internal import Platform

/// The state of one lane, for any game. The lane's future depends only on this value and on the lane's phase. A
/// snapshot's record holds both:
///
///     0               16      17       21
///     ┌───────────────┬───────┬────────┬─────────────────┐
///     │ generator     │ phase │ length │ the game's state│
///     │ 4 words       │ byte  │ Int32  │                 │
///     └───────────────┴───────┴────────┴─────────────────┘
struct LaneState<State: Sendable>: Sendable {
    var state: State
    var generator = Generator(seed: 0)
    /// The number of steps in this episode, including illegal actions.
    var episodeLength: Int32 = 0
}

extension Game {
    /// The size of a record in bytes.
    var recordSize: Int { recordHeadSize + stateSize }

    func encode(
        _ lane: LaneState<State>, _ phase: LanePhase, into record: UnsafeMutableRawBufferPointer
    ) {
        record.storeStreamWords(lane.generator.words, at: 0)
        record[16] = phase.rawValue
        record.store(lane.episodeLength, at: 17)
        encode(lane.state, into: UnsafeMutableRawBufferPointer(rebasing: record[recordHeadSize...]))
    }

    func decode(
        _ record: UnsafeRawBufferPointer
    ) throws(Reason) -> (lane: LaneState<State>, phase: LanePhase) {
        let words = record.streamWords(at: 0)
        guard words != (0, 0, 0, 0) else { throw Reason("has a random stream of zeros") }
        guard let phase = LanePhase(rawValue: record[16]) else {
            throw Reason("has phase \(record[16]); it must be in 0...2")
        }
        let length: Int32 = record.number(at: 17)
        guard (0...maxRecordedCount).contains(length) else {
            throw Reason("has episode_length \(length); it must be in 0...2^30")
        }
        let state = try decode(
            UnsafeRawBufferPointer(rebasing: record[recordHeadSize...]), isPlaying: phase == .playing)
        let lane = LaneState(state: state, generator: Generator(words: words), episodeLength: length)
        return (lane, phase)
    }
}

let recordHeadSize = 21

/// An array with one part of each lane's state, for callers that keep the state themselves. A lane's row holds the same
/// bytes as the lane's record, starting at `offset`. Bytes of a record that belong to no field are 0.
public struct StateField: Sendable {
    let spec: ArraySpec
    let offset: Int

    init<Element: ArrayElement>(
        _ name: String, _: Element.Type, shape: [Int] = [], at offset: Int
    ) {
        spec = ArraySpec(name, Element.dtype, shape: shape)
        self.offset = offset
    }
}

extension Game {
    public var ownStateFields: [StateField] {
        [StateField("state", UInt8.self, shape: [stateSize], at: recordHeadSize)]
    }

    /// The arrays that together hold a lane's whole state.
    var stateFields: [StateField] {
        [
            StateField("generator", UInt32.self, shape: [4], at: 0),
            StateField("phase", UInt8.self, at: 16),
            StateField("episode_length", Int32.self, at: 17),
        ] + ownStateFields
    }
}

/// The maximum number of steps or moves in a record. It is small enough that no counter can overflow.
let maxRecordedCount: Int32 = 1 << 30
