internal import TwofoldCore
internal import TwofoldOptimum
internal import TwofoldProtocol

/// A game that the service offers.
struct CatalogEntry: Sendable {
    /// The environment's published id. The behaviour behind an id never changes.
    let id: String
    /// The names of the actions, ordered by action number.
    let actions: [String]
    /// The names of the game's reward terms.
    let rewardTerms: [String]
    /// The names of the additional infos that a session can request.
    let extraInfos: [String]
    /// The function that creates a batch. Its last argument provides the tables of optimal values. Its errors name
    /// the invalid argument.
    let make: @Sendable (CreateRequest, BatchOptions, TableDirectory) throws(EnvironmentError) -> Batch
}

/// The games that the service offers. To add a game, add an entry here and a config message to the protocol.
let catalog: [CatalogEntry] = [
    CatalogEntry(
        id: "twofold/Game2048-v0", actions: Game2048.actionNames,
        rewardTerms: Game2048.rewardTermNames,
        extraInfos: Game2048.extraInfoNames + OptimumInfo.names,
        make: { (request, options, tables) throws(EnvironmentError) in
            switch request.config {
            case nil, .game2048: break
            default: throw request.wrongConfig
            }
            let game = try Game2048(.init(request.game2048))
            guard options.extraInfos.contains(where: OptimumInfo.names.contains) else {
                return try game.makeBatch(options)
            }
            return try game.makeBatch(options, tables.table(of: request.game2048, for: "extra_infos"))
        }),
    CatalogEntry(
        id: "twofold/Concentration-v0", actions: Concentration.defaultActions,
        rewardTerms: Concentration.rewardTermNames, extraInfos: Concentration.extraInfoNames,
        make: { (request, options, _) throws(EnvironmentError) in
            switch request.config {
            case nil, .concentration: break
            default: throw request.wrongConfig
            }
            return try Batch(Concentration(.init(request.concentration)), options)
        }),
]

extension CreateRequest {
    /// The error for a config that belongs to another game.
    fileprivate var wrongConfig: EnvironmentError {
        .invalid("config", "the config is for another game, not for \(environmentID)")
    }
}

extension Game2048.Config {
    /// Creates a config from a request's message. Absent fields keep their defaults.
    init(_ wire: Game2048Config) throws(EnvironmentError) {
        self.init()
        if wire.hasRows { rows = Int(wire.rows) }
        if wire.hasColumns { columns = Int(wire.columns) }
        if wire.hasGoal {
            guard let exact = Int(exactly: wire.goal) else {
                throw .invalid("goal", "goal is \(wire.goal); it must be a power of two in 4...2^31")
            }
            goal = exact
        }
        if wire.hasStopAtGoal { stopAtGoal = wire.stopAtGoal }
        if wire.hasFourProbability { fourProbability = wire.fourProbability }
        if wire.hasStartTiles { startTiles = Int(wire.startTiles) }
        switch wire.illegalAction {
        case .unspecified, .noop: illegalAction = .noop
        case .terminate: illegalAction = .terminate
        case .UNRECOGNIZED(let number):
            throw .invalid("illegal_action", "illegal_action \(number) is not known to this server")
        }
        _ = try OptimumProblem.Objective(wire.objective)
    }
}

extension RewardSpec {
    /// Creates a reward specification from a request's message, without checking it. Absent fields keep their
    /// defaults.
    init(_ wire: RewardSpecMessage) {
        self.init(
            wire.terms.map { term in
                Term(
                    term.name, weight: term.hasWeight ? term.weight : 1,
                    parameters: term.parameters.map { Parameter($0.name, $0.values) })
            })
        if wire.hasScale { scale = wire.scale }
        if wire.hasClipLow { clipLow = wire.clipLow }
        if wire.hasClipHigh { clipHigh = wire.clipHigh }
    }
}

extension Concentration.Config {
    /// Creates a config from a request's message. Absent fields keep their defaults.
    init(_ wire: ConcentrationConfig) throws(EnvironmentError) {
        self.init()
        if wire.hasRows { rows = Int(wire.rows) }
        if wire.hasColumns { columns = Int(wire.columns) }
        if wire.hasSymbols { symbols = Int(wire.symbols) }
        switch wire.peeks {
        case nil, .unlimitedPeeks(true): peeks = nil
        case .unlimitedPeeks(false): peeks = 0
        case .peekBudget(let budget): peeks = Int(budget)
        }
        switch wire.matchedCards {
        case .unspecified, .removed: matchedCards = .removed
        case .faceUp: matchedCards = .faceUp
        case .UNRECOGNIZED(let number):
            throw .invalid("matched_cards", "matched_cards \(number) is not known to this server")
        }
        switch wire.illegalAction {
        case .unspecified, .noop: illegalAction = .noop
        case .endTurn: illegalAction = .endTurn
        case .terminate: illegalAction = .terminate
        case .UNRECOGNIZED(let number):
            throw .invalid("illegal_action", "illegal_action \(number) is not known to this server")
        }
        observesLastAction = wire.observeLastAction
        reportsDeck = wire.tellDeck
    }
}
