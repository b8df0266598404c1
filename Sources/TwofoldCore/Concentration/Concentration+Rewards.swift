extension Concentration {
    /// The reward terms of Concentration. The raw values are the names in a RewardSpec. The formulas are in
    /// docs/environments/rewards.md.
    public enum Term: String, RewardTerm {
        case match
        case mismatch
        case faceUpTouch = "face_up_touch"
        case cleared
        case peek
        case survival

        public var isPotential: Bool { false }
    }

    /// The extra infos that a step reports if the user requests them.
    public enum ExtraInfo: String, CaseIterable, Sendable {
        /// The ``Flip`` of each card.
        case flips
    }

    /// The change of a card in one step, as the extra info `flips` reports it.
    public enum Flip: UInt8, Sendable {
        /// The card did not change.
        case none = 0
        /// The card was turned face up.
        case turned = 1
        /// The card was turned back.
        case hidden = 2
        /// The card was matched.
        case matched = 3
        /// A peek showed the card.
        case shown = 4
    }

    /// One step of the game, from which the reward terms are computed.
    public struct Transition: GameTransition {
        let action: Int
        let outcome: CardTable.Outcome
        public let isTerminated: Bool

        public var reward: Float { Concentration.reward(outcome) }
    }

    private static let weights = (match: 1.0, mismatch: -0.1, touch: -0.1, peek: -0.5)

    /// The default reward: 1 for a pair, -0.1 for a turn with two different cards or for choosing a card that is not
    /// face down, and -0.5 for a peek. On 4 x 4, a peek saves a player with perfect memory about five turns that find
    /// no pair.
    public var defaultReward: RewardSpec {
        RewardSpec([
            .init(Term.match.rawValue, weight: Self.weights.match),
            .init(Term.mismatch.rawValue, weight: Self.weights.mismatch),
            .init(Term.faceUpTouch.rawValue, weight: Self.weights.touch),
            .init(Term.peek.rawValue, weight: Self.weights.peek),
        ])
    }

    /// Returns the default reward of a step. At most one of the default terms is non-zero in a step.
    static func reward(_ outcome: CardTable.Outcome) -> Float {
        if outcome.isMatch { return Float(weights.match) }
        if outcome.isMismatch { return Float(weights.mismatch) }
        if outcome.isPeek { return Float(weights.peek) }
        if outcome.touched > 0 { return Float(weights.touch * Double(outcome.touched)) }
        return 0
    }

    public func table(of term: Term) -> RewardTable? { nil }

    public func value(of term: Term, table: [Double], in move: Move<Concentration>) -> Double {
        let outcome = move.transition.outcome
        return switch term {
        case .match: outcome.isMatch ? 1 : 0
        case .mismatch: outcome.isMismatch ? 1 : 0
        case .faceUpTouch: Double(outcome.touched)
        case .cleared: move.after.isCleared ? 1 : 0
        case .peek: outcome.isPeek ? 1 : 0
        case .survival: outcome.isIllegal || move.transition.isTerminated ? 0 : 1
        }
    }

    public func potential(_ term: Term, table: [Double], of state: CardTable) -> Double {
        preconditionFailure("\(term.rawValue) is not a potential")
    }

    // MARK: extra infos

    public func add(_ info: ExtraInfo, to arrays: inout ArrayList) -> ArrayKey<UInt8> {
        arrays.add(info.rawValue, shape: [config.rows, config.columns])
    }

    public func write(_ key: ArrayKey<UInt8>, of move: Move<Concentration>?, to row: LaneRow) {
        let flips = row[key]
        for card in 0..<cards {
            flips.store((move.map { flip(of: card, in: $0) } ?? .none).rawValue, at: card)
        }
    }

    /// Returns the change of a card in a step. Each step starts by turning back the cards that were visible for only
    /// one observation.
    private func flip(of card: Int, in move: Move<Concentration>) -> Flip {
        let (before, outcome) = (move.before, move.transition.outcome)
        let isTouched = card == move.transition.action
        let isOpen = Int32(card) == before.open
        if outcome.isMatch, isTouched || isOpen { return .matched }
        if isTouched, !outcome.isIllegal { return .turned }
        guard !before.matched.contains(card), !isOpen else { return .none }
        if outcome.isPeek { return .shown }
        return before.visible.contains(card) ? .hidden : .none
    }
}
