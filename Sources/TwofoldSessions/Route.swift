package import TwofoldCore

/// The return path for a request's reply. Only the carrier, such as the server's socket loop, can interpret the
/// address.
package final class Route {
    /// The sender of the request.
    package let client: Client
    /// The moment at which the request arrived.
    package let arrived: Moment
    /// The carrier's address for the client; nil for a call in this process, which waits for its reply.
    package let address: AnyObject?

    package init(_ client: Client, arrived: Moment, address: AnyObject? = nil) {
        self.client = client
        self.arrived = arrived
        self.address = address
    }
}
