import Testing

@testable import TwofoldCore

extension Concentration.Config {
    /// Creates the default arguments with the given changes, but without peeks unless requested.
    init(
        rows: Int = 2, columns: Int = 4, symbols: Int? = nil, peeks: Int? = 0,
        matchedCards: Concentration.MatchedCards = .removed,
        illegalAction: Concentration.IllegalAction = .noop, observesLastAction: Bool = false,
        reportsDeck: Bool = false
    ) {
        self.init()
        self.rows = rows
        self.columns = columns
        self.symbols = symbols
        self.peeks = peeks
        self.matchedCards = matchedCards
        self.illegalAction = illegalAction
        self.observesLastAction = observesLastAction
        self.reportsDeck = reportsDeck
    }
}

/// Returns all arrangements of `pairs` pairs of cards.
func allDecks(pairs: Int) -> [[UInt8]] {
    func extend(_ left: [Int]) -> [[UInt8]] {
        guard left.contains(where: { $0 > 0 }) else { return [[]] }
        return left.indices.filter { left[$0] > 0 }.flatMap { symbol in
            var rest = left
            rest[symbol] -= 1
            return extend(rest).map { [UInt8(symbol)] + $0 }
        }
    }
    return extend(Array(repeating: 2, count: pairs))
}

@Suite struct ConcentrationTests {
    /// A known deck:
    ///
    ///     0 1 2 3
    ///     3 2 1 0
    private static let deck: [UInt8] = [0, 1, 2, 3, 3, 2, 1, 0]

    /// The observation of a card that is face down.
    private let down: UInt8 = 4
    private let gone: UInt8 = 5

    private func game(
        _ config: Concentration.Config = .init(rows: 2), deck: [UInt8] = deck, extraInfos: [String] = []
    ) throws -> TestBatch {
        var options = BatchOptions(lanes: 1, autoreset: .disabled)
        options.extraInfos = extraInfos
        let batch = TestBatch(try Batch(Concentration(config), options))
        try batch.reset(seed: 0)
        try batch.reset(boards: [deck])
        return batch
    }

    private func table(_ game: Concentration, _ deck: [UInt8] = deck) throws -> CardTable {
        var state = game.makeState()
        try deck.withUnsafeBytes { try game.start(&state, from: $0) }
        return state
    }

    // MARK: a turn

    @Test func `a game starts with all cards face down, and each can be turned`() throws {
        let batch = try game()
        #expect(batch.observation() == [down, down, down, down, down, down, down, down])
        #expect(batch.mask() == [1, 1, 1, 1, 1, 1, 1, 1])
        #expect(batch.integer("pairs") == 0)
        #expect(batch.integer("turns") == 0)
        #expect(batch.integer("open_card") == -1)
        #expect(batch.environment.observationSpace == ObservationSpace(shape: [2, 4], range: 0...5))
        #expect(batch.environment.boardSpace == ObservationSpace(shape: [2, 4], range: 0...3))
    }

    @Test func `two different cards are visible once, and turn back in the next step`() throws {
        let batch = try game()
        try batch.step([1])
        #expect(batch.observation() == [down, 1, down, down, down, down, down, down])
        #expect(batch.mask() == [1, 0, 1, 1, 1, 1, 1, 1], "an open card can't be turned")
        #expect(batch.integer("open_card") == 1)
        #expect(batch.integer("turns") == 0)
        #expect(batch.reward() == 0)
        try batch.step([4])
        #expect(batch.observation() == [down, 1, down, down, 3, down, down, down])
        #expect(batch.mask() == [1, 1, 1, 1, 1, 1, 1, 1], "both turn back in the next step")
        #expect(batch.integer("open_card") == -1)
        #expect(batch.integer("turns") == 1)
        #expect(batch.integer("pairs") == 0)
        #expect(batch.reward() == -0.1)
        try batch.step([4])
        #expect(batch.observation() == [down, down, down, down, 3, down, down, down])
    }

