internal import TwofoldProtocol

/// The cards of one game of Concentration.
struct PlainCards: PlainGame {
    struct Rules: PlainRules {
        private(set) var rows = 4
        private(set) var columns = 4
        /// The number of different symbols.
        private(set) var symbols = 0
        /// The number of allowed peeks; nil if there is no limit.
        private(set) var peeks: Int?
        private(set) var illegalAction = Twofold_V1_UnturnableCard.noop
        // The format of observations. A snapshot may come from a session with a different format.
        private(set) var keepsMatched = false
        private(set) var observesLastAction = false

        init(_ create: CreateRequest) {
            let config = create.concentration
            if config.hasRows { rows = Int(config.rows) }
            if config.hasColumns { columns = Int(config.columns) }
            symbols = config.hasSymbols ? Int(config.symbols) : rows * columns / 2
            switch config.peeks {
            case .peekBudget(let budget): peeks = Int(budget)
            case .unlimitedPeeks(false): peeks = 0
            default: peeks = nil
            }
            if config.illegalAction != .unspecified { illegalAction = config.illegalAction }
            keepsMatched = config.matchedCards == .faceUp
            observesLastAction = config.observeLastAction
        }

        var cards: Int { rows * columns }

        var identity: [String] {
            [
                "Concentration", "\(rows)x\(columns)", "\(symbols)", peeks.map(String.init) ?? "any",
                "\(illegalAction.rawValue)",
            ]
        }

        static let terms = ["match", "mismatch", "face_up_touch", "cleared", "peek", "survival"]
    }

    struct Move {
        var isMatch = false
        var isMismatch = false
        var isPeek = false
        var isIllegal = false
        /// The value of the term `face_up_touch`.
        var touched = 0
        var isCleared = false
    }

    var rules: Rules
    private var deck: [UInt8] = []
    private var isMatched: [Bool] = []
    /// For each card, true if it is visible after the last action.
    private var isVisible: [Bool] = []
    /// The first card of the current turn; nil before it is chosen.
    private var open: Int?
    private var turns = 0
    private var peeks = 0
    private var lastAction: Int?

    init(_ rules: Rules) { self.rules = rules }

    var actionCount: Int { rules.cards + (rules.peeks == 0 ? 0 : 1) }

    var legalActions: [Int] {
        deck.indices.filter { !isMatched[$0] && $0 != open }
            + (canPeek ? [rules.cards] : [])
    }

    private var canPeek: Bool { rules.peeks.map { peeks < $0 } ?? true }

    mutating func begin(_ stream: inout PlainStream) {
        var shuffled = (0..<rules.cards).map { UInt8($0 / (rules.cards / rules.symbols)) }
        for card in (1..<rules.cards).reversed() { shuffled.swapAt(card, stream.next(below: card + 1)) }
        begin(from: shuffled)
    }

    mutating func begin(from given: [UInt8]) {
        deck = given
        isMatched = deck.map { _ in false }
        isVisible = isMatched
        (open, turns, peeks, lastAction) = (nil, 0, 0, nil)
    }

    mutating func play(_ action: Int, _ stream: inout PlainStream) -> Move {
        var move = Move()
        let isPeek = action == rules.cards
        move.isIllegal = isPeek ? !canPeek : isMatched[action] || action == open
        lastAction = action
        // Cards that were visible for one observation turn back; the open card stays.
        isVisible = deck.indices.map { $0 == open }
        switch (isPeek, move.isIllegal) {
        case (true, true): break
        case (true, false):
            peeks += 1
            move.isPeek = true
            isVisible = isMatched.map { !$0 }
        case (false, true):
            let endsTurn = rules.illegalAction == .endTurn
            move.touched = endsTurn && open != nil ? 2 : 1
            if endsTurn { (open, turns) = (nil, turns + 1) }
        case (false, false):
            isVisible[action] = true
            guard let first = open else {
                open = action
                break
            }
            (open, turns) = (nil, turns + 1)
            if deck[first] == deck[action] {
                move.isMatch = true
                (isMatched[first], isMatched[action]) = (true, true)
            } else {
                move.isMismatch = true
            }
        }
        move.isCleared = !isMatched.contains(false)
        return move
    }

    func isTerminated(by move: Move) -> Bool {
        move.isCleared || (move.isIllegal && rules.illegalAction == .terminate)
    }

    func afterstate(_ action: Int) -> (cells: [UInt8], reward: Int)? { nil }

    func bytes(of array: String) -> [UInt8]? {
        switch array {
        case "observation":
            let cards = deck.indices.map { card in
                if isVisible[card] || (isMatched[card] && rules.keepsMatched) { return deck[card] }
                return UInt8(isMatched[card] ? rules.symbols + 1 : rules.symbols)
            }
            return cards + (rules.observesLastAction ? [UInt8(lastAction ?? actionCount)] : [])
        case "pairs": return plainBytes(Int32(isMatched.count { $0 } / 2))
        case "turns": return plainBytes(Int32(turns))
        case "peeks": return plainBytes(Int32(peeks))
        case "open_card": return plainBytes(Int32(open ?? -1))
        case "deck": return deck
        default: return nil
        }
    }

    // MARK: rewards

    static let reward = [
        PlainTerm(name: "match"), PlainTerm(name: "mismatch", weight: -0.1),
        PlainTerm(name: "face_up_touch", weight: -0.1), PlainTerm(name: "peek", weight: -0.5),
    ]

    static func value(of term: PlainTerm, in move: Move, isTerminated: Bool, _ rules: Rules) -> Double? {
        switch term.name {
        case "match": move.isMatch ? 1 : 0
        case "mismatch": move.isMismatch ? 1 : 0
        case "face_up_touch": Double(move.touched)
        case "cleared": move.isCleared ? 1 : 0
        case "peek": move.isPeek ? 1 : 0
        case "survival": move.isIllegal || isTerminated ? 0 : 1
        default: nil
        }
    }
}
