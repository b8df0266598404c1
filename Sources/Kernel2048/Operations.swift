/// What the kernel does with 64 boards of one size. Two modules compile the operations from the same files, and
/// each has a type for every size, which `kernel(rows:columns:)` returns.
///
/// They are called once for 64 boards, through the conforming type: nothing is allocated or captured.
public protocol KernelOperations: SendableMetatype {
    /// Plays one action (0 ... 3) on each board of a block, or starts the new episode of a lane that is
    /// finished (or lets it wait), and writes the result. `actions` are 64 bytes.
    static func step(
        _ block: KernelBlock, actions: UnsafeRawPointer, phases: KernelPhases, rules: KernelRules,
        _ outputs: KernelOutputs, _ stepOutputs: KernelStepOutputs, scratch: KernelScratch)

    /// Writes the declared reward of the step that has just used this scratch memory, and the infos that the
    /// outputs ask for. The step's rules must have said `isReported`.
    static func report(
        _ program: KernelRewardProgram, _ outputs: KernelReportOutputs, scratch: KernelScratch)

    /// Starts a new episode in one lane by drawing its start tiles.
    static func start(_ block: KernelBlock, lane: Int, rules: KernelRules)

    /// Writes the state of a block.
    static func observe(
        _ block: KernelBlock, phases: KernelPhases, rules: KernelRules, _ outputs: KernelOutputs,
        scratch: KernelScratch)

    /// Writes what each action would make of each board of a block before the spawn: boards uint8
    /// [64, 4, rows, columns], rewards float32 [64, 4], mask int8 [64, 4]. Without phases, no episode has ended.
    static func afterstates(
        _ block: KernelBlock, phases: KernelPhases?, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, mask: UnsafeMutableRawPointer, scratch: KernelScratch)

    // The rules alone: arbitrary boards, no episode.

    /// Fills the cells of a block from 64 boards of exponents; nothing is assumed of their alignment.
    static func load(_ boards: UnsafeRawPointer, into block: KernelBlock, scratch: KernelScratch)

    /// Writes what one action (0 ... 3) makes of each board of a block before the spawn: boards uint8
    /// [64, rows, columns], rewards float32 [64], legal bool [64]. `actions` are 64 bytes.
    static func move(
        _ block: KernelBlock, actions: UnsafeRawPointer, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, legal: UnsafeMutableRawPointer, scratch: KernelScratch)

    /// Writes which actions would move something: mask int8 [64, 4].
    static func legal(_ block: KernelBlock, mask: UnsafeMutableRawPointer, scratch: KernelScratch)

    /// Draws a new tile for each board of a block, except full ones, from its generator; writes the boards with
    /// it, uint8 [64, rows, columns], and the chance outcomes, int32 [64]: the cell for a 2, cells + the cell for
    /// a 4, else -1. The block's cells stay as they are.
    static func spawn(
        _ block: KernelBlock, fourThreshold: UInt64, boards: UnsafeMutableRawPointer,
        outcomes: UnsafeMutableRawPointer, scratch: KernelScratch)
}