    @Test func `a pair is visible in one observation, and then out of play`() throws {
        let batch = try game()
        try batch.step([0])
        try batch.step([7])
        #expect(batch.observation() == [0, down, down, down, down, down, down, 0])
        #expect(batch.mask() == [0, 1, 1, 1, 1, 1, 1, 0])
        #expect(batch.integer("pairs") == 1)
        #expect(batch.reward() == 1)
        try batch.step([2])
        #expect(batch.observation() == [gone, down, 2, down, down, down, down, gone])
    }

    @Test func `a found pair stays visible if matched cards are face up`() throws {
        let batch = try game(.init(matchedCards: .faceUp))
        #expect(batch.environment.observationSpace == ObservationSpace(shape: [2, 4], range: 0...4))
        for action: UInt8 in [0, 7, 2] { try batch.step([action]) }
        #expect(batch.observation() == [0, down, 2, down, down, down, down, 0])
        #expect(batch.mask() == [0, 1, 0, 1, 1, 1, 1, 0])
    }

    @Test func `the episode ends with the last pair, and no action is legal any more`() throws {
        let batch = try game()
        for (step, action) in ([0, 7, 1, 6, 2, 5, 3] as [UInt8]).enumerated() {
            try batch.step([action])
            #expect(!batch.isTerminated(), "step \(step)")
        }
        try batch.step([4])
        #expect(batch.isTerminated())
        #expect(batch.reward() == 1)
        #expect(batch.integer("pairs") == 4)
        #expect(batch.integer("turns") == 4)
        #expect(batch.observation() == [gone, gone, gone, 3, 3, gone, gone, gone])
        #expect(batch.mask() == [0, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test func `any two cards with a symbol are a pair, even if more cards have it`() throws {
        let batch = try game(.init(symbols: 2), deck: [0, 0, 1, 0, 1, 0, 1, 1])
        var pairs = 0
        for (first, second) in [(5, 0), (1, 3), (7, 2), (4, 6)] as [(UInt8, UInt8)] {
            try batch.step([first])
            try batch.step([second])
            pairs += 1
            #expect(batch.integer("pairs") == pairs)
        }
        #expect(batch.isTerminated())
    }

    // MARK: cards that can't be turned

    @Test func `touching a card that is not face down only hides the cards that were visible once`() throws {
        let batch = try game()
        for action: UInt8 in [0, 7, 1] { try batch.step([action]) }
        let before = batch.reply
        for touched: UInt8 in [1, 0, 7] {
            try batch.step([touched])
            for name in ["observation", "action_mask", "pairs", "turns", "open_card"] {
                #expect(batch.bytes(name) == before[name], "\(name), touching \(touched)")
            }
            #expect(batch.reward() == -0.1)
        }
        try batch.step([6])
        #expect(batch.integer("pairs") == 2, "the open card stayed open")
        try batch.step([2])
        try batch.step([3])
        try batch.step([0])
        #expect(batch.observation() == [gone, gone, down, down, down, down, gone, gone])
    }

    @Test func `with end_turn, touching a card ends the turn, and the open card is shown once more`() throws {
        let batch = try game(.init(matchedCards: .faceUp, illegalAction: .endTurn))
        for action: UInt8 in [0, 7] { try batch.step([action]) }
        try batch.step([7])
        #expect(batch.reward() == -0.1)
        #expect(batch.integer("turns") == 2)
        try batch.step([1])
        try batch.step([0])
        #expect(batch.reward() == -0.2, "two turns without a pair")
        #expect(batch.observation() == [0, 1, down, down, down, down, down, 0])
        #expect(batch.integer("open_card") == -1)
        #expect(batch.mask() == [0, 1, 1, 1, 1, 1, 1, 0])
        try batch.step([6])
        #expect(batch.observation() == [0, down, down, down, down, down, 1, 0])
        #expect(batch.integer("open_card") == 6)
        try batch.step([6])
        #expect(batch.reward() == -0.2, "the same card twice is not a pair")
        #expect(batch.integer("pairs") == 1)
    }

