import Platform

@testable import TwofoldCore

/// A game that is very unlike 2048, for tests of the behaviour that all games share. A marker walks along six places.
/// It starts at one of the first three at random, and wins at the last one.
///
///     . . m . . *      actions: back, stay, on, leap (to a random place before the last)
///
/// Walking back from the first place is illegal and changes nothing.
struct ToyGame: Game {
    struct State: Sendable {
        var place = 0
        var visits: [Int32] = [0, 0]
    }

    static let prize: Float = 2.5

    var observationSpace: ObservationSpace { ObservationSpace(shape: [3, 2], range: 0...1) }
    var actions: [String] { ["back", "stay", "on", "leap"] }
    var afterstates: AfterstateArrays? { nil }

    struct Infos: Sendable {
        let half: ArrayKey<Float>
        let isFirst: ArrayKey<Bool>
        let visits: ArrayKey<Int32>
        let place: ArrayKey<UInt8>
    }

    func addInfos(to arrays: inout ArrayList) -> Infos {
        Infos(
            half: arrays.add("half"), isFirst: arrays.add("is_first"),
            visits: arrays.add("visits", shape: [2]), place: arrays.add("place"))
    }

    func makeState() -> State { State() }

    func start(_ state: inout State, generator: inout Generator) {
        state = State(place: generator.next(below: 3))
    }

    func start(_ state: inout State, from observation: UnsafeRawBufferPointer) throws(Reason) {
        guard observation.count(where: { $0 == 1 }) == 1, let place = observation.firstIndex(of: 1), place < 5
        else { throw Reason("has no marker before the last place") }
        state = State(place: place)
    }

    func step(_ state: inout State, action: Int, generator: inout Generator) -> Transition {
        switch action {
        case 0: state.place = max(0, state.place - 1)
        case 2: state.place += 1
        case 3: state.place = generator.next(below: 5)
        default: break
        }
        state.visits[state.place % 2] += 1
        return Transition(isTerminated: state.place == 5)
    }

    func write(_ state: State, isTerminated: Bool, _ keys: BatchKeys, _ infos: Infos, to row: LaneRow) {
        for place in 0..<6 { row.store(place == state.place ? 1 : 0, keys.observation, at: place) }
        for action in 0..<4 {
            let isLegal = !isTerminated && (action != 0 || state.place > 0)
            row.store(isLegal ? 1 : 0, keys.actionMask, at: action)
        }
        row.store(Float(state.place) / 2, infos.half)
        row.store(state.place == 0, infos.isFirst)
        row.store(state.visits[0], infos.visits)
        row.store(state.visits[1], infos.visits, at: 1)
        row.store(UInt8(state.place), infos.place)
    }

    func writeAfterstates(
        of state: State, isTerminated: Bool, _ arrays: AfterstateArrays, to row: LaneRow
    ) {}

    var rules: [Rule] { [Rule("places", 6)] }
    var stateSize: Int { 9 }

    func encode(_ state: State, into bytes: UnsafeMutableRawBufferPointer) {
        bytes[0] = UInt8(state.place)
        for (index, visits) in state.visits.enumerated() {
            bytes.storeBytes(of: visits.littleEndian, toByteOffset: 1 + 4 * index, as: Int32.self)
        }
    }

    func decode(_ bytes: UnsafeRawBufferPointer, isPlaying: Bool) throws(Reason) -> State {
        guard bytes[0] < 5 || (bytes[0] == 5 && !isPlaying) else {
            throw Reason("has its marker in place \(bytes[0])")
        }
        let visits = [1, 5].map {
            Int32(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: Int32.self))
        }
        return State(place: Int(bytes[0]), visits: visits)
    }

    // MARK: rewards and extra infos

    enum Term: String, RewardTerm {
        /// The term that is 1 at the last place.
        case prize
        /// The term that is 1 at all other places.
        case effort
        /// The distance to the last place.
        case distance
        /// The entry of the table for the place.
        case landing

        var isPotential: Bool { self == .distance }
    }

    struct Transition: GameTransition {
        var isTerminated: Bool
        var reward: Float { isTerminated ? ToyGame.prize : -0.5 }
    }

    enum ExtraInfo: String, CaseIterable, Sendable {
        /// The marker's place before and after the step; -1 if there was no step.
        case way
    }

    var defaultReward: RewardSpec {
        RewardSpec([.init("prize", weight: Double(ToyGame.prize)), .init("effort", weight: -0.5)])
    }

    func table(of term: Term) -> RewardTable? {
        term == .landing ? RewardTable(count: 6, isInteger: true, limit: 100) : nil
    }

    func value(of term: Term, table: [Double], in move: Move<ToyGame>) -> Double {
        switch term {
        case .prize: move.after.place == 5 ? 1 : 0
        case .effort: move.after.place == 5 ? 0 : 1
        case .landing: table[move.after.place]
        case .distance: preconditionFailure("distance is a potential")
        }
    }

    func potential(_ term: Term, table: [Double], of state: State) -> Double { Double(5 - state.place) }

    func add(_ info: ExtraInfo, to arrays: inout ArrayList) -> ArrayKey<Int32> {
        arrays.add(info.rawValue, shape: [2])
    }

    func write(_ way: ArrayKey<Int32>, of move: Move<ToyGame>?, to row: LaneRow) {
        row.store(Int32(move?.before.place ?? -1), way)
        row.store(Int32(move?.after.place ?? -1), way, at: 1)
    }
}

/// A simple model of one lane of this game.
struct ToyModel {
    private(set) var generator: Generator
    private(set) var place = 0
    private(set) var visits = [0, 0]
    private(set) var episodeLength = 0
    private let limit: Int

    init(seed: UInt64, limit: Int = .max) {
        generator = Generator(seed: seed)
        self.limit = limit
        start()
    }

    var isTerminated: Bool { place == 5 }
    var isTruncated: Bool { episodeLength >= limit }

    mutating func start(at given: Int? = nil) {
        place = given ?? generator.next(below: 3)
        (visits, episodeLength) = ([0, 0], 0)
    }

    /// Plays an action and returns the reward.
    mutating func step(_ action: Int) -> Float {
        if isTerminated || isTruncated {
            start()
            return 0
        }
        if action == 3 { place = generator.next(below: 5) } else { place = max(0, place + action - 1) }
        visits[place % 2] += 1
        episodeLength += 1
        return isTerminated ? ToyGame.prize : -0.5
    }
}
