public import Platform

/// Concentration, the memory game. Each turn shows two cards. If they are equal, they are a pair and leave the game. If
/// they differ, they are turned back. The episode ends when all pairs are found.
///
/// Action i turns card i; cards are numbered row by row. A game with peeks has one more action, which shows all cards
/// for one observation.
public struct Concentration: Game {
    /// The arguments of the environment, with Twofold's defaults.
    public struct Config: Equatable, Sendable {
        /// The number of rows of cards, 1 ... 16.
        public var rows = 4
        /// The number of columns of cards, 1 ... 16.
        public var columns = 4
        /// The number of different symbols. Each symbol is on the same even number of cards. If nil, each pair has its
        /// own symbol.
        public var symbols: Int?
        /// The maximum number of peeks in an episode. 0 removes the peek action; nil means no limit.
        public var peeks: Int?
        public var matchedCards = MatchedCards.removed
        public var illegalAction = IllegalAction.noop
        /// Whether the observation has one more element after the cards: the last action.
        public var observesLastAction = false
        /// Whether the infos include the symbols of all cards.
        public var reportsDeck = false

        public init() {}
    }

    /// The value that matched cards have in observations, from the step after the match.
    public enum MatchedCards: Sendable {
        /// Matched cards have the value ``Concentration/removedCode``.
        case removed
        /// Matched cards have the value of their symbol.
        case faceUp
    }

    /// The effect of an action that the action mask forbids.
    public enum IllegalAction: String, Sendable {
        /// No card is turned; an open card stays open.
        case noop
        /// The turn ends; an open card turns back.
        case endTurn = "end_turn"
        /// The episode terminates; an open card stays open.
        case terminate
    }

    public typealias State = CardTable

    public let config: Config
    public let cards: Int
    /// The number of different symbols.
    public let symbols: Int

    /// Makes the game with these arguments. Throws if an argument is out of range. The error names the argument.
    public init(_ config: Config) throws(EnvironmentError) {
        let size = "\(config.rows) x \(config.columns)"
        let sides = 1...16
        guard sides.contains(config.rows), sides.contains(config.columns) else {
            throw .invalid("size", "size is \(size); each side must be in 1...16")
        }
        let cards = config.rows * config.columns
        guard cards.isMultiple(of: 2), cards <= CardSet.capacity else {
            throw .invalid(
                "size",
                "size is \(size); the number of cards, \(cards), must be even and at most \(CardSet.capacity)"
            )
        }
        let symbols = config.symbols ?? cards / 2
        guard symbols >= 1, cards.isMultiple(of: symbols), (cards / symbols).isMultiple(of: 2) else {
            throw .invalid(
                "symbols",
                "symbols is \(symbols); with \(cards) cards, each symbol must be on the same even number of cards"
            )
        }
        guard config.peeks ?? 0 >= 0, config.peeks ?? 0 <= Int(Int32.max) else {
            throw .invalid("peeks", "peeks is \(config.peeks ?? 0); it must be in 0...2^31 - 1")
        }
        self.config = config
        self.cards = cards
        self.symbols = symbols
    }

    /// The deck before it is shuffled: the cards of symbol 0, then the cards of symbol 1, and so on.
    var sortedDeck: [UInt8] { (0..<cards).map { UInt8($0 / (cards / symbols)) } }

    // MARK: the rules

    public func makeState() -> CardTable { CardTable(symbols: sortedDeck) }

    /// Shuffles the deck with the Fisher-Yates algorithm (Durstenfeld, "Algorithm 235", 1964).
    ///
    /// The algorithm is fixed, so that a seed always gives the same deck. From the last card down to card 1, it swaps
    /// card i with card (word x (i + 1)) >> 32, where `word` is the next 32-bit word of the generator. A shuffle of n
    /// cards draws n - 1 words.
    public func start(_ state: inout CardTable, generator: inout Generator) {
        state = makeState()
        for card in stride(from: cards - 1, through: 1, by: -1) {
            state.swap(card, generator.next(below: card + 1))
        }
    }

