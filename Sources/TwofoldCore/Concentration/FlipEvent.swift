/// One effect of an action on the cards, in display order; the counterpart of 2048's ``MoveAction``.
///
/// Cards are numbered row by row. The cards that turn back from the step before come first:
///
///     flip 3 ──► turn(3, symbol: 5)
///     flip 9 ──► turn(9, symbol: 2)               no match; both stay visible for this observation
///     flip 0 ──► hide(3), hide(9), turn(0, symbol: 2)
///     flip 9 ──► turn(9, symbol: 2), match(first: 0, second: 9, symbol: 2)
///     peek   ──► show(1, symbol: 7), show(2, symbol: 4), …, peeked(1)
public enum FlipEvent: Equatable, Sendable {
    /// A card turned face up, as the first or the second of a turn.
    case turn(card: Int, symbol: UInt8)
    /// The two cards of this turn are a pair, now out of play.
    case match(first: Int, second: Int, symbol: UInt8)
    /// A card turned back.
    case hide(card: Int)
    /// A peek shows a card for one observation.
    case show(card: Int, symbol: UInt8)
    /// All cards in play are visible for one observation; the episode's `count`-th peek.
    case peeked(count: Int)
}