    @Test func `with terminate, touching a card that is not face down ends the episode`() throws {
        let batch = try game(.init(illegalAction: .terminate))
        try batch.step([3])
        #expect(!batch.isTerminated())
        try batch.step([3])
        #expect(batch.isTerminated())
        #expect(batch.mask() == [0, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test(arguments: [Concentration.IllegalAction.noop, .endTurn])
    func `turning a pair again earns no reward`(illegalAction: Concentration.IllegalAction) throws {
        let batch = try game(.init(matchedCards: .faceUp, illegalAction: illegalAction))
        try batch.step([0])
        try batch.step([7])
        var generator = Generator(seed: 1)
        for _ in 0..<200 {
            try batch.step([generator.next(below: 2) == 0 ? 0 : 7])
            #expect(batch.reward() < 0)
            #expect(batch.integer("pairs") == 1)
        }
    }

    // MARK: peeks

    @Test func `a peek shows all cards in play for one observation, and the open card stays open`() throws {
        let batch = try game(.init(peeks: 2))
        #expect(batch.environment.actions.last == "peek")
        for action: UInt8 in [0, 7, 1] { try batch.step([action]) }
        try batch.step([8])
        #expect(batch.observation() == [gone, 1, 2, 3, 3, 2, 1, gone])
        #expect(batch.mask() == [0, 0, 1, 1, 1, 1, 1, 0, 1])
        #expect(batch.integer("peeks") == 1)
        #expect(batch.reward() == -0.5)
        try batch.step([6])
        #expect(batch.observation() == [gone, 1, down, down, down, down, 1, gone])
        #expect(batch.integer("pairs") == 2)
        try batch.step([8])
        #expect(batch.mask() == [0, 0, 1, 1, 1, 1, 0, 0, 0], "no peek is left")
        let before = batch.bytes("peeks")
        try batch.step([8])
        #expect(batch.bytes("peeks") == before)
        #expect(batch.observation() == [gone, gone, down, down, down, down, gone, gone])
        #expect(batch.reward() == 0)
        try batch.reset(boards: [Self.deck])
        #expect(batch.mask().last == 1, "a new episode has new peeks")
    }

    @Test(arguments: [Concentration.IllegalAction.noop, .endTurn])
    func `a refused peek keeps the open card open`(illegalAction: Concentration.IllegalAction) throws {
        let batch = try game(.init(peeks: 1, illegalAction: illegalAction))
        for action: UInt8 in [8, 2] { try batch.step([action]) }
        let turned = batch.observation()
        try batch.step([8])
        #expect(batch.observation() == turned)
        #expect(batch.integer("open_card") == 2)
        #expect(batch.integer("turns") == 0)
        #expect(batch.reward() == 0)
    }

    @Test func `peeks may be unlimited, or absent`() throws {
        let unlimited = try game(.init(peeks: nil))
        for _ in 0..<50 { try unlimited.step([8]) }
        #expect(unlimited.integer("peeks") == 50)
        #expect(unlimited.mask() == [1, 1, 1, 1, 1, 1, 1, 1, 1])
        let without = try game()
        #expect(without.environment.actions.count == 8)
        #expect(throws: EnvironmentError.self) { try without.step([8]) }
    }

    // MARK: observations and infos

    @Test func `the observation ends with the last action on request`() throws {
        let batch = try game(.init(peeks: nil, observesLastAction: true))
        #expect(batch.environment.observationSpace == ObservationSpace(shape: [9], range: 0...9))
        #expect(batch.observation() == [down, down, down, down, down, down, down, down, 9], "none yet")
        try batch.step([3])
        #expect(batch.observation() == [down, down, down, 3, down, down, down, down, 3])
        try batch.step([8])
        #expect(batch.observation() == Self.deck + [8])
        try batch.step([3])
        #expect(batch.observation().last == 3, "a touch is an action too")
        try batch.reset(boards: [Self.deck])
        #expect(batch.observation().last == 9)
    }

    @Test func `the infos include the whole deck on request`() throws {
        let batch = try game(.init(reportsDeck: true))
        #expect(batch.bytes("deck", lane: 0) == Self.deck)
        for action: UInt8 in [0, 7, 1] {
            try batch.step([action])
            #expect(batch.bytes("deck", lane: 0) == Self.deck)
        }
    }

    @Test func `flips report turns, matches, hidden and shown cards`() throws {
        let batch = try game(.init(peeks: nil), extraInfos: ["flips"])
        func flips(_ action: UInt8) throws -> [Int: Concentration.Flip] {
            try batch.step([action])
            let flips = batch.bytes("flips", lane: 0).enumerated().map {
                ($0.0, Concentration.Flip(rawValue: $0.1)!)
            }
            return Dictionary(uniqueKeysWithValues: flips).filter { $0.value != .none }
        }
        #expect(try flips(3) == [3: .turned])
        #expect(try flips(5) == [5: .turned])
        #expect(try flips(0) == [3: .hidden, 5: .hidden, 0: .turned])
        #expect(try flips(0) == [:], "an open card is touched")
        #expect(try flips(7) == [0: .matched, 7: .matched])
        #expect(try flips(1) == [1: .turned], "a pair does not turn back")
        #expect(try flips(8) == [2: .shown, 3: .shown, 4: .shown, 5: .shown, 6: .shown])
        #expect(
            try flips(6) == [2: .hidden, 3: .hidden, 4: .hidden, 5: .hidden, 1: .matched, 6: .matched],
            "a matched card was hidden before")
    }

