public import Platform

/// The rules of one game for one board; each game implements this protocol.
///
/// A value of the conforming type holds the configuration and never changes. Everything that changes is in `State`.
/// ``Batch`` adds the rest: many boards, threads, seeding, autoreset, step limits and episode lengths.
public protocol Game: Sendable {
    /// The state of one board.
    associatedtype State: Sendable
    associatedtype Term: RewardTerm
    /// The effect of one played action, from which reward terms and extra infos are computed.
    associatedtype Transition: GameTransition
    /// The keys of the infos that every reset and step reports.
    associatedtype Infos: Sendable
    /// The extra infos that a step reports if the user requests them. The raw values are the names that users write.
    associatedtype ExtraInfo: RawRepresentable<String>, CaseIterable, Sendable
    /// The key of a requested extra info's array.
    associatedtype ExtraKey: Sendable

    var observationSpace: ObservationSpace { get }
    /// The space of the boards that ``start(_:from:)`` accepts; by default the observation space.
    var boardSpace: ObservationSpace { get }
    /// The name of each action, in the order of the action numbers.
    var actions: [String] { get }
    /// The arrays that ``writeAfterstates(of:isTerminated:_:to:)`` fills; nil if the game has no afterstates.
    var afterstates: AfterstateArrays? { get }

    /// Adds the arrays of the infos that every reset and step reports. The batch itself adds `action_mask` and
    /// `episode_length`, because every game has both.
    func addInfos(to arrays: inout ArrayList) -> Infos

    /// Makes the state of a board before its first episode. No client sees this state.
    func makeState() -> State

    /// Starts an episode on a board that `generator` draws.
    func start(_ state: inout State, generator: inout Generator)

    /// Starts an episode from a given board of ``boardSpace``, without random numbers. If no episode can start from
    /// this board, leaves the state unchanged and throws the reason, worded to follow "the board of lane 3".
    func start(_ state: inout State, from board: UnsafeRawBufferPointer) throws(Reason)

    /// Plays one action, in `0 ..< actions.count`, on a board whose episode has not terminated.
    func step(_ state: inout State, action: Int, generator: inout Generator) -> Transition

    /// Writes the observation, the legal actions and the infos of a board. The batch writes the episode's length.
    ///
    /// If `isTerminated` is true, the episode has ended by the rules, so no action is legal.
    func write(_ state: State, isTerminated: Bool, _ keys: BatchKeys, _ infos: Infos, to row: LaneRow)

    /// Writes the afterstates of a board to its rows in the arrays of ``afterstates``.
    func writeAfterstates(
        of state: State, isTerminated: Bool, _ arrays: AfterstateArrays, to row: LaneRow)

    // MARK: snapshots

    /// The rules that affect a state's future. A snapshot can be restored only into an environment with the same rules.
    var rules: [Rule] { get }
    /// The size of a state in a snapshot, in bytes.
    var stateSize: Int { get }
    /// The game's part of ``stateFields``; by default one array with the bytes of ``encode(_:into:)``. If a field has
    /// the name, type and shape of an info or of the observation, both must have the same values.
    var ownStateFields: [StateField] { get }

    /// Writes a state as ``stateSize`` bytes, with little-endian numbers.
    func encode(_ state: State, into bytes: UnsafeMutableRawBufferPointer)

    /// Returns the state that ``stateSize`` untrusted bytes encode. If no game can have this state, throws the reason,
    /// worded to follow "record 5 for lane 3". If `isPlaying` is true, the episode has not ended, so at least one
    /// action must be legal.
    func decode(_ bytes: UnsafeRawBufferPointer, isPlaying: Bool) throws(Reason) -> State

    // MARK: rewards and extra infos, which depend only on the move

    /// The default reward as a spec, which gives the same values as ``GameTransition/reward``.
    var defaultReward: RewardSpec { get }

    /// Returns the table that a term requires; nil for a term without a table.
    func table(of term: Term) -> RewardTable?

    /// Returns the value of a term that is not a potential. `table` is the term's own table.
    func value(of term: Term, table: [Double], in move: Move<Self>) -> Double

    /// Returns the potential phi of a state for a potential term. The potential is an integer, so its value is exact.
    func potential(_ term: Term, table: [Double], of state: State) -> Double

    /// Adds the array of an extra info and returns its key.
    func add(_ info: ExtraInfo, to arrays: inout ArrayList) -> ExtraKey

    /// Writes all elements of an extra info. `move` is nil if the lane did not play its action in this step.
    func write(_ key: ExtraKey, of move: Move<Self>?, to row: LaneRow)
}

extension Game {
    public static var rewardTermNames: [String] { Term.allCases.map(\.rawValue) }
    /// The names of the extra infos that a step reports if the user requests them.
    public static var extraInfoNames: [String] { TransitionReport<Self>.names }

    public var boardSpace: ObservationSpace { observationSpace }
}

/// The part of a transition that all games share: the reward, and whether the episode ended.
public protocol GameTransition: Sendable {
    /// The default reward of the game. A declared reward replaces it.
    var reward: Float { get }
    /// Whether the episode ended by the rules of the game.
    var isTerminated: Bool { get }
}

/// One rule of a game. A snapshot can be restored only into an environment with the same rules. The restored lanes then
/// continue as they would have continued in the original session.
public struct Rule: Equatable, Sendable {
    /// The argument's name, as users write it.
    public let name: String
    /// The argument's value as text, on one line.
    public let value: String

    init(_ name: String, _ value: some Any) {
        self.name = name
        self.value = String(describing: value)
    }
}
