public import TwofoldSessions
public import ZeroMQ

/// How a server is to run.
public struct ServerConfiguration: Sendable {
    /// Where to listen: "ipc:///path" or "tcp://host:port"; port 0 picks a free one.
    public var endpoints: [String]
    /// What it serves, and within which limits.
    public var service: ServiceSettings
    /// End as soon as the parent is another process than this one: then the process that started a private
    /// server has died.
    public var parentProcess: Int32?
    /// The directory where sessions are saved when the server stops, and restored from when it starts; nil for none.
    public var stateDirectory: String?
    /// Called on a queue's thread at the begin of each job that goes there: a test holds jobs up with it.
    var jobDidBegin: (@Sendable () -> Void)?
    /// How tcp endpoints are encrypted; nil for not at all. Ipc endpoints are guarded by their files.
    public var encryption: Encryption?

    /// CURVE, with a list of the clients that are let in.
    public struct Encryption: Sendable {
        /// The server's own keys.
        public var keys: CurveKeyPair
        /// The file with the clients' public keys.
        public var clients: String

        /// With these keys, for the clients in that file.
        public init(keys: CurveKeyPair, clients: String) {
            self.keys = keys
            self.clients = clients
        }
    }

    /// A server that listens there.
    public init(endpoints: [String], _ service: ServiceSettings) {
        self.endpoints = endpoints
        self.service = service
    }
}
