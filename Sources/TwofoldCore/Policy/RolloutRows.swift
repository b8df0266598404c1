/// The rows of a rollout's arrays that each step of the batch fills. Arrays that a rollout does not report
/// go to memory that nothing reads.
struct RolloutRows {
    /// The rollout's array for one of the batch's step arrays.
    private enum Destination {
        case frame
        case step(Int)
        case discarded
    }

    private let specs: [ArraySpec]
    private let destinations: [Destination]
    private let frames: BatchArrays
    private let steps: BatchArrays
    private let discarded: ArrayMemory

    /// The rows of a batch; `names` are those of the arrays in `steps`.
    init(
        _ batch: Batch, frames: BatchArrays, steps: BatchArrays, names: [String]
    ) throws(EnvironmentError) {
        specs = batch.stepArrays
        self.frames = frames
        self.steps = steps
        destinations = specs.enumerated().map { index, spec in
            if index < 2 { return .frame }
            return names.firstIndex(of: spec.name).map { .step($0) } ?? .discarded
        }
        discarded = try ArrayMemory(specs, lanes: batch.lanes)
    }

    /// The batch's step arrays for one step.
    func arrays(frame: Int, step: Int) -> BatchArrays {
        let bases = specs.indices.map { index in
            switch destinations[index] {
            case .frame: frames.address(array: index, lane: frame)
            case .step(let array): steps.address(array: array, lane: step)
            case .discarded: discarded.arrays.address(array: index, lane: 0)
            }
        }
        return BatchArrays(bases: bases, specs: specs)
    }
}
