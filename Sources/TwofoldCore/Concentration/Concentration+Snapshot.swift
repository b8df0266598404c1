public import Platform

/// The state of a Concentration game in a snapshot, little-endian:
///
///     0          16          32     36      40      44            48
///     ┌──────────┬───────────┬──────┬───────┬───────┬─────────────┬──────────────────────┐
///     │ matched  │ visible   │ open │ turns │ peeks │ last action │ symbols, row by row  │
///     │ 1 bit per card, low first  │ Int32, -1 for none           │ one byte per card    │
///     └──────────┴───────────┴──────┴───────┴───────┴─────────────┴──────────────────────┘
extension Concentration {
    public var rules: [Rule] {
        [
            Rule("size", "\(config.rows)x\(config.columns)"),
            Rule("symbols", symbols),
            Rule("peeks", config.peeks.map { "\($0)" } ?? "unlimited"),
            Rule("illegal_action", config.illegalAction.rawValue),
        ]
    }

    public var stateSize: Int { 48 + cards }

    public var ownStateFields: [StateField] {
        func field<Element: ArrayElement>(_ name: String, _ type: Element.Type, _ shape: [Int], _ offset: Int)
            -> StateField
        {
            StateField(name, type, shape: shape, at: recordHeadSize + offset)
        }
        return [
            field("matched", UInt32.self, [4], 0), field("visible", UInt32.self, [4], 16),
            field("open_card", Int32.self, [], 32), field("turns", Int32.self, [], 36),
            field("peeks", Int32.self, [], 40), field("last_action", Int32.self, [], 44),
            field("deck", UInt8.self, [config.rows, config.columns], 48),
        ]
    }

    public func encode(_ state: CardTable, into bytes: UnsafeMutableRawBufferPointer) {
        func store(_ set: CardSet, _ offset: Int) {
            let (low, high) = (UInt64(truncatingIfNeeded: set.bits), UInt64(set.bits >> 64))
            bytes.storeBytes(of: low.littleEndian, toByteOffset: offset, as: UInt64.self)
            bytes.storeBytes(of: high.littleEndian, toByteOffset: offset + 8, as: UInt64.self)
        }
        func store(_ number: Int32, _ offset: Int) {
            bytes.storeBytes(of: number.littleEndian, toByteOffset: offset, as: Int32.self)
        }
        store(state.matched, 0)
        store(state.visible, 16)
        store(state.open, 32)
        store(state.turns, 36)
        store(state.peeks, 40)
        store(state.lastAction, 44)
        for card in 0..<cards { bytes[48 + card] = state[symbol: card] }
    }

    public func decode(_ bytes: UnsafeRawBufferPointer, isPlaying: Bool) throws(Reason) -> CardTable {
        func set(_ offset: Int) -> CardSet {
            let low = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            let high = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self))
            return CardSet(bits: UInt128(high) << 64 | UInt128(low))
        }
        func number(_ offset: Int) -> Int32 {
            Int32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self))
        }
        var state = makeState()
        let deck = UnsafeRawBufferPointer(rebasing: bytes[48...])
        try start(&state, from: deck)
        let (matched, visible, open) = (set(0), set(16), number(32))
        let all = CardSet(first: cards)
        guard matched.subtracting(all).isEmpty, visible.subtracting(all).isEmpty else {
            throw Reason("has more than \(cards) cards")
        }
        var isOdd = CardSet()
        matched.forEach { card in
            let symbol = Int(state[symbol: card])
            if isOdd.contains(symbol) { isOdd.remove(symbol) } else { isOdd.insert(symbol) }
        }
        guard isOdd.isEmpty else { throw Reason("has a matched card without its pair") }
        guard open == CardTable.none || (open >= 0 && open < Int32(cards)) else {
            throw Reason("has card \(open) open; cards are numbered 0...\(cards - 1)")
        }
        guard open == CardTable.none || (!matched.contains(Int(open)) && visible.contains(Int(open))) else {
            throw Reason("has card \(open) open, but this card is matched or hidden")
        }
        let (turns, peeks, last) = (number(36), number(40), number(44))
        guard (0...maxRecordedCount).contains(turns), (0...maxRecordedCount).contains(peeks),
            Int(peeks) <= config.peeks ?? .max
        else { throw Reason("has \(turns) turns and \(peeks) peeks, which is impossible") }
        guard (-1..<Int32(actionCount)).contains(last) else {
            throw Reason("has the last action \(last); actions are numbered 0...\(actionCount - 1)")
        }
        state.resume(
            matched: matched, visible: visible, open: open, turns: turns, peeks: peeks, lastAction: last)
        guard !isPlaying || !state.isCleared else {
            throw Reason("is in play but has no cards left")
        }
        return state
    }
}
