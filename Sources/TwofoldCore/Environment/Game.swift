/// The rules of one game, for one board: what a game implements.
///
/// A value of the conforming type holds the configuration and never changes; everything that changes
/// is in `State`. Seeding, autoreset, step limits, episode lengths, batches and threads come for free
/// from ``GameEnvironment``.
public protocol Game: Sendable {
    /// One board in play.
    associatedtype State: Sendable
    /// The reward terms that the game has.
    associatedtype Term: RewardTerm
    /// What one step did, as far as reward terms and extra infos ask; made once for all of them.
    associatedtype Transition
    /// The infos of a step that are told on request, by the names that users write.
    associatedtype ExtraInfo: RawRepresentable<String>, CaseIterable, Sendable

    /// What an agent sees of one board.
    var observationSpace: ObservationSpace { get }
    /// What ``start(_:from:)`` is given: the observations themselves where a game says nothing else.
    var boardSpace: ObservationSpace { get }
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

    /// Starts an episode from a given board of ``boardSpace``; draws nothing. Throws, and leaves the state
    /// alone, if no episode can start there.
    func start(_ state: inout State, from board: UnsafeRawBufferPointer) throws(InvalidBoard)

    /// Plays one action, `0 ..< actions.count`, on a board that is not terminated.
    func step(_ state: inout State, action: Int, generator: inout Generator) -> StepOutcome

    /// Writes the observation, the legal actions and the infos of a board.
    ///
    /// `isTerminated`: the episode has ended by the rules, no action is legal any more.
    func write(_ state: State, isTerminated: Bool, to row: GameRow)

    /// Writes the rows of ``afterstates``, in their order.
    func writeAfterstates(of state: State, isTerminated: Bool, to row: LaneRow)

    // MARK: snapshots

    /// The rules that decide how a state goes on, by the names of their arguments: a snapshot is restored
    /// only where they are the same.
    var rules: [Rule] { get }
    /// Bytes that a snapshot takes for a state.
    var stateSize: Int { get }

    /// Writes a state to ``stateSize`` bytes, little-endian.
    func encode(_ state: State, into bytes: UnsafeMutableRawBufferPointer)

    /// The state in ``stateSize`` bytes, which may come from anybody. Throws if no such state is possible;
    /// `isPlaying`: its episode has not ended, so an action has to be legal.
    func decode(_ bytes: UnsafeRawBufferPointer, isPlaying: Bool) throws(InvalidState) -> State

    // MARK: rewards and extra infos, all of them functions of the transition

    /// The reward where none is declared: the one that ``step(_:action:generator:)`` returns.
    var defaultReward: RewardSpec { get }

    /// The table that a term takes, nil where it takes none.
    func table(of term: Term) -> RewardTable?

    /// The transition of one played action.
    func transition(from before: State, action: Int, to after: State, isTerminated: Bool) -> Transition

    /// The value of a term that is not a potential; `table` is the term's own.
    func value(of term: Term, table: [Double], in transition: Transition) -> Double

    /// The potential phi of a state for a term that is one: an integer, so that it is exact.
    func potential(_ term: Term, table: [Double], of state: State) -> Double

    /// The array of an extra info, under its name.
    func array(of info: ExtraInfo) -> ArraySpec

    /// Writes all elements of an extra info; nil stands for a lane that did not play.
    func write(_ info: ExtraInfo, of transition: Transition?, to row: InfoRow)
}

extension Game {
    /// The names of the reward terms.
    public static var rewardTermNames: [String] { Term.allCases.map(\.rawValue) }
    /// The names of the infos that a step tells on request.
    public static var extraInfoNames: [String] { TransitionReport<Self>.names }
}

extension Game {
    public var boardSpace: ObservationSpace { observationSpace }
}

/// What one action did.
public struct StepOutcome: Sendable, BitwiseCopyable {
    /// The game's own reward; a declared one takes its place.
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
