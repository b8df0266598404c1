/// A rule that chooses an action for each lane before each step of a rollout.
///
/// Only one caller at a time may use a policy. The policy may spread its work over several threads.
public protocol Policy: AnyObject {
    /// Writes an action for each lane; 0 if no action is legal. Throws if the deadline passes first. The actions are
    /// then incomplete and must not be used.
    func choose(_ view: PolicyView, until deadline: Deadline?) throws(EnvironmentError)
}

/// The observations and action masks of a batch before a step, and the memory for the actions of this step.
///
/// `@unchecked Sendable` because nothing writes to the rows, one worker writes each lane's action, and the
/// memory outlives the call.
public struct PolicyView: @unchecked Sendable {
    package let batch: Batch
    package let lanes: Int
    /// The number of actions, legal or not.
    let actionCount: Int
    /// The observations, one row per lane.
    package let observations: UnsafeRawPointer
    /// The action masks: 0 or 1 for each lane and action.
    package let masks: UnsafeRawPointer
    /// One random word for each lane, from the lane's policy stream.
    let words: UnsafePointer<UInt32>
    /// The memory for the chosen actions, one byte per lane.
    let actions: UnsafeMutableRawPointer

    /// Calls `body` for each legal action of a lane, in ascending order.
    @inline(__always)
    func forEachLegal(_ lane: Int, _ body: (_ action: Int) -> Void) {
        for action in 0..<actionCount
        where masks.load(fromByteOffset: lane * actionCount + action, as: UInt8.self) != 0 {
            body(action)
        }
    }

    /// Writes the action of a lane.
    @inline(__always)
    package func choose(_ action: Int, lane: Int) {
        actions.storeBytes(of: UInt8(truncatingIfNeeded: action), toByteOffset: lane, as: UInt8.self)
    }
}

/// Returns a number in `0 ..< count` that is uniform if `word` is random: (word x count) >> 32.
@inline(__always)
func pick(_ word: UInt32, of count: Int) -> Int { Int((UInt64(word) &* UInt64(count)) >> 32) }
