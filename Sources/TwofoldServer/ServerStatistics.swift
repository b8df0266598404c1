/// What the server has counted since its start.
public struct ServerStatistics: Equatable, Sendable {
    /// Messages that came in.
    public internal(set) var received = 0
    /// Requests that were carried out.
    public internal(set) var executed = 0
    /// Requests that were refused with an error.
    public internal(set) var refused = 0
    /// Repeats that got the stored reply.
    public internal(set) var resent = 0
    /// Repeats that came while their request was being carried out.
    public internal(set) var parked = 0
    /// Messages without an empty delimiter: there is nobody to answer to.
    public internal(set) var dropped = 0
}