    public func start(
        _ state: inout CardTable, from symbols: UnsafeRawBufferPointer
    ) throws(Reason) {
        let copies = cards / self.symbols
        var counts = InlineArray<128, Int32>(repeating: 0)
        for (card, symbol) in symbols.enumerated() {
            guard Int(symbol) < self.symbols else {
                throw Reason("has symbol \(symbol) on card \(card); symbols are 0...\(self.symbols - 1)")
            }
            counts[Int(symbol)] += 1
        }
        for symbol in 0..<self.symbols where counts[symbol] != Int32(copies) {
            throw Reason("has symbol \(symbol) on \(counts[symbol]) cards; it must be on \(copies) cards")
        }
        state = CardTable(symbols: symbols)
    }

    public func step(_ state: inout CardTable, action: Int, generator: inout Generator) -> Transition {
        let outcome =
            if action < cards {
                state.turn(action, endsTurn: config.illegalAction == .endTurn)
            } else if canPeek(state) {
                state.peek(action: action)
            } else {
                state.refusePeek(action: action)
            }
        return Transition(
            action: action, outcome: outcome,
            isTerminated: state.isCleared || (outcome.isIllegal && config.illegalAction == .terminate))
    }

    private func canPeek(_ state: CardTable) -> Bool {
        config.peeks.map { Int(state.peeks) < $0 } ?? true
    }

    // MARK: observations and infos

    /// The number that stands for a face-down card in observations. It is larger than any symbol.
    public var faceDownCode: UInt8 { UInt8(symbols) }
    /// The number that stands for a matched card in observations if the game uses ``MatchedCards/removed``.
    public var removedCode: UInt8 { UInt8(symbols + 1) }

    var actionCount: Int { cards + (config.peeks == 0 ? 0 : 1) }

    public var observationSpace: ObservationSpace {
        let largest = config.matchedCards == .removed ? removedCode : faceDownCode
        guard config.observesLastAction else {
            return ObservationSpace(shape: [config.rows, config.columns], range: 0...largest)
        }
        return ObservationSpace(shape: [cards + 1], range: 0...max(largest, UInt8(actionCount)))
    }

    public var boardSpace: ObservationSpace {
        ObservationSpace(shape: [config.rows, config.columns], range: 0...UInt8(symbols - 1))
    }

    public var actions: [String] {
        (0..<actionCount).map { $0 < cards ? "turn \($0)" : "peek" }
    }

    /// The names of the actions of a game with the default arguments.
    public static let defaultActions = try! Concentration(Config()).actions

    /// The keys of the info arrays.
    public struct Infos: Sendable {
        let pairs: ArrayKey<Int32>
        let turns: ArrayKey<Int32>
        let peeks: ArrayKey<Int32>
        let openCard: ArrayKey<Int32>
        let deck: ArrayKey<UInt8>?
    }

    public func addInfos(to arrays: inout ArrayList) -> Infos {
        Infos(
            pairs: arrays.add("pairs"), turns: arrays.add("turns"), peeks: arrays.add("peeks"),
            openCard: arrays.add("open_card"),
            deck: config.reportsDeck ? arrays.add("deck", shape: [config.rows, config.columns]) : nil)
    }

    public var afterstates: AfterstateArrays? { nil }

    public func write(
        _ state: CardTable, isTerminated: Bool, _ keys: BatchKeys, _ infos: Infos, to row: LaneRow
    ) {
        let (observation, mask) = (row[keys.observation], row[keys.actionMask])
        for card in 0..<cards {
            let isMatched = state.matched.contains(card)
            if state.visible.contains(card) || (isMatched && config.matchedCards == .faceUp) {
                observation.store(state[symbol: card], at: card)
            } else {
                observation.store(isMatched ? removedCode : faceDownCode, at: card)
            }
            mask.store(!isTerminated && state.canTurn(card) ? 1 : 0, at: card)
        }
        if config.peeks != 0 { mask.store(!isTerminated && canPeek(state) ? 1 : 0, at: cards) }
        if config.observesLastAction {
            observation.store(
                state.lastAction < 0 ? UInt8(actionCount) : UInt8(state.lastAction), at: cards)
        }
        row.store(Int32(state.pairs), infos.pairs)
        row.store(state.turns, infos.turns)
        row.store(state.peeks, infos.peeks)
        row.store(state.open, infos.openCard)
        if let deck = infos.deck {
            for card in 0..<cards { row.store(state[symbol: card], deck, at: card) }
        }
    }

    public func writeAfterstates(
        of state: CardTable, isTerminated: Bool, _ arrays: AfterstateArrays, to row: LaneRow
    ) {}
}
