/// A computation on the rows of each step that runs on request, such as the episodes' returns or the optimum.
///
/// A pass belongs to one batch. Workers that call it at the same time pass disjoint lanes. A range lies in one block of
/// 64 lanes.
package protocol StepPass: AnyObject, Sendable {
    /// The estimated time for one lane on one thread.
    var nanosecondsPerLane: Int { get }
    /// Adds a requested info to the arrays of a step. `keys` finds the other arrays. Returns false if the pass does not
    /// have this info.
    func declare(_ info: String, in arrays: inout ArrayList, _ keys: BatchKeys) -> Bool
    /// Adds the requested infos that a step reports for the final board of an ended episode.
    func declareFinals(in finals: inout ArrayList)

    /// Reads and writes the rows of a step that has just played these lanes. ``LanePhases`` has the phases before the
    /// step.
    func step(
        _ lanes: Range<Int>, actions: LaneInput<UInt8>, in arrays: BatchArrays, phases: LanePhases)
    /// Reads the rows of boards that a reset or a restore has just written.
    func observe(_ lanes: Range<Int>, in arrays: BatchArrays)
    /// Writes the infos of a lane's final board to a row of the finals, before the lane restarts.
    func keepFinal(_ lane: Int, in finals: BatchArrays, row: Int)
    /// Writes the infos of a lane that was restarted after a step.
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
