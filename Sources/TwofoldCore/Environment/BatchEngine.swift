/// What plays a batch's boards: the readable rules of any game, or the kernel of 2048. All engines give the same bytes.
///
/// An engine plays, and nothing else: it steps and observes a range of lanes, and starts, stores and loads one lane.
/// ``Batch`` checks, seeds and restarts. Workers call it with disjoint lanes at a time; ranges lie in one block of 64
/// lanes, from its first lane on.
///
/// As a ``StepPass`` it writes the declared reward and the infos of the transitions that its last step has left with
/// this worker.
package protocol BatchEngine: StepPass {
    /// Estimated time for one lane on one thread.
    var nanosecondsPerLane: Int { get }
    /// Estimated time of an operation on one lane.
    var nanosecondsPerSingleLane: Int { get }
    /// Memory of this many lanes.
    func bytes(lanes: Int) -> Int

    /// Plays each lane's action, or does what else ``LanePhases`` says, and writes the arrays of a step.
    func step(_ lanes: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int)
    /// Writes the arrays of a reset.
    func observe(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int)
    /// Writes each board's afterstate under each action.
    func afterstates(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int)

    /// Starts an episode from a given board, which was checked before, or by drawing from the lane's stream, which a
    /// seed replaces.
    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?)
    /// Writes the arrays of a reset for any lane.
    func observe(lane: Int, into arrays: BatchArrays)
    /// Writes a lane's record.
    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer)
    /// Puts a checked record into a lane, whose stream a seed replaces. Returns its phase.
    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase
}

/// What an engine of a game is made from.
package struct BatchPlan<Rules: Game> {
    package let game: Rules
    package let options: BatchOptions
    package let keys: BatchKeys
    package let phases: LanePhases
    let stepArrays: [ArraySpec]
    let report: TransitionReport<Rules>
}
