/// The kernel's operations on 64 boards of one size. Two modules compile them from the same files. Each
/// module has a type for every size, and its `kernel(rows:columns:)` returns that type.
///
/// All operations are static. A call handles 64 boards, and neither allocates nor captures anything.
public protocol KernelOperations: SendableMetatype {
    /// Plays one action (0 ... 3) on each board of a block and writes the results. A finished lane starts its
    /// new episode instead, or waits if the rules say `holdsFinished`. `actions` has 64 bytes.
    static func step(
        _ block: KernelBlock, actions: UnsafeRawPointer, phases: KernelPhases, rules: KernelRules,
        _ outputs: KernelOutputs, _ stepOutputs: KernelStepOutputs, scratch: KernelScratch)

    /// Writes the declared reward and the requested infos. The last step must have used the same scratch
    /// memory and rules with `isReported`.
    static func report(
        _ program: KernelRewardProgram, _ outputs: KernelReportOutputs, scratch: KernelScratch)

    /// Starts a new episode in one lane by drawing its start tiles.
    static func start(_ block: KernelBlock, lane: Int, rules: KernelRules)

    /// Writes the observations and infos of a block's boards without a step.
    static func observe(
        _ block: KernelBlock, phases: KernelPhases, rules: KernelRules, _ outputs: KernelOutputs,
        scratch: KernelScratch)

    /// Writes the afterstate of each action on each board of a block: boards uint8 [64, 4, rows, columns],
    /// rewards float32 [64, 4], mask int8 [64, 4]. Without phases, every episode counts as in progress.
    static func afterstates(
        _ block: KernelBlock, phases: KernelPhases?, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, mask: UnsafeMutableRawPointer, scratch: KernelScratch)

    // The rules alone: arbitrary boards, no episode.

    /// Fills the cells of a block from 64 boards of exponents, at any alignment.
    static func load(_ boards: UnsafeRawPointer, into block: KernelBlock, scratch: KernelScratch)

    /// Writes the afterstate of one action (0 ... 3) on each board of a block: boards uint8 [64, rows,
    /// columns], rewards float32 [64], legal bool [64]. `actions` has 64 bytes.
    static func move(
        _ block: KernelBlock, actions: UnsafeRawPointer, boards: UnsafeMutableRawPointer,
        rewards: UnsafeMutableRawPointer, legal: UnsafeMutableRawPointer, scratch: KernelScratch)

    /// Writes the legal actions: mask int8 [64, 4].
    static func legal(_ block: KernelBlock, mask: UnsafeMutableRawPointer, scratch: KernelScratch)

    /// Draws a new tile for each board that is not full, from the board's generator. Writes the boards with
    /// their new tiles, uint8 [64, rows, columns], and the chance outcomes, int32 [64]: `cell` for a 2,
    /// `rows * columns + cell` for a 4, and -1 for a full board. The block's cells stay unchanged.
    static func spawn(
        _ block: KernelBlock, fourThreshold: UInt64, boards: UnsafeMutableRawPointer,
        outcomes: UnsafeMutableRawPointer, scratch: KernelScratch)
}
