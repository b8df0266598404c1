package import TwofoldCore
package import TwofoldProtocol

/// Counters since the server's start. Each received message has been executed, refused, resent, parked or dropped,
/// or is still in progress.
public struct ServerStatistics: Equatable, Sendable {
    /// The counters that a stats reply contains. The authenticator counts the refused keys, so `keysRefused` stays 0.
    package var counters = Counters()
    /// The number of sessions that could not be saved in the state directory when the server stopped.
    public package(set) var sessionsLost = 0

    /// The statistics of each kind of request, without names and quantiles. The index is the kind's raw value.
    private var requests = [RequestStats](repeating: .init(), count: RequestKind.allCases.count)
    /// The latencies of each kind of request, with the same index.
    private var latencies = [LatencyHistogram](repeating: .init(), count: RequestKind.allCases.count)
    private var refusals: [ErrorCode: Int] = [:]

    package init() {}

    /// Counts a request that has just been executed. `steps` is its number of board steps.
    package mutating func countExecuted(_ kind: RequestKind, arrived: Moment, at now: Moment, steps: Int) {
        counters.executed += 1
        counters.steps += UInt64(steps)
        let nanoseconds = now.nanoseconds - arrived.nanoseconds
        requests[kind.rawValue].executed += 1
        requests[kind.rawValue].seconds += Double(nanoseconds) / 1e9
        latencies[kind.rawValue].add(nanoseconds, now: now)
    }

    /// Counts a refused message. `kind` is nil if the message could not be decoded.
    package mutating func countRefused(_ kind: RequestKind?, _ code: ErrorCode) {
        counters.refused += 1
        refusals[code, default: 0] += 1
        if let kind { requests[kind.rawValue].refused += 1 }
    }

    // MARK: for the wire

    /// Returns the statistics for each kind of request that has occurred.
    package mutating func requestStats(at now: Moment) -> [RequestStats] {
        var all: [RequestStats] = []
        for kind in RequestKind.allCases {
            var stats = requests[kind.rawValue]
            guard stats.executed + stats.refused > 0 else { continue }
            stats.name = "\(kind)"
            let quantiles = latencies[kind.rawValue].quantiles([0.5, 0.99], now: now)
            (stats.p50, stats.p99) = (quantiles[0], quantiles[1])
            all.append(stats)
        }
        return all
    }

    /// Returns the number of refusals for each error code that has occurred.
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
    /// The code's name in the protocol, without the prefix; for example "INVALID_ARGUMENT".
    var name: String { "\(self)".map { $0.isUppercase ? "_\($0)" : $0.uppercased() }.joined() }
}
