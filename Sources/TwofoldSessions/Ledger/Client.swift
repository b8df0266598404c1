/// The identity of a request's sender.
package enum Client: Hashable, Sendable {
    /// Any client without a key: a client of an endpoint that is not encrypted, or a caller in this process.
    case anonymous
    /// A client that has proved that it owns the secret key for this public key. The public key is in Z85.
    case key(String)
}
