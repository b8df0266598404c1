internal import Logging
public import Platform
internal import TwofoldCore
internal import TwofoldSessions

/// How many connections the server takes: each needs a descriptor, and some descriptors are kept back.
///
///     0                                                              soft limit (ulimit -n)
///     ├──────────────────────────────────────────┬────────────┬────────────┤
///     │ the server's own, tcp and ipc clients    │ ipc only   │ the server │
///     └──────────────────────────────────────────┴────────────┴────────────┘
///
/// So a flood of tcp connections leaves room for ipc clients, which the socket's file protects, and the server can
/// always open what it needs: the state directory, for one.
public enum ConnectionLimit {
    /// For what the server opens while it serves and stops: at most four at a time.
    private static let reserved = 16
    /// With fewer there would not be room for clients.
    private static let leastDescriptors = 64
    private static let mostForIPCOnly = 256

    /// Raises the limit of descriptors as far as the process may, and refuses connections from then on before the
    /// last descriptors are used up. Throws when the limit is too low to serve.
    public static func install() throws(Reason) {
        let descriptors = try explaining("can't read the limit of descriptors", raiseDescriptorLimit)
        guard descriptors >= leastDescriptors else {
            throw Reason(
                "the limit of descriptors (ulimit -n) is \(descriptors); a server needs \(leastDescriptors)")
        }
        let local = descriptors - reserved
        let network = local - min(mostForIPCOnly, descriptors / 8)
        setConnectionCeilings(local: local, network: network)
    }
}

/// Reports refused connections in the log, at most once a minute: there can be thousands a second.
struct RefusedConnectionsReport {
    private static let interval = Duration.seconds(60)

    private var reported = 0
    private var next: Moment?

    /// Reports those since the last time.
    mutating func update(at now: Moment, _ logger: Logger) {
        let refused = refusedConnections
        guard refused > reported, next.map({ $0 <= now }) ?? true else { return }
        logger.warning(
            """
            refused connections: the descriptors are used up, or the system accepts none (a firewall); raise the hard \
            limit of descriptors, or find out who holds them
            """,
            metadata: ["connections": .stringConvertible(refused - reported)])
        reported = refused
        next = now + Self.interval
    }
}
