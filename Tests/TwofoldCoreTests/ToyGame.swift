import Platform

@testable import TwofoldCore

/// A game as unlike 2048 as it gets, to show what every game has for free: a marker walks along six
/// places, from a random one of the first three, and wins at the last.
///
///     . . m . . *      actions: back, stay, on, leap (to a random place before the last)
///
/// Walking back from the first place is no legal action, and changes nothing.
struct ToyGame: Game {
    struct State: Sendable {
        var place = 0
        var visits: [Int32] = [0, 0]
    }

    static let prize: Float = 2.5

    var observationSpace: ObservationSpace { ObservationSpace(shape: [3, 2], range: 0...1) }
    var actions: [String] { ["back", "stay", "on", "leap"] }
    var infos: [ArraySpec] {
        [
            ArraySpec("half", .float32), ArraySpec("is_first", .bool),
            ArraySpec("visits", .int32, shape: [2]), ArraySpec("place", .uint8),
        ]
    }
    var afterstates: [ArraySpec] { [] }

    func makeState() -> State { State() }

    func start(_ state: inout State, generator: inout Generator) {
        state = State(place: generator.next(below: 3))
    }

    func start(_ state: inout State, from observation: UnsafeRawBufferPointer) throws(Reason) {
        guard observation.count(where: { $0 == 1 }) == 1, let place = observation.firstIndex(of: 1), place < 5
        else { throw Reason("has no marker before the last place") }
        state = State(place: place)
    }

    func step(_ state: inout State, action: Int, generator: inout Generator) -> StepOutcome {
        switch action {
        case 0: state.place = max(0, state.place - 1)
        case 2: state.place += 1
        case 3: state.place = generator.next(below: 5)
        default: break
        }
        state.visits[state.place % 2] += 1
        let isWon = state.place == 5
        return StepOutcome(reward: isWon ? ToyGame.prize : -0.5, terminated: isWon)
    }

    func write(_ state: State, isTerminated: Bool, to row: GameRow) {
        for place in 0..<6 { row.observation(place == state.place ? 1 : 0, at: place) }
        for action in 0..<4 {
            row.actionMask(!isTerminated && (action != 0 || state.place > 0), action: action)
        }
        row.info(Float(state.place) / 2, 0)
        row.info(state.place == 0, 1)
        row.info(state.visits[0], 2)
        row.info(state.visits[1], 2, at: 1)
        row.info(UInt8(state.place), 3)
    }

    func writeAfterstates(of state: State, isTerminated: Bool, to row: LaneRow) {}

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
        /// 1 at the last place.
        case prize
        /// 1 anywhere else.
        case effort
        /// How far the last place is.
        case distance
        /// The table's entry for the place.
        case landing

        var isPotential: Bool { self == .distance }
    }

    enum ExtraInfo: String, CaseIterable, Sendable {
        /// The place before and the place after; -1 without a step.
        case way
    }

    var defaultReward: RewardSpec {
        RewardSpec([.init("prize", weight: Double(ToyGame.prize)), .init("effort", weight: -0.5)])
    }

    func table(of term: Term) -> RewardTable? {
        term == .landing ? RewardTable(count: 6, isInteger: true, limit: 100) : nil
    }

    func transition(
        from before: State, action: Int, to after: State, isTerminated: Bool
    ) -> (before: Int, after: Int) {
        (before.place, after.place)
    }

    func value(of term: Term, table: [Double], in transition: (before: Int, after: Int)) -> Double {
        switch term {
        case .prize: transition.after == 5 ? 1 : 0
        case .effort: transition.after == 5 ? 0 : 1
        case .landing: table[transition.after]
        case .distance: preconditionFailure("a potential")
        }
    }

    func potential(_ term: Term, table: [Double], of state: State) -> Double { Double(5 - state.place) }

    func array(of info: ExtraInfo) -> ArraySpec { ArraySpec("way", .int32, shape: [2]) }

    func write(_ info: ExtraInfo, of transition: (before: Int, after: Int)?, to row: InfoRow) {
        row.store(Int32(transition?.before ?? -1))
        row.store(Int32(transition?.after ?? -1), at: 1)
    }
}

/// One lane of it in plain words.
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

    /// The reward.
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
