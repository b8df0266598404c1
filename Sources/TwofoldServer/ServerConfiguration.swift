public import TwofoldCore
public import TwofoldService

/// Everything that can be said to a server at its start.
public struct ServerConfiguration: Sendable {
    /// Where to listen: "ipc:///path" or "tcp://host:port"; port 0 picks a free one.
    public var endpoints: [String]
    /// Threads that one batch is spread over.
    public var threads: Int
    /// What is accepted.
    public var limits = Limits()
    /// Which implementation of the rules runs; for tests and debugging.
    public var engine = Engine.automatic
    /// End as soon as the parent is another process than this one: the process that started a private
    /// server has died.
    public var parentProcess: Int32?

    /// A server that listens there.
    public init(endpoints: [String], threads: Int) {
        self.endpoints = endpoints
        self.threads = threads
    }

    /// The server's version, told in Hello.
    public static let version = "0.1.0"
}
