/// A set of card numbers, stored as one bit per card. Card 0 is the lowest bit.
public struct CardSet: Equatable, Sendable, BitwiseCopyable {
    /// The maximum number of cards. Cards are numbered from 0.
    public static let capacity = 128

    private(set) var bits: UInt128

    public init() { bits = 0 }

    init(bits: UInt128) { self.bits = bits }

    /// Makes a set of the cards 0 ..< `count`.
    init(first count: Int) {
        bits = count == CardSet.capacity ? .max : (1 << UInt128(count)) - 1
    }

    @inline(__always)
    public func contains(_ card: Int) -> Bool { (bits &>> UInt128(card)) & 1 == 1 }

    public var isEmpty: Bool { bits == 0 }

    public var count: Int { bits.nonzeroBitCount }

    @inline(__always)
    mutating func insert(_ card: Int) { bits |= 1 &<< UInt128(card) }

    /// Inserts a card that is not in the set, or removes it.
    mutating func toggle(_ card: Int) { bits ^= 1 &<< UInt128(card) }

    /// Returns the cards that are not in `other`.
    func subtracting(_ other: CardSet) -> CardSet { CardSet(bits: bits & ~other.bits) }
}
