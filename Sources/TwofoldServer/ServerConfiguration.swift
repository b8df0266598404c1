public import TwofoldCore
public import TwofoldService
public import ZeroMQ

/// Everything that can be said to a server at its start.
public struct ServerConfiguration: Sendable {
    /// Where to listen: "ipc:///path" or "tcp://host:port"; port 0 picks a free one.
    public var endpoints: [String]
    /// Threads that one batch is spread over.
    public var threads: Int
    /// What is accepted.
    public var limits = Limits()
    /// What each session's policies may take.
    public var policyBudget = PolicyBudget()
    /// Threads that a search for actions may use.
    public var searchThreads = 1
    /// Which implementation of the rules runs; for tests and debugging.
    public var engine = Engine.automatic
    /// End as soon as the parent is another process than this one: the process that started a private
    /// server has died.
    public var parentProcess: Int32?
    /// Where sessions are written when the server stops, and taken up from when it starts; nil for nowhere.
    public var stateDirectory: String?
    /// How tcp endpoints are encrypted; nil for not at all. Those of ipc are guarded by their files.
    public var encryption: Encryption?

    /// CURVE, with a list of those who are let in.
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
    public init(endpoints: [String], threads: Int) {
        self.endpoints = endpoints
        self.threads = threads
    }

    /// The server's version, told in Hello.
    public static let version = "0.1.0"
}
