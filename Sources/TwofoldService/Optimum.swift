internal import TwofoldCore
internal import TwofoldOptimum
internal import TwofoldProtocol

/// The optimum of an environment's boards: which one it is, and the service's table of it.
struct Optimum: Sendable {
    let problem: OptimumProblem
    let tables: TableDirectory

    /// The optimum that a request's boards have; throws where they have none.
    init(_ config: Game2048Config, _ tables: TableDirectory) throws(EnvironmentError) {
        let objective: OptimumProblem.Objective =
            switch config.objective {
            case .unspecified, .score: .score
            case .moves: .moves
            case .goal: .goal
            case .UNRECOGNIZED(let number):
                throw .invalid("objective", "objective \(number) is not known to this server")
            }
        problem = try OptimumProblem(.init(config), objective)
        self.tables = tables
    }

    /// The table; throws with the name of the argument that needs it where the service has none.
    func table(for field: String) throws(EnvironmentError) -> OptimumTable {
        do throws(OptimumFailure) { return try tables.table(of: problem) } catch {
            throw .precondition(field, error.description)
        }
    }
}

extension Game2048 {
    /// A batch with the options' extra infos, those of the optimum from the service's table.
    func makeEnvironment(
        _ request: Game2048Config, _ options: BatchOptions, _ tables: TableDirectory
    ) throws(EnvironmentError) -> any VectorEnvironment {
        guard options.extraInfos.contains(where: OptimumInfo.names.contains) else {
            return try makeEnvironment(options)
        }
        let table = try Optimum(request, tables).table(for: "extra_infos")
        return try OptimumEnvironment(self, options, table)
    }
}
