/// The cards of one game of Concentration: what lies where, what is matched, what is face up.
///
/// Cards are numbered row by row. Between two steps a card is in one of four states:
///
///     face down ──turn──► open ──the second matches──► matched
///         ▲                 │
///         └────next step────┴─ the second does not: both are visible once, and count as face down
///
/// A value without heap storage.
public struct CardTable: Equatable, Sendable {
    /// What an action did, as far as rewards ask.
    public struct Outcome: Equatable, Sendable, BitwiseCopyable {
        /// A pair was found.
        public var isMatch = false
        /// The second card of a turn was another than the first.
        public var isMismatch = false
        /// Cards that turn back, the touched one included, because one was touched that is not face down:
        /// 2 where that ends a turn with an open card, else 1; 0 where no such card was touched.
        public var touched: Int32 = 0
        /// A peek was used.
        public var isPeek = false
        /// The action was one that the mask forbids.
        public var isIllegal = false
    }

    /// The number that stands for "no card".
    public static let none: Int32 = -1

    /// Number of cards.
    public let count: Int
    private var symbols: InlineArray<128, UInt8>
    /// Cards that are out of play.
    public private(set) var matched = CardSet()
    /// Cards that the last action left visible, matched ones of earlier turns not among them.
    public private(set) var visible = CardSet()
    /// The turn's first card, which waits for its second; -1 between turns.
    public private(set) var open = CardTable.none
    /// Turns that have ended.
    public private(set) var turns: Int32 = 0
    /// Peeks that were used.
    public private(set) var peeks: Int32 = 0
    /// The action before, -1 at the start of an episode.
    public private(set) var lastAction: Int32 = -1

    /// A game that starts with these symbols, card by card.
    public init(symbols: some Collection<UInt8>) {
        precondition(symbols.count <= CardSet.capacity)
        count = symbols.count
        self.symbols = InlineArray(repeating: 0)
        for (card, symbol) in symbols.enumerated() { self.symbols[card] = symbol }
    }

    /// The symbol on a card, seen or not.
    public subscript(symbol card: Int) -> UInt8 {
        @inline(__always) get { symbols[card] }
    }

    /// Pairs that were found.
    public var pairs: Int { matched.count / 2 }
    /// Whether all pairs are found.
    public var isCleared: Bool { matched.count == count }

    /// Whether a card can be turned: face down, or about to be.
    @inline(__always)
    public func canTurn(_ card: Int) -> Bool { !matched.contains(card) && Int32(card) != open }

    /// Exchanges two cards of a table that nobody has played on.
    mutating func swap(_ first: Int, _ second: Int) {
        (symbols[first], symbols[second]) = (symbols[second], symbols[first])
    }

    /// Puts a table that nobody has played on in the middle of a game; all of it has been checked.
    mutating func resume(
        matched: CardSet, visible: CardSet, open: Int32, turns: Int32, peeks: Int32, lastAction: Int32
    ) {
        (self.matched, self.visible, self.open) = (matched, visible, open)
        (self.turns, self.peeks, self.lastAction) = (turns, peeks, lastAction)
    }

    // MARK: actions

    /// Turns a card; `endsTurn` says whether touching one that can't be turned ends the turn. `tell` hears
    /// the events.
    @inline(__always)
    mutating func turn(_ card: Int, endsTurn: Bool, tell: (FlipEvent) -> Void) -> Outcome {
        lastAction = Int32(card)
        guard canTurn(card) else { return touch(card, endsTurn: endsTurn, tell: tell) }
        hideVisible(tell)
        visible.insert(card)
        tell(.turn(card: card, symbol: symbols[card]))
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
        tell(.match(first: first, second: card, symbol: symbols[card]))
        return Outcome(isMatch: true)
    }

    /// Touches a card that is matched or open. Where that ends the turn, an open card is visible once more.
    @inline(__always)
    private mutating func touch(_ card: Int, endsTurn: Bool, tell: (FlipEvent) -> Void) -> Outcome {
        let cards: Int32 = endsTurn && open != CardTable.none ? 2 : 1
        hideVisible(tell)
        if endsTurn {
            open = CardTable.none
            turns &+= 1
        }
        return Outcome(touched: cards, isIllegal: true)
    }

    /// Shows all cards in play for one observation; the turn goes on where it was.
    @inline(__always)
    mutating func peek(action: Int, tell: (FlipEvent) -> Void) -> Outcome {
        lastAction = Int32(action)
        hideVisible(tell)
        peeks &+= 1
        let shown = CardSet(first: count).subtracting(matched)
        shown.forEach { card in
            if !visible.contains(card) { tell(.show(card: card, symbol: symbols[card])) }
        }
        visible = shown
        tell(.peeked(count: Int(peeks)))
        return Outcome(isPeek: true)
    }

    /// A peek with none left: it does nothing but pass the time of what was visible. It never ends the turn, or every
    /// card could be seen by turning it and taking that back.
    @inline(__always)
    mutating func refusePeek(action: Int, tell: (FlipEvent) -> Void) -> Outcome {
        lastAction = Int32(action)
        hideVisible(tell)
        return Outcome(isIllegal: true)
    }

    /// What was visible for one observation turns back; an open card stays.
    @inline(__always)
    private mutating func hideVisible(_ tell: (FlipEvent) -> Void) {
        let hidden = visible.subtracting(matched)
        visible = CardSet()
        if open != CardTable.none { visible.insert(Int(open)) }
        hidden.subtracting(visible).forEach { tell(.hide(card: $0)) }
    }

    /// The same cards in the same state.
    public static func == (left: CardTable, right: CardTable) -> Bool {
        guard left.count == right.count, left.matched == right.matched, left.visible == right.visible,
            left.open == right.open, left.turns == right.turns, left.peeks == right.peeks,
            left.lastAction == right.lastAction
        else { return false }
        for card in 0..<left.count where left.symbols[card] != right.symbols[card] { return false }
        return true
    }
}