    @Test(
        arguments: [Concentration.IllegalAction.noop, .endTurn],
        [Concentration.MatchedCards.removed, .faceUp])
    func `a view that follows the flips shows the observation`(
        illegalAction: Concentration.IllegalAction, matchedCards: Concentration.MatchedCards
    ) throws {
        let config = Concentration.Config(
            peeks: 3, matchedCards: matchedCards, illegalAction: illegalAction, reportsDeck: true)
        let batch = try game(config, extraInfos: ["flips"])
        var generator = Generator(seed: 4)
        for episode in 0..<30 {
            try batch.reset(seed: UInt64(episode))
            let deck = batch.bytes("deck", lane: 0)
            var view = [UInt8](repeating: down, count: 8)
            var leaving: [Int] = []
            repeat {
                try batch.step([UInt8(generator.next(below: 9))])
                if matchedCards == .removed { for card in leaving { view[card] = gone } }
                leaving = []
                for (card, flip) in batch.bytes("flips", lane: 0).enumerated() {
                    switch Concentration.Flip(rawValue: flip)! {
                    case .none: break
                    case .turned, .shown: view[card] = deck[card]
                    case .hidden: view[card] = down
                    case .matched:
                        view[card] = deck[card]
                        leaving.append(card)
                    }
                }
                try #require(batch.observation() == view)
            } while !batch.isTerminated()
        }
    }

    // MARK: arguments and given decks

    @Test(arguments: [
        (Concentration.Config(rows: 0), "size"), (Concentration.Config(columns: 17), "size"),
        (Concentration.Config(rows: 3, columns: 3), "size"),
        (Concentration.Config(rows: 10, columns: 13), "size"),
        (Concentration.Config(symbols: 0), "symbols"), (Concentration.Config(symbols: 3), "symbols"),
        (Concentration.Config(symbols: 8), "symbols"), (Concentration.Config(peeks: -1), "peeks"),
    ])
    func `a wrong argument is refused with its name`(config: Concentration.Config, field: String) throws {
        let error = try #require(throws: EnvironmentError.self) { try Concentration(config) }
        #expect(error.field == field)
    }

    @Test func `a given deck needs the right number of cards for each symbol`() throws {
        let batch = try game()
        for (deck, word) in [
            ([0, 0, 1, 1, 2, 2, 3, 4], "symbol 4"), ([0, 0, 0, 0, 1, 1, 2, 2], "symbol 0 on 4 cards"),
        ] as [([UInt8], String)] {
            let error = try #require(throws: EnvironmentError.self) { try batch.reset(boards: [deck]) }
            #expect(error.field == "boards")
            #expect(error.lane == 0)
            #expect(error.message.contains(word), "\(error.message)")
        }
    }

