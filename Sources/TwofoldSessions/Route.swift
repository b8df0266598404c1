package import TwofoldCore

/// The way back to the sender of a request. Only the carrier understands the address.
package final class Route {
    /// The sender of the request.
    package let client: Client
    /// The moment at which the request arrived.
    package let arrived: Moment
    /// The carrier's address of the client; nil if a call in this process waits for the reply.
    package let address: AnyObject?

    package init(_ client: Client, arrived: Moment, address: AnyObject? = nil) {
        self.client = client
        self.arrived = arrived
        self.address = address
    }
}
