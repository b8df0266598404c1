public import Platform
internal import TwofoldProtocol
public import ZeroMQ

/// The result of probing an endpoint.
public enum ProbeResult: Equatable, Sendable {
    /// The server is ready; its version.
    case ready(version: String)
    /// The server is about to stop, or does not serve now; its explanation.
    case notReady(String)
    /// Nothing answered in time.
    case silent
}

/// Asks a server over a separate socket whether it is ready, like any client.
///
/// - Throws: ``Reason`` if the endpoint is invalid.
public func probe(
    _ endpoint: String, curve: (server: CurvePublicKey, client: CurveKeyPair)? = nil, timeout: Duration
) throws(Reason) -> ProbeResult {
    do throws(ZeroMQError) {
        let context = try Context()
        let socket = try Socket(.req, in: context)
        try socket.set(.receiveTimeout, to: timeout)
        try socket.set(.sendTimeout, to: timeout)
        if let curve { try socket.useCurve(server: curve.server, curve.client) }
        try socket.connect(endpoint)
        var request = Request()
        request.stats = .init()
        try socket.send(Message(copying: request.frame))
        return result(try socket.receive())
    } catch {
        if error.code == .wouldBlock { return .silent }
        throw Reason("can't ask '\(endpoint)': \(error)")
    }
}

private func result(_ frame: borrowing Message) -> ProbeResult {
    guard let reply = frame.withUnsafeBytes({ Reply(frame: $0) }) else {
        return .notReady("the answer is not that of a twofold-server")
    }
    switch reply.result {
    case .stats(let stats) where stats.draining: return .notReady("it is about to stop")
    case .stats(let stats): return .ready(version: stats.serverVersion)
    case .error(let error): return .notReady(error.message)
    default: return .notReady("the answer is not that of a twofold-server")
    }
}
