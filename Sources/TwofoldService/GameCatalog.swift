internal import TwofoldCore
internal import TwofoldProtocol

/// A game that the service can make environments of.
struct CatalogEntry: Sendable {
    /// The published id: its behaviour never changes.
    let id: String
    /// The actions' names, in the order of their numbers.
    let actions: [String]
    /// Makes a batch; throws with the argument's name.
    let make: @Sendable (CreateRequest, BatchOptions) throws(EnvironmentError) -> any VectorEnvironment
}

/// All games that are served. A new game adds its entry here, and its config message to the protocol.
let catalog: [CatalogEntry] = [
    CatalogEntry(
        id: "twofold/Game2048-v0", actions: Game2048.actionNames,
        make: { (request, options) throws(EnvironmentError) in
            try Game2048(.init(request.game2048)).makeEnvironment(options)
        })
]

extension Game2048.Config {
    /// The config of a request, an absent field being the default.
    init(_ wire: Game2048Config) throws(EnvironmentError) {
        self.init()
        if wire.hasRows { rows = Int(wire.rows) }
        if wire.hasColumns { columns = Int(wire.columns) }
        if wire.hasGoal {
            guard let exact = Int(exactly: wire.goal) else {
                throw .invalid("goal", "goal is \(wire.goal); it has to be a power of two in 4...2^31")
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
    }
}
