/// The extra info `episode_return`: the sum of the rewards in each lane's episode so far.
///
///     step ──► reward, episode_length ──► return = episode_length == 0 ? 0 : return + reward
///
/// A lane with `episode_length` 0 has started its episode in this step without playing an action. The rewards are added
/// in Double in the order of the steps, as in Gymnasium's RecordEpisodeStatistics. A pass after the step computes the
/// sums, but only if the user requests this info.
public final class EpisodeReturns: StepPass {
    static let name = "episode_return"

    private let sums: LaneStorage<Double>
    private let keys: BatchKeys
    private let array: ArrayKey<Double>

    /// Sets the returns of all lanes to 0, and adds the info's array to the arrays of a step.
    init(_ options: BatchOptions, _ keys: BatchKeys, in arrays: inout ArrayList) throws(EnvironmentError) {
        sums = try LaneStorage(count: options.lanes, repeating: 0, reserve: options.reserve)
        self.keys = keys
        array = arrays.add(Self.name)
    }

    /// Zero, because the pass takes negligible time compared with any engine.
    package var nanosecondsPerLane: Int { 0 }

    /// A lane's return in its current episode so far.
    @inline(__always)
    subscript(lane: Int) -> Double {
        get { sums[lane] }
        set { sums[lane] = newValue }
    }

    /// Adds the rewards that the step has just written for these lanes, and writes the sums to the same rows.
    package func step(
        _ lanes: Range<Int>, actions: LaneInput<UInt8>, in arrays: BatchArrays, phases: LanePhases
    ) {
        let first = lanes.lowerBound
        let lengths = UnsafeRawPointer(arrays.address(keys.episodeLength, lane: first))
        let rewards = UnsafeRawPointer(arrays.address(keys.reward, lane: first))
        let returns = arrays.address(array, lane: first)
        for (index, lane) in lanes.enumerated() {
            let length = lengths.loadUnaligned(fromByteOffset: 4 * index, as: Int32.self)
            let reward = rewards.loadUnaligned(fromByteOffset: 4 * index, as: Float.self)
            let sum = length == 0 ? 0 : sums[lane] + Double(reward)
            sums[lane] = sum
            returns.storeBytes(of: sum, toByteOffset: 8 * index, as: Double.self)
        }
    }
}
