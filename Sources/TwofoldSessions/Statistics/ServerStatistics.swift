package import TwofoldCore
package import TwofoldProtocol

/// Counts since the server's start. Each message that came in is one of executed, refused,
/// resent, parked or dropped, or is in progress.
public struct ServerStatistics: Equatable, Sendable {
    /// Messages that came in.
    public package(set) var received = 0
    /// Requests that were carried out.
    public package(set) var executed = 0
    /// Requests that were refused with an error.
    public package(set) var refused = 0
    /// Repeats that got the stored reply.
    public package(set) var resent = 0
    /// Repeats that came while their request was being carried out.
    public package(set) var parked = 0
    /// Messages without an empty delimiter: they can't be answered.
    public package(set) var dropped = 0
    /// Boards stepped, in rollouts too.
    public package(set) var steps = 0
    /// Sessions that were created, or restored from another server.
    public package(set) var sessionsCreated = 0
    /// Sessions that their clients closed.
    public package(set) var sessionsClosed = 0
    /// Sessions that ended because they were idle for too long.
    public package(set) var sessionsExpired = 0
    /// Sessions that could not be saved in the state directory at the stop.
    public package(set) var sessionsLost = 0

    private var kinds = RequestKind.Table(repeating: KindStatistics())
    private var refusals: [ErrorCode: Int] = [:]

    private struct KindStatistics: Equatable, Sendable {
        var executed = 0
        var refused = 0
        var nanoseconds = 0
        var latencies = LatencyHistogram()
    }

    package init() {}

    /// A request that was carried out just now; `steps` are the boards that it stepped.
    package mutating func countExecuted(_ kind: RequestKind, arrived: Moment, at now: Moment, steps: Int) {
        executed += 1
        self.steps += steps
        let nanoseconds = now.nanoseconds - arrived.nanoseconds
        kinds[kind].executed += 1
        kinds[kind].nanoseconds += nanoseconds
        kinds[kind].latencies.add(nanoseconds, now: now)
    }

    /// A message that was refused; nil for the kind when it could not be decoded.
    package mutating func countRefused(_ kind: RequestKind?, _ code: ErrorCode) {
        refused += 1
        refusals[code, default: 0] += 1
        if let kind { kinds[kind].refused += 1 }
    }

    // MARK: as it goes over the wire

    package var counters: Counters {
        var counters = Counters()
        counters.received = UInt64(received)
        counters.executed = UInt64(executed)
        counters.refused = UInt64(refused)
        counters.resent = UInt64(resent)
        counters.parked = UInt64(parked)
        counters.dropped = UInt64(dropped)
        counters.steps = UInt64(steps)
        counters.sessionsCreated = UInt64(sessionsCreated)
        counters.sessionsClosed = UInt64(sessionsClosed)
        counters.sessionsExpired = UInt64(sessionsExpired)
        return counters
    }

    /// The kinds that were asked at least once.
    package mutating func requestStats(at now: Moment) -> [RequestStats] {
        var all: [RequestStats] = []
        for kind in RequestKind.allCases where kinds[kind].executed + kinds[kind].refused > 0 {
            var stats = RequestStats()
            stats.name = "\(kind)"
            stats.executed = UInt64(kinds[kind].executed)
            stats.refused = UInt64(kinds[kind].refused)
            stats.seconds = Double(kinds[kind].nanoseconds) / 1e9
            let quantiles = kinds[kind].latencies.quantiles([0.5, 0.99], now: now)
            (stats.p50, stats.p99) = (quantiles[0], quantiles[1])
            all.append(stats)
        }
        return all
    }

    /// The errors that occurred, by the protocol's names without their common beginning.
    package func refusalStats() -> [Twofold_V1_RefusalStats] {
        refusals.sorted { $0.key.rawValue < $1.key.rawValue }.map { code, count in
            var stats = Twofold_V1_RefusalStats()
            stats.code = code.name
            stats.count = UInt64(count)
            return stats
        }
    }
}

extension ErrorCode {
    /// "INVALID_ARGUMENT"
    var name: String {
        switch self {
        case .unspecified: "UNSPECIFIED"
        case .invalidArgument: "INVALID_ARGUMENT"
        case .notFound: "NOT_FOUND"
        case .failedPrecondition: "FAILED_PRECONDITION"
        case .outOfSequence: "OUT_OF_SEQUENCE"
        case .conflict: "CONFLICT"
        case .staleEpoch: "STALE_EPOCH"
        case .permissionDenied: "PERMISSION_DENIED"
        case .resourceExhausted: "RESOURCE_EXHAUSTED"
        case .unsupportedVersion: "UNSUPPORTED_VERSION"
        case .shuttingDown: "SHUTTING_DOWN"
        case .internal: "INTERNAL"
        case .UNRECOGNIZED(let number): "\(number)"
        }
    }
}
