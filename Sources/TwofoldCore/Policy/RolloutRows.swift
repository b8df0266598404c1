/// The rows of a rollout's arrays that each step of the environment fills. Arrays that a rollout does not report
/// go to memory that nothing reads.
struct RolloutRows {
    /// The rollout's array for one of the environment's step arrays.
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
    private let autoreset: AutoresetMode
    /// Index of `valid` among the rollout's step arrays.
    private let valid: Int
    /// Indices of `terminated` and `truncated` there.
    private let terminated: Int
    private let truncated: Int
    /// 1 for each lane whose episode has ended and whose next one has not begun.
    private var finished: [UInt8]

    /// The rows of a batch; `names` are those of the arrays in `steps`.
    init(
        _ environment: any VectorEnvironment, frames: BatchArrays, steps: BatchArrays, names: [String]
    ) throws(EnvironmentError) {
        specs = environment.stepArrays
        self.frames = frames
        self.steps = steps
        destinations = specs.enumerated().map { index, spec in
            if index < 2 { return .frame }
            return names.firstIndex(of: spec.name).map { .step($0) } ?? .discarded
        }
        discarded = try ArrayMemory(specs, lanes: environment.lanes)
        autoreset = environment.autoreset
        valid = names.firstIndex(of: "valid")!
        terminated = names.firstIndex(of: "terminated")!
        truncated = names.firstIndex(of: "truncated")!
        finished = (0..<environment.lanes).map { environment.isFinished($0) ? 1 : 0 }
    }

    /// The environment's step arrays for one step.
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

    /// Writes the lanes that were in an episode at a step, and notes those that it has finished.
    mutating func writeValid(_ step: Int) {
        func row(_ array: Int) -> UnsafeMutablePointer<UInt8> {
            steps.address(array: array, lane: step).assumingMemoryBound(to: UInt8.self)
        }
        let (valid, terminated, truncated) = (row(valid), row(terminated), row(truncated))
        // A finished lane stays so until a reset, for one step, or not at all.
        let (kept, ended): (UInt8, UInt8) =
            switch autoreset {
            case .disabled: (1, 1)
            case .nextStep: (0, 1)
            case .sameStep: (0, 0)
            }
        finished.withUnsafeMutableBufferPointer { finished in
            for lane in finished.indices { valid[lane] = finished[lane] ^ 1 }
            for lane in finished.indices {
                finished[lane] = finished[lane] & kept | (terminated[lane] | truncated[lane]) & ended
            }
        }
    }
}
