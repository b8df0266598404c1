public import Platform
internal import TwofoldProtocol
public import ZeroMQ

/// The result of probing an endpoint.
public enum ProbeResult: Equatable, Sendable {
    /// The server is ready and has this version.
    case ready(version: String)
    /// The endpoint answered, but not as a server that is ready. The text is the reason.
    case notReady(String)
    /// No answer arrived in time.
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
        let socket = try Socket(.req, in: context)
        try socket.setReceiveTimeout(timeout)
        try socket.setSendTimeout(timeout)
        if let curve { try socket.useCurve(server: curve.server, curve.client) }
        if endpoint.hasPrefix("tcp://[") { try socket.setIPv6(true) }
        // A server's endpoint may be all interfaces, to which no client can connect.
        try socket.connect(endpoint.replacing("tcp://*:", with: "tcp://127.0.0.1:", maxReplacements: 1))
        var request = Request()
        request.stats = .init()
        try socket.send(Message(copying: request.frame))
        return result(try socket.receive())
    } catch {
        if error.code == EAGAIN { return .silent }
        throw Reason("can't probe '\(endpoint)': \(error)")
    }
}

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
