internal import FoundationEssentials
internal import TwofoldProtocol
internal import TwofoldSessions
internal import TwofoldTestSupport

/// The modelled clients' knowledge of a session. Several clients may use a session; each has its own position in it.
final class ModelSession {
    let id: SessionID
    let owner: String?
    let create: CreateRequest
    /// The number of the newest request whose reply has reached a client.
    var acknowledged: UInt64 = 0
    /// Whether any client knows that the session's boards have been reset.
    var wasReset = false
    /// The last snapshot of this session's boards. A fork starts with its parent's last snapshot.
    var snapshot: [UInt8]?
    /// Whether the owner has sent a close request.
    var mayBeClosed = false
    /// The newest epoch that any client knows.
    var epoch: UInt32 = 1
    /// Whether a client has sent a resume request.
    var mayHaveMoved = false
    /// Whether many of the session's requests concern its n-tuple network.
    let isNetworked: Bool
    /// The size in bytes of the weights of the last network form, and the number of bytes that have been sent.
    var network = (bytes: 0, sent: 0)

    init(_ dice: inout Dice, of owner: String?, fork: ModelSession? = nil) {
        self.owner = owner
        let bytes = dice.bytes(16)
        id = bytes.withUnsafeBytes { SessionID(bytes: $0)! }
        isNetworked = dice.once(in: 4)
        if let fork {
            create = ModelGames.changed(fork.create, &dice)
            snapshot = fork.snapshot
        } else {
            create = ModelGames.varied(Self.boards(&dice), &dice)
        }
    }

    var lanes: Int { Int(create.numEnvs) }

    var actions: Int {
        guard case .concentration(let config) = create.config else { return 4 }
        return cells + (config.peeks == .peekBudget(0) ? 0 : 1)
    }

    /// The number of cells or cards on a board.
    var cells: Int {
        switch create.config {
        case .game2048(let config):
            (config.hasRows ? Int(config.rows) : 4) * (config.hasColumns ? Int(config.columns) : 4)
        case .concentration(let config):
            (config.hasRows ? Int(config.rows) : 4) * (config.hasColumns ? Int(config.columns) : 4)
        case nil: 16
        }
    }

    private static func boards(_ dice: inout Dice) -> CreateRequest {
        var create = CreateRequest()
        create.numEnvs = UInt64([1, 1, 1, 2, 2, 3, 3, 4, 5, 8, 1, 2, 3, 6, 64, 65][dice.below(16)])
        create.autoresetMode = [.nextStep, .sameStep, .disabled][dice.below(3)]
        if dice.once(in: 2) { create.maxEpisodeSteps = UInt64(1 + dice.below(20)) }
        if dice.once(in: 4) {
            create.environmentID = "twofold/Concentration-v0"
            create.concentration = ConcentrationConfig()
        } else {
            create.environmentID = "twofold/Game2048-v0"
            create.game2048 = Game2048Config()
        }
        return create
    }
}

/// The arguments of modelled sessions.
enum ModelGames {
    /// Returns a create request in which some arguments may differ from their defaults.
    static func varied(_ create: CreateRequest, _ dice: inout Dice) -> CreateRequest {
        var create = create
        switch create.config {
        case .concentration: vary(&create.concentration, &dice)
        default: vary(&create.game2048, &dice)
        }
        if dice.once(in: 3) { create.reward = reward(create, &dice) }
        if dice.once(in: 6) { create.extraInfos = ["reward_terms"] }
        return create
    }

    private static func vary(_ config: inout Game2048Config, _ dice: inout Dice) {
        if dice.once(in: 4) { config.illegalAction = .terminate }
        if dice.once(in: 4) {
            (config.rows, config.columns) = (UInt32(2 + dice.below(4)), UInt32(2 + dice.below(4)))
        }
        if dice.once(in: 6) { (config.goal, config.stopAtGoal) = (16 << UInt64(dice.below(3)), true) }
        if dice.once(in: 6) { config.fourProbability = [0, 0.5, 1][dice.below(3)] }
        if dice.once(in: 6) { config.startTiles = UInt32(1 + dice.below(3)) }
    }

