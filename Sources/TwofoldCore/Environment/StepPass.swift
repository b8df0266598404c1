/// A computation from the rows of each step, on request: the episodes' returns, the optimum.
///
/// A pass belongs to one batch. Workers call it with disjoint lanes at a time; ranges lie in one block of 64 lanes.
package protocol StepPass: AnyObject, Sendable {
    /// Estimated time for one lane on one thread.
    var nanosecondsPerLane: Int { get }
    /// Adds an info that users have requested to the arrays of a step; `keys` finds the others. Returns false if the pass
    /// has no such info.
    func declare(_ info: String, in arrays: inout ArrayList, _ keys: BatchKeys) -> Bool
    /// Adds the requested infos that an ended episode reports for its final board.
    func declareFinals(in finals: inout ArrayList)

    /// Reads and writes the rows of the step that has just played these lanes; ``LanePhases`` has the phases before it.
    func step(
        _ lanes: Range<Int>, actions: LaneInput<UInt8>, in arrays: BatchArrays, phases: LanePhases)
    /// Reads the rows of boards that a reset or a restore has written.
    func observe(_ lanes: Range<Int>, in arrays: BatchArrays)
    /// Writes the infos of a lane's final board to a row of the finals, before the lane restarts.
    func keepFinal(_ lane: Int, in finals: BatchArrays, row: Int)
    /// Writes the infos of a lane that has restarted after a step.
    func restart(_ lane: Int, in arrays: BatchArrays)
}

/// A pass that looks at the steps alone has nothing to do but after them.
extension StepPass {
    package func declare(_ info: String, in arrays: inout ArrayList, _ keys: BatchKeys) -> Bool { false }
    package func declareFinals(in finals: inout ArrayList) {}
    package func observe(_ lanes: Range<Int>, in arrays: BatchArrays) {}
    package func keepFinal(_ lane: Int, in finals: BatchArrays, row: Int) {}
    package func restart(_ lane: Int, in arrays: BatchArrays) {}
}
