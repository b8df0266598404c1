/// A computation on the rows of each step, which runs after the step if the user has requested its infos. Examples are
/// the episode returns and the optimum.
///
/// A pass belongs to one batch. Several workers may call a pass at the same time, for disjoint lanes. Each range of
/// lanes lies within one block of 64 lanes.
package protocol StepPass: AnyObject, Sendable {
    /// The estimated time of a step for one lane on one thread.
    var nanosecondsPerLane: Int { get }
    /// Adds a requested info to the arrays of a step. `keys` gives access to the other arrays. Returns false if the
    /// pass does not have this info.
    func declare(_ info: String, in arrays: inout ArrayList, _ keys: BatchKeys) -> Bool
    /// Adds the requested infos that describe the final board of an ended episode.
    func declareFinals(in finals: inout ArrayList)

    /// Reads and writes the rows of these lanes after the engine's step. `phases` still holds the phases before the
    /// step.
    func step(
        _ lanes: Range<Int>, actions: LaneInput<UInt8>, in arrays: BatchArrays, phases: LanePhases)
    /// Reads the rows of these lanes after a reset or a restore has written them.
    func observe(_ lanes: Range<Int>, in arrays: BatchArrays)
    /// Writes the infos of a lane's final board to row `row` of `finals`, before the lane restarts.
    func keepFinal(_ lane: Int, in finals: BatchArrays, row: Int)
    /// Writes the infos of a lane's new board after the lane has restarted.
    func restart(_ lane: Int, in arrays: BatchArrays)
}

/// Default implementations for a pass that only reads and writes the rows of steps.
extension StepPass {
    package func declare(_ info: String, in arrays: inout ArrayList, _ keys: BatchKeys) -> Bool { false }
    package func declareFinals(in finals: inout ArrayList) {}
    package func observe(_ lanes: Range<Int>, in arrays: BatchArrays) {}
    package func keepFinal(_ lane: Int, in finals: BatchArrays, row: Int) {}
    package func restart(_ lane: Int, in arrays: BatchArrays) {}
}
