/// The return of each lane's episode so far, the sum of its rewards: the extra info `episode_return`.
///
///     step ──► reward, episode_length ──► return = episode_length == 0 ? 0 : return + reward
///
/// A lane of length 0 has begun its episode in this step, and played nothing. The sum is that of the rewards
/// as the step reports them, in Double, one after the other, as Gymnasium's RecordEpisodeStatistics adds them up.
/// It exists only on request, as a pass behind the step.
public final class EpisodeReturns: Sendable {
    /// The info's name.
    static let name = "episode_return"
    /// Its array.
    static let spec = ArraySpec(name, .float64)

    private let sums: LaneStorage<Double>
    /// Indices of the rewards and of the returns among the arrays of a step.
    private let rewardArray: Int
    private let array: Int

    /// The returns of lanes whose steps fill these arrays, the reward first among those that a reset doesn't fill;
    /// nil where the returns are not among them.
    init?(lanes: Int, reset: [ArraySpec], step: [ArraySpec]) throws(EnvironmentError) {
        guard let array = step.firstIndex(of: Self.spec) else { return nil }
        self.array = array
        rewardArray = reset.count
        sums = try LaneStorage(count: lanes, repeating: 0)
    }

    /// Bytes of the returns of this many lanes.
    func bytes(lanes: Int) -> Int { lanes * MemoryLayout<Double>.stride }

    /// A lane's return.
    @inline(__always)
    subscript(lane: Int) -> Double {
        get { sums[lane] }
        set { sums[lane] = newValue }
    }

    /// Adds the rewards of a step that has just filled the rows of these lanes, from `row` on, and writes the sums
    /// there.
    @inline(__always)
    func add(_ lanes: Range<Int>, in arrays: BatchArrays, row: Int) {
        let lengths = UnsafeRawPointer(arrays.address(array: StandardArrays.episodeLength, lane: row))
        let rewards = UnsafeRawPointer(arrays.address(array: rewardArray, lane: row))
        let returns = arrays.address(array: array, lane: row)
        for (index, lane) in lanes.enumerated() {
            let length = lengths.loadUnaligned(fromByteOffset: 4 * index, as: Int32.self)
            let reward = rewards.loadUnaligned(fromByteOffset: 4 * index, as: Float.self)
            let sum = length == 0 ? 0 : sums[lane] + Double(reward)
            sums[lane] = sum
            returns.storeBytes(of: sum, toByteOffset: 8 * index, as: Double.self)
        }
    }
}
