public import TwofoldCore
public import TwofoldProtocol

/// What the server accepts; told in Hello, and checked again here and at the socket.
public struct Limits: Sendable {
    /// Bytes in one frame of a request.
    public var maxMessageBytes = 256 << 20
    /// Boards in one session.
    public var maxBoardsPerSession = 1 << 20
    /// Sessions at a time.
    public var maxSessions = 10_000

    /// The defaults.
    public init() {}
}

/// Turns one accepted request into one reply: synchronous, and without any idea of sockets, sessions
/// or repeats, which are the carrier's business.
public struct EnvironmentService: Sendable {
    /// The version of the protocol that is spoken here.
    public static let protocolVersion: UInt32 = 1

    /// What is accepted.
    public let limits: Limits
    private let workers: Workers
    private let engine: Engine
    private let version: String

    /// A service that spreads each batch over `workers`; `version` is the server's, for Hello.
    public init(limits: Limits, workers: Workers, engine: Engine = .automatic, version: String) {
        self.limits = limits
        self.workers = workers
        self.engine = engine
        self.version = version
    }

    /// Answers hello.
    public func hello(_ request: HelloRequest) throws(ServiceError) -> HelloReply {
        guard request.protocolVersion == Self.protocolVersion else {
            throw ServiceError(
                .unsupportedVersion, field: "protocol_version",
                "protocol version \(request.protocolVersion) is not spoken here; this server "
                    + "(\(version)) speaks \(Self.protocolVersion)")
        }
        var reply = HelloReply()
        reply.protocolVersion = Self.protocolVersion
        reply.serverVersion = version
        reply.environments = catalog.map { entry in
            var info = EnvironmentInfo()
            info.id = entry.id
            info.actions = entry.actions
            return info
        }
        reply.limits.maxMessageBytes = UInt64(limits.maxMessageBytes)
        reply.limits.maxBoardsPerSession = UInt64(limits.maxBoardsPerSession)
        reply.limits.maxSessions = UInt64(limits.maxSessions)
        reply.threads = UInt32(workers.threads)
        return reply
    }

    /// Makes the environment of a new session.
    public func create(_ request: CreateRequest) throws(ServiceError) -> (EnvironmentSession, CreateReply) {
        guard let entry = catalog.first(where: { $0.id == request.environmentID }) else {
            throw ServiceError(
                .notFound, field: "environment_id",
                "no environment '\(request.environmentID.prefix(100))' here; served are "
                    + catalog.map(\.id).joined(separator: ", "))
        }
        let options = try batchOptions(request)
        let environment: any VectorEnvironment
        do throws(EnvironmentError) {
            environment = try entry.make(request, options)
        } catch {
            throw ServiceError(error)
        }
        let session = EnvironmentSession(environment)
        return (session, session.createReply)
    }

    private func batchOptions(_ request: CreateRequest) throws(ServiceError) -> BatchOptions {
        guard request.numEnvs >= 1 else {
            throw ServiceError(.invalidArgument, field: "num_envs", "num_envs is 0; it has to be at least 1")
        }
        guard request.numEnvs <= limits.maxBoardsPerSession else {
            throw ServiceError(
                .resourceExhausted, field: "num_envs",
                "num_envs is \(request.numEnvs); this server allows \(limits.maxBoardsPerSession) boards in "
                    + "a session")
        }
        var options = BatchOptions(lanes: Int(request.numEnvs), workers: workers, engine: engine)
        switch request.autoresetMode {
        case .unspecified, .nextStep: options.autoreset = .nextStep
        case .disabled: options.autoreset = .disabled
        case .sameStep:
            throw ServiceError(
                .invalidArgument, field: "autoreset_mode",
                "autoreset_mode SAME_STEP is not served yet; NEXT_STEP and DISABLED are")
        case .UNRECOGNIZED(let number):
            throw ServiceError(
                .invalidArgument, field: "autoreset_mode",
                "autoreset_mode \(number) is not known to this server")
        }
        if request.hasMaxEpisodeSteps {
            guard request.maxEpisodeSteps >= 1 else {
                throw ServiceError(
                    .invalidArgument, field: "max_episode_steps",
                    "max_episode_steps is 0; it has to be at least 1, or absent for no limit")
            }
            options.maxEpisodeSteps = Int(clamping: request.maxEpisodeSteps)
        }
        return options
    }
}
