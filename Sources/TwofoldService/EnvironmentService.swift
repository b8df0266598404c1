package import TwofoldCore
internal import TwofoldOptimum
public import TwofoldProtocol

/// The service that turns each accepted request into one reply. It holds the memory budget of all sessions, is
/// synchronous, and knows nothing about sockets, sequence numbers or repeated requests.
public struct EnvironmentService: Sendable {
    /// Twofold's version, which hello reports. The Python package reads it from this line.
    public static let version = "0.1.0"
    /// The version of the protocol that this server supports.
    public static let protocolVersion: UInt32 = 1

    /// The approximate time limit for one reply, so that no client waits long for any request. When the time has
    /// passed, a rollout ends with its current step. An expand request processes only as many boards as fit into
    /// this time.
    static let answerTime = Duration.milliseconds(100)

    /// The limits on requests.
    public let limits: Limits
    /// The service's phase. Any phase after `serving` makes the requests in progress end soon: a rollout replies after
    /// its current step, and a search is refused if it has not finished the first step.
    package let phase = CurrentPhase()
    let workers: Workers
    /// The threads that a search may use.
    let searchWorkers: Workers
    let engine: Engine
    let clock: Clock
    /// The tables of optimal values, for the environments that need them.
    let tables: TableDirectory
    /// The memory of all sessions.
    package let budget: MemoryBudget

    /// Creates a service that spreads each batch over `workers`. `clock` measures the time limits of long requests. The
    /// tables of optimal values in the directory `tables` count towards the budget.
    package init(
        limits: Limits, workers: Workers, searchWorkers: Workers = Workers(threads: 1),
        engine: Engine = .automatic, clock: Clock = .system, tables: String = TableDirectory.standard,
        budget: MemoryBudget? = nil
    ) {
        let budget = budget ?? MemoryBudget(limit: limits.maxBytes)
        self.limits = limits
        self.workers = workers
        self.searchWorkers = searchWorkers
        self.engine = engine
        self.clock = clock
        self.tables = TableDirectory(tables) { try budget.reserve($0) }
        self.budget = budget
    }

    /// Answers a hello request.
    public func hello(_ request: HelloRequest) throws(ServiceError) -> HelloReply {
        guard request.protocolVersion == Self.protocolVersion else {
            throw ServiceError(
                .unsupportedVersion, field: "protocol_version",
                "protocol version \(request.protocolVersion) is not supported; this server "
                    + "(\(Self.version)) supports \(Self.protocolVersion)")
        }
        var reply = HelloReply()
        reply.protocolVersion = Self.protocolVersion
        reply.serverVersion = Self.version
        reply.environments = catalog.map { entry in
            var info = EnvironmentInfo()
            info.id = entry.id
            info.actions = entry.actions
            info.rewardTerms = entry.rewardTerms
            info.extraInfos = entry.extraInfos
            return info
        }
        reply.limits = limits.wire
        reply.threads = UInt32(workers.threads)
        return reply
    }

    /// Makes the boards of a create request. Calls `reserve` before allocating their memory.
    package func batch(
        _ request: CreateRequest, reserve: @escaping MemoryReserve = { _ in }
    ) throws(EnvironmentError) -> Batch {
        guard let entry = catalog.first(where: { $0.id == request.environmentID }) else {
            throw .notFound(
                "environment_id",
                "this server has no environment '\(request.environmentID.prefix(100))'; it has "
                    + catalog.map(\.id).joined(separator: ", "))
        }
        var options = try batchOptions(request)
        options.reserve = reserve
        if let unknown = options.extraInfos.first(where: { !entry.extraInfos.contains($0) }) {
            throw .invalid(
                "extra_infos",
                "extra_infos contains '\(unknown.prefix(100))', which this environment does not have; it has "
                    + entry.extraInfos.joined(separator: ", "))
        }
        return try entry.make(request, options, tables)
    }

    private func batchOptions(_ request: CreateRequest) throws(EnvironmentError) -> BatchOptions {
        guard request.numEnvs >= 1 else {
            throw .invalid("num_envs", "num_envs is 0; it must be at least 1")
        }
        guard request.numEnvs <= limits.maxBoardsPerSession else {
            throw .exhausted(
                "num_envs",
                "num_envs is \(request.numEnvs); this server allows max_boards_per_session = "
                    + "\(limits.maxBoardsPerSession)")
        }
        var options = BatchOptions(lanes: Int(request.numEnvs), workers: workers, engine: engine)
        switch request.autoresetMode {
        case .unspecified, .nextStep: options.autoreset = .nextStep
        case .disabled: options.autoreset = .disabled
        case .sameStep: options.autoreset = .sameStep
        case .UNRECOGNIZED(let number):
            throw .invalid("autoreset_mode", "autoreset_mode \(number) is not known to this server")
        }
        if request.hasMaxEpisodeSteps {
            guard request.maxEpisodeSteps >= 1 else {
                throw .invalid(
                    "max_episode_steps",
                    "max_episode_steps is 0; it must be at least 1, or absent for no limit")
            }
            options.maxEpisodeSteps = Int(clamping: request.maxEpisodeSteps)
        }
        if request.hasReward { options.reward = RewardSpec(request.reward) }
        options.extraInfos = request.extraInfos
        return options
    }
}
