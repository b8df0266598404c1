package import Platform

/// The player of a batch's boards: the readable rules of any game, or the kernel of 2048. All engines give the same
/// bytes.
///
/// An engine plays, and nothing else: it steps and observes a range of lanes, and starts, stores and loads one lane.
/// ``Batch`` checks, seeds and restarts. Workers call it with disjoint lanes at a time; a range begins with a block of
/// 64 lanes.
package protocol BatchEngine: AnyObject, Sendable {
    /// Estimated time for one lane on one thread.
    var nanosecondsPerLane: Int { get }
    /// Estimated time of an operation on one lane.
    var nanosecondsPerSingleLane: Int { get }

    /// Plays each lane's action, or does what else ``LanePhases`` says, and writes the arrays of a step, among them the
    /// declared reward and infos of the transition, which only the engine has. The arrays of passes may get anything.
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
    /// Throws if no lane can be in the state of a record.
    func check(_ record: UnsafeRawBufferPointer) throws(Reason)
    /// Puts a checked record into a lane, whose stream a seed replaces. Returns its phase.
    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase
}

/// The parts from which an engine of a game is made.
package struct BatchPlan<Rules: Game> {
    package let game: Rules
    package let options: BatchOptions
    package let keys: BatchKeys
    package let infos: Rules.Infos
    package let phases: LanePhases
    let stepArrays: [ArraySpec]
    let report: TransitionReport<Rules>
}
