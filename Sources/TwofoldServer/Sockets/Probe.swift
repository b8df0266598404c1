public import Platform
internal import TwofoldCore
internal import TwofoldProtocol
public import ZeroMQ

/// The result of probing an endpoint.
public enum ProbeResult: Equatable, Sendable {
    /// The server is ready and has this version.
    case ready(version: String)
    /// The server is stopping or cannot serve now. The text is the reason.
    case notReady(String)
    /// The handshake failed. The text is the reason.
    case rejected(String)
    /// Nothing accepts connections at the endpoint.
    case unreachable
    /// The endpoint did not answer in time.
    case silent
}

/// Asks a server whether it is ready. Connects over a new socket, like any client.
///
/// - Throws: ``Reason`` if the endpoint is invalid, or if this process can't start the threads of a connection.
public func probe(
    _ endpoint: String, curve: (server: CurvePublicKey, client: CurveKeyPair)? = nil, timeout: Duration
) throws(Reason) -> ProbeResult {
    guard canStartThreads(2) else {
        throw Reason(
            "can't start the threads of a connection: raise this process's limits (ulimit -u, ulimit -n, ulimit -v)"
        )
    }
    do throws(ZeroMQError) {
        let context = try Context()
        let reports = try Socket(.pair, in: context)
        let socket = try Socket(.req, in: context)
        try socket.setReceiveTimeout(timeout)
        try socket.setSendTimeout(timeout)
        if let curve { try socket.useCurve(server: curve.server, curve.client) }
        if endpoint.hasPrefix("tcp://[") { try socket.setIPv6(true) }
        try socket.reportHandshakes(to: reports)
        defer { socket.ignoreHandshakes() }
        // A server's endpoint may be all interfaces, to which no client can connect.
        try socket.connect(endpoint.replacing("tcp://*:", with: "tcp://127.0.0.1:", maxReplacements: 1))
        var request = Request()
        request.stats = .init()
        try socket.send(Message(copying: request.frame))
        var poller = Poller()
        let (answer, report) = (poller.add(socket), poller.add(reports))
        let deadline = Moment.now + timeout
        var (isConnected, isRetrying, hangups) = (false, false, 0)
        while hangups < maxHangups, try poller.wait(timeout: max(.zero, deadline - .now)) > 0 {
            if poller[answer] { return result(try socket.receive()) }
            guard poller[report] else { continue }
            switch try reports.receiveHandshakeReport() {
            case .connected: isConnected = true
            case .retrying: isRetrying = true
            case .mismatch where curve == nil:
                return .rejected("it requires a key (--curve-server, --curve-client)")
            case .mismatch: return .rejected("it does not encrypt")
            case .refusal: return .rejected("it refuses this client's key")
            case .hangup: hangups += curve == nil ? 0 : 1
            }
        }
        if hangups > 0 { return .rejected("its key is not the given one, or it does not encrypt") }
        return isRetrying && !isConnected ? .unreachable : .silent
    } catch {
        if error.code == EAGAIN { return .silent }
        throw Reason("can't probe '\(endpoint)': \(error)")
    }
}

/// The number of unexplained handshake failures after which the probe gives up. A single failure may only mean that a
/// server has just stopped.
private let maxHangups = 3

private func result(_ frame: borrowing Message) -> ProbeResult {
    guard let reply = frame.withUnsafeBytes({ Reply(frame: $0) }) else {
        return .notReady("the answer does not come from a twofold-server")
    }
    switch reply.result {
    case .stats(let stats) where stats.draining: return .notReady("it is about to stop")
    case .stats(let stats): return .ready(version: stats.serverVersion)
    case .error(let error): return .notReady(error.message)
    default: return .notReady("the answer does not come from a twofold-server")
    }
}
