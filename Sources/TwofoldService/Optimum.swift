internal import TwofoldCore
internal import TwofoldOptimum
internal import TwofoldProtocol

/// The optimal-play problem of an environment, and the directory that holds the table with its solution.
struct Optimum: Sendable {
    let problem: OptimumProblem
    let tables: TableDirectory

    /// Creates the optimum for a request's config. Throws if this config's optimum is not supported.
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

    /// Creates the policy that plays optimally. Loads the table of optimal values if necessary.
    func makePolicy() throws(EnvironmentError) -> OptimalPolicy {
        do throws(OptimumFailure) { return OptimalPolicy(try tables.table(of: problem)) } catch {
            throw error.kind == .outOfMemory
                ? .exhausted("policy", error.description) : .precondition("policy", error.description)
        }
    }
}

extension Game2048 {
    /// Creates a batch. If the options request infos about optimal play, the batch takes them from a table in
    /// `tables`.
    func makeBatch(
        _ request: Game2048Config, _ options: BatchOptions, _ tables: TableDirectory
    ) throws(EnvironmentError) -> Batch {
        guard options.extraInfos.contains(where: OptimumInfo.names.contains) else {
            return try makeBatch(options)
        }
        let optimum = try Optimum(request, tables)
        let table: OptimumTable
        do throws(OptimumFailure) { table = try tables.table(of: optimum.problem) } catch {
            throw error.kind == .outOfMemory
                ? .exhausted("extra_infos", error.description)
                : .precondition("extra_infos", error.description)
        }
        return try makeBatch(options, table)
    }
}
