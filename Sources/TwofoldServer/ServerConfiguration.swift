public import TwofoldSessions
public import ZeroMQ

/// The configuration of a server.
public struct ServerConfiguration: Sendable {
    /// The endpoints to listen at: "ipc:///path" or "tcp://host:port"; port 0 picks a free port.
    public var endpoints: [String]
    /// The settings of the service, including its limits.
    public var service: ServiceSettings
    /// The process that started a private server; nil for none. The server ends as soon as it has another parent,
    /// because then this process has died.
    public var parentProcess: Int32?
    /// The directory where sessions are saved when the server stops, and from which they are restored when it
    /// starts; nil for none.
    public var stateDirectory: String?
    /// A function that is called on a queue's thread at the start of each of its jobs. Tests use it to delay jobs.
    var jobDidBegin: (@Sendable () -> Void)?
    /// The encryption of tcp endpoints; nil for none. The file of an ipc endpoint protects it.
    public var encryption: Encryption?

    /// CURVE encryption with a list of the authorised clients.
    public struct Encryption: Sendable {
        /// The server's own keys.
        public var keys: CurveKeyPair
        /// The file with the clients' public keys.
        public var clients: String

        /// Makes an encryption with these keys, for the clients in that file.
        public init(keys: CurveKeyPair, clients: String) {
            self.keys = keys
            self.clients = clients
        }
    }

    /// Makes the configuration of a server that listens at these endpoints.
    public init(endpoints: [String], _ service: ServiceSettings) {
        self.endpoints = endpoints
        self.service = service
    }
}