    @Test func `the largest table can be played, including its last card`() throws {
        let batch = TestBatch(
            try Batch(
                Concentration(.init(rows: 8, columns: 16, symbols: 1, peeks: 1)),
                BatchOptions(lanes: 1, autoreset: .disabled)))
        try batch.reset(seed: 3)
        try batch.step([128])
        #expect(batch.observation() == [UInt8](repeating: 0, count: 128))
        for card in stride(from: 0, to: 128, by: 2) {
            #expect(!batch.mask().allSatisfy { $0 == 0 })
            try batch.step([UInt8(127 - card)])
            try batch.step([UInt8(126 - card)])
        }
        #expect(batch.isTerminated())
        #expect(batch.integer("pairs") == 64)
    }

    // MARK: exact mathematics

    @Test func `the shuffle is uniform over all decks`() throws {
        for (pairs, size) in [(2, (2, 2)), (3, (2, 3))] {
            let decks = allDecks(pairs: pairs)
            let game = try Concentration(.init(rows: size.0, columns: size.1))
            var counts = [Int](repeating: 0, count: decks.count)
            var state = game.makeState()
            for seed in 0..<UInt64(decks.count * 400) {
                var generator = Generator(seed: seed)
                game.start(&state, generator: &generator)
                counts[decks.firstIndex(of: (0..<2 * pairs).map { state[symbol: $0] })!] += 1
            }
            let normal = chiSquare(
                counts, [Double](repeating: 1 / Double(decks.count), count: decks.count))
            #expect(abs(normal) < 4.5, "\(pairs) pairs: \(normal)")
        }
    }

    /// Returns the expected number of steps until all pairs are found, if each step plays one of the `choices`
    /// with equal probability. The method is value iteration over the rules' transitions.
    private func expectedSteps(
        _ game: Concentration, _ deck: [UInt8], choices: (CardTable) -> [Int]
    ) throws -> Double {
        struct Key: Hashable {
            var matched: UInt128
            var open: Int32
            init(_ state: CardTable) { (matched, open) = (state.matched.bits, state.open) }
        }
        var generator = Generator(seed: 0)
        let start = try table(game, deck)
        var successors: [Key: [Key]] = [:]
        var waiting = [start]
        while let state = waiting.popLast() {
            guard successors[Key(state)] == nil else { continue }
            guard !state.isCleared else {
                successors[Key(state)] = []
                continue
            }
            let next = choices(state).map { action in
                var state = state
                _ = game.step(&state, action: action, generator: &generator)
                return state
            }
            successors[Key(state)] = next.map(Key.init)
            waiting += next
        }
        var values = successors.mapValues { _ in 0.0 }
        var change = 1.0
        while change > 1e-11 {
            change = 0
            for (state, next) in successors where !next.isEmpty {
                let value = 1 + next.reduce(0) { $0 + values[$1]! } / Double(next.count)
                change = max(change, abs(value - values[state]!))
                values[state] = value
            }
        }
        return values[Key(start)]!
    }

    /// With m pairs left, a turn finds one with probability 1 / (2m - 1), so that n pairs take 1 + 3 + … + (2n - 1) =
    /// n² turns. The other two results follow in the same way; touching a card is a separate step.
    @Test(arguments: [2, 3, 4])
    func `random play takes the exact expected number of steps`(pairs: Int) throws {
        let n = Double(pairs)
        let decks = allDecks(pairs: pairs)
        let deck = decks[decks.count / 3]
        let size = (rows: 2, columns: pairs)
        let noop = try Concentration(.init(rows: size.rows, columns: size.columns))
        let legal = try expectedSteps(noop, deck) { state in (0..<2 * pairs).filter(state.canTurn) }
        #expect(abs(legal - 2 * n * n) < 1e-6)

        let anyCard = try expectedSteps(noop, deck) { _ in Array(0..<2 * pairs) }
        let withTouches = (1...pairs).map(Double.init).reduce(0) { $0 + n * (2 * $1 - 1) / $1 + 2 * n }
        #expect(abs(anyCard - withTouches) < 1e-6)

        let strict = try Concentration(
            .init(rows: size.rows, columns: size.columns, illegalAction: .endTurn))
        let ending = try expectedSteps(strict, deck) { _ in Array(0..<2 * pairs) }
        let withEnds = (1...pairs).map(Double.init).reduce(0) { $0 + 2 * n * (n / $1 + 1) }
        #expect(abs(ending - withEnds) < 1e-6)
    }

