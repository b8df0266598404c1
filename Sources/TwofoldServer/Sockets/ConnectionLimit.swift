internal import Logging
public import Platform
internal import TwofoldCore

/// The limit on connections. Each connection needs a file descriptor, and some descriptors are reserved.
///
///     0                                                              soft limit (ulimit -n)
///     ├──────────────────────────────────────────┬────────────┬────────────┤
///     │ the server's own, tcp and ipc clients    │ ipc only   │ the server │
///     └──────────────────────────────────────────┴────────────┴────────────┘
///
/// A flood of tcp connections therefore leaves room for ipc clients, which must have access to the socket's file.
/// The server can always open the files that it needs, such as those in the state directory.
public enum ConnectionLimit {
    /// The number of descriptors reserved for files that the server opens while it serves and stops. It opens at
    /// most four at a time.
    private static let reserved = 16
    /// The minimum number of descriptors. A lower limit would leave none for clients.
    private static let minDescriptors = 64
    private static let maxForIPCOnly = 256

    /// Raises the process's limit on descriptors as far as possible. From then on, refuses new connections before
    /// the descriptors run out. Throws if the limit is too low to serve.
    public static func install() throws(Reason) {
        let descriptors = try explaining("can't read the limit on open files", raiseDescriptorLimit)
        guard descriptors >= minDescriptors else {
            throw Reason(
                "the limit on open files (ulimit -n) is \(descriptors); a server needs \(minDescriptors): "
                    + "run ulimit -n \(minDescriptors)")
        }
        let local = descriptors - reserved
        let network = local - min(maxForIPCOnly, descriptors / 8)
        setConnectionCeilings(local: local, network: network)
    }
}

/// A log report on refused connections, written at most once a minute, because thousands can be refused per second.
struct RefusedConnectionsReport {
    private static let interval = Duration.seconds(60)

    private var reported = 0
    private var next: Moment?

    /// Logs the number of connections refused since the last report, if there are any. `refused` counts them since the
    /// process started.
    mutating func update(to refused: Int, at now: Moment, _ logger: Logger) {
        guard refused > reported, next.map({ $0 <= now }) ?? true else { return }
        logger.warning(
            """
            refused connections: the limit on open files is reached, or the system rejects them (a firewall); raise \
            the hard limit (ulimit -Hn), or find the clients that open too many connections
            """,
            metadata: ["connections": .stringConvertible(refused - reported)])
        reported = refused
        next = now + Self.interval
    }
}
