package import Platform

/// The code that plays a batch's boards: the readable rules of any game, or the kernel of 2048. All engines give the
/// same bytes.
///
/// An engine only plays: it steps and observes a range of lanes, and starts, stores and loads single lanes. ``Batch``
/// checks, seeds and restarts. Workers that call it at the same time pass disjoint lanes. A range begins with a block
/// of 64 lanes.
package protocol BatchEngine: AnyObject, Sendable {
    /// The estimated time for one lane on one thread.
    var nanosecondsPerLane: Int { get }
    /// The estimated time of an operation on a single lane.
    var nanosecondsPerSingleLane: Int { get }

    /// Plays each lane's action, or starts or keeps the lane as ``LanePhases`` says. Writes the arrays of a step,
    /// including the declared reward and the infos of the transition. May leave any bytes in the arrays of passes.
    func step(_ lanes: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int)
    /// Writes the arrays of a reset.
    func observe(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int)
    /// Writes each board's afterstate under each action.
    func afterstates(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int)

    /// Starts an episode from a given board, which has been checked, or by drawing from the lane's stream. A seed first
    /// replaces the stream.
    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?)
    /// Writes the arrays of a reset for any lane.
    func observe(lane: Int, into arrays: BatchArrays)
    /// Writes a lane's state to a snapshot's record.
    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer)
    /// Throws if a lane can't be in the state of this record.
    func check(_ record: UnsafeRawBufferPointer) throws(Reason)
    /// Restores a lane from a checked record, and returns the lane's phase. A seed replaces the record's stream.
    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase
}

/// The arguments for making an engine of a game.
package struct BatchPlan<Rules: Game> {
    package let game: Rules
    package let options: BatchOptions
    package let keys: BatchKeys
    package let infos: Rules.Infos
    package let phases: LanePhases
    let stepArrays: [ArraySpec]
    let report: TransitionReport<Rules>
}
