/// The cards of one game of Concentration: their symbols, and which are matched or face up.
///
/// Cards are numbered row by row. Between two steps a card is in one of four states:
///
///     face down ──turn──► open ──the second card matches──► matched
///         ▲                 │
///         └────next step────┴─ the second does not: both are visible once, and face down for the rules
///
/// The value needs no heap storage.
public struct CardTable: Equatable, Sendable {
    /// The outcome of an action, from which rewards are computed.
    public struct Outcome: Equatable, Sendable, BitwiseCopyable {
        /// A pair was found.
        public var isMatch = false
        /// The second card of a turn differed from the first.
        public var isMismatch = false
        /// The value of the term `face_up_touch`: 1 if a matched or open card was touched, 2 if that ended a turn
        /// with an open card, else 0.
        public var touched: Int32 = 0
        /// A peek was used.
        public var isPeek = false
        /// The mask forbids the action.
        public var isIllegal = false
    }

    /// The number that stands for "no card".
    public static let none: Int32 = -1

    /// The number of cards.
    public let count: Int
    private var symbols: InlineArray<128, UInt8>
    /// The cards that are out of play.
    public private(set) var matched = CardSet()
    /// The cards that the last action left visible, without cards matched in earlier turns.
    public private(set) var visible = CardSet()
    /// The first card of a turn until the second is turned; -1 between turns.
    public private(set) var open = CardTable.none
    /// The number of ended turns.
    public private(set) var turns: Int32 = 0
    /// The number of used peeks.
    public private(set) var peeks: Int32 = 0
    /// The last action; -1 at the start of an episode.
    public private(set) var lastAction: Int32 = -1

    /// Makes a game that starts with these symbols, card by card.
    public init(symbols: some Collection<UInt8>) {
        precondition(symbols.count <= CardSet.capacity)
        count = symbols.count
        self.symbols = InlineArray(repeating: 0)
        for (card, symbol) in symbols.enumerated() { self.symbols[card] = symbol }
    }

    /// The symbol on a card, whether visible or not.
    public subscript(symbol card: Int) -> UInt8 {
        @inline(__always) get { symbols[card] }
    }

    /// The number of found pairs.
    public var pairs: Int { matched.count / 2 }
    /// Whether all pairs are found.
    public var isCleared: Bool { matched.count == count }

    /// Returns true if a card can be turned. It is face down, or turns face down in the next step.
    @inline(__always)
    public func canTurn(_ card: Int) -> Bool { !matched.contains(card) && Int32(card) != open }

    /// Swaps two cards before the first action.
    mutating func swap(_ first: Int, _ second: Int) {
        (symbols[first], symbols[second]) = (symbols[second], symbols[first])
    }

    /// Sets the state of a game in progress. The caller has checked all values.
    mutating func resume(
        matched: CardSet, visible: CardSet, open: Int32, turns: Int32, peeks: Int32, lastAction: Int32
    ) {
        (self.matched, self.visible, self.open) = (matched, visible, open)
        (self.turns, self.peeks, self.lastAction) = (turns, peeks, lastAction)
    }

    // MARK: actions

    /// Turns a card. With `endsTurn`, touching a card that cannot be turned ends the turn.
    @inline(__always)
    mutating func turn(_ card: Int, endsTurn: Bool) -> Outcome {
        lastAction = Int32(card)
        guard canTurn(card) else { return touch(card, endsTurn: endsTurn) }
        hideVisible()
        visible.insert(card)
        guard open != CardTable.none else {
            open = Int32(card)
            return Outcome()
        }
        let first = Int(open)
        open = CardTable.none
        turns &+= 1
        guard symbols[first] == symbols[card] else { return Outcome(isMismatch: true) }
        matched.insert(first)
        matched.insert(card)
        return Outcome(isMatch: true)
    }

    /// Touches a matched or open card. If that ends the turn, the open card stays visible for one more
    /// observation.
    @inline(__always)
    private mutating func touch(_ card: Int, endsTurn: Bool) -> Outcome {
        let cards: Int32 = endsTurn && open != CardTable.none ? 2 : 1
        hideVisible()
        if endsTurn {
            open = CardTable.none
            turns &+= 1
        }
        return Outcome(touched: cards, isIllegal: true)
    }

    /// Shows all cards in play for one observation. The current turn continues afterwards.
    @inline(__always)
    mutating func peek(action: Int) -> Outcome {
        lastAction = Int32(action)
        peeks &+= 1
        visible = CardSet(first: count).subtracting(matched)
        return Outcome(isPeek: true)
    }

    /// Handles a peek when all peeks are used: visible cards turn back. It never ends the turn; otherwise an
    /// agent could see every card by turning it and taking the turn back.
    @inline(__always)
    mutating func refusePeek(action: Int) -> Outcome {
        lastAction = Int32(action)
        hideVisible()
        return Outcome(isIllegal: true)
    }

    /// Turns back the cards that were visible for one observation. An open card stays visible.
    @inline(__always)
    private mutating func hideVisible() {
        visible = CardSet()
        if open != CardTable.none { visible.insert(Int(open)) }
    }

    /// Returns true if both tables have the same cards in the same state.
    public static func == (left: CardTable, right: CardTable) -> Bool {
        guard left.count == right.count, left.matched == right.matched, left.visible == right.visible,
            left.open == right.open, left.turns == right.turns, left.peeks == right.peeks,
            left.lastAction == right.lastAction
        else { return false }
        for card in 0..<left.count where left.symbols[card] != right.symbols[card] { return false }
        return true
    }
}
