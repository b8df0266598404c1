internal import TwofoldProtocol

/// One board of a game under the plain rules. `PlainLane` adds the streams and counts that all games share.
protocol PlainGame {
    /// The arguments of a game.
    associatedtype Rules: PlainRules
    /// A played action, with the data that rewards need.
    associatedtype Move

    init(_ rules: Rules)

    var rules: Rules { get set }
    var actionCount: Int { get }
    /// The legal actions in ascending order, regardless of whether the episode has terminated.
    var legalActions: [Int] { get }

    /// Starts a new episode.
    mutating func begin(_ stream: inout PlainStream)
    /// Starts a new episode from a given board.
    mutating func begin(from given: [UInt8])
    mutating func play(_ action: Int, _ stream: inout PlainStream) -> Move
    func isTerminated(by move: Move) -> Bool

    /// Returns this board's row in the named game-specific array; nil if there is no such array.
    func bytes(of array: String) -> [UInt8]?
    /// Returns the board after an action and before any random event; nil for a game without afterstates.
    func afterstate(_ action: Int) -> (cells: [UInt8], reward: Int)?

    /// The terms of the game's default reward.
    static var reward: [PlainTerm] { get }
    /// Returns a term's value before weighting; nil for an unknown term.
    static func value(of term: PlainTerm, in move: Move, isTerminated: Bool, _ rules: Rules) -> Double?
}

protocol PlainRules {
    init(_ create: CreateRequest)
    /// The rules that a snapshot and the restoring session must share.
    var identity: [String] { get }
    /// The names of the reward terms that these rules can compute.
    static var terms: [String] { get }
}

// MARK: rewards

/// A term of a declared reward.
struct PlainTerm {
    let name: String
    var weight = 1.0
    var gamma = 0.0
    var table: [Double] = []
}

/// A reward: the weighted sum of its terms, scaled and clipped.
struct PlainReward<Game: PlainGame> {
    var terms = Game.reward
    private var scale = 1.0
    private var low = -Double.infinity
    private var high = Double.infinity

    /// Creates the declared reward, or the game's default reward. Returns nil if a term is unknown.
    init?(_ create: CreateRequest) {
        guard create.hasReward else { return }
        let declared = create.reward
        guard declared.terms.allSatisfy({ Game.Rules.terms.contains($0.name) }) else { return nil }
        terms = declared.terms.map { term in
            func values(_ name: String) -> [Double] {
                term.parameters.first { $0.name == name }?.values ?? []
            }
            return PlainTerm(
                name: term.name, weight: term.hasWeight ? term.weight : 1, gamma: values("gamma").first ?? 0,
                table: values("table"))
        }
        if declared.hasScale { scale = declared.scale }
        if declared.hasClipLow { low = declared.clipLow }
        if declared.hasClipHigh { high = declared.clipHigh }
    }

    /// Returns the reward of a move and the weighted terms.
    func callAsFunction(_ move: Game.Move, isTerminated: Bool, _ rules: Game.Rules) -> (Float, [Float]) {
        let weighted = terms.map { term in
            // Adding 0 turns a negative zero into a positive one.
            term.weight * Game.value(of: term, in: move, isTerminated: isTerminated, rules)! + 0
        }
        let scaled = weighted.reduce(0, +) * scale + 0
        return (Float(min(max(scaled, low), high)), weighted.map { Float($0) })
    }
}

// MARK: lanes and rows

/// A board with its full state.
struct PlainLane<Game: PlainGame> {
    var game: Game
    var stream: PlainStream
    /// The policy's stream.
    var policy: PlainStream
    /// The number of steps in the episode.
    var length = 0
    var isTerminated = false
    /// Whether the episode has ended and the next one has not started.
    var isOver = false

    init(_ rules: Game.Rules, seed: UInt64) {
        game = Game(rules)
        stream = PlainStream(seed: seed)
        policy = .policy(seed: seed)
    }

    var legalActions: [Int] { isTerminated ? [] : game.legalActions }

    mutating func begin(from given: [UInt8]? = nil) {
        if let given { game.begin(from: given) } else { game.begin(&stream) }
        (length, isTerminated, isOver) = (0, false, false)
    }
}

/// One board's row in each array of a reply.
struct PlainRow<Game: PlainGame> {
    let number: Int
    /// The number of the step in a rollout.
    var step = 0
    var lane: PlainLane<Game>
    /// The reward; nil if it is unknown.
    var reward: Float?
    var terms: [Float]
    var action = 0
    var isTerminated = false
    var isTruncated = false
    /// Whether the lane played its action.
    var isValid = false

    /// Returns the row of the array with this name; nil if it is unknown.
    func bytes(of array: String) -> [UInt8]? {
        switch array {
        case "action_mask":
            let legal = lane.legalActions
            return (0..<lane.game.actionCount).map { legal.contains($0) ? 1 : 0 }
        case "episode_length": return plainBytes(Int32(lane.length))
        case "reward": return reward.map { plainBytes($0.bitPattern) }
        case "reward_terms": return reward == nil ? nil : terms.flatMap { plainBytes($0.bitPattern) }
        case "terminated": return [isTerminated ? 1 : 0]
        case "truncated": return [isTruncated ? 1 : 0]
        case "action": return [UInt8(action)]
        case "valid": return [isValid ? 1 : 0]
        case "lanes": return plainBytes(UInt64(number))
        case "steps": return plainBytes(UInt64(step))
        default: return lane.game.bytes(of: array)
        }
    }
}
