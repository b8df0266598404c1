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
        let start = recordHeadSize
        return [
            StateField("matched", UInt32.self, shape: [4], at: start),
            StateField("visible", UInt32.self, shape: [4], at: start + 16),
            StateField("open_card", Int32.self, at: start + 32),
            StateField("turns", Int32.self, at: start + 36),
            StateField("peeks", Int32.self, at: start + 40),
            StateField("last_action", Int32.self, at: start + 44),
            StateField("deck", UInt8.self, shape: [config.rows, config.columns], at: start + 48),
        ]
    }

    public func encode(_ state: CardTable, into bytes: UnsafeMutableRawBufferPointer) {
        bytes.store(state.matched.bits, at: 0)
        bytes.store(state.visible.bits, at: 16)
        bytes.store(state.open, at: 32)
        bytes.store(state.turns, at: 36)
        bytes.store(state.peeks, at: 40)
        bytes.store(state.lastAction, at: 44)
        for card in 0..<cards { bytes[48 + card] = state[symbol: card] }
    }

    public func decode(_ bytes: UnsafeRawBufferPointer, isPlaying: Bool) throws(Reason) -> CardTable {
        var state = makeState()
        let deck = UnsafeRawBufferPointer(rebasing: bytes[48...])
        try start(&state, from: deck)
        let (matched, visible) = (CardSet(bits: bytes.number(at: 0)), CardSet(bits: bytes.number(at: 16)))
        let open: Int32 = bytes.number(at: 32)
        let all = CardSet(first: cards)
        guard matched.subtracting(all).isEmpty, visible.subtracting(all).isEmpty else {
            throw Reason("has more than \(cards) cards")
        }
        var isOdd = CardSet()
        for card in 0..<cards where matched.contains(card) { isOdd.toggle(Int(state[symbol: card])) }
        guard isOdd.isEmpty else { throw Reason("has a matched card without its pair") }
        guard open == CardTable.none || (open >= 0 && open < Int32(cards)) else {
            throw Reason("has card \(open) open; cards are numbered 0...\(cards - 1)")
        }
        guard open == CardTable.none || (!matched.contains(Int(open)) && visible.contains(Int(open))) else {
            throw Reason("has card \(open) open, but this card is matched or hidden")
        }
        let (turns, peeks): (Int32, Int32) = (bytes.number(at: 36), bytes.number(at: 40))
        let last: Int32 = bytes.number(at: 44)
        guard (0...maxRecordedCount).contains(turns), (0...maxRecordedCount).contains(peeks),
            Int(peeks) <= config.peeks ?? .max
        else { throw Reason("has \(turns) turns and \(peeks) peeks, which is impossible") }
        guard (-1..<Int32(actionCount)).contains(last) else {
            throw Reason("has the last action \(last); actions are numbered 0...\(actionCount - 1)")
        }
        (state.matched, state.visible, state.open) = (matched, visible, open)
        (state.turns, state.peeks, state.lastAction) = (turns, peeks, last)
        guard !isPlaying || !state.isCleared else {
            throw Reason("is in play but has no cards left")
        }
        return state
    }
}
