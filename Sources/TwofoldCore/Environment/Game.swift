public import Platform

/// The rules of one game, for one board: what a game implements.
///
/// A value of the conforming type holds the configuration and never changes; everything that changes
/// is in `State`. ``Batch`` adds seeding, autoreset, step limits, episode lengths, batches and
/// threads.
public protocol Game: Sendable {
    /// One board in play.
    associatedtype State: Sendable
    /// The reward terms that the game has.
    associatedtype Term: RewardTerm
    /// The effect of one played action; reward terms and extra infos read it.
    associatedtype Transition: GameTransition
    /// The keys of the infos that every reset and step reports.
    associatedtype Infos: Sendable
    /// The infos that a step reports on request, by the names that users write.
    associatedtype ExtraInfo: RawRepresentable<String>, CaseIterable, Sendable
    /// The key of such an info.
    associatedtype ExtraKey: Sendable

    /// The observations of one board.
    var observationSpace: ObservationSpace { get }
    /// The boards that ``start(_:from:)`` takes; by default the observations.
    var boardSpace: ObservationSpace { get }
    /// The actions' names, in the order of their numbers.
    var actions: [String] { get }
    /// Arrays that ``writeAfterstates(of:isTerminated:_:to:)`` fills; nil where the game has no afterstates.
    var afterstates: AfterstateArrays? { get }

    /// Adds the arrays of the infos that every reset and step reports, apart from `action_mask` and
    /// `episode_length`, which every game has.
    func addInfos(to arrays: inout ArrayList) -> Infos

    /// A board before its first episode; no client sees it.
    func makeState() -> State

    /// Starts an episode, drawing from the board's stream.
    func start(_ state: inout State, generator: inout Generator)

    /// Starts an episode from a given board of ``boardSpace``; draws nothing. If no episode can start there, it
    /// leaves the state as it is and throws the reason, to follow "the board of lane 3".
    func start(_ state: inout State, from board: UnsafeRawBufferPointer) throws(Reason)

    /// Plays one action, `0 ..< actions.count`, on a board that is not terminated.
    func step(_ state: inout State, action: Int, generator: inout Generator) -> Transition

    /// Writes the observation, the legal actions and the infos of a board.
    ///
    /// `isTerminated`: the episode has ended by the rules, no action is legal any more.
    func write(_ state: State, isTerminated: Bool, _ infos: Infos, to row: GameRow)

    /// Writes the rows of ``afterstates``.
    func writeAfterstates(
        of state: State, isTerminated: Bool, _ arrays: AfterstateArrays, to row: LaneRow)

    // MARK: snapshots

    /// The rules that a state's future depends on, by the names of their arguments. A snapshot is restored
    /// only where they are the same.
    var rules: [Rule] { get }
    /// Bytes of a state in a snapshot.
    var stateSize: Int { get }

    /// Writes a state to ``stateSize`` bytes, little-endian.
    func encode(_ state: State, into bytes: UnsafeMutableRawBufferPointer)

    /// The state in ``stateSize`` untrusted bytes. If no such state is possible, throws the reason, to follow "the
    /// record 5 for lane 3"; `isPlaying`: its episode has not ended, so an action has to be legal.
    func decode(_ bytes: UnsafeRawBufferPointer, isPlaying: Bool) throws(Reason) -> State

    // MARK: rewards and extra infos, all of them functions of the move

    /// The default reward, the one of a transition.
    var defaultReward: RewardSpec { get }

    /// The table that a term requires; nil for a term without one.
    func table(of term: Term) -> RewardTable?

    /// The value of a term that is not a potential; `table` is the term's own.
    func value(of term: Term, table: [Double], in move: Move<Self>) -> Double

    /// The potential phi of a state for a potential term: an integer, so that it is exact.
    func potential(_ term: Term, table: [Double], of state: State) -> Double

    /// Adds the array of an extra info.
    func add(_ info: ExtraInfo, to arrays: inout ArrayList) -> ExtraKey

    /// Writes all elements of an extra info; nil for a lane that has not played its action.
    func write(_ key: ExtraKey, of move: Move<Self>?, to row: LaneRow)
}

extension Game {
    /// The names of the reward terms.
    public static var rewardTermNames: [String] { Term.allCases.map(\.rawValue) }
    /// The names of the infos that a step reports on request.
    public static var extraInfoNames: [String] { TransitionReport<Self>.names }

    public var boardSpace: ObservationSpace { observationSpace }
}

/// The effect of one played action, as far as every game has it.
public protocol GameTransition: Sendable {
    /// The game's own reward; a declared one takes its place.
    var reward: Float { get }
    /// Whether the episode ended by the rules of the game.
    var isTerminated: Bool { get }
}

/// One rule of a game. A snapshot is restored only where all rules are the same, so that its lanes continue
/// as they would have.
public struct Rule: Equatable, Sendable {
    /// The argument's name, as users know it.
    public let name: String
    /// Its value as text, on one line.
    public let value: String

    init(_ name: String, _ value: some Any) {
        self.name = name
        self.value = String(describing: value)
    }
}

/// The part of a lane's rows that the game itself fills.
public struct GameRow {
    private let row: LaneRow
    private let observation: ArrayRow<UInt8>
    private let actionMask: ArrayRow<Int8>

    @inline(__always)
    init(_ row: LaneRow, _ keys: BatchKeys) {
        self.row = row
        (observation, actionMask) = (row[keys.observation], row[keys.actionMask])
    }

    /// One byte of the observation.
    @inline(__always)
    public func observation(_ value: UInt8, at index: Int) { observation.store(value, at: index) }

    /// Whether an action is legal.
    @inline(__always)
    public func actionMask(_ isLegal: Bool, action: Int) { actionMask.store(isLegal ? 1 : 0, at: action) }

    /// One element of an info.
    @inline(__always)
    public func info<Element>(_ value: Element, _ key: ArrayKey<Element>, at element: Int = 0) {
        row.store(value, key, at: element)
    }
}
