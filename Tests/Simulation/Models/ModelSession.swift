internal import FoundationEssentials
internal import TwofoldProtocol
internal import TwofoldSessions
internal import TwofoldTestSupport

/// A session as the modelled clients know it. Several may want it: its id is all that they share.
final class ModelSession {
    let id: SessionID
    let owner: Client
    let create: CreateRequest
    /// The newest request that any of them has an answer to.
    var acknowledged: UInt64 = 0
    /// Whether any of them knows of a reset.
    var wasReset = false
    /// A snapshot of all boards, if one was taken.
    var snapshot: [UInt8]?
    /// Whether any of them has sent a close.
    var mayBeClosed = false
    /// The newest epoch that any of them knows.
    var epoch: UInt32 = 1
    /// Whether any of them has sent a resume.
    var mayHaveMoved = false

    init(_ dice: inout Dice, of owner: Client, fork: ModelSession? = nil) {
        self.owner = owner
        id = dice.bytes(16).withUnsafeBytes { SessionID(bytes: $0)! }
        if let fork {
            create = fork.create
            snapshot = fork.snapshot
        } else {
            create = Self.boards(&dice)
        }
    }

    var lanes: Int { Int(create.numEnvs) }
    var actions: Int { if case .concentration = create.config { 16 } else { 4 } }

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

/// Requests that a modelled client makes of its session, most of them valid.
enum ModelRequests {
    static func random(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        let lanes = session.lanes
        switch dice.below(100) {
        case 0..<62: return (.step(.init()), actions(session, lanes, &dice))
        case 62..<70: return rollout(session, &dice)
        case 70..<77: return reset(session, &dice)
        case 77..<80: return (.observe(.init()), nil)
        case 80..<82: return (.afterstates(.init()), nil)
        case 82..<85: return (.snapshot(.init()), nil)
        case 85..<89: return restore(session, &dice)
        case 89..<91: return policy(&dice)
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
        if session.wasReset, session.acknowledged > 3, dice.once(in: 2) {
            request.mask = true
            payload += (0..<session.lanes).map { _ in UInt8(dice.below(2)) }
        }
        return (.reset(request), payload)
    }

    private static func rollout(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        var request = RolloutRequest()
        request.steps = UInt32(1 + dice.below(12))
        request.maxPayloadBytes = 1 << 16
        switch dice.below(4) {
        case 0:
            request.actions = .init()
            return (.rollout(request), actions(session, session.lanes * Int(request.steps), &dice))
        case 1: request.greedy = .init()
        case 2: request.ntuple = .init()
        default: request.random = .init()
        }
        guard dice.once(in: 2) else { return (.rollout(request), nil) }
        request.policySeeds = true
        return (.rollout(request), bytes(of: (0..<session.lanes).map { _ in dice.next() }))
    }

    private static func restore(_ session: ModelSession, _ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        guard let snapshot = session.snapshot else { return (.snapshot(.init()), nil) }
        var request = RestoreRequest()
        request.count = UInt64(session.lanes)
        guard dice.once(in: 3) else { return (.restore(request), snapshot) }
        request.seeds = true
        return (.restore(request), bytes(of: (0..<session.lanes).map { _ in dice.next() }) + snapshot)
    }

    /// A network of one tuple of two cells: its form, or its weights.
    static func policy(_ dice: inout Dice) -> (Request.OneOf_Op, [UInt8]?) {
        var request = PolicyRequest()
        if dice.once(in: 3) {
            var tuple = Twofold_V1_NTuple()
            tuple.cells = Data([0, 1])
            request.network.tuples = [tuple]
            request.network.exponents = 12
            return (.policy(request), nil)
        }
        request.weights.offset = 0
        return (.policy(request), (0..<144).flatMap { _ in [0, 0, UInt8(dice.below(256)), 0x43] as [UInt8] })
    }
}
