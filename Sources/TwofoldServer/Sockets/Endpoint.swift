public import Platform
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// A bound ROUTER socket.
final class Endpoint {
    let socket: Socket
    /// The address for clients to connect to, with the actual port instead of 0.
    let name: String
    /// Whether the endpoint uses CURVE, so that clients must prove that they own an authorised key.
    let isEncrypted: Bool

    /// The limit on waiting messages per connection. A client sends one at a time, but many clients may share a
    /// proxy's connection. With this limit, a proxy is as fast as with a limit of 1000; with a limit of 2, it is
    /// half as fast.
    private static let maxWaitingMessages: Int32 = 16

    /// The time after which the system asks a silent client over tcp whether it still exists. A client that vanished
    /// without closing its connections would otherwise occupy their descriptors until the server ends.
    private static let longestSilence = Duration.seconds(300)

    /// The maximum time that closing the endpoint waits for its last replies to be sent.
    private static let linger = Duration.seconds(2)

    /// Creates and binds the socket. Throws the reason if binding fails.
    init(
        _ endpoint: String, _ configuration: ServerConfiguration, in context: Context
    ) throws(Reason) {
        isEncrypted = configuration.encryption != nil && Self.isTCP(endpoint)
        do throws(ZeroMQError) {
            let socket = try Socket(.router, in: context)
            try socket.setMaxMessageSize(Int64(configuration.service.limits.maxMessageBytes))
            try socket.setReceiveHighWaterMark(Self.maxWaitingMessages)
            try socket.setLinger(Self.linger)
            if Self.isTCP(endpoint) { try socket.setTCPKeepalive(after: Self.longestSilence) }
            if isEncrypted, let encryption = configuration.encryption {
                try socket.serveCurve(encryption.keys)
                try socket.setZAPDomain(Authenticator.domain)
            }
            if endpoint.hasPrefix("tcp://[") { try socket.setIPv6(true) }
            // libzmq binds to addresses and network interfaces, but looks up no host names.
            try socket.bind(
                endpoint.replacing("tcp://localhost:", with: "tcp://127.0.0.1:", maxReplacements: 1))
            name = try socket.lastEndpoint
            self.socket = socket
        } catch {
            let reason = error.subject == endpoint ? error.reason : "\(error)"
            throw Reason("can't listen on '\(endpoint)': \(reason)")
        }
    }

    /// Whether hosts on the network can reach the endpoint, and it is not encrypted.
    var isOpenToAll: Bool {
        guard Self.isTCP(name), !isEncrypted else { return false }
        let host = name.dropFirst("tcp://".count)
        return !["127.", "[::1]:"].contains { host.hasPrefix($0) }
    }

    fileprivate static func isTCP(_ endpoint: String) -> Bool { endpoint.hasPrefix("tcp://") }

    /// Claims the path of an ipc endpoint; returns nil for tcp.
    static func claimPath(of endpoint: String) throws(Reason) -> IPCPath? {
        try checkEndpoint(endpoint)
        return isTCP(endpoint) ? nil : try IPCPath(String(endpoint.dropFirst("ipc://".count)))
    }
}

/// Throws unless the endpoint is tcp://host:port or ipc:///path. Refuses a port above 65535, because libzmq would
/// treat 70000 as 4464.
public func checkEndpoint(_ endpoint: String) throws(Reason) {
    guard Endpoint.isTCP(endpoint) || endpoint.hasPrefix("ipc:///") else {
        throw Reason("the endpoint '\(endpoint)' must be tcp://host:port or ipc:///path")
    }
    let port = endpoint.split(separator: ":", omittingEmptySubsequences: false).last!
    guard !Endpoint.isTCP(endpoint) || port == "*" || UInt16(port) != nil else {
        throw Reason("the endpoint '\(endpoint)' must end with a port in 0...65535")
    }
}
