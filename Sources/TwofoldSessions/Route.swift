package import TwofoldCore

/// The return path for a request's reply. Only the carrier, such as the server's socket loop, can interpret the
/// address.
package final class Route {
    /// The public key, in Z85, for which the sender of the request has proved that it owns the secret key. Nil for any
    /// client without a key: a client of an endpoint that is not encrypted, or a caller in this process.
    package let client: String?
    /// The moment at which the request arrived.
    package let arrived: Moment
    /// The carrier's address for the client; nil for a call in this process, which waits for its reply.
    package let address: AnyObject?

    package init(_ client: String?, arrived: Moment, address: AnyObject? = nil) {
        self.client = client
        self.arrived = arrived
        self.address = address
    }
}