    private static func vary(_ config: inout ConcentrationConfig, _ dice: inout Dice) {
        if dice.once(in: 2) {
            let (rows, columns) = [(2, 2), (2, 3), (1, 8), (2, 4), (4, 13)][dice.below(5)]
            (config.rows, config.columns) = (UInt32(rows), UInt32(columns))
            let symbols = (1...rows * columns / 2).filter { rows * columns % (2 * $0) == 0 }
            config.symbols = UInt32(symbols[dice.below(symbols.count)])
        }
        if dice.once(in: 2) { config.peekBudget = UInt32(dice.below(3)) }
        config.illegalAction = [.noop, .endTurn, .terminate][dice.below(3)]
        if dice.once(in: 4) { config.matchedCards = .faceUp }
        config.observeLastAction = dice.once(in: 4)
        config.tellDeck = dice.once(in: 4)
    }

    private static func reward(_ create: CreateRequest, _ dice: inout Dice) -> RewardSpecMessage {
        var isCards = false
        if case .concentration = create.config { isCards = true }
        let names =
            isCards
            ? ["match", "mismatch", "face_up_touch", "cleared", "peek", "survival"]
            : [
                "merge_score", "merge_exponent", "merge_count", "merge_table", "new_max_tile", "goal",
                "survival",
                "illegal_action", "game_over", "empty_cells", "tile_sum",
            ]
        var reward = RewardSpecMessage()
        for _ in 0...dice.below(4) {
            var term = Twofold_V1_RewardTerm()
            term.name = names[dice.below(names.count)]
            if dice.once(in: 2) { term.weight = Double(dice.below(2000) - 1000) / 300 }
            var parameter = Twofold_V1_RewardParameter()
            switch term.name {
            case "merge_table":
                parameter.name = "table"
                parameter.values = (0..<32).map { _ in Double(dice.below(1000)) / 7 }
                term.parameters = [parameter]
            case "empty_cells", "tile_sum":
                parameter.name = "gamma"
                parameter.values = [0.99]
                term.parameters = [parameter]
            default: break
            }
            reward.terms.append(term)
        }
        if dice.once(in: 3) { reward.scale = 0.3 }
        if dice.once(in: 4) { (reward.clipLow, reward.clipHigh) = (-1, 2) }
        return reward
    }

    /// Returns the create request of a fork. Sometimes a rule differs, and the fork must refuse the snapshot. Sometimes
    /// an argument that need not match the snapshot differs.
    static func changed(_ create: CreateRequest, _ dice: inout Dice) -> CreateRequest {
        var create = create
        switch (dice.below(6), create.config) {
        case (0, .concentration):
            create.concentration.illegalAction =
                create.concentration.illegalAction == .endTurn ? .terminate : .endTurn
        case (1, .concentration): create.concentration.peekBudget = 7
        case (2, .concentration): create.concentration.matchedCards = .faceUp
        case (0, _):
            create.game2048.illegalAction = create.game2048.illegalAction == .terminate ? .noop : .terminate
        case (1, _): create.game2048.goal = 4096
        case (2, _): create.game2048.fourProbability = 0.25
        case (3, _): create.autoresetMode = .nextStep
        case (4, _): create.maxEpisodeSteps = UInt64(1 + dice.below(20))
        default: break
        }
        return create
    }
}

/// The requests that a modelled client sends for its session. Most of them are valid.
enum ModelRequests {
    static func random(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        let lanes = session.lanes
        switch dice.below(100) {
        case 0..<62:
            let actions = actions(session, lanes, &dice)
            if session.isNetworked, dice.once(in: 10) { return policy(session, &dice) }
            return (.step(.init()), actions)
        case 62..<70: return rollout(session, &dice)
        case 70..<77: return reset(session, &dice)
        case 77..<80: return (.observe(.init()), nil)
        case 80..<82: return (.afterstates(.init()), nil)
        case 82..<85: return snapshot(session, &dice)
        case 85..<89: return restore(session, &dice)
        case 89..<91: return policy(session, &dice)
        case 91..<93: return (.keepalive(.init()), nil)
        case 93..<95: return (.step(.init()), dice.bytes(lanes))
        case 95..<96: return (.step(.init()), nil)
        case 96..<98: return (.close(.init()), nil)
        default: return (.step(.init()), actions(session, lanes, &dice))
        }
    }

    static func actions(_ session: ModelSession, _ count: Int, _ dice: inout Dice) -> [UInt8] {
        (0..<count).map { _ in UInt8(dice.below(session.actions)) }
    }

