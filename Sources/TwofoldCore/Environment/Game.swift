/// The rules of one game, for one board: what a game implements.
///
/// A value of the conforming type holds the configuration and never changes; everything that changes
/// is in `State`. Seeding, autoreset, step limits, episode lengths, batches and threads come for free
/// from ``GameEnvironment``.
public protocol Game: Sendable {
    /// One board in play.
    associatedtype State: Sendable

    /// What an agent sees of one board.
    var observationSpace: ObservationSpace { get }
    /// The actions' names, in the order of their numbers.
    var actions: [String] { get }
    /// Arrays of the infos that every reset and step tells, apart from `action_mask` and
    /// `episode_length`, which every game has.
    var infos: [ArraySpec] { get }
    /// Arrays that ``writeAfterstates(of:isTerminated:to:)`` fills; empty where the game has no afterstates.
    var afterstates: [ArraySpec] { get }

    /// A board before its first episode; never told to anybody.
    func makeState() -> State

    /// Starts an episode, drawing from the board's stream.
    func start(_ state: inout State, generator: inout Generator)

    /// Starts an episode from a given observation; draws nothing. Throws, and leaves the state alone,
    /// if no episode can start there.
    func start(_ state: inout State, from observation: UnsafeRawBufferPointer) throws(InvalidBoard)

    /// Plays one action, `0 ..< actions.count`, on a board that is not terminated.
    func step(_ state: inout State, action: Int, generator: inout Generator) -> StepOutcome

    /// Writes the observation, the legal actions and the infos of a board.
    ///
    /// `isTerminated`: the episode has ended by the rules, no action is legal any more.
    func write(_ state: State, isTerminated: Bool, to row: GameRow)

    /// Writes the rows of ``afterstates``, in their order.
    func writeAfterstates(of state: State, isTerminated: Bool, to row: LaneRow)
}

/// What one action did.
public struct StepOutcome: Sendable, BitwiseCopyable {
    /// The reward.
    public var reward: Float
    /// Whether the episode ended by the rules of the game.
    public var terminated: Bool
}

/// Why no episode can start from a given board; one sentence.
public struct InvalidBoard: Error, Sendable {
    /// What is wrong with it.
    public let message: String
}

/// The part of a lane's rows that the game itself fills.
public struct GameRow {
    let row: LaneRow

    /// One byte of the observation.
    @inline(__always)
    public func observation(_ value: UInt8, at index: Int) {
        row.store(value, array: StandardArrays.observation, at: index)
    }

    /// Whether an action is legal.
    @inline(__always)
    public func actionMask(_ isLegal: Bool, action: Int) {
        row.store(Int8(isLegal ? 1 : 0), array: StandardArrays.actionMask, at: action)
    }

    /// One element of the game's `info`-th declared array.
    @inline(__always)
    public func info<Value: BitwiseCopyable>(_ value: Value, _ info: Int, at element: Int = 0) {
        row.store(value, array: StandardArrays.firstInfo + info, at: element)
    }
}
