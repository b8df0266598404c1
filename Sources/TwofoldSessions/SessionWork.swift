internal import TwofoldOptimum
package import TwofoldProtocol
package import TwofoldService

/// One accepted request of a session: what it asks, and what it is carried out on.
package enum SessionWork {
    case create(CreateRequest)
    case request(Request.OneOf_Op, EnvironmentHost)

    /// Memory that no board has used yet makes a create slower than any step.
    private static let nanosecondsPerCreatedLane = 1000

    /// About what it costs; `size` is its payload's.
    package func cost(payload size: Int) -> Cost {
        switch self {
        case .create(let create):
            Cost(
                lanes: Int(min(create.numEnvs, 1 << 32)), nanosecondsPerLane: Self.nanosecondsPerCreatedLane,
                opensTable: create.extraInfos.contains(where: OptimumInfo.names.contains))
        case .request(let op, let host): host.environment.cost(op, payload: size)
        }
    }

    /// Whether it searches for actions.
    package var isSearch: Bool {
        if case .request(let op, _) = self { ServedEnvironment.isSearch(op) } else { false }
    }

    /// Carries it out; `payload` is its payload frame, nil where it has none. A request that throws has changed nothing.
    package func perform(
        payload: UnsafeRawBufferPointer?, _ service: EnvironmentService, _ budget: MemoryBudget
    ) throws(ServiceError) -> SessionOutcome {
        switch self {
        case .create(let create):
            guard payload == nil else { throw .noPayload }
            let (host, reply) = try EnvironmentHost.create(create, service, budget)
            return SessionOutcome(result: .create(reply), payload: nil, change: .created(host), steps: 0)
        case .request(let op, let host):
            return try host.execute(op, payload: payload)
        }
    }
}

/// What came of a request that was carried out.
package struct SessionOutcome {
    package let result: Reply.OneOf_Result
    /// Where the payload is; nil for a reply without one.
    package let payload: EnvironmentHost.Payload?
    /// What the request made of its session.
    package let change: SessionChange
    /// Boards that were stepped, each as often as it was.
    package let steps: Int

    package init(
        result: Reply.OneOf_Result, payload: EnvironmentHost.Payload?, change: SessionChange, steps: Int
    ) {
        (self.result, self.payload, self.change, self.steps) = (result, payload, change, steps)
    }
}

/// What a request that was carried out made of its session.
package enum SessionChange {
    case none
    case created(EnvironmentHost)
    case closed
}
