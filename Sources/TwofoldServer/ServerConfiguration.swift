internal import TwofoldCore
public import TwofoldSessions
public import ZeroMQ

/// The configuration of a server.
public struct ServerConfiguration: Sendable {
    /// The endpoints to listen on: "ipc:///path" or "tcp://host:port"; port 0 picks a free port.
    public var endpoints: [String]
    /// The settings of the service, including its limits.
    public var service: ServiceSettings
    /// The process id of the parent that started a private server; nil for other servers. The server stops as soon
    /// as its parent is a different process, because the original parent has then died.
    public var parentProcess: Int32?
    /// The directory where sessions are saved when the server stops, and from which they are restored when it
    /// starts; nil for none.
    public var stateDirectory: String?
    /// The clock for the time limits of rollouts, and for the time that a hello or resume request takes. Tests replace
    /// it.
    var clock = Clock.system
    /// The CURVE encryption of tcp endpoints: the server's own keys, and the path of the file with the public keys of
    /// the authorised clients; nil for none. Ipc endpoints are protected by the permissions of the socket's file
    /// instead.
    public var encryption: (keys: CurveKeyPair, clients: String)?

    public init(endpoints: [String], _ service: ServiceSettings) {
        self.endpoints = endpoints
        self.service = service
    }
}