    /// Returns the expected number of turns of a player with a perfect memory. `known` is the number of seen cards
    /// whose mates are unseen, and `unseen` the number of other cards.
    private func perfectTurns(known: Int, unseen: Int) -> Double {
        guard unseen > 0 else { return 0 }
        let (k, u) = (Double(known), Double(unseen))
        var turns = 1.0
        if known > 0 { turns += k / u * perfectTurns(known: known - 1, unseen: unseen - 1) }
        guard unseen > known else { return turns }
        let found = 1 / (u - 1) * perfectTurns(known: known, unseen: unseen - 2)
        let knownMate = k == 0 ? 0 : k / (u - 1) * (1 + perfectTurns(known: known, unseen: unseen - 2))
        let others = unseen - 2 - known
        let twoNew =
            others == 0 ? 0 : Double(others) / (u - 1) * perfectTurns(known: known + 2, unseen: unseen - 2)
        return turns + (u - k) / u * (found + knownMate + twoNew)
    }

    @Test(arguments: [2, 3, 4])
    func `perfect memory takes the exact expected number of turns, over all decks`(pairs: Int) throws {
        let decks = allDecks(pairs: pairs)
        let batch = TestBatch(
            try Batch(
                Concentration(.init(rows: 2, columns: pairs)),
                BatchOptions(lanes: decks.count, autoreset: .nextStep)))
        try batch.reset(seed: 0)
        try batch.reset(boards: decks)
        var players = decks.map { _ in PerfectMemory(cards: 2 * pairs, faceDown: UInt8(pairs)) }
        var turns = [Int?](repeating: nil, count: decks.count)
        while turns.contains(nil) {
            try batch.step(
                (0..<decks.count).map { lane in
                    players[lane].look(batch.observation(lane: lane))
                    return turns[lane] == nil
                        ? UInt8(players[lane].choose(mask: batch.mask(lane: lane))) : 0
                })
            for lane in decks.indices where batch.isTerminated(lane: lane) && turns[lane] == nil {
                turns[lane] = batch.integer("turns", lane: lane)
            }
        }
        let mean = Double(turns.reduce(0) { $0 + $1! }) / Double(decks.count)
        #expect(abs(mean - perfectTurns(known: 0, unseen: 2 * pairs)) < 1e-9)
        if pairs == 2 { #expect(abs(mean - 8.0 / 3) < 1e-9) }
    }
}

/// A player that never forgets a card. It takes a known pair if there is one. Otherwise it turns an unseen card, and
/// then the card's mate if that is known, or a second unseen card.
private struct PerfectMemory {
    private let cards: Int
    private let faceDown: UInt8
    private var seen: [Int: UInt8] = [:]
    private var first: Int?

    init(cards: Int, faceDown: UInt8) {
        self.cards = cards
        self.faceDown = faceDown
    }

    mutating func look(_ observation: [UInt8]) {
        for card in 0..<cards where observation[card] < faceDown { seen[card] = observation[card] }
    }

    mutating func choose(mask: [UInt8]) -> Int {
        let inPlay = (0..<cards).filter { mask[$0] == 1 }
        func mate(of card: Int) -> Int? {
            inPlay.first { $0 != card && seen[$0] != nil && seen[$0] == seen[card] }
        }
        if let open = first {
            first = nil
            return mate(of: open) ?? inPlay.first { seen[$0] == nil }!
        }
        let card =
            inPlay.first { seen[$0] != nil && mate(of: $0) != nil } ?? inPlay.first { seen[$0] == nil }!
        first = card
        return card
    }
}
