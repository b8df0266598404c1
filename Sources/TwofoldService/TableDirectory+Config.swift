internal import TwofoldCore
internal import TwofoldOptimum
internal import TwofoldProtocol

extension TableDirectory {
    /// Returns the table of optimal values for a request's config. Loads it if necessary. Throws if this config's
    /// optimum is not supported. If the table is not available, the error names `argument`, which needs it.
    func table(of config: Game2048Config, for argument: String) throws(EnvironmentError) -> OptimumTable {
        let problem = try OptimumProblem(.init(config), .init(config.objective))
        do throws(OptimumFailure) { return try table(of: problem) } catch {
            throw error.kind == .outOfMemory
                ? .exhausted(argument, error.description) : .precondition(argument, error.description)
        }
    }
}

extension OptimumProblem.Objective {
    /// Creates an objective from a request's enum. Throws if this server does not know it.
    init(_ wire: Twofold_V1_Objective) throws(EnvironmentError) {
        self =
            switch wire {
            case .unspecified, .score: .score
            case .moves: .moves
            case .goal: .goal
            case .UNRECOGNIZED(let number):
                throw .invalid("objective", "objective \(number) is not known to this server")
            }
    }
}
