internal import Platform

/// The code that plays a batch's boards: the readable rules of any game, or the 2048 kernel. All engines produce the
/// same bytes.
///
/// An engine only plays: it steps and observes ranges of lanes, and starts, stores and loads single lanes. ``Batch``
/// checks, seeds and restarts. Several workers may call an engine at the same time, for disjoint lanes. Each range
/// starts at a multiple of 64 lanes.
protocol BatchEngine: AnyObject, Sendable {
    /// The estimated time of a step for one lane on one thread.
    var nanosecondsPerLane: Int { get }
    /// The estimated time of an operation on a single lane.
    var nanosecondsPerSingleLane: Int { get }

    /// Plays each lane's action. If the lane's episode has ended, the engine instead starts the next episode or leaves
    /// the lane as it is, according to ``LanePhases``. Writes the arrays of a step, including the declared reward and
    /// the infos of the transition. May leave arbitrary bytes in the arrays that passes write.
    func step(_ lanes: Range<Int>, actions: LaneInput<UInt8>, into arrays: BatchArrays, worker: Int)
    /// Writes the observations and infos of a range of lanes.
    func observe(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int)
    /// Writes the afterstate of each action for a range of lanes.
    func afterstates(_ lanes: Range<Int>, into arrays: BatchArrays, worker: Int)

    /// Starts an episode of a lane from `board`, which the caller has checked. If `board` is nil, draws the first board
    /// from the lane's random stream. If `seed` is given, a new stream with this seed replaces the lane's stream first.
    func start(_ lane: Int, seed: UInt64?, from board: UnsafeRawBufferPointer?)
    /// Writes the observation and infos of one lane.
    func observe(lane: Int, into arrays: BatchArrays)
    /// Writes the state of a lane to a snapshot record.
    func store(_ lane: Int, into record: UnsafeMutableRawBufferPointer)
    /// Throws if the record holds a state that no lane can have.
    func check(_ record: UnsafeRawBufferPointer) throws(Reason)
    /// Restores a lane from a checked record, and returns the lane's phase. If `seed` is given, a new random stream
    /// with this seed replaces the stream in the record.
    func load(_ lane: Int, from record: UnsafeRawBufferPointer, seed: UInt64?) -> LanePhase

    /// Throws if the caller's arrays hold a state that the engine can't play.
    func check(_ states: CallerStates, lanes: Int) throws(EnvironmentError)
    /// Replaces the states of a block of at most 64 lanes with checked states. Their phases go to `phases`.
    func load(_ block: Range<Int>, from states: CallerStates, _ phases: LanePhases, worker: Int)
    /// Writes the fields of `rest` for a block of at most 64 lanes, whose phases are in `phases`.
    func store(_ block: Range<Int>, into rest: CallerStates, _ phases: LanePhases)
}

/// The arguments from which a batch makes the engine of a game.
struct BatchPlan<Rules: Game> {
    let game: Rules
    let options: BatchOptions
    let keys: BatchKeys
    let infos: Rules.Infos
    let phases: LanePhases
    let stepArrays: [ArraySpec]
    let report: TransitionReport<Rules>
}
