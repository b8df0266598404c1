package import TwofoldCore

/// The way to the client that asked, which only the carrier has to understand.
package final class Route {
    /// The client that asked.
    package let client: Client
    /// The moment at which the request came.
    package let arrived: Moment
    /// The client's address for the carrier; nil where a call waits for the reply.
    package let address: AnyObject?

    package init(_ client: Client, arrived: Moment, address: AnyObject? = nil) {
        self.client = client
        self.arrived = arrived
        self.address = address
    }
}
