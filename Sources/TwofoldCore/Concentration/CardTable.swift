/// The cards of one game of Concentration: their symbols, and which cards are matched or face up.
///
/// Cards are numbered row by row. Between two steps a card is in one of four states:
///
///     face down ──turn──► open ──the second card matches──► matched
///         ▲                 │
///         └────next step────┴─ the second does not match: both are visible for one observation
///
/// In the next step, the two mismatched cards can be turned as if they were already face down.
/// A table needs no heap memory.
public struct CardTable: Sendable {
    /// The outcome of an action, from which rewards are computed.
    public struct Outcome: Sendable, BitwiseCopyable {
        /// Whether the action found a pair.
        public var isMatch = false
        /// Whether the action turned the second card of a turn, and this card differed from the first.
        public var isMismatch = false
        /// The value of the term `face_up_touch`: 1 if the action touched a matched or open card, 2 if it also ended a
        /// turn that had an open card, 0 otherwise.
        public var touched: Int32 = 0
        /// Whether the action used a peek.
        public var isPeek = false
        /// Whether the mask forbids the action.
        public var isIllegal = false
    }

    /// The number that stands for "no card".
    public static let none: Int32 = -1

    /// The number of cards.
    public let count: Int
    private var symbols: InlineArray<128, UInt8>
    /// The matched cards. They are out of play.
    public internal(set) var matched = CardSet()
    /// The cards that are visible after the last action. Cards matched in earlier turns are not included.
    public internal(set) var visible = CardSet()
    /// The first card of an unfinished turn; -1 between turns.
    public internal(set) var open = CardTable.none
    /// The number of turns that have ended.
    public internal(set) var turns: Int32 = 0
    /// The number of peeks used.
    public internal(set) var peeks: Int32 = 0
    /// The last action; -1 at the start of an episode.
    public internal(set) var lastAction: Int32 = -1

    /// Makes a new game. `symbols` lists the symbol of each card in order.
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

    /// The number of pairs found so far.
    public var pairs: Int { matched.count / 2 }
    /// Whether all pairs are found.
    public var isCleared: Bool { matched.count == count }

    /// Returns true if a card can be turned. Such a card is neither matched nor open.
    @inline(__always)
    public func canTurn(_ card: Int) -> Bool { !matched.contains(card) && Int32(card) != open }

    /// Swaps the symbols of two cards. Used only before the first action.
    mutating func swap(_ first: Int, _ second: Int) {
        (symbols[first], symbols[second]) = (symbols[second], symbols[first])
    }

    // MARK: actions

    /// Turns a card. If the card cannot be turned and `endsTurn` is true, the turn ends.
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

    /// Handles an action on a card that is already matched or open. Turns back the cards that were visible for one
    /// observation. If `endsTurn` is true, the turn ends, and its open card stays visible for one more observation.
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

    /// Handles a peek when all peeks are used. Turns back the cards that were visible for one observation. The turn
    /// never ends here; otherwise an agent could turn a card, see its symbol and cancel the turn.
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
}
