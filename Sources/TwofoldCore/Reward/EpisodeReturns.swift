/// The return of each lane's episode so far, the sum of its rewards: the extra info `episode_return`.
///
///     step ──► reward, episode_length ──► return = episode_length == 0 ? 0 : return + reward
///
/// A lane of length 0 has begun its episode in this step, and played nothing. The sum is that of the rewards
/// as the step reports them, in Double, one after the other, as Gymnasium's RecordEpisodeStatistics adds them up.
/// It exists only on request, as a pass behind the step.
public final class EpisodeReturns: StepPass {
    /// The info's name.
    static let name = "episode_return"

    private let sums: LaneStorage<Double>
    private let keys: BatchKeys
    private let array: ArrayKey<Double>

    /// The returns of lanes whose steps report them.
    init(_ options: BatchOptions, _ keys: BatchKeys, in arrays: inout ArrayList) throws(EnvironmentError) {
        sums = try LaneStorage(count: options.lanes, repeating: 0, reserve: options.reserve)
        self.keys = keys
        array = arrays.add(Self.name)
    }

    /// Little, beside any engine's time.
    package var nanosecondsPerLane: Int { 0 }

    /// A lane's return.
    @inline(__always)
    subscript(lane: Int) -> Double {
        get { sums[lane] }
        set { sums[lane] = newValue }
    }

    /// Adds the rewards of a step that has just filled the rows of these lanes, and writes the sums there.
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