    static func reset(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        var request = ResetRequest()
        request.seeds = true
        var payload = bytes(of: (0..<session.lanes).map { _ in dice.next() })
        guard session.wasReset, session.acknowledged > 3 else { return (.reset(request), payload) }
        if dice.once(in: 6) { (request.seeds, payload) = (false, []) }
        if dice.once(in: 2) {
            request.mask = true
            // A mask value of 2 resets a lane, which keeps its random stream. A 3 is refused.
            let most = [2, 2, 2, 3, 3, 4][dice.below(6)]
            payload += (0..<session.lanes).map { _ in UInt8(dice.below(2)) }
            if most > 2 { payload[payload.count - 1] = UInt8(most - 1) }
        }
        return (.reset(request), payload.isEmpty ? nil : payload)
    }

    private static func rollout(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        var request = RolloutRequest()
        request.steps = UInt32(1 + dice.below(12))
        request.maxPayloadBytes = 1 << 16
        if dice.once(in: 4) { request.infos = ["episode_length"] }
        switch dice.below(4) {
        case 0:
            request.actions = .init()
            return (.rollout(request), actions(session, session.lanes * Int(request.steps), &dice))
        case 1: request.greedy = .init()
        case 2: request.ntuple = .init()
        default: request.random = .init()
        }
        switch dice.below(6) {
        case 0: request.fixedOrder = .init()
        case 1...3 where session.isNetworked: request.ntuple = .init()
        default: break
        }
        return (.rollout(request), nil)
    }

    private static func snapshot(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?)
    {
        guard dice.once(in: 2) else { return (.snapshot(.init()), nil) }
        let count = 1 + dice.below(session.lanes)
        return (.snapshot(.init()), bytes(of: some(count, of: session, &dice)))
    }

    private static func restore(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        guard let snapshot = session.snapshot else { return (.snapshot(.init()), nil) }
        var request = RestoreRequest()
        request.count = UInt64(session.lanes)
        var payload: [UInt8] = []
        // The third number of a snapshot is its number of boards.
        let held = Int(snapshot[16])
        if held != session.lanes || dice.once(in: 3) {
            let count = 1 + dice.below(session.lanes)
            (request.count, request.lanes, request.rows) = (UInt64(count), true, true)
            payload = bytes(of: some(count, of: session, &dice))
            payload += bytes(of: (0..<count).map { _ in UInt64(dice.below(held)) })
        }
        guard dice.once(in: 3) else { return (.restore(request), payload + snapshot) }
        request.seeds = true
        return (
            .restore(request), payload + bytes(of: (0..<request.count).map { _ in dice.next() }) + snapshot
        )
    }

    /// Returns a random selection of lanes in random order.
    private static func some(_ count: Int, of session: ModelSession, _ dice: inout Dice) -> [UInt64] {
        Array((0..<UInt64(session.lanes)).shuffled(using: &dice).prefix(count))
    }

    /// Returns a policy request that sends the network's form, or its weights in one or two parts.
    static func policy(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        var request = PolicyRequest()
        guard session.network.sent < session.network.bytes, !dice.once(in: 10) else {
            request.network = form(session, &dice)
            session.network.sent = 0
            session.network.bytes = request.network.tuples.reduce(0) { bytes, tuple in
                bytes + tuple.cells.reduce(4) { size, _ in size * Int(request.network.exponents) }
            }
            return (.policy(request), nil)
        }
        request.weights.offset = UInt64(session.network.sent)
        var count = (session.network.bytes - session.network.sent) / 4
        if count > 1, session.network.sent == 0, dice.once(in: 3) { count /= 2 }
        session.network.sent += 4 * count
        // Random float32 weights between 64 and 256.
        return (
            .policy(request),
            (0..<count).flatMap { _ in
                dice.bytes(2) + [
                    UInt8(0x80 | dice.below(128)), 0x42 + UInt8(dice.below(2)),
                ]
            }
        )
    }

    private static func form(_ session: ModelSession, _ dice: inout Dice) -> NTupleForm {
        var form = NTupleForm()
        for _ in 0...dice.below(2) {
            var tuple = Twofold_V1_NTuple()
            let cells = (0..<UInt8(session.cells)).shuffled(using: &dice)
            tuple.cells = Data(cells.prefix(1 + dice.below(3)))
            form.tuples.append(tuple)
        }
        form.exponents = UInt32(3 + dice.below(4))
        form.symmetric = dice.once(in: 2)
        return form
    }
}
