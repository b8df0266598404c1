/// The rows that one step of the batch fills in a rollout's arrays. For an array that the rollout does not report, the
/// step writes to memory that nothing reads.
struct RolloutRows {
    /// The place in a rollout to which a step writes one of the batch's arrays.
    enum Destination: Equatable {
        case frame(Int)
        case step(Int)
        case discarded
    }

    private let specs: [ArraySpec]
    private let destinations: [Destination]
    private let frames: BatchArrays
    private let steps: BatchArrays
    private let discarded: ArrayMemory

    /// Makes the rows of a batch, with a destination for each of its step arrays.
    init(
        _ batch: Batch, _ destinations: [Destination], frames: BatchArrays, steps: BatchArrays
    ) throws(EnvironmentError) {
        specs = batch.stepArrays
        self.destinations = destinations
        self.frames = frames
        self.steps = steps
        discarded = try ArrayMemory(specs, lanes: batch.lanes)
    }

    /// Returns the arrays to which the batch writes one step: row `frame` of the frame arrays, and row `step` of the
    /// step arrays.
    func arrays(frame: Int, step: Int) -> BatchArrays {
        BatchArrays(specs) { index in
            switch destinations[index] {
            case .frame(let array): frames.address(array: array, lane: frame)
            case .step(let array): steps.address(array: array, lane: step)
            case .discarded: discarded.arrays.address(array: index, lane: 0)
            }
        }
    }
}
